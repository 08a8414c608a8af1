package operator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/millrace-go/millrace/host/internal/boot"
	"github.com/millrace-go/millrace/poison"
	"github.com/millrace-go/millrace/storage"
)

const (
	atOnce     = 16 // entries in progress together
	mostFaults = 10 // that are printed for people
)

// The results of an entry, in the words of -json.
const (
	selected  = "selected" // left alone, with -dry-run
	sentBack  = "sent back"
	discarded = "discarded"
	gone      = "gone"    // somebody else was quicker
	changed   = "changed" // replaced since it was read; the new entry stays
	failed    = "failed"
)

// settled is what -json prints of an entry after a retry or discard.
type settled struct {
	entry
	Result string `json:"result"`
	Halted string `json:"halted,omitempty"` // the key of the queue that the message has halted: see turns release
	Error  string `json:"error,omitempty"`
}

// checkSelection refuses a call without a selection: it needs at least one of -id, -kind, -reason and -all.
func (t tool) checkSelection(verb string, o options) error {
	some := len(o.ids) > 0 || o.kind != "" || o.reason != ""
	switch {
	case some && o.all:
		return usage("%s: want either -all, or some of -id, -kind and -reason", verb)
	case !some && !o.all && o.queue != "":
		return usage("%s: no messages of queue %s are selected: add -id, -kind, -reason or -all", verb, storage.Quote(o.queue))
	case !some && !o.all:
		return usage("%s: no messages are selected: add -id, -kind, -reason or -all. %s poison list shows the messages", verb, t.Command)
	}
	return nil
}

// checkDiscard also refuses a call without -yes or -dry-run, even if there is nothing to discard: so a script that
// lacks -yes fails the first time it runs.
func (t tool) checkDiscard(verb string, o options) error {
	switch err := t.checkSelection(verb, o); {
	case err != nil:
		return err
	case o.yes && o.dryRun:
		return usage("%s: want -yes or -dry-run, not both", verb)
	case !o.yes && !o.dryRun:
		return usage("%s: it deletes messages for good: add -yes to delete them, or -dry-run to list them", verb)
	}
	return nil
}

// pickSelected picks the entries to act on, and shows them in a dry run.
func (c poisonCall) pickSelected(ctx context.Context) (picked, error) {
	p, err := c.pick(ctx)
	if err != nil || !c.dryRun || len(p.entries) == 0 && p.missing != nil {
		return p, err
	}
	if c.json {
		for _, e := range p.entries {
			if err := c.out.line(settled{entry: e, Result: selected}); err != nil {
				return p, err
			}
		}
		return p, nil
	}
	return p, c.list(p.entries)
}

// poisonRetry sends entries back to their queues.
func poisonRetry(ctx context.Context, x *call) error {
	c := poisonCall{x}
	p, err := c.pickSelected(ctx)
	if err != nil {
		return err
	}
	c.warn(p.entries)
	if c.dryRun {
		return c.conclude("Would send back %s.\n", len(p.entries), p, nil)
	}
	c.noteHalts(ctx, p.entries)
	var w haltWatch
	done, err := c.each(ctx, "Sending back", p.entries, sentBack, w.after(func(ctx context.Context, e entry) error {
		return poison.At(c.channels, e.Queue).Retry(ctx, e.Key)
	}))
	w.tell(c, func(h halt) string { return c.untilDone(h, h.message) })
	return c.conclude("Sent back %s.\n", done, p, err)
}

// poisonDiscard deletes entries.
func poisonDiscard(ctx context.Context, x *call) error {
	c := poisonCall{x}
	p, err := c.pickSelected(ctx)
	if err != nil {
		return err
	}
	if c.dryRun {
		return c.conclude("Would discard %s.\n", len(p.entries), p, nil)
	}
	c.noteHalts(ctx, p.entries)
	var w haltWatch
	done, err := c.each(ctx, "Discarding", p.entries, discarded, w.after(c.discard))
	w.tell(c, func(h halt) string { return c.untilReleased(h, "its other messages wait") })
	return c.conclude("Discarded %s.\n", done, p, err)
}

// discard deletes the entry, unless it was replaced since it was read.
func (c poisonCall) discard(ctx context.Context, e entry) error {
	return poison.At(c.channels, e.Queue).DiscardIf(ctx, e.Key, e.etag)
}

// conclude prints the number of messages for people, and returns the other errors.
func (c poisonCall) conclude(format string, n int, p picked, err error) error {
	if !c.json && (len(p.entries) > 0 || p.missing == nil) {
		c.out.printf(format, count(n, "message"))
	}
	if err != nil && p.missing != nil {
		return fmt.Errorf("%w\n%v", err, p.missing) // the first error decides the exit code
	}
	return errors.Join(err, p.missing)
}

// warn prints what a retry can't repair.
func (c poisonCall) warn(entries []entry) {
	old, compensated, unrouted := 0, 0, map[string]bool{}
	for _, e := range entries {
		if e.Old {
			old++
		}
		if e.compensated {
			compensated++
		}
		if !c.routed(e.Queue) {
			unrouted[e.Queue] = true
		}
	}
	if old > 0 {
		_, _ = fmt.Fprintf(c.progress, "Note: %s with an ID more than 30 days old. If one is too old to tell whether it was applied, it comes back as too old to judge.\n", count(old, "message"))
	}
	if compensated > 0 {
		_, _ = fmt.Fprintf(c.progress, "Note: the program has compensated for %s. After a retry both the message and its compensation may have their effect. %s poison show names what was sent.\n",
			count(compensated, "message"), c.Command)
	}
	for _, q := range slices.Sorted(maps.Keys(unrouted)) {
		_, _ = fmt.Fprintf(c.progress, "Note: queue %s is in no route. Check that a worker still consumes it.\n", boot.Clean(q))
	}
}

// each runs act on entries, some at a time, and returns how many came to the result well. An entry that fails doesn't
// stop the others. A store that can't be reached does, and so does the end of ctx; then the acts in progress still
// finish.
func (c poisonCall) each(ctx context.Context, what string, entries []entry, well string, act func(context.Context, entry) error) (done int, err error) {
	bar := newProgress(c.progress, what, len(entries))
	defer bar.end()
	var mu sync.Mutex
	results := map[string]int{}
	var faults []string
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
			err := act(context.WithoutCancel(ctx), e)
			result, fault := well, err
			switch {
			case errors.Is(err, storage.ErrNotFound):
				result, fault = gone, nil
			case errors.Is(err, storage.ErrPrecondition):
				result = changed
			case errors.Is(err, poison.ErrBodyLeft): // discarded; its error is printed
			case err != nil:
				result = failed
			}
			bar.add(1)
			mu.Lock()
			defer mu.Unlock()
			results[result]++
			line := settled{entry: e, Result: result}
			if e.halts != nil {
				line.Halted = e.halts.key
			}
			if fault != nil {
				line.Error = fault.Error()
				faults = append(faults, fmt.Sprintf("%s %s: %v", e.Queue, e.name(), fault))
			}
			if c.json {
				if err := c.out.line(line); err != nil {
					return err
				}
			}
			if errors.Is(err, storage.ErrUnavailable) || errors.Is(err, storage.ErrThrottled) {
				return fmt.Errorf("%w. The other messages are unchanged; run the command again when the store can be reached", err)
			}
			return nil
		})
	}
	err = g.Wait()
	bar.end()
	if err == nil && ctx.Err() != nil {
		err = fmt.Errorf("stopped by a signal after %d of %s; the others are unchanged", results[well], count(len(entries), "message"))
	}
	if n := results[gone]; n > 0 {
		_, _ = fmt.Fprintf(c.progress, "Note: %s already removed by somebody else.\n", count(n, "message"))
	}
	return results[well], errors.Join(err, tellFaults(c.progress, faults, results[changed]+results[failed]))
}

// tellFaults prints the first faults, and returns an error with the number of messages that are still there.
func tellFaults(w io.Writer, faults []string, left int) error {
	if len(faults) == 0 {
		return nil
	}
	told := faults[:min(len(faults), mostFaults)]
	_, _ = fmt.Fprintf(w, "%s\n", boot.CleanLines(strings.Join(told, "\n")))
	if left == 0 {
		return fmt.Errorf("%s discarded, but the claim-checked bodies named above are still stored", count(len(faults), "message"))
	}
	return fmt.Errorf("%s not settled, still in the poison queue", count(left, "message"))
}
