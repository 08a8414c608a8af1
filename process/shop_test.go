package process_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/millracetest"
	"github.com/millrace-go/millrace/process"
	"github.com/millrace-go/millrace/values"
)

// The domain of these tests: an order is reserved, charged, packed, picked up and shipped.

type order struct {
	ID      string   `json:"id"`
	Item    string   `json:"item"`
	Lines   []string `json:"lines"`
	Held    bool     `json:"held"`
	Receipt string   `json:"receipt,omitempty"`
	Packed  int      `json:"packed"`
	Picker  string   `json:"picker,omitempty"`
	Parcel  string   `json:"parcel,omitempty"`
}

type (
	reserve struct {
		Order string `json:"order"`
		Item  string `json:"item"`
	}
	release  reserve
	reserved reserve
	noStock  reserve
	picked   struct {
		By string `json:"by"`
	}
	stock struct {
		Left int             `json:"left"`
		Held map[string]bool `json:"held,omitempty"`
	}
)

func (reserve) Kind() channel.Kind  { return "test.reserve.v1" }
func (release) Kind() channel.Kind  { return "test.release.v1" }
func (reserved) Kind() channel.Kind { return "test.reserved.v1" }
func (noStock) Kind() channel.Kind  { return "test.nostock.v1" }
func (picked) Kind() channel.Kind   { return "test.picked.v1" }

func (o order) reserve() reserve            { return reserve{o.ID, o.Item} }
func (o order) release() release            { return release{o.ID, o.Item} }
func (o order) reserved(reserved) order     { o.Held = true; return o }
func (o order) charged(r receipt) order     { o.Receipt = r.Number; return o }
func (o order) lines() []string             { return o.Lines }
func (o order) packed(string) order         { o.Packed++; return o }
func (o order) picked(p picked) order       { o.Picker = p.By; return o }
func (o order) shipped(parcel string) order { o.Parcel = parcel; return o }
func (s stock) release(c release) (stock, []channel.Message, error) {
	if s.Held[c.Order] {
		delete(s.Held, c.Order)
		s.Left++
	}
	return s, nil, nil
}
func (s stock) reserve(c reserve) (stock, []channel.Message, error) {
	if s.Left == 0 {
		return s, []channel.Message{noStock(c)}, nil
	}
	held := map[string]bool{c.Order: true}
	for k := range s.Held {
		held[k] = true
	}
	return stock{Left: s.Left - 1, Held: held}, []channel.Message{reserved(c)}, nil
}

type receipt struct {
	Number string `json:"number"`
}

func (r receipt) Effect() string { return r.Number }

// outside is the bank, the packers and the carrier. It knows keys, as a bank does.
type outside struct {
	charged map[string]string // receipts, by key
	journal []string
	charge  func(ctx context.Context) error // before anything is done
	ship    func(ctx context.Context) error
}

func newOutside() *outside {
	return &outside{charged: map[string]string{}, charge: func(context.Context) error { return nil }, ship: func(context.Context) error { return nil }}
}

func (w *outside) Charge(ctx context.Context, o order) (receipt, error) {
	if err := w.charge(ctx); err != nil {
		return receipt{}, err
	}
	key := process.Key(ctx)
	if w.charged[key] == "" {
		w.charged[key] = "r-" + key[:8]
		w.journal = append(w.journal, "charge "+o.ID)
	}
	return receipt{w.charged[key]}, nil
}

func (w *outside) Refund(_ context.Context, o order, r receipt) error {
	w.journal = append(w.journal, "refund "+o.ID)
	return nil
}

func (w *outside) Pack(_ context.Context, line string) (string, error) { return line, nil }

func (w *outside) Ship(ctx context.Context, o order) (string, error) {
	if err := w.ship(ctx); err != nil {
		return "", err
	}
	w.journal = append(w.journal, "ship "+o.ID)
	return "parcel-" + o.ID, nil
}

func (w *outside) fulfil(p *process.Plan[order]) {
	hold := process.Ask(p, "reserve", order.reserve, order.reserved).Within(time.Minute)
	process.Refused(hold, func(o order, _ noStock) order { return o })
	process.UndoAsk(hold, order.release)
	process.Do(p, "charge", w.Charge, order.charged).Try(20 * time.Second).Attempts(5).Within(10 * time.Minute).Undo(w.Refund)
	process.Each(p, "pack", order.lines, w.Pack, order.packed)
	process.Wait(p, "picked", order.picked).Within(48 * time.Hour)
	process.Do(p, "ship", w.Ship, order.shipped).Within(time.Hour).By("carrier")
}

func program(w *outside) millracetest.Program {
	return millracetest.Program{
		Routes: func() (*channel.Routes, error) {
			return channel.NewRoutes(process.Route("fulfil", "carrier"),
				channel.Command[reserve]("stock"), channel.Command[release]("stock"),
				channel.Event[reserved]("fulfil"), channel.Event[noStock]("fulfil"))
		},
		Register: func(h *handlers.Registry) error {
			c := stocks(h.Channels())
			handlers.Decide(h, c, func(c reserve) string { return c.Item }, stock.reserve, reserved{}, noStock{})
			handlers.Decide(h, c, func(c release) string { return c.Item }, stock.release)
			return process.Register(h, "fulfil", process.Version(1, w.fulfil))
		},
	}
}

func stocks(c *channel.Channels) *values.Collection[stock] {
	return values.New(c, "stock", values.Config[stock]{Initial: func(string) stock { return stock{Left: 2} }})
}

func shop(t *testing.T, w *outside, test func(t *testing.T, app *millracetest.App, orders *process.Instances[order])) {
	t.Helper()
	t.Parallel()
	millracetest.Run(t, program(w), func(t *testing.T, app *millracetest.App) {
		test(t, app, process.Open[order](app.Channels(), "fulfil"))
	})
}

func start(t *testing.T, orders *process.Instances[order], id string) {
	t.Helper()
	if err := orders.Start(t.Context(), id, order{ID: id, Item: "tea", Lines: []string{"tea", "pot", "cup"}}); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, orders *process.Instances[order], id string) process.Snapshot[order] {
	t.Helper()
	s, err := orders.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func wantJournal(t *testing.T, w *outside, want ...string) {
	t.Helper()
	if !slices.Equal(w.journal, want) {
		t.Errorf("outside: got %v, want %v", w.journal, want)
	}
}

func TestOrder(t *testing.T) {
	w := newOutside()
	shop(t, w, func(t *testing.T, app *millracetest.App, orders *process.Instances[order]) {
		start(t, orders, "o17")
		app.Drain()
		if s := get(t, orders, "o17"); s.Status != process.InProcess || !slices.Equal(s.WaitsFor, []string{"picked"}) {
			t.Errorf("got %s, waits for %v; want the pick-up", s.Status, s.WaitsFor)
		}
		if err := orders.Signal(t.Context(), "o17", picked{"ada"}); err != nil {
			t.Fatal(err)
		}
		app.Drain()
		s := get(t, orders, "o17")
		if s.Status != process.Completed || s.State.Picker != "ada" || s.State.Packed != 3 || s.State.Parcel != "parcel-o17" {
			t.Errorf("got %+v", s)
		}
		wantJournal(t, w, "charge o17", "ship o17")
	})
}

// Nobody comes within the time: what was done is undone, the last one first.
func TestNobodyComes(t *testing.T) {
	w := newOutside()
	shop(t, w, func(t *testing.T, app *millracetest.App, orders *process.Instances[order]) {
		start(t, orders, "o17")
		app.Drain()
		app.Advance(49 * time.Hour)
		if s := get(t, orders, "o17"); s.Status != process.Aborted || !strings.Contains(s.Error, "no end within 48h") {
			t.Errorf("got %s: %s", s.Status, s.Error)
		}
		if v := millracetest.Value(t, stocks(app.Channels()), "tea"); v.Left != 2 {
			t.Errorf("left: got %d, want 2", v.Left)
		}
		wantJournal(t, w, "charge o17", "refund o17")
	})
}

func TestCancelled(t *testing.T) {
	w := newOutside()
	shop(t, w, func(t *testing.T, app *millracetest.App, orders *process.Instances[order]) {
		start(t, orders, "o17")
		app.Drain()
		if err := orders.Cancel(t.Context(), "o17", "ada", "changed her mind"); err != nil {
			t.Fatal(err)
		}
		app.Drain()
		if s := get(t, orders, "o17"); s.Status != process.Canceled || s.Error != "canceled by ada" {
			t.Errorf("got %s: %s", s.Status, s.Error)
		}
		wantJournal(t, w, "charge o17", "refund o17")
	})
}

func TestNoStock(t *testing.T) {
	w := newOutside()
	shop(t, w, func(t *testing.T, app *millracetest.App, orders *process.Instances[order]) {
		for _, id := range []string{"o1", "o2", "o3"} {
			start(t, orders, id)
			app.Drain()
		}
		if s := get(t, orders, "o3"); s.Status != process.Aborted || s.Error != "refused: test.nostock.v1" {
			t.Errorf("got %s: %s", s.Status, s.Error)
		}
		wantJournal(t, w, "charge o1", "charge o2")
	})
}

// A bank that fails is asked again, with the same key.
func TestFlakyBank(t *testing.T) {
	w := newOutside()
	n := 0
	w.charge = func(ctx context.Context) error {
		if n++; n < 4 {
			return errors.New("503")
		}
		if process.Attempt(ctx) != 4 {
			t.Errorf("attempt: got %d, want 4", process.Attempt(ctx))
		}
		return nil
	}
	shop(t, w, func(t *testing.T, app *millracetest.App, orders *process.Instances[order]) {
		start(t, orders, "o17")
		app.Drain()
		app.Advance(time.Minute)
		if s := get(t, orders, "o17"); !slices.Equal(s.WaitsFor, []string{"picked"}) {
			t.Errorf("got %+v", s)
		}
	})
}

// A worker that dies after the charge: the bank is asked again with the same key, and charges once.
func TestKill(t *testing.T) {
	w := newOutside()
	var app *millracetest.App
	killed := false
	w.ship = func(context.Context) error {
		if !killed {
			killed = true
			app.Kill()
		}
		return nil
	}
	shop(t, w, func(t *testing.T, a *millracetest.App, orders *process.Instances[order]) {
		app = a
		start(t, orders, "o17")
		if err := orders.Signal(t.Context(), "o17", picked{"ada"}); err != nil {
			t.Fatal(err)
		}
		app.Drain()
		app.Advance(time.Minute)
		if s := get(t, orders, "o17"); s.Status != process.Completed {
			t.Errorf("got %+v", s)
		}
		wantJournal(t, w, "charge o17", "ship o17", "ship o17")
	})
}
