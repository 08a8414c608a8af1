package operator

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/millrace-go/millrace/coord/keylock"
	"github.com/millrace-go/millrace/host/internal/boot"
	"github.com/millrace-go/millrace/storage"
)

// turnLine is what -json prints of a key that takes turns.
type turnLine struct {
	Queue    string            `json:"queue"`
	Key      string            `json:"key"`
	State    string            `json:"state"`  // free, held, waiting, gap, halted or corrupt
	Holder   *string           `json:"holder"` // null: nobody has the turn
	Fence    int64             `json:"fence"`
	At       *time.Time        `json:"at"` // of the last sign of the holder
	First    *keylock.First    `json:"first"`
	Gap      *keylock.Gap      `json:"gap"`
	Halted   *keylock.Halted   `json:"halted"`
	Skipped  *keylock.Skipped  `json:"skipped"`
	Released *keylock.Released `json:"released"`
	Error    string            `json:"error,omitempty"`
}

// releasedLine is what -json prints of a key that was released.
type releasedLine struct {
	Queue  string `json:"queue"`
	Key    string `json:"key"`
	Result string `json:"result"` // released or unchanged
}

const released = "released"

// turnVerbs are the verbs of the turns of keys.
func turnVerbs() []*verb {
	queues := first(func(c *call) []string { return slices.Sorted(maps.Keys(c.known.queues)) })
	return []*verb{
		{name: "turns list", args: "QUEUE", least: 1, most: 1, about: "list the keys of a queue that are held, halted, or wait for a message", store: true, before: checkQueue, run: turnsList, check: checkList,
			words: queues,
			flags: func(set *flag.FlagSet, o *options) {
				listing("keys", "keys")(set, o)
				set.BoolVar(&o.all, "all", false, "also keys that are free")
			},
			more: "It is for queues with handlers.OneAtATime or handlers.ReactInOrder. STATE is halted, gap (an event waits for one that has not come),\n" +
				"waiting (a message comes first, and is tried again), held (a process handles one), or free. The holder may have died: then others\n" +
				"take over. SKIPPED counts the messages that others went past. Keys may be personal."},
		{name: "turns release", args: "QUEUE KEY", least: 2, most: 2, about: "let the messages of a key go on", store: true, before: checkTurn, run: turnsRelease, check: checkRelease,
			words: queues, flags: noteFlags,
			more: "They go past what the key waits for: the message that halted it, or one that doesn't come. To handle that message first, send it\n" +
				"back instead (poison retry): a halted key goes on by itself when it is done. A key that doesn't wait stays as it is."},
	}
}

func checkQueue(_ context.Context, c *call) error {
	if err := storage.CheckName(c.args[0]); err != nil {
		return usage("QUEUE: %w", err)
	}
	return nil
}

func checkTurn(ctx context.Context, c *call) error {
	if err := checkQueue(ctx, c); err != nil {
		return err
	}
	if err := storage.CheckKey(c.args[1]); err != nil {
		return usage("KEY: %w", err)
	}
	return nil
}

func checkRelease(verb string, o options) error {
	if o.why == "" {
		return usage("%s: tell the others why: add -why TEXT", verb)
	}
	return nil
}

// stateOf says in a word how a key is, and in a few what it waits for.
func stateOf(x keylock.Info) (word, why string) {
	switch s := x.State; {
	case s.Halted != nil:
		return "halted", fmt.Sprintf("by message %s, %s: %s", s.Halted.Message, ago(s.Halted.Since), s.Halted.Why)
	case s.Gap != nil:
		return "gap", fmt.Sprintf("event %d waits for event %d, %s", s.Gap.Sequence, s.Gap.Previous, ago(s.Gap.Since))
	case s.First != nil:
		return "waiting", fmt.Sprintf("for message %s, %s", s.First.Message, ago(s.First.Since))
	case x.Held:
		return "held", fmt.Sprintf("by %s, last seen %s", x.Holder, ago(x.At))
	}
	return "free", ""
}

// turnsList prints the keys of a queue.
func turnsList(ctx context.Context, c *call) error {
	if err := checkTurnQueue(ctx, c); err != nil {
		return err
	}
	head := []string{"KEY", "STATE", "WHY", "FENCE", "SKIPPED"}
	none := "No key is held, is halted or waits."
	if c.all {
		none = "No keys."
	}
	return page(c, none, head, keysOf(ctx, c), func(x keylock.Info) string { return x.Key }, func(x keylock.Info, fault string) (any, []string) {
		line := turnLine{Queue: c.args[0], Key: x.Key, State: corrupt, Error: fault}
		if fault != "" {
			return line, corruptRow(x.Key, len(head))
		}
		word, why := stateOf(x)
		line.State, line.Fence, line.At = word, x.Fence, maybe(x.At)
		line.First, line.Gap, line.Halted, line.Skipped, line.Released = x.State.First, x.State.Gap, x.State.Halted, x.State.Skipped, x.State.Released
		if x.Held {
			line.Holder = &x.Holder
		}
		row := []string{x.Key, word, orUnknown(short(why)), fmt.Sprint(x.Fence), unknown}
		if x.State.Skipped != nil {
			row[4] = fmt.Sprint(x.State.Skipped.Number)
		}
		return line, row
	})
}

// checkTurnQueue refuses a queue that nobody knows and that has no keys: its name is misspelt.
func checkTurnQueue(ctx context.Context, c *call) error {
	unknown := coordCall{c}.checkKnown(ctx, c.args[:1], nil)
	if unknown == nil {
		return nil
	}
	for range keylock.List(ctx, c.store, c.args[0], "") {
		return nil // the list shows it, also if it can't be read
	}
	return unknown
}

// keysOf yields the keys that the flags select.
func keysOf(ctx context.Context, c *call) iter.Seq2[keylock.Info, error] {
	return func(yield func(keylock.Info, error) bool) {
		for x, err := range keylock.List(ctx, c.store, c.args[0], c.after) {
			if word, _ := stateOf(x); err == nil && word == "free" && !c.all {
				continue
			}
			if !yield(x, err) {
				return
			}
		}
	}
}

// turnsRelease lets the messages of a key go on.
func turnsRelease(ctx context.Context, x *call) error {
	c := coordCall{x}
	queue, key := c.args[0], c.args[1]
	before, goesOn, err := keylock.Release(ctx, c.store, queue, key, keylock.Note{By: c.author(), Why: c.why})
	switch {
	case errors.Is(err, storage.ErrNotFound):
		if err := checkTurnQueue(ctx, x); err != nil {
			return err
		}
		return nothing("no key %s in queue %s has ever had a turn; turns list %s -all shows those that have", storage.Quote(key), storage.Quote(queue), boot.ShellWord(queue))
	case err != nil:
		return err
	}
	line := releasedLine{Queue: queue, Key: key, Result: unchanged}
	text := fmt.Sprintf("Key %s waits for nothing.", storage.Quote(key))
	if goesOn {
		_, why := stateOf(before)
		line.Result, text = released, fmt.Sprintf("Key %s goes on. It was stopped %s. Messages that wait come again within as long as it was stopped: "+
			"a minute at least, and half an hour at most.", storage.Quote(key), why)
		if before.State.Halted == nil {
			text = fmt.Sprintf("Key %s goes on. It waited: %s.", storage.Quote(key), why)
		}
	}
	if c.json {
		return c.out.line(line)
	}
	c.out.printf("%s\n", boot.Clean(text))
	return nil
}
