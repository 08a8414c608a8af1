package acts

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/internal/bulk"
	"github.com/millrace-go/millrace/ops/internal/poisoned"
	"github.com/millrace-go/millrace/storage"
)

// A Bulk is a bulk act. Of one that can't be read it has the ID and the fault, and the rest says nothing.
type Bulk struct {
	ID       string      `json:"id"`
	Act      string      `json:"act"`    // poison retry, or poison discard
	Filter   bulk.Filter `json:"filter"` // without a member: any
	By       string      `json:"by"`
	Why      string      `json:"why"`
	Asked    time.Time   `json:"asked"`
	Queues   []string    `json:"queues"`   // those that had poison messages then
	Messages int         `json:"messages"` // that stood in these queues then, also those that the filter leaves out
	LookedAt int         `json:"looked_at"`
	Settled  int         `json:"settled"` // messages that were sent back, or discarded
	Gone     int         `json:"gone"`    // messages that somebody else had removed
	Failed   int         `json:"failed"`  // messages that are still in the poison queue
	Faults   []string    `json:"faults"`  // the first ones
	Rate     *float64    `json:"messages_per_second"`
	State    string      `json:"state"` // what the act shall do: running, paused, cancelled or done. ended says whether it has

	StateSince *time.Time `json:"state_since"` // the last pause, resume or cancel; null: there was none
	StateBy    string     `json:"state_by"`
	StateWhy   string     `json:"state_why"`

	Process     string     `json:"process"`      // that does it; "": none does
	ProcessSeen *time.Time `json:"process_seen"` // when the process has last told how far it is
	Died        bool       `json:"died"`         // the process has most likely died
	Ended       *time.Time `json:"ended"`        // null: it has not ended
	Result      string     `json:"result"`       // how far it has come, in a sentence
	Fault       string     `json:"fault"`        // why it can't be read
}

// newBulk is a bulk act as programs read it.
func newBulk(a bulk.Act, fault string) Bulk {
	b := Bulk{ID: a.ID, Filter: a.Filter, By: a.By, Why: a.Why, Asked: a.Asked, Queues: a.Queues, Messages: a.Chosen, LookedAt: a.Looked, Settled: a.Done, Gone: a.Gone,
		Failed: a.Failed, Faults: a.Faults, Rate: act.Maybe(a.Rate), State: string(a.State), StateSince: act.Maybe(a.Set), StateBy: a.SetBy, StateWhy: a.SetWhy,
		Process: a.Driver, ProcessSeen: act.Maybe(a.Driven), Died: a.Died(), Ended: act.Maybe(a.Ended), Fault: fault}
	if fault == "" {
		b.Act, b.Result = "poison "+a.Verb, a.Result()
	}
	if b.Queues == nil {
		b.Queues = []string{}
	}
	if b.Faults == nil {
		b.Faults = []string{}
	}
	return b
}

// A bulkInput names a bulk act.
type bulkInput struct{ id string }

func (in *bulkInput) fields() []act.Field {
	return []act.Field{act.Text(&in.id, "id", "the bulk act").At("ID").From(func(ctx context.Context, d *act.Desk) []string {
		return act.NamesOf(bulk.List(ctx, d.Store), func(a bulk.Act) string { return a.ID })
	})}
}

func bulkActs() []*act.Act {
	const waits = "It waits until the process that does the act has stopped, or else stops the act itself."
	return []*act.Act{
		act.New(act.Act{Noun: "bulk", Verb: "list", Role: act.Viewer, About: "list the acts on all messages that match, the newest first",
			More: "poison retry and poison discard without --id make such an act. Where its process has died, any process that serves the pages goes on " +
				"with the act, and so does bulk resume.",
		}, func(in *bulkListInput) []act.Field {
			in.limit = 100
			return []act.Field{act.Limit(&in.limit, "acts")}
		}, listBulk),
		act.New(act.Act{Noun: "bulk", Verb: "show", Role: act.Viewer, About: "show how far an act on many messages has come"}, (*bulkInput).fields,
			func(ctx context.Context, c *act.Call, in *bulkInput) error {
				a, err := in.get(ctx, c)
				if err != nil {
					return err
				}
				return tellBulk(c, a)
			}),
		act.New(act.Act{Noun: "bulk", Verb: "pause", Role: act.Operator, Why: act.May, About: "have an act on many messages wait", More: waits},
			(*bulkInput).fields, setBulk(bulk.Paused)),
		act.New(act.Act{Noun: "bulk", Verb: "resume", Role: act.Operator, Why: act.May, About: "go on with an act on many messages",
			More: "The act may be paused, or its process may have died. The command line does the rest of the act itself.",
		}, (*bulkInput).fields, setBulk(bulk.Running)),
		act.New(act.Act{Noun: "bulk", Verb: "cancel", Role: act.Operator, Why: act.May, About: "end an act on many messages before it is done",
			More: "What it has done stays done. " + waits,
		}, (*bulkInput).fields, setBulk(bulk.Cancelled)),
	}
}

type bulkListInput struct{ limit int }

func listBulk(ctx context.Context, c *act.Call, in *bulkListInput) error {
	if err := c.Table("No act on many messages was ever asked for.", "ID", "ASKED", "BY", "ACT", "STATE", "RESULT"); err != nil {
		return err
	}
	n := 0
	for a, err := range bulk.List(ctx, c.Store) {
		switch {
		case err != nil && a.ID == "":
			return err
		case n == in.limit:
			c.Next("limit", fmt.Sprint(2*in.limit))
			return nil
		case err != nil:
			err = c.Row(newBulk(a, err.Error()), a.ID, nil, nil, nil, act.Corrupt, nil)
		default:
			err = c.Row(newBulk(a, ""), a.ID, a.Asked, a.By, bulkFilter(a), bulkState(a), a.Result())
		}
		if err != nil {
			return err
		}
		n++
	}
	return nil
}

// bulkFilter says what an act is, as the command line does.
func bulkFilter(a bulk.Act) string {
	text := "poison " + a.Verb
	for _, f := range [][2]string{{"queue", a.Filter.Queue}, {"kind", a.Filter.Kind}, {"reason", a.Filter.Reason}, {"fingerprint", a.Filter.Print}} {
		if f[1] != "" {
			text += " --" + f[0] + " " + act.ShellWord(f[1])
		}
	}
	if a.Filter.Kind == "" && a.Filter.Reason == "" && a.Filter.Print == "" {
		text += " --all"
	}
	if !a.Filter.Before.IsZero() {
		text += " --before " + a.Filter.Before.Format(time.RFC3339)
	}
	return text
}

// bulkState says whether anybody does an act.
func bulkState(a bulk.Act) string {
	switch {
	case a.Died():
		return "its process has died"
	case a.State == bulk.Cancelled && !a.Over():
		return "to be cancelled"
	case a.State != bulk.Running:
		return string(a.State)
	case a.Driver == "":
		return "waits"
	}
	return "runs"
}

func tellBulk(c *act.Call, a bulk.Act) error {
	set := ""
	if a.SetBy != "" {
		set = fmt.Sprintf("%s by %s", act.Ago(a.Set), a.SetBy)
	}
	ended, rate := "", ""
	if a.Over() {
		ended = act.Clock(a.Ended)
	}
	if a.Rate > 0 {
		rate = fmt.Sprintf("%.0f messages a second", a.Rate)
	}
	parts := []act.Part{
		{Name: "Bulk act", Value: act.Link{Text: a.ID, Act: "bulk show", With: map[string]string{"id": a.ID}}}, {Name: "Act", Value: bulkFilter(a)},
		{Name: "State", Value: bulkState(a)}, {Name: "State set", Value: set}, {Name: "Because", Value: a.SetWhy}, {Name: "Result", Value: a.Result()},
		{Name: "Looked at", Value: fmt.Sprintf("%d of %d messages that were there", a.Looked, a.Chosen)}, {Name: "Rate", Value: rate},
		{Name: "Asked", Value: act.Clock(a.Asked)}, {Name: "By", Value: a.By}, {Name: "Why", Value: a.Why}, {Name: "Done by", Value: a.Driver}, {Name: "Ended", Value: ended},
	}
	for _, f := range a.Faults {
		parts = append(parts, act.Part{Name: "Fault", Value: f})
	}
	return c.Thing(newBulk(a, ""), parts, "")
}

// get reads the act that is named.
func (in *bulkInput) get(ctx context.Context, c *act.Call) (bulk.Act, error) {
	a, err := bulk.Get(ctx, c.Store, in.id)
	return a, in.told(err)
}

func (in *bulkInput) told(err error) error {
	if errors.Is(err, storage.ErrNotFound) {
		return act.Nothing("no bulk act %s", storage.Quote(in.id))
	}
	return err
}

// setBulk sets the state of an act. On a command line it then does what there is to do.
func setBulk(state bulk.State) func(context.Context, *act.Call, *bulkInput) error {
	return func(ctx context.Context, c *act.Call, in *bulkInput) error {
		a, err := bulk.Set(ctx, c.Store, in.id, state, c.By, c.Why)
		switch {
		case errors.Is(err, bulk.ErrOver):
			return fmt.Errorf("%w: it is %s. %s", err, bulkState(a), a.Result())
		case err != nil:
			return in.told(err)
		case c.Wake != nil:
			c.Came(act.IsAsked)
			c.Wake()
		default:
			bar := c.Begin(settlings()[a.Verb].does, a.Chosen)
			defer bar.End()
			a, err = followBulk(ctx, c, a, bulk.Follower{Moved: lookedAt(bar, a.Looked)})
		}
		if err != nil {
			return err
		}
		if err := tellBulk(c, a); err != nil || a.Failed == 0 || !a.Over() {
			return err
		}
		return fmt.Errorf("%s not settled, still in the poison queue", act.Count(a.Failed, "message"))
	}
}

// lookedAt moves a bar as an act goes on.
func lookedAt(bar act.Progress, before int) func(bulk.Act) {
	var mu sync.Mutex
	return func(a bulk.Act) {
		mu.Lock()
		defer mu.Unlock()
		if n := a.Looked - before; n > 0 {
			bar.Add(n)
			before = a.Looked
		}
	}
}

// errUntold stops an act whose findings can't be written.
var errUntold = errors.New("what becomes of the messages can't be told")

// followBulk does an act while somebody waits. A signal pauses the act.
func followBulk(ctx context.Context, c *act.Call, a bulk.Act, f bulk.Follower) (bulk.Act, error) {
	f.Stopped = func() (string, string) { return c.By, "its command line was stopped" }
	a, err := (&bulk.Driver{Channels: c.Channels}).Follow(ctx, a.ID, f)
	rest := fmt.Sprintf("%s bulk resume %s goes on, and bulk cancel ends it", c.Command, a.ID)
	switch {
	case err == nil:
	case errors.Is(context.Cause(ctx), errUntold):
		err = fmt.Errorf("%w. The act is paused. %s", context.Cause(ctx), rest)
	case ctx.Err() != nil:
		err = fmt.Errorf("stopped by a signal after %d of %s; the others are unchanged. %s", a.Done, act.Count(a.Chosen, "message"), rest)
	case errors.Is(err, storage.ErrUnavailable), errors.Is(err, storage.ErrThrottled):
		err = fmt.Errorf("%w. The other messages are unchanged; when the store can be reached, %s", err, rest)
	}
	return a, err
}

// ask makes the bulk act.
func (s settling) ask(ctx context.Context, c *act.Call, in *settleInput) (bulk.Act, error) {
	a, err := bulk.Ask(ctx, c, s.verb, in.filter())
	if err == nil {
		c.GoesOn()
	}
	return a, err
}

// again tells of the bulk act of an ID, which has ended.
func again(ctx context.Context, c *act.Call) (told bool, err error) {
	a, err := bulk.Get(ctx, c.Store, c.ID)
	switch {
	case errors.Is(err, storage.ErrNotFound): // messages were named
		return false, nil
	case err != nil:
		return false, err
	}
	if a.Failed == 0 { // else the act fails again, and the error says so
		c.Note("This was done before: %s", a.Result())
	}
	return true, tellBulk(c, a)
}

// begin has a bulk act done in the background.
func (s settling) begin(ctx context.Context, c *act.Call, in *settleInput) error {
	a, err := s.ask(ctx, c, in)
	if err != nil {
		return err
	}
	c.Wake()
	if a.Chosen == 0 {
		c.Came(act.IsNothing)
		c.Note("no message stands in the poison queues that are meant, so none was chosen.")
		return tellBulk(c, a)
	}
	c.Came(act.IsBegun)
	c.Note("it goes on in the background: %s bulk show %s tells how far it has come.", c.Command, a.ID)
	return tellBulk(c, a)
}

// many does a bulk act, and tells what becomes of its messages. entries are those of a moment ago.
func (s settling) many(ctx context.Context, c *act.Call, in *settleInput, entries []poisoned.Entry) error {
	a, err := s.ask(ctx, c, in)
	if err != nil {
		return err
	}
	l := s.ledger(c, entries)
	defer l.bar.End()
	halts := map[string]*poisoned.Halt{}
	for _, e := range entries {
		if e.Halt != nil {
			halts[e.Queue+"/"+e.Key] = e.Halt
		}
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	a, err = followBulk(ctx, c, a, bulk.Follower{Settled: func(e poisoned.Entry, fault error) {
		e.Halt = halts[e.Queue+"/"+e.Key]
		if err := l.settled(e, fault); err != nil {
			stop(fmt.Errorf("%w: %w", errUntold, err))
		}
	}})
	l.bar.End()
	poisoned.TellHalts(c, l.halts, s.tell)
	return errors.Join(err, l.close(), c.Say(nil, "%s %s.", s.did, act.Count(a.Done, "message")))
}
