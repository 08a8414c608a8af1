package acts

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/internal/bulk"
	"github.com/millrace-go/millrace/ops/internal/look"
	"github.com/millrace-go/millrace/ops/internal/poisoned"
	"github.com/millrace-go/millrace/poison"
	"github.com/millrace-go/millrace/storage"
)

// A Settled is a message in a poison queue after a retry or discard.
type Settled struct {
	Poisoned
	Result string `json:"result"`           // sent back, discarded, selected, gone, changed or failed
	Halted string `json:"halted,omitempty"` // the key of the queue that the message has halted: see turns release
	Error  string `json:"error,omitempty"`
}

// The results of settling, beside selected.
const (
	sentBack  = "sent back"
	discarded = "discarded"
	gone      = "gone"    // somebody else was quicker
	changed   = "changed" // replaced since it was read; the new entry stays
	failed    = "failed"
)

// atOnce is how many entries are in progress together.
const atOnce = 16

// A settleInput is what retry and discard take.
type settleInput struct {
	selection
	all bool
}

func (in *settleInput) fields() []act.Field {
	all := append(in.selection.fields(), act.Flag(&in.all, "all", "all messages, or all of --queue"), in.beforeField())
	act.Selecting(all[2:]) // but the queue and the ID
	return all
}

// Check implements the check of an input. It refuses a call without a selection.
func (in *settleInput) Check() error {
	some := len(in.IDs) > 0 || in.Kind != "" || in.Reason != "" || in.Print != ""
	switch {
	case some && in.all:
		return act.Usage("want either --all, or some of --id, --kind, --reason and --fingerprint")
	case !some && !in.all && in.Queue != "":
		return act.Usage("no messages of queue %s are selected: add --id, --kind, --reason, --fingerprint or --all", storage.Quote(in.Queue))
	case !some && !in.all:
		return act.Usage("no messages are selected: add --id, --kind, --reason, --fingerprint or --all. poison list shows the messages")
	}
	return nil
}

// settleActs are the acts that settle messages.
func settleActs() []*act.Act {
	return []*act.Act{
		act.New(act.Act{Noun: "poison", Verb: bulk.Retry, Again: again, Role: act.Operator, Why: act.May, Sure: act.May, About: "send messages back to their queues",
			More: "Remove the cause of the failure first: the message starts with no attempts. It keeps its ID, so a document or ReactOnce " +
				"takes it once; any other reaction runs again. A key that the message has halted goes on when it is done. " + moreOfMany,
		}, (*settleInput).fields, settlings()[bulk.Retry].run),
		act.New(act.Act{Noun: "poison", Verb: bulk.Discard, Again: again, Role: act.Admin, Why: act.Must, Sure: act.Must, About: "delete messages from the poison queues for good",
			More: "They are then never handled. A key that one of them has halted stays halted until turns release. An entry that was replaced " +
				"after it was read stays. --yes or --dry-run is required, even if there is nothing to discard. " + moreOfMany,
		}, (*settleInput).fields, settlings()[bulk.Discard].run),
	}
}

const moreOfMany = "Without --id it is a bulk act of all that match: of what is in the poison queues now, and of nothing that comes later. bulk list shows such acts."

// settlings are the ways to settle messages, by verb.
func settlings() map[string]settling {
	return map[string]settling{
		bulk.Retry: {
			verb: bulk.Retry, does: "Sending back", did: "Sent back", would: "Would send back", result: sentBack, warn: warnOfRetry,
			one:  func(ctx context.Context, from *poison.Queue, e poisoned.Entry) error { return from.Retry(ctx, e.Key) },
			tell: func(command string, h poisoned.Halt) string { return h.UntilDone(command, h.Message) },
		},
		bulk.Discard: {
			verb: bulk.Discard, does: "Discarding", did: "Discarded", would: "Would discard", result: discarded, warn: func(*act.Call, []poisoned.Entry) {},
			one: func(ctx context.Context, from *poison.Queue, e poisoned.Entry) error {
				return from.DiscardIf(ctx, e.Key, e.ETag)
			},
			tell: func(command string, h poisoned.Halt) string {
				return h.UntilReleased(command, "its other messages wait")
			},
		},
	}
}

// settling is a way to settle messages.
type settling struct {
	verb                     string // of a bulk act
	does, did, would, result string

	warn func(*act.Call, []poisoned.Entry)                          // says beforehand what it can't do
	one  func(context.Context, *poison.Queue, poisoned.Entry) error // settles an entry
	tell func(command string, h poisoned.Halt) string               // says until when a key stays halted
}

// run settles the entries that are selected, or shows them in a dry run. All that match a filter are settled by a bulk
// act.
func (s settling) run(ctx context.Context, c *act.Call, in *settleInput) error {
	many := len(in.IDs) == 0 && !c.DryRun
	if many && c.Wake != nil {
		return s.begin(ctx, c, in)
	}
	if len(in.IDs) == 0 && c.DryRun && c.Wake != nil {
		return s.show(ctx, c, in)
	}
	p, err := in.Pick(ctx, c)
	if err != nil {
		return err
	}
	s.warn(c, p.Entries)
	n, did := len(p.Entries), s.would
	if many && n > 0 {
		poisoned.NoteHalts(ctx, c, p.Entries)
		return s.many(ctx, c, in, p.Entries)
	}
	if c.DryRun {
		err = tellEntries(c, p.Entries, func(e poisoned.Entry) any { return Settled{Poisoned: newPoisoned(e), Result: selected} })
	} else {
		poisoned.NoteHalts(ctx, c, p.Entries)
		var halts []poisoned.Halt
		n, halts, err = s.each(ctx, c, p.Entries)
		did = s.did
		poisoned.TellHalts(c, halts, s.tell)
	}
	if len(p.Entries) > 0 || p.Missing == nil {
		err = errors.Join(err, c.Say(nil, "%s %s.", did, act.Count(n, "message")))
	}
	if err != nil && p.Missing != nil {
		return fmt.Errorf("%w\n%v", err, p.Missing) // the first error decides the exit code
	}
	return errors.Join(err, p.Missing)
}

// These bound what is shown of an act on all that match before the act is done. A person waits for the answer, and the
// act itself reads all messages in the background.
const (
	mostShownFirst  = 1000 // messages that are read
	mostListedFirst = 100  // and those of them that are listed
)

// show shows what an act on all that match would do, within a bound. The act under this ID then takes no message that
// comes later.
func (s settling) show(ctx context.Context, c *act.Call, in *settleInput) error {
	if c.ID != "" {
		if err := bulk.Show(ctx, c, in.filter()); err != nil {
			return err
		}
	}
	p, more, err := in.First(ctx, c, mostShownFirst)
	if err != nil {
		return err
	}
	s.warn(c, p.Entries)
	listed := p.Entries[:min(len(p.Entries), mostListedFirst)]
	if err := tellEntries(c, listed, func(e poisoned.Entry) any { return Settled{Poisoned: newPoisoned(e), Result: selected} }); err != nil {
		return err
	}
	if len(listed) < len(p.Entries) {
		c.Note("%d of them are listed.", len(listed))
	}
	count := act.Count(len(p.Entries), "message")
	if more {
		count = "at least " + count
		c.Note("only the first %d messages were looked at. The act looks at all of them.", mostShownFirst)
	}
	if len(p.Entries) > 0 || p.Missing == nil {
		err = c.Say(nil, "%s %s.", s.would, count)
	}
	return errors.Join(err, p.Missing)
}

// filter is the selection of a bulk act.
func (in *settleInput) filter() bulk.Filter {
	return bulk.Filter{Queue: in.Queue, Kind: in.Kind, Reason: in.Reason, Print: in.Print, Before: in.Before}
}

// warnOfRetry says what a retry can't repair.
func warnOfRetry(c *act.Call, entries []poisoned.Entry) {
	old, compensated, unrouted := 0, 0, map[string]bool{}
	for _, e := range entries {
		if e.Old {
			old++
		}
		if len(e.Emitted) > 0 {
			compensated++
		}
		if !look.Routed(c.Desk, e.Queue) {
			unrouted[e.Queue] = true
		}
	}
	if old > 0 {
		c.Note("%s with an ID more than 30 days old. If one is too old to tell whether it was applied, it comes back as too old to judge.", act.Count(old, "message"))
	}
	if compensated > 0 {
		c.Note("the program has compensated for %s. After a retry both the message and its compensation may have their effect. %s poison show names what was sent.",
			act.Count(compensated, "message"), c.Command)
	}
	for _, q := range slices.Sorted(maps.Keys(unrouted)) {
		c.Note("queue %s is in no route. Check that a worker still consumes it.", q)
	}
}

// each settles entries, some at a time, and returns how many came to the result well, and what they have halted. An
// entry that fails doesn't stop the others. A store that can't be reached does, and so does the end of ctx; then the
// entries in progress are still settled.
func (s settling) each(ctx context.Context, c *act.Call, entries []poisoned.Entry) (done int, halts []poisoned.Halt, err error) {
	l := s.ledger(c, entries)
	defer l.bar.End()
	g, running := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for _, e := range entries {
		if running.Err() != nil {
			break
		}
		g.Go(func() error {
			if running.Err() != nil {
				return nil
			}
			err := s.one(context.WithoutCancel(ctx), poison.At(c.Channels, e.Queue), e)
			if err := l.settled(e, err); err != nil {
				return err
			}
			if errors.Is(err, storage.ErrUnavailable) || errors.Is(err, storage.ErrThrottled) {
				return fmt.Errorf("%w. The other messages are unchanged; run the command again when the store can be reached", err)
			}
			return nil
		})
	}
	err = g.Wait()
	l.bar.End()
	done = l.results[s.result]
	if err == nil && ctx.Err() != nil {
		err = fmt.Errorf("stopped by a signal after %d of %s; the others are unchanged", done, act.Count(len(entries), "message"))
	}
	return done, l.halts, errors.Join(err, l.close())
}

// A ledger has what became of messages, and tells each of them.
type ledger struct {
	settling
	c   *act.Call
	bar act.Progress

	mu      sync.Mutex
	results map[string]int
	faults  []string
	halts   []poisoned.Halt // of those that came to the result well
}

func (s settling) ledger(c *act.Call, entries []poisoned.Entry) *ledger {
	return &ledger{settling: s, c: c, bar: c.Begin(s.does, len(entries)), results: map[string]int{}}
}

// settled takes what became of a message. Its own error is one of the sink.
func (l *ledger) settled(e poisoned.Entry, err error) error {
	line := Settled{Poisoned: newPoisoned(e), Result: l.resultOf(err)}
	l.bar.Add(1)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.results[line.Result]++
	if e.Halt != nil {
		line.Halted = e.Halt.Key
		if line.Result == l.result {
			l.halts = append(l.halts, *e.Halt)
		}
	}
	if err != nil && line.Result != gone {
		line.Error = err.Error()
		l.faults = append(l.faults, fmt.Sprintf("%s %s: %v", e.Queue, e.Name(), err))
	}
	return l.c.Say(line, "")
}

// close notes the faults, and returns an error with the number of messages that are still there.
func (l *ledger) close() error {
	if n := l.results[gone]; n > 0 {
		l.c.Note("%s already removed by somebody else.", act.Count(n, "message"))
	}
	return tellFaults(l.c, l.faults, l.results[changed]+l.results[failed])
}

// resultOf says in a word how an entry was settled.
func (s settling) resultOf(err error) string {
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return gone
	case errors.Is(err, storage.ErrPrecondition):
		return changed
	case err == nil, errors.Is(err, poison.ErrBodyLeft): // discarded; the error is told
		return s.result
	}
	return failed
}

// tellFaults notes the first faults, and returns an error with the number of messages that are still there.
func tellFaults(c *act.Call, faults []string, left int) error {
	for _, f := range faults[:min(len(faults), act.MostFaults)] {
		c.Note("%s", f)
	}
	switch {
	case len(faults) == 0:
		return nil
	case left == 0:
		return fmt.Errorf("%s discarded, but the claim-checked bodies named above are still stored", act.Count(len(faults), "message"))
	}
	return fmt.Errorf("%s not settled, still in the poison queue", act.Count(left, "message"))
}
