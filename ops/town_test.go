package ops_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/coord/ids"
	"github.com/millrace-go/millrace/coord/lease"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/ops"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/catalog"
	"github.com/millrace-go/millrace/process"
	"github.com/millrace-go/millrace/schedule"
	"github.com/millrace-go/millrace/settings"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/worker"
)

// The messages of the shop whose store the browser looks at.
type (
	mail struct {
		ID   string `json:"id"`
		To   string `json:"to"`
		Text string `json:"text"`
	}
	invoice struct {
		ID    string `json:"id"`
		Order string `json:"order"`
		Cents int    `json:"cents"`
	}
	remind struct{}
)

func (mail) Kind() channel.Kind     { return "shop.mail.v1" }
func (m mail) MessageID() string    { return m.ID }
func (invoice) Kind() channel.Kind  { return "shop.invoice.v1" }
func (m invoice) MessageID() string { return m.ID }
func (remind) Kind() channel.Kind   { return "shop.remind.v1" }

// A parcel is what the plan of the shop brings on its way.
type parcel struct {
	Order   string `json:"order"`
	Courier string `json:"courier"`
}

// A pickedUp is the signal that a parcel waits for.
type pickedUp struct{ Courier string }

func (pickedUp) Kind() channel.Kind { return "shop.picked-up.v1" }

func fulfil(p *process.Plan[parcel]) {
	process.Then(p, "reserve", func(x parcel) parcel { return x })
	process.Then(p, "label", func(x parcel) parcel {
		if x.Courier == "" {
			panic("no courier goes there")
		}
		return x
	})
	process.Wait(p, "pickup", func(x parcel, e pickedUp) parcel { x.Courier = e.Courier; return x }).Within(48 * time.Hour)
}

// mailFault is what is wrong with a mail.
func mailFault(m mail) error {
	switch {
	case m.To == "":
		return handlers.Poison("no-address", errors.New("there is nobody to send it to"))
	case m.Text == "":
		return handlers.Poison("empty", errors.New("there is nothing to say"))
	case len(m.Text) > 400:
		return handlers.Poison("too-long", fmt.Errorf("%d characters are more than 400", len(m.Text)))
	}
	return nil
}

// A hall is the settings of the shop.
type hall struct {
	Seats int `json:"seats"`
	Rate  int `json:"rate"`
}

// poisonedMails is how many mails of the town are poison, one for each reason and some more of the first.
const poisonedMails = 5

// newTown serves the pages of a store in which much has happened. Messages wait, and mails are poison for three
// reasons. One parcel waits for its courier, and another is stuck. A queue is paused, a gate is closed, and somebody
// holds a lock.
func newTown(t *testing.T) *site {
	t.Helper()
	s := worldtest.OpenStore(t, "")
	x := &site{tokens: map[act.Role]string{}, World: worldtest.New(t, s, worldtest.Config{Groups: []string{worldtest.Totals}, Routes: []channel.Route{
		channel.Command[mail]("mails"), channel.Command[invoice]("invoices"), channel.Command[remind]("reminders"), process.Route("fulfil"), schedule.Route(),
	}})}
	x.Decide()
	x.Project()
	handlers.React(x.Registry, "mails", func(_ context.Context, m mail) error { return mailFault(m) })
	handlers.React(x.Registry, "invoices", func(context.Context, invoice) error { return nil })
	handlers.React(x.Registry, worldtest.Audits, func(context.Context, worldtest.Refused) error { return nil })
	handlers.React(x.Registry, "reminders", func(context.Context, remind) error { return nil })
	schedule.Every(x.Registry, "reminders", schedule.Cron("15 3 * * *", "Europe/Berlin"), func(schedule.Tick) remind { return remind{} }, schedule.Config{})
	if err := process.Register(x.Registry, "fulfil", process.Version(1, fulfil)); err != nil {
		t.Fatal(err)
	}
	if err := catalog.Publish(t.Context(), x.Registry, catalog.Program{Name: "shop", Version: "v1.4.0"}); err != nil {
		t.Fatal(err)
	}
	x.happen(t)
	x.serve(t, s)
	x.drive(t)
	x.act(t, "queues/pause", map[string]any{"queues": []string{"invoices"}, "for": "2h", "why": "the printer is away"})
	x.act(t, "gates/close", map[string]any{"name": "release", "why": "a new version comes"})
	return x
}

// drive does what goes on behind the pages, until the test ends.
func (x *site) drive(t *testing.T) {
	t.Helper()
	pages, ok := x.handler.(*ops.Pages)
	if !ok {
		t.Fatalf("got pages of type %T", x.handler)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- pages.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// act does an act as an admin.
func (x *site) act(t *testing.T, name string, with map[string]any) {
	t.Helper()
	body, err := json.Marshal(with)
	if err != nil {
		t.Fatal(err)
	}
	x.want(t, 200, ask{method: "POST", path: "do/" + name, role: act.Admin, json: string(body), header: program})
}

// happen lets the shop work for a while, and leaves it with work to do.
func (x *site) happen(t *testing.T) {
	t.Helper()
	long := make([]byte, 500)
	for i := range long {
		long[i] = 'a'
	}
	stop := x.Start(worker.Config{})
	for i := range 12 {
		worldtest.Send(x.World, worldtest.Add{To: fmt.Sprintf("customer-%02d", i), Amount: 10 + i, Note: "an order"})
	}
	worldtest.Send(x.World, mail{"m-01", "", "Your parcel is on its way."}, mail{"m-02", "", "Your parcel is on its way."}, mail{"m-03", "", "Your parcel is there."},
		mail{"m-04", "ada@example.org", ""}, mail{"m-05", "bob@example.org", string(long)})
	parcels := process.Open[parcel](x.Channels, "fulfil")
	for _, p := range []parcel{{"1041", "Ada"}, {"1042", "Bob"}, {"1043", ""}} {
		if err := parcels.Start(t.Context(), "order-"+p.Order, p); err != nil {
			t.Fatal(err)
		}
	}
	worldtest.Eventually(t, func() error {
		if n := len(x.Poisoned("mails")); n != poisonedMails {
			return fmt.Errorf("%d mails are poison", n)
		}
		for _, id := range []string{"order-1041", "order-1042", "order-1043"} {
			i, err := parcels.Get(t.Context(), id)
			if err != nil {
				return err
			}
			if id == "order-1043" && i.Status != process.Stuck || i.WaitsFor == nil {
				return fmt.Errorf("%s: %s", id, i.Status)
			}
		}
		st, err := x.Store.Queue("fulfil-record").Stats(t.Context()) // from it the index knows what is stuck
		if err == nil && st.Ready+st.InFlight > 0 {
			err = errors.New("the index is behind")
		}
		return err
	})
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	for i := range 24 {
		worldtest.Send(x.World, worldtest.Add{To: fmt.Sprintf("customer-%02d", i), Amount: 1, Note: "another order"})
		worldtest.Send(x.World, invoice{fmt.Sprintf("i-%02d", i), fmt.Sprint(1100 + i), 4900})
	}
	x.coordinate(t)
	x.past(t)
}

// past is what workers have published in the last day, with a quiet night, and in the last minutes.
func (x *site) past(t *testing.T) {
	t.Helper()
	const step = 15 * time.Minute
	first := time.Now().UTC().Add(-23 * time.Hour)
	put := func(at time.Time, lasted time.Duration, accounts, mails, invoices float64) {
		t.Helper()
		count := func(done float64) catalog.QueueReport {
			return catalog.QueueReport{Done: int64(done), P50: 4, P99: 21}
		}
		r := catalog.Report{Program: "shop", Version: "v1.4.0", Worker: "shop-7c9f", Time: at, Seconds: lasted.Seconds(), Up: at.Sub(first).Seconds() + 1,
			Queues: map[string]catalog.QueueReport{"accounts": count(accounts), "mails": count(mails), "invoices": count(invoices)}}
		body, err := json.Marshal(r)
		if err == nil {
			_, err = x.Store.Table("pulse").Put(t.Context(), at.Format("15"), fmt.Sprintf("%s shop-7c9f.%d", at.Format("2006-01-02T15:04:05Z"), at.Sub(first)/time.Second), body, storage.Condition{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range int(23*time.Hour/step) - 1 {
		wave := 1 + math.Sin(float64(i)/15)
		most := 0.1 + wave + 0.2*math.Sin(float64(i*i))
		put(first.Add(time.Duration(i)*step), step, 5000*most, 2000*most, 700*most)
	}
	for i := range 15 {
		put(time.Now().UTC().Add(time.Duration(i-15)*time.Minute), time.Minute, 300+30*math.Sin(float64(i)), 120, 42)
	}
}

// coordinate uses what programs have to agree on things.
func (x *site) coordinate(t *testing.T) {
	t.Helper()
	numbers, err := ids.Open(x.Store, "orders", ids.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := numbers.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	lock, err := lease.Acquire(t.Context(), x.Store, "stocktaking", lease.Config{Holder: "shop-7c9f"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lock.Release(context.WithoutCancel(t.Context())) })
	n, err := settings.Open(t.Context(), x.Store, "shop", hall{Seats: 40, Rate: 10}, settings.Config{Name: "shop-7c9f"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.Close(context.WithoutCancel(t.Context())) })
}
