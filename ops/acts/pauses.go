package acts

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/millrace-go/millrace/coord/pause"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/internal/look"
	"github.com/millrace-go/millrace/storage"
)

// A Pause keeps a queue from being consumed.
type Pause struct {
	By    string     `json:"by"`
	Why   string     `json:"why"`
	Since time.Time  `json:"since"`
	Until *time.Time `json:"until"` // null: until somebody resumes the queue
}

func newPause(p pause.Pause) *Pause {
	return &Pause{By: p.By, Why: p.Why, Since: p.Since, Until: act.Maybe(p.Until)}
}

// A Held is a queue that was paused or resumed.
type Held struct {
	Queue string `json:"queue"`
	// Result is paused, resumed, unchanged, or repaired: the pauses could not be read, and this queue's is one of those
	// that are in force now.
	Result string `json:"result"`
	Paused *Pause `json:"paused"` // null: it is consumed
}

// The results of pausing and resuming, beside unchanged and repaired.
const (
	queuePaused  = "paused"
	queueResumed = "resumed"
)

// A pauseInput is what pausing and resuming take.
type pauseInput struct {
	queues []string
	length time.Duration
	until  time.Time
	repair bool
}

// Check implements the check of an input.
func (in *pauseInput) Check() error {
	switch {
	case in.length > 0 && !in.until.IsZero():
		return act.Usage("want --for or --until, not both")
	case !in.until.IsZero() && time.Until(in.until) < time.Second:
		return act.UsageOf("until", "%s has passed, or is less than a second ahead", act.Clock(in.until))
	}
	return nil
}

func (in *pauseInput) repairField() act.Field {
	return act.Flag(&in.repair, "repair", "replace pauses that can't be read: queues that are not named here are consumed again")
}

// pauseActs are the acts that pause and resume queues.
func pauseActs() []*act.Act {
	return []*act.Act{
		act.New(act.Act{Noun: "queues", Verb: "pause", Role: act.Operator, Why: act.Must, About: "keep queues from being consumed",
			More: "Workers take no more messages off the queues: at once where the store rings, else within half a minute. Handlers that run are " +
				"finished. Messages can be sent, and wait. It holds until queues resume, or for the time of --for or --until, also over restarts. " +
				"A queue that is paused already gets the new time and note. Workers of package host obey; others need package worker/limiters.",
		}, func(in *pauseInput) []act.Field {
			return []act.Field{
				act.Texts(&in.queues, "queues", "the queues").At("QUEUE").From(queueNames),
				act.Duration(&in.length, "for", "pause them for this `TIME`: 90s, 30m or 12h, for example, up to 3650 days", time.Second, act.MaxAhead),
				act.Moment(&in.until, "until", "pause them until this `TIME`"),
				in.repairField(),
			}
		}, pauseQueues),
		act.New(act.Act{Noun: "queues", Verb: "resume", Role: act.Operator, Why: act.May, About: "let queues that are paused be consumed again",
			More: "A queue that isn't paused stays as it is.",
		}, func(in *pauseInput) []act.Field {
			return []act.Field{act.Texts(&in.queues, "queues", "the queues").At("QUEUE").From(pausedNames), in.repairField()}
		}, resumeQueues),
	}
}

// pausedNames are the paused queues, for completion.
func pausedNames(ctx context.Context, d *act.Desk) []string {
	all, _ := look.Pauses(ctx, d) // nobody could read an error
	return slices.Sorted(maps.Keys(all))
}

// notedPauses is readPauses for an act that tells more than pauses: of a document that can't be read it makes a note.
func notedPauses(ctx context.Context, c *act.Call) (map[string]pause.Pause, error) {
	all, err := look.Pauses(ctx, c.Desk)
	if errors.Is(err, pause.ErrUnreadable) {
		c.Note("%v. Workers go on with what they knew; %s queues resume QUEUE --repair ends all pauses.", err, c.Command)
		return nil, nil
	}
	return all, err
}

func pauseQueues(ctx context.Context, c *act.Call, in *pauseInput) error {
	length := in.length
	if !in.until.IsZero() {
		length = time.Until(in.until)
	}
	note := pause.Note{By: c.By, Why: c.Why}
	return hold(ctx, c, in, queuePaused, func(p *pause.Pauses, queues []string) error {
		if in.repair {
			return p.Repair(ctx, queues, length, note)
		}
		return p.Pause(ctx, queues, length, note)
	})
}

func resumeQueues(ctx context.Context, c *act.Call, in *pauseInput) error {
	return hold(ctx, c, in, queueResumed, func(p *pause.Pauses, queues []string) error {
		if in.repair {
			return p.Repair(ctx, nil, 0, pause.Note{By: c.By})
		}
		return p.Resume(ctx, queues...)
	})
}

// hold changes the pauses of the queues that are named, and tells how each is then.
func hold(ctx context.Context, c *act.Call, in *pauseInput, result string, change func(p *pause.Pauses, queues []string) error) error {
	p, err := pause.New(c.Store, pause.Config{})
	if err != nil {
		return err
	}
	before, err := p.List(ctx)
	if err != nil && !errors.Is(err, pause.ErrUnreadable) {
		return err
	}
	queues := slices.Compact(slices.Sorted(slices.Values(in.queues)))
	if err := checkKnown(ctx, c.Desk, queues, before); err != nil {
		return err
	}
	switch err := change(p, queues); {
	case errors.Is(err, pause.ErrUnreadable):
		return fmt.Errorf("%w. Nothing is changed, and workers go on with what they knew. Name all queues that shall be paused, and add --repair: "+
			"all others are consumed again. Or resume all by %s queues resume QUEUE --repair", err, c.Command)
	case err != nil:
		return err
	}
	now, err := p.List(ctx)
	if err != nil {
		return fmt.Errorf("the pauses are changed; %w", err)
	}
	changed := in.repair
	for _, q := range queues {
		line := Held{Queue: q, Result: result}
		_, was := before[q]
		paused, is := now[q]
		if is {
			line.Paused = newPause(paused)
		}
		switch {
		case in.repair:
			line.Result = repaired
		case !was && !is:
			line.Result = unchanged
		}
		changed = changed || line.Result != unchanged
		if err := c.Say(line, "%s", toldHold(line, paused, is)); err != nil {
			return err
		}
	}
	if !changed {
		c.Came(act.IsNothing)
	}
	if in.repair {
		return c.Say(nil, "The pauses could not be read. They are replaced: no other queue is paused.")
	}
	return nil
}

// checkKnown refuses queues that nobody knows: a pause of a mistyped name would have no effect.
func checkKnown(ctx context.Context, d *act.Desk, queues []string, paused map[string]pause.Pause) error {
	names, _, err := look.Queues(ctx, d)
	if err != nil {
		return err
	}
	for _, q := range queues {
		if _, ok := paused[q]; ok || slices.Contains(names, q) {
			continue
		}
		if len(names) == 0 {
			return act.Usage("unknown queue %s: no program has published its queues in this store", storage.Quote(q))
		}
		return act.Usage("unknown queue %s; want one of %s", storage.Quote(q), strings.Join(names, ", "))
	}
	return nil
}

// toldHold tells people what has become of a queue.
func toldHold(line Held, p pause.Pause, is bool) string {
	switch name := storage.Quote(line.Queue); {
	case is:
		return fmt.Sprintf("Queue %s is paused%s.", name, look.UntilWhen(p))
	case line.Result == unchanged:
		return fmt.Sprintf("Queue %s was not paused.", name)
	default:
		return fmt.Sprintf("Queue %s is consumed again.", name)
	}
}
