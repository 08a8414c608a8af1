package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"sync"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/coord/ids"
	"github.com/millrace-go/millrace/poison"
	"github.com/millrace-go/millrace/sample/reservations"
	"github.com/millrace-go/millrace/schedule"
	"github.com/millrace-go/millrace/storage"
)

// The auditor's checks.
const (
	decidedOnce  = "decided once"       // each acknowledged reservation is decided, and no reservation twice
	seatsAddUp   = "seats add up"       // the booked and the remaining seats are all seats
	viewsAreTrue = "views are true"     // receipts and calendar agree with the value objects
	ledgerIsTrue = "ledger is true"     // it has the accepted reservations, and no others
	numbersFit   = "numbers fit"        // each accepted reservation has one that no other has, and is found by it
	mailsGo      = "mails go"           // one for each decision
	poisonHolds  = "poison holds"       // nothing, because no message was wrong
	queuesEmpty  = "queues are empty"   // no message is left
	nothingLost  = "nothing is lost"    // of what the store's server has acknowledged
	wasDisturbed = "was disturbed"      // each kind of disturbance took place
	nothingFails = "nothing else fails" // no process ends by itself, no request is refused
)

// A finding is one fault of a run.
type finding struct{ check, what string }

func (f finding) String() string { return f.check + ": " + f.what }

// An auditor compares the answers of the web and the content of the store with what was sent and acknowledged.
type auditor struct {
	store    *storage.Store
	channels *channel.Channels
	url      string // of the web
	seats    int    // of a date
	mails    string // folder

	mu              sync.Mutex
	found           []finding
	decided         int // reservations
	doubled, lost   int
	unacked, stayed int // reservations without an acknowledgement; those of them that were decided nevertheless
}

func (a *auditor) fault(check, format string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	const most = 1000 // nobody reads more
	if len(a.found) < most {
		a.found = append(a.found, finding{check, fmt.Sprintf(format, args...)})
	}
}

func newAuditor(store *storage.Store, url string, seats int, mails string) (*auditor, error) {
	routes, err := reservations.Routes()
	if err != nil {
		return nil, err
	}
	channels, err := channel.New(store, routes, "/audit")
	if err != nil {
		return nil, err
	}
	return &auditor{store: store, channels: channels, url: url, seats: seats, mails: mails}, nil
}

// left counts the messages in the queues, as far as the store can tell. Schedules always wait for their next due time.
func (a *auditor) left(ctx context.Context) (n int64, err error) {
	for _, q := range a.channels.Routes().Queues() {
		if q == schedule.QueueName {
			continue
		}
		s, err := a.store.Queue(q).Stats(ctx)
		if err != nil {
			return 0, err
		}
		for _, part := range []int64{s.Ready, s.InFlight, s.Delayed} {
			if part < 0 {
				part = 1 // unknown: count it as not empty
			}
			n += part
		}
	}
	return n, nil
}

// audit makes all checks except those of the journal.
func (a *auditor) audit(ctx context.Context, orders []*order) {
	statuses := a.receipts(ctx, orders)
	a.numbers(ctx, statuses)
	byDate, months := map[string][]*order{}, map[string][]string{}
	for _, o := range orders {
		byDate[o.Date] = append(byDate[o.Date], o)
	}
	for date, asked := range byDate {
		month := reservations.MonthOf(date)
		if soldOut := a.date(ctx, date, asked, statuses); soldOut {
			months[month] = append(months[month], date)
		} else if _, ok := months[month]; !ok {
			months[month] = []string{}
		}
	}
	for month, want := range months {
		slices.Sort(want)
		var got reservations.Month
		if status, err := a.get(ctx, "/views/months/"+month, &got); err != nil || status != http.StatusOK || !slices.Equal(got.DisabledDays, want) {
			a.fault(viewsAreTrue, "the calendar of %s (%d, %v) has %v sold out, want %v", month, status, err, got.DisabledDays, want)
		}
	}
	files, err := filepath.Glob(filepath.Join(a.mails, "*.eml"))
	if err != nil || len(files) != a.decided {
		a.fault(mailsGo, "%d mails for %d decisions: %v", len(files), a.decided, err)
		a.lost += max(0, a.decided-len(files))
	}
	for _, q := range a.channels.Routes().Queues() {
		for entry, err := range poison.At(a.channels, q).List(ctx) {
			if err != nil {
				a.fault(nothingFails, "%v", err)
				break
			}
			a.fault(poisonHolds, "queue %s: a %s after %d deliveries and %d attempts: %s: %s", q, entry.Kind, entry.Deliveries, entry.Attempts, entry.Reason, entry.Error)
		}
	}
	if n, err := a.left(ctx); err != nil || n != 0 {
		a.fault(queuesEmpty, "%d messages are left: %v", n, err)
	}
}

// receipts asks the web for the status of each reservation.
func (a *auditor) receipts(ctx context.Context, orders []*order) map[string]reservations.Status {
	statuses := make([]reservations.Status, len(orders))
	var next sync.Mutex
	i := -1
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for {
				next.Lock()
				i++
				mine := i
				next.Unlock()
				if mine >= len(orders) || ctx.Err() != nil {
					return
				}
				statuses[mine] = a.receipt(ctx, orders[mine])
			}
		})
	}
	all.Wait()
	byID := map[string]reservations.Status{}
	for i, o := range orders {
		byID[o.ID] = statuses[i]
	}
	return byID
}

// numbers checks the numbers of accepted reservations, in the web and in the store.
func (a *auditor) numbers(ctx context.Context, statuses map[string]reservations.Status) {
	owners := map[string]string{} // keys of reservations, by number
	for id, s := range statuses {
		if s.Status != reservations.Accepted {
			continue
		}
		key := reservations.Key(id)
		if _, err := ids.Parse(s.Number); err != nil {
			a.fault(numbersFit, "%s is accepted: %v", key, err)
			continue
		}
		if other := owners[s.Number]; other != "" {
			a.doubled++
			a.fault(numbersFit, "%s and %s have No. %s", key, other, s.Number)
		}
		owners[s.Number] = key
		if owner, err := reservations.Numbered(ctx, a.store.Table("numbers"), s.Number); err != nil || owner != key {
			a.fault(numbersFit, "No. %s is that of %s in its receipt, and leads to %q: %v", s.Number, key, owner, err)
		}
		var found reservations.Status
		status, err := a.get(ctx, "/reservations?number="+s.Number, &found)
		if err != nil || status != http.StatusOK || found.Number != s.Number || found.Date != s.Date || found.Quantity != s.Quantity || found.ID != "" {
			a.fault(numbersFit, "the web finds %+v by No. %s: %d, %v", found, s.Number, status, err)
		}
	}
}

// receipt returns the status of a reservation. An acknowledged reservation must be decided.
func (a *auditor) receipt(ctx context.Context, o *order) reservations.Status {
	var s reservations.Status
	status, err := a.get(ctx, "/reservations/"+o.ID, &s)
	decided := s.Status == reservations.Accepted || s.Status == reservations.Rejected
	a.mu.Lock()
	if decided {
		a.decided++
	}
	if !o.acked {
		a.unacked++
		if decided {
			a.stayed++
		}
	} else if !decided {
		a.lost++
	}
	a.mu.Unlock()
	switch {
	case err != nil || status != http.StatusOK && status != http.StatusNotFound:
		a.fault(nothingFails, "the receipt of %s: %d, %v", reservations.Key(o.ID), status, err)
	case o.acked && !decided:
		a.fault(decidedOnce, "%s was acknowledged after %d tries and never decided: %d %q", reservations.Key(o.ID), o.tries, status, s.Status)
	case decided && (s.ID != o.ID || s.Date != o.Date || s.Quantity != o.Quantity || s.Name != o.Name):
		a.fault(viewsAreTrue, "the receipt of %s is another's", reservations.Key(o.ID))
	case !decided && s.Status != "" && s.Status != reservations.Pending:
		a.fault(viewsAreTrue, "%s is %q", reservations.Key(o.ID), s.Status)
	}
	return s
}

// date checks all reservations of one date, and returns whether it is sold out.
func (a *auditor) date(ctx context.Context, date string, asked []*order, statuses map[string]reservations.Status) (soldOut bool) {
	c, err := reservations.Capacities(a.channels, a.seats).Get(ctx, date, "")
	if err != nil {
		a.fault(nothingFails, "%v", err)
		return false
	}
	booked := map[string]string{} // numbers in receipts, by key
	taken, decided := 0, 0
	for _, o := range asked {
		booking, accepted := c.Value.Accepted[o.ID]
		if accepted {
			booked[reservations.Key(o.ID)] = statuses[o.ID].Number
			taken += booking.Quantity
			if booking.Quantity != o.Quantity || booking.Name != o.Name {
				a.fault(decidedOnce, "%s was accepted as another", reservations.Key(o.ID))
			}
		}
		switch state := statuses[o.ID].Status; {
		case state == reservations.Accepted || state == reservations.Rejected:
			decided++
			if accepted != (state == reservations.Accepted) {
				a.fault(viewsAreTrue, "%s is %s in its receipt, and accepted is %v", reservations.Key(o.ID), state, accepted)
			}
		case accepted:
			a.fault(viewsAreTrue, "%s was accepted, and its receipt doesn't know", reservations.Key(o.ID))
		}
	}
	switch n := int(c.Version) - decided; {
	case n > 0:
		a.doubled += n
		a.fault(decidedOnce, "%s: %d commands were applied for %d reservations that were decided", date, c.Version, decided)
	case n < 0:
		a.fault(viewsAreTrue, "%s: %d commands were applied and %d receipts tell of a decision", date, c.Version, decided)
	}
	if len(booked) != len(c.Value.Accepted) {
		a.fault(decidedOnce, "%s: %d are accepted that nobody has asked for", date, len(c.Value.Accepted)-len(booked))
	}
	if taken+c.Value.Remaining != a.seats || c.Value.Remaining < 0 {
		a.fault(seatsAddUp, "%s: %d booked and %d left of %d", date, taken, c.Value.Remaining, a.seats)
	}
	a.ledger(ctx, date, booked, c.Value)
	return c.Value.Remaining == 0
}

// ledger checks the rows of a date.
func (a *auditor) ledger(ctx context.Context, date string, booked map[string]string, c reservations.Capacity) {
	missing := len(booked)
	for e, err := range reservations.NewLedger(a.store, nil).On(ctx, date) {
		if err != nil {
			a.fault(nothingFails, "%v", err)
			return
		}
		number, ok := booked[reservations.Key(e.ID)]
		if b := c.Accepted[e.ID]; !ok || b.Quantity != e.Quantity {
			a.doubled++
			a.fault(ledgerIsTrue, "%s has %s, which was not accepted so", date, reservations.Key(e.ID))
			continue
		}
		if number != e.Number {
			a.fault(numbersFit, "%s has No. %s in the ledger, and %q in its receipt", reservations.Key(e.ID), e.Number, number)
		}
		missing--
	}
	if missing != 0 {
		a.lost += missing
		a.fault(ledgerIsTrue, "%s lacks %d accepted reservations", date, missing)
	}
}

// get reads JSON from the web. The status is 0 if the web didn't answer.
func (a *auditor) get(ctx context.Context, path string, v any) (status int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.url+path, nil)
	if err != nil {
		return 0, err
	}
	req.Header.Set("Accept", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, res.Body.Close()) }()
	if res.StatusCode != http.StatusOK {
		return res.StatusCode, nil
	}
	return res.StatusCode, json.NewDecoder(res.Body).Decode(v)
}
