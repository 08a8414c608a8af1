package main

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

	"github.com/millrace-go/millrace/cmd/internal/boot"
	"github.com/millrace-go/millrace/poison"
	"github.com/millrace-go/millrace/storage"
)

const (
	atOnce     = 16 // entries under way together
	mostFaults = 10 // that are told for people
)

// What became of an entry, in the words of -json.
const (
	selected  = "selected" // and left alone, with -dry-run
	sentBack  = "sent back"
	discarded = "discarded"
	gone      = "gone"    // somebody else was quicker
	changed   = "changed" // came in anew since it was read, and stays
	failed    = "failed"
)

// settled is what -json prints of an entry that was acted on.
type settled struct {
	entry
	Result string `json:"result"`
	Error  string `json:"error,omitempty"`
}

// checkSelection refuses a call that doesn't say, by at least one of -id, -kind, -reason and -all, which entries it means.
func checkSelection(verb string, o options) error {
	some := len(o.ids) > 0 || o.kind != "" || o.reason != ""
	switch {
	case some && o.all:
		return usage("%s: want -all, or some by -id, -kind or -reason, not both", verb)
	case !some && !o.all && o.queue != "":
		return usage("%s: which ones of queue %s? Add -id, -kind, -reason or -all", verb, storage.Quote(o.queue))
	case !some && !o.all:
		return usage("%s: which ones? Name them by -id, -kind or -reason, or say -all. millrace poison list shows what there is", verb)
	}
	return nil
}

// checkDiscard also refuses a call that doesn't say whether it is meant, whatever there is to discard: a script that lacks -yes
// shall fail the first time.
func checkDiscard(verb string, o options) error {
	switch err := checkSelection(verb, o); {
	case err != nil:
		return err
	case o.yes && o.dryRun:
		return usage("%s: want -yes or -dry-run, not both", verb)
	case !o.yes && !o.dryRun:
		return usage("%s: this would delete messages for good. -yes does it; -dry-run shows which ones", verb)
	}
	return nil
}

// pickSelected picks the entries to act on, and shows them in a dry run.
func (c *call) pickSelected(ctx context.Context) (picked, error) {
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
func poisonRetry(ctx context.Context, c *call) error {
	p, err := c.pickSelected(ctx)
	if err != nil {
		return err
	}
	c.warn(p.entries)
	if c.dryRun {
		return c.conclude("Would send back %s.\n", len(p.entries), p, nil)
	}
	done, err := c.each(ctx, "Sending back", p.entries, sentBack, func(ctx context.Context, e entry) error {
		return poison.At(c.channels, e.Queue).Retry(ctx, e.Key)
	})
	return c.conclude("Sent back %s.\n", done, p, err)
}

// poisonDiscard deletes entries.
func poisonDiscard(ctx context.Context, c *call) error {
	p, err := c.pickSelected(ctx)
	if err != nil {
		return err
	}
	if c.dryRun {
		return c.conclude("Would discard %s.\n", len(p.entries), p, nil)
	}
	done, err := c.each(ctx, "Discarding", p.entries, discarded, c.discard)
	return c.conclude("Discarded %s.\n", done, p, err)
}

// discard deletes the entry that was read.
func (c *call) discard(ctx context.Context, e entry) error {
	return poison.At(c.channels, e.Queue).DiscardIf(ctx, e.Key, e.etag)
}

// conclude says how many, for people, and returns what else there is to say.
func (c *call) conclude(format string, n int, p picked, err error) error {
	if !c.json && (len(p.entries) > 0 || p.missing == nil) {
		c.out.printf(format, count(n, "message"))
	}
	if err != nil && p.missing != nil {
		return fmt.Errorf("%w\n%v", err, p.missing) // what failed counts
	}
	return errors.Join(err, p.missing)
}

// warn says what a retry won't mend.
func (c *call) warn(entries []entry) {
	old, unrouted := 0, map[string]bool{}
	for _, e := range entries {
		if e.Old {
			old++
		}
		if !c.routed(e.Queue) {
			unrouted[e.Queue] = true
		}
	}
	if old > 0 {
		_, _ = fmt.Fprintf(c.progress, "Note: %s older than 30 days by the ID. Where nobody can tell any more whether it was applied it comes back here, as too old to judge.\n", count(old, "message"))
	}
	for _, q := range slices.Sorted(maps.Keys(unrouted)) {
		_, _ = fmt.Fprintf(c.progress, "Note: queue %s is in no route. Is there still a worker for it?\n", boot.Clean(q))
	}
}

// each acts on entries, some at a time, and returns how many came to the result. One that fails doesn't stop the others, but a store
// that can't be reached does, and the end of ctx, which lets those under way finish.
func (c *call) each(ctx context.Context, what string, entries []entry, well string, act func(context.Context, entry) error) (done int, err error) {
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
			case errors.Is(err, poison.ErrBodyLeft): // told, and done
			case err != nil:
				result = failed
			}
			bar.add(1)
			mu.Lock()
			defer mu.Unlock()
			results[result]++
			line := settled{entry: e, Result: result}
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
				return fmt.Errorf("%w. What is left is still there; say it again when the store can be reached", err)
			}
			return nil
		})
	}
	err = g.Wait()
	bar.end()
	if err == nil && ctx.Err() != nil {
		err = fmt.Errorf("stopped by a signal after %d of %s; what is left is still there", results[well], count(len(entries), "message"))
	}
	if n := results[gone]; n > 0 {
		_, _ = fmt.Fprintf(c.progress, "Note: %s gone meanwhile.\n", count(n, "message"))
	}
	return results[well], errors.Join(err, tellFaults(c.progress, faults, results[changed]+results[failed]))
}

// tellFaults writes the first faults, and returns how many messages are still there.
func tellFaults(w io.Writer, faults []string, left int) error {
	if len(faults) == 0 {
		return nil
	}
	told := faults[:min(len(faults), mostFaults)]
	_, _ = fmt.Fprintf(w, "%s\n", boot.CleanLines(strings.Join(told, "\n")))
	if left == 0 {
		return fmt.Errorf("%s discarded, but not wholly: the bodies that are named above are left", count(len(faults), "message"))
	}
	return fmt.Errorf("%s not settled, and still there", count(left, "message"))
}
