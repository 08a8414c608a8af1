package handling

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/millrace-go/millrace/coord/keylock"
	"github.com/millrace-go/millrace/internal/handling/verdict"
	"github.com/millrace-go/millrace/internal/right"
)

const (
	// gapAfter is how long an event waits before that counts as a gap. Workers that take the events of one source from
	// a queue together have some in the wrong order for a moment.
	gapAfter = 10 * time.Second

	// turnTime is how long a turn goes on with further messages. A process that dies repeats at most what it did in
	// that time, and other workers get their turns.
	turnTime = 2 * time.Second

	// leastRounds is how often a message that waits must come and go before others go past what should come first: a
	// queue keeps the order of its messages only roughly, and other workers may have that one in hand.
	leastRounds = 3

	// quietFor is how long a row may be gone; see coord/keylock.
	quietFor = 30 * 24 * time.Hour
)

// TakesTurns reports that deliveries of the group are handled one after the other, by a [Turn].
func (g Group) TakesTurns() bool { return g.turns != nil }

// A Turn handles deliveries of one key, one after the other, while no other process does. Its methods may not be called
// concurrently.
type Turn struct {
	of    *turns
	turn  *keylock.Turn
	state keylock.State
	note  func(TurnNote)
	until time.Time         // no further message begins after it
	early *Delivery         // the first one that waits for an event
	gap   bool              // it has waited for so long that this is to be noted
	told  []TurnNote        // what is told if the turn is taken
	hangs []<-chan struct{} // handlers that were given up
	held  error             // why the others wait
}

// Awaited asks the store which message the others of the key wait for. The result reports whether an ID is that
// message's; it is always false where nobody can tell.
func (g Group) Awaited(ctx context.Context) func(id string) bool {
	var s keylock.State
	if turns, err := g.turns.open(); err == nil {
		s, _ = turns.State(ctx, g.key)
	}
	return s.IsFirst
}

// TakeTurn takes the turn of a group, for deliveries that have come together. It sorts them in the order in which they
// are to be handled. If none of them can be handled now, its error is that of all. note is told what happens.
func (g Group) TakeTurn(ctx context.Context, ds []*Delivery, note func(TurnNote)) (*Turn, error) {
	turns, err := g.turns.open()
	if err != nil {
		return nil, trouble(err)
	}
	slices.SortStableFunc(ds, before)
	for _, d := range ds {
		g.turns.clock.Saw(d.Envelope.Born())
	}
	t := &Turn{of: g.turns, note: note, until: time.Now().Add(turnTime)}
	t.turn, err = turns.Take(ctx, g.key, func(s *keylock.State, w *keylock.Wait) error {
		return t.begin(ctx, s, w, ds)
	})
	var later *verdict.LaterError
	switch {
	case errors.As(err, &later):
		return nil, later
	case errors.Is(err, keylock.ErrHeld):
		return nil, waits(WaitHeld, heldMost, "another message of its key is being handled, or its turn can't be had: "+err.Error())
	case err != nil:
		return nil, trouble(err)
	}
	for _, n := range t.told {
		note(n)
	}
	note(TurnNote{What: TurnTaken})
	t.state = t.turn.State()
	if i := slices.IndexFunc(ds, func(d *Delivery) bool { return t.state.IsFirst(d.Envelope.ID) }); i > 0 {
		first := ds[i]
		copy(ds[1:i+1], ds[:i])
		ds[0] = first
	}
	return t, nil
}

// before sorts deliveries: events of a value object by its numbers, others by their arrival. The store may know that to
// the second only; then the time and the ID that the sender gave decide.
func before(a, b *Delivery) int {
	if n, m := a.number(), b.number(); n != m {
		return cmp.Compare(n, m)
	}
	return cmp.Or(a.arrived.Compare(b.arrived), a.Envelope.Time.Compare(b.Envelope.Time), cmp.Compare(a.Envelope.ID, b.Envelope.ID))
}

// number is the sequence number of a delivery that is in order, and 0 for any other.
func (d *Delivery) number() uint64 {
	if _, ok := d.previous(); ok {
		return d.Envelope.Sequence
	}
	return 0
}

// previous returns the number of the event before this one to this queue. ok is false for a message outside of an
// order.
func (d *Delivery) previous() (n uint64, ok bool) {
	e := d.Envelope
	if !d.Handler.turns.ordered || e.Sequence == 0 {
		return 0, false
	}
	n, _, ok = e.PreviousTo(d.Queue)
	return n, ok && n < e.Sequence
}

// place tells where a delivery stands. A key that was quiet for so long that its row is gone begins anew.
func (d *Delivery) place(s *keylock.State) keylock.Place {
	n, ok := d.previous()
	if !ok {
		return keylock.Next
	}
	if _, at, _ := d.Envelope.PreviousTo(d.Queue); s.Done == 0 && d.Envelope.Time.Sub(at) > quietFor {
		n = 0
	}
	return s.Place(d.Envelope.Sequence, n)
}

// begin decides whether any of the deliveries can be handled.
func (t *Turn) begin(ctx context.Context, s *keylock.State, w *keylock.Wait, ds []*Delivery) error {
	t.told, t.gap = nil, false
	switch {
	case s.Halted != nil && !slices.ContainsFunc(ds, func(d *Delivery) bool { return d.heals(s) || d.repeats(s) }):
		return errHalted(w.Seen())
	case s.Halted != nil, slices.ContainsFunc(ds, func(d *Delivery) bool { return d.ready(s) }):
		return nil
	}
	patience, first := t.of.patience, ds[0]
	waited := w.Count(s, patience/leastRounds, waiters(ds)...)
	switch {
	case !t.of.ordered && (waited < patience || !t.emptied(ctx, s, w)):
		return behind(s.First.After)
	case !t.of.ordered:
		t.goPast(s, s.First.Message, 0)
		return nil
	case s.Gap != nil && waited >= patience && !t.emptied(ctx, s, w):
		return early()
	case s.Gap != nil && waited >= patience:
		n, _ := first.previous()
		t.goPast(s, first.Envelope.ID, min(n, s.Gap.Previous)) // others may wait before this one
		return nil
	case (s.Gap == nil || first.number() < s.Gap.Sequence) && waited >= gapAfter:
		t.gap = true
		return nil
	}
	return early()
}

// emptied reports that what should come first isn't in a lane that holds it up. Without lanes nothing is asked.
func (t *Turn) emptied(ctx context.Context, s *keylock.State, w *keylock.Wait) bool {
	queue := t.of.lanes()
	if queue == nil {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, heldMost)
	defer cancel()
	st, err := queue.Stats(ctx)
	if err != nil {
		st.Oldest = -1
	}
	return w.Emptied(s, st.Oldest)
}

// waiters are deliveries that wait for their turn.
func waiters(ds []*Delivery) []keylock.Waiter {
	all := make([]keylock.Waiter, len(ds))
	for i, d := range ds {
		all[i] = keylock.Waiter{Message: d.Envelope.ID, Deliveries: d.came}
	}
	return all
}

// ready reports that a delivery need not wait for another message.
func (d *Delivery) ready(s *keylock.State) bool {
	if d.Handler.turns.ordered {
		return d.place(s) != keylock.Early
	}
	return s.First == nil || s.IsFirst(d.Envelope.ID)
}

// heals reports that a delivery is handled although its key is halted: it is the message that halted it, or an event
// that the key lacks.
func (d *Delivery) heals(s *keylock.State) bool {
	n := d.number()
	return s.IsHalt(d.Envelope.ID) && n == 0 || n > 0 && n <= s.Halted.Sequence && d.place(s) == keylock.Next
}

// repeats reports that a delivery is an event that is done, whatever has halted its key since.
func (d *Delivery) repeats(s *keylock.State) bool {
	return d.Handler.turns.ordered && d.failed == nil && d.place(s) == keylock.Repeat
}

// errHalted is the error of a message whose key has been halted for so long, as far as this process has seen it.
func errHalted(seen time.Duration) error {
	return waits(WaitHalted, min(max(seen, haltedLeast), haltedMost), "its key is halted, until an operator releases it")
}

func behind(after time.Duration) error {
	return waits(WaitBehind, min(max(after, time.Second), behindMost), "a message of its key comes first")
}

func early() error { return waits(WaitEarly, heldMost, "the event before it isn't done") }

// goPast goes past what has not come: a message, or the events up to a number. Where the configuration says so, it
// halts the key instead.
func (t *Turn) goPast(s *keylock.State, id string, number uint64) {
	err := fmt.Errorf("what should come first has not come for %v", t.of.patience)
	s.First = nil
	if t.of.halt {
		s.Halt(id, err.Error(), number)
		t.told = append(t.told, TurnNote{What: TurnHalt, Message: id, Err: err})
		return
	}
	s.Skip(id, err.Error())
	s.GoPast(number)
	t.told = append(t.told, TurnNote{What: TurnPassed, Message: id, Err: err})
}

// Waits returns the error of a delivery that can't be handled now, or nil. done is true for one that need not be
// handled, because it is done.
func (t *Turn) Waits(d *Delivery) (done bool, err error) {
	s := &t.state
	switch {
	case t.held != nil:
		return false, t.held
	case s.Halted != nil && !d.heals(s) && !d.repeats(s):
		return false, errHalted(0)
	case !t.turn.Sure():
		return false, errTurnLost()
	case !t.of.ordered && !d.ready(s):
		return false, behind(s.First.After)
	case !t.of.ordered:
		return false, nil
	}
	switch d.place(s) {
	case keylock.Repeat:
		return d.failed == nil, nil // nobody knows that a message that can't be decoded is the same one
	case keylock.Early:
		if t.early == nil {
			t.early = d
		}
		return false, early()
	}
	return false, nil
}

// Over reports that no further message begins in this turn, for it has taken long enough.
func (t *Turn) Over() bool { return time.Now().After(t.until) }

func errTurnLost() error {
	return waits(WaitHeld, heldMost, "its turn was lost to another process, or may be")
}

// Handle handles a delivery. Its context ends with the turn. The handler of one that has failed before doesn't run. An
// error after the turn was lost isn't the handler's fault, unless it says that the effect may have happened.
func (t *Turn) Handle(ctx context.Context, d *Delivery, commit Commit) Outcome {
	if d.failed != nil {
		return Outcome{Err: d.failed}
	}
	both := right.Within(context.WithValue(ctx, fenceKey{}, t.turn.Fence()), t.turn.Context())
	defer both.End(nil)
	o := d.handle(both, commit)
	switch o.Err.(type) {
	case nil, *verdict.PanicError, *verdict.HangError:
		return o
	}
	why := context.Cause(both)
	if !errors.Is(why, keylock.ErrLost) {
		return o
	}
	t.note(TurnNote{What: TurnLost, Message: d.Envelope.ID, Err: why})
	if !verdict.Judge(o.Err).OutcomeUnknown() {
		o.Err = errTurnLost()
	}
	return o
}

// Ended notes how a delivery ended: whether its message goes to the poison queue now, and else after which time it
// comes again. Others are asked about by Waits after it.
func (t *Turn) Ended(d *Delivery, o Outcome, poisoned bool, after time.Duration) {
	s, id := &t.state, d.Envelope.ID
	hang, hangs := o.Err.(*verdict.HangError)
	if hangs && d.failed == nil {
		t.hangs = append(t.hangs, hang.Ended)
		t.held = waits(WaitHeld, heldMost, "the handler of a message of its key hangs")
	}
	previous, ordered := d.previous()
	switch {
	case ordered && o.Err != nil && d.place(s) != keylock.Next:
		return // others went past it, or it is a repeat: they don't wait for it
	case o.Err == nil || poisoned && !t.of.halt:
		t.passed(d, previous, ordered)
		if o.Err != nil {
			s.Skip(id, o.Err.Error())
			if ordered {
				s.MayCome(d.Envelope.Sequence)
			}
			t.note(TurnNote{What: TurnSkip, Message: id, Err: o.Err})
		}
	case poisoned:
		s.First = nil
		s.Halt(id, o.Err.Error(), d.number())
		t.note(TurnNote{What: TurnHalt, Message: id, Err: o.Err})
	default:
		s.Wait(id, after, d.number())
		t.held = behind(s.First.After)
	}
}

// passed notes that a delivery is over.
func (t *Turn) passed(d *Delivery, previous uint64, ordered bool) {
	s, id := &t.state, d.Envelope.ID
	if s.IsFirst(id) {
		s.First = nil
	}
	if ordered {
		if s.Done == 0 { // the row may be new: nobody knows which of those before are done
			s.GoPast(previous)
		}
		s.Pass(d.Envelope.Sequence, previous)
	}
	if s.IsHalt(id) || s.Halted != nil && ordered && s.Done >= s.Halted.Sequence {
		s.Halted = nil
	}
}

// End ends the turn and writes its state. Where it fails, the state may not be noted: deliveries that are done and are
// [Turn.Awaited] must come again, or the others wait for them in vain. So must those that were to go to the poison
// queue, unless their outcome is unknown. A turn whose handler hangs is written at once, and ends when the handler
// does.
func (t *Turn) End(ctx context.Context) error {
	if s := &t.state; t.gap && t.early != nil && t.held == nil && s.Halted == nil {
		previous, _ := t.early.previous()
		if s.WaitFor(t.early.Envelope.ID, t.early.Envelope.Sequence, previous) {
			t.note(TurnNote{What: TurnGap, Message: t.early.Envelope.ID})
		}
	}
	if len(t.hangs) > 0 {
		err := t.turn.Save(ctx, t.state) // nobody knows whether the handler ends before its process does
		go func() {
			for _, ended := range t.hangs {
				<-ended
			}
			_ = t.turn.End(context.Background(), t.state) // where it fails, others take over
		}()
		if err != nil {
			return t.unnoted("a handler in its turn hangs, and the turn could not be written")
		}
		return nil
	}
	if err := t.turn.End(ctx, t.state); err != nil {
		t.note(TurnNote{What: TurnLost, Err: err})
		return t.unnoted("its turn was lost or could not be ended")
	}
	return nil
}

// unnoted is the error of deliveries whose ends may not be noted.
func (t *Turn) unnoted(why string) error {
	return waits(WaitHeld, heldMost, "its end may not be noted: "+why)
}

// Awaited reports that others wait for a delivery until it is noted as done: in order, and where the row says that it
// comes first, or has halted its key.
func (t *Turn) Awaited(d *Delivery) bool {
	s, id := t.turn.State(), d.Envelope.ID
	return t.of.ordered || s.IsFirst(id) || s.IsHalt(id)
}

// Fence returns the number of the turn that a handler runs in, or 0 outside of a turn; see handlers.Fence.
func Fence(ctx context.Context) int64 {
	n, _ := ctx.Value(fenceKey{}).(int64)
	return n
}

type fenceKey struct{}
