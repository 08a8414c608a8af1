package simulation

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/poison"
	"github.com/millrace-go/millrace/values"
	"github.com/millrace-go/millrace/views"
)

// The auditor's checks.
const (
	decidedOnce  = "decided once"       // each acknowledged command is decided, and no command twice
	seatsAddUp   = "seats add up"       // the booked and the remaining seats are all seats
	viewsAreTrue = "views are true"     // each is a fold of all events
	newestWins   = "newest wins"        // in views that keep the newest event
	eventsArrive = "events arrive"      // each event reached each subscriber
	chainsOnce   = "chains once"        // a message that a reaction sends is decided once
	processesEnd = "processes end"      // what decisions emit is handled once, and the value objects agree in the end
	limitsOnce   = "limits once"        // a message that is due later comes once, and not before
	poisonHolds  = "poison holds"       // exactly the messages that belong there, with their reasons
	queuesEmpty  = "queues are empty"   // no message is left
	nothingFails = "nothing else fails" // no process ends by itself
)

// finding is one fault of a run.
type finding struct{ check, what string }

func (f finding) String() string { return "audit: " + f.check + ": " + f.what }

// auditor compares the store with what was sent and acknowledged.
type auditor struct {
	w     *world
	p     *process // without faults
	found []finding
}

func (a *auditor) fault(check, format string, args ...any) {
	a.found = append(a.found, finding{check, fmt.Sprintf(format, args...)})
}

func (w *world) audit(ctx context.Context) []finding {
	a := &auditor{w: w, p: w.newClient("auditor")}
	if _, err := a.p.register(); err != nil {
		a.fault(nothingFails, "%v", err)
		return a.found
	}
	for _, f := range w.Failures() {
		a.fault(nothingFails, "%s", f)
	}
	for _, q := range queues() {
		if st, err := w.Store.Queue(q).Stats(ctx); err != nil || st.Ready+st.InFlight+st.Delayed != 0 {
			a.fault(queuesEmpty, "%s: %+v, %v", q, st, err)
		}
	}
	days := a.days(ctx)
	decided := a.decisions(days)
	a.poison(ctx, decided)
	a.views(ctx, days)
	a.bills(ctx, days)
	a.orders(ctx)
	for _, d := range days {
		for _, x := range d.Decided {
			if x.Accepted && w.notes[x.Command] == 0 {
				a.fault(eventsArrive, "the world outside never heard of %s", x.Command)
			}
		}
	}
	return a.found
}

// days reads the value objects.
func (a *auditor) days(ctx context.Context) map[string]day {
	all := map[string]day{}
	c := values.New(a.p.channels, "days", a.w.plan.days)
	for key, err := range c.Keys(ctx, "", "") {
		if err != nil {
			a.fault(nothingFails, "%v", err)
			return all
		}
		d, err := c.Get(ctx, key, "")
		if err != nil {
			a.fault(nothingFails, "%v", err)
		}
		all[key] = d.Value
		sum := d.Value.Left
		for _, x := range d.Value.Decided {
			if x.Accepted {
				sum += x.Seats
			}
		}
		if sum != seats || d.Value.Left < 0 {
			a.fault(seatsAddUp, "%s: %d left, %d with those booked, of %d", key, d.Value.Left, sum, seats)
		}
	}
	return all
}

// decisions checks by the value objects' own history which commands were decided, and counts them.
func (a *auditor) decisions(days map[string]day) map[string]int {
	decided, how := map[string]int{}, map[string]decision{}
	for _, d := range days {
		for _, x := range d.Decided {
			decided[x.Command]++
			how[x.Command] = x
		}
	}
	for key, b := range a.w.sent {
		acked, n := a.w.acked[key], decided[b.ID]
		_, twins := a.w.sent[b.ID+twin]
		switch {
		case n > 1:
			a.fault(decidedOnce, "%s was decided %d times", b.ID, n)
		case b.Sort == bad || b.Sort == deadly:
			if n != 0 {
				a.fault(decidedOnce, "%s was decided although its handler refused it", b.ID)
			}
		case acked && n == 0:
			a.fault(decidedOnce, "%s (%s) was acknowledged and never decided", b.ID, b.Sort)
		case n == 1 && !twins && how[b.ID].Seats != b.Seats:
			a.fault(decidedOnce, "%s was decided with %d seats instead of %d", b.ID, how[b.ID].Seats, b.Seats)
		}
	}
	for id := range decided {
		if !slices.ContainsFunc(slices.Collect(maps.Values(a.w.sent)), func(b book) bool { return b.ID == id }) {
			a.fault(decidedOnce, "%s was decided and never sent", id)
		}
	}
	return decided
}

// poison checks that the poison queue holds exactly the messages that can't be done, with their reasons.
func (a *auditor) poison(ctx context.Context, decided map[string]int) {
	held := map[string]bool{}
	for _, q := range queues() {
		for entry, err := range poison.At(a.p.channels, q).List(ctx) {
			if err != nil {
				a.fault(nothingFails, "%v", err)
				return
			}
			_, twins := a.w.sent[entry.ID+twin]
			sort := a.w.sortOf(entry)
			held[entry.ID] = true
			want := map[string]string{bad: "bad", deadly: handlers.ReasonDeliveries}[sort]
			switch {
			case q == "commands" && entry.Reason == handlers.ReasonUndecodable && string(entry.Body) == "not a message":
				held["garbage"] = true
				continue
			case entry.Reason == handlers.ReasonDataLost && a.padded(entry):
				continue // the second of two copies that a repeated request made: the first took their common body along
			case twins:
				want = handlers.ReasonContentDiffers
			}
			if want == "" || q != "commands" || entry.Reason != want {
				a.fault(poisonHolds, "queue %s: %s (%s) with reason %q, want %q: %s", q, entry.ID, sort, entry.Reason, want, entry.Error)
			}
			if entry.Attempts < 1 && sort == bad || entry.Worker == "" || entry.Last.IsZero() || len(entry.Body) == 0 {
				a.fault(poisonHolds, "queue %s: %s lacks what an operator wants to know: %+v", q, entry.ID, entry)
			}
		}
	}
	if a.w.plan.Seed%5 == 0 && len(a.w.plan.commands) > 2 && !held["garbage"] {
		a.fault(poisonHolds, "what can't be decoded is gone")
	}
	for key, b := range a.w.sent {
		lost := a.w.acked[key] && !held[b.ID] && !a.w.discarded[b.ID]
		switch {
		case lost && (b.Sort == bad || b.Sort == deadly):
			a.fault(poisonHolds, "%s (%s) is gone", b.ID, b.Sort)
		case lost && b.Sort == twin:
			a.fault(poisonHolds, "%s came with two contents, and nobody was told", b.ID)
		}
	}
}

// padded reports that a message was too large for a queue. Other checks say whether it had its effect.
func (a *auditor) padded(entry poison.Entry) bool {
	e, err := wire.Decode(entry.Body)
	return err == nil && e.DataRef != ""
}

// views checks each view against a fold of all events, taken from the value objects' histories.
func (a *auditor) views(ctx context.Context, days map[string]day) {
	want := month{Booked: map[string]int{}}
	lefts := views.New(a.p.channels, "left", views.Config[left]{})
	for key, d := range days {
		any := false
		for _, x := range d.Decided {
			want.Seen = append(want.Seen, x.Command)
			if !x.Accepted {
				want.Refused++
				continue
			}
			any = true
			want.Booked[key] += x.Seats
		}
		if l, _, err := lefts.GetFresh(ctx, key); any && (err != nil || l.Left != d.Left) {
			a.fault(newestWins, "%s shows %d left of %d: %v", key, l.Left, d.Left, err)
		}
	}
	got, _, err := views.New(a.p.channels, "months", views.Config[month]{}).GetFresh(ctx, "all")
	if err != nil {
		a.fault(nothingFails, "%v", err)
	}
	slices.Sort(want.Seen)
	slices.Sort(got.Seen)
	for _, id := range slices.Compact(slices.Concat(want.Seen, got.Seen)) {
		if n, m := count(got.Seen, id), count(want.Seen, id); n != m {
			a.fault(viewsAreTrue, "the view has seen %s %d times, want %d", id, n, m)
		}
	}
	if !maps.Equal(got.Booked, want.Booked) || got.Refused != want.Refused {
		a.fault(viewsAreTrue, "the view shows %v and %d refused, want %v and %d", got.Booked, got.Refused, want.Booked, want.Refused)
	}
}

func count(all []string, x string) (n int) {
	for _, y := range all {
		if y == x {
			n++
		}
	}
	return n
}

// bills checks the second commands, which reactions send.
func (a *auditor) bills(ctx context.Context, days map[string]day) {
	c := values.New(a.p.channels, "bills", values.Config[account]{})
	for key, d := range days {
		got, err := c.Get(ctx, key, "")
		if err != nil {
			a.fault(nothingFails, "%v", err)
		}
		for _, x := range d.Decided {
			if n := count(got.Value.Commands, x.Command); x.Accepted && n != 1 || !x.Accepted && n != 0 {
				a.fault(chainsOnce, "%s (accepted: %v) was billed %d times", x.Command, x.Accepted, n)
			}
		}
	}
}
