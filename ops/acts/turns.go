package acts

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/millrace-go/millrace/coord/keylock"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/internal/look"
	"github.com/millrace-go/millrace/storage"
)

// A Turn is a key of a queue whose messages take turns.
type Turn struct {
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

// A TurnReleased is a key that was released.
type TurnReleased struct {
	Queue  string `json:"queue"`
	Key    string `json:"key"`
	Result string `json:"result"` // released or unchanged
}

// A turnInput is what acts on the keys of a queue take.
type turnInput struct {
	queue, key string
	page       act.Page
	all        bool
}

func turnActs() []*act.Act {
	return []*act.Act{
		act.New(act.Act{Noun: "turns", Verb: "list", Role: act.Viewer, Reveals: true, About: "list the keys of a queue that are held, halted, or wait for a message",
			More: "It is for queues with handlers.OneAtATime or handlers.ReactInOrder. STATE is halted, gap (an event waits for one that has not come), " +
				"waiting (a message comes first, and is tried again), held (a process handles one), or free. The holder may have died: then others " +
				"take over. SKIPPED counts the messages that others went past. Keys may be personal.",
		}, func(in *turnInput) []act.Field {
			return append(act.List(&in.page, "keys", "keys"), queueField(&in.queue), act.Flag(&in.all, "all", "also keys that are free"))
		}, listTurns),
		act.New(act.Act{Noun: "turns", Verb: "release", Role: act.Admin, Once: true, Why: act.Must, About: "let the messages of a key go on",
			More: "They go past what the key waits for: the message that halted it, or one that doesn't come. To handle that message first, send it " +
				"back instead (poison retry): a halted key goes on by itself when it is done. A key that doesn't wait stays as it is.",
		}, func(in *turnInput) []act.Field {
			return []act.Field{queueField(&in.queue), act.Text(&in.key, "key", "the key").At("KEY").With(storage.CheckKey)}
		}, releaseTurn),
	}
}

func listTurns(ctx context.Context, c *act.Call, in *turnInput) error {
	if err := checkTurnQueue(ctx, c.Desk, in.queue); err != nil {
		return err
	}
	list := act.Listing[keylock.Info]{
		None: "No key is held, is halted or waits.", Head: []string{"KEY", "STATE", "WHY", "FENCE", "SKIPPED"},
		Name: func(x keylock.Info) string { return x.Key },
		Row: func(x keylock.Info) (any, []any) {
			word, why := look.TurnState(x, func(text string) string { return c.Fault(text) })
			if h := x.State.Halted; h != nil {
				halted := *h
				halted.Why = c.Fault(h.Why)
				x.State.Halted = &halted
			}
			line := Turn{Queue: in.queue, Key: x.Key, State: word, Fence: x.Fence, At: act.Maybe(x.At),
				First: x.State.First, Gap: x.State.Gap, Halted: x.State.Halted, Skipped: x.State.Skipped, Released: x.State.Released}
			if x.Held {
				line.Holder = &x.Holder
			}
			var skipped any
			if x.State.Skipped != nil {
				skipped = x.State.Skipped.Number
			}
			key := act.Link{Text: x.Key, Act: "turns list", With: map[string]string{"queue": in.queue, "prefix": x.Key}}
			return line, []any{key, word, act.Short(why), x.Fence, skipped}
		},
		Corrupt: func(x keylock.Info, fault string) any {
			return Turn{Queue: in.queue, Key: x.Key, State: act.Corrupt, Error: fault}
		},
	}
	if in.all {
		list.None = "No keys."
	}
	return list.Tell(c, in.page, in.keys(ctx, c.Store))
}

// checkTurnQueue refuses a queue that nobody knows and that has no keys: its name is misspelt.
func checkTurnQueue(ctx context.Context, d *act.Desk, queue string) error {
	unknown := checkKnown(ctx, d, []string{queue}, nil)
	if unknown == nil {
		return nil
	}
	for range keylock.List(ctx, d.Store, queue, "") {
		return nil // the list shows it, also if it can't be read
	}
	return unknown
}

// keys yields the keys that are selected.
func (in *turnInput) keys(ctx context.Context, s *storage.Store) iter.Seq2[keylock.Info, error] {
	return func(yield func(keylock.Info, error) bool) {
		for x, err := range keylock.List(ctx, s, in.queue, in.page.After) {
			if word, _ := look.TurnState(x, act.Short); err == nil && word == "free" && !in.all {
				continue
			}
			if !yield(x, err) {
				return
			}
		}
	}
}

func releaseTurn(ctx context.Context, c *act.Call, in *turnInput) error {
	before, goesOn, err := keylock.Release(ctx, c.Store, in.queue, in.key, keylock.Note{By: c.By, Why: c.Why})
	name := storage.Quote(in.key)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		if err := checkTurnQueue(ctx, c.Desk, in.queue); err != nil {
			return err
		}
		return act.Nothing("no key %s in queue %s has ever had a turn; %s turns list %s --all shows those that have", name, storage.Quote(in.queue), c.Command, act.ShellWord(in.queue))
	case err != nil:
		return err
	}
	line := TurnReleased{Queue: in.queue, Key: in.key, Result: "released"}
	_, why := look.TurnState(before, func(text string) string { return c.Fault(text) })
	switch {
	case !goesOn:
		line.Result = unchanged
		c.Came(act.IsNothing)
		return c.Say(line, "Key %s waits for nothing.", name)
	case before.State.Halted == nil:
		return c.Say(line, "Key %s goes on. It waited: %s.", name, why)
	}
	return c.Say(line, "Key %s goes on. It was stopped %s. Messages that wait come again within as long as it was stopped: a minute at least, and half an hour at most.", name, why)
}
