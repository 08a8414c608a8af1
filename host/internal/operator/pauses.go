package operator

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/millrace-go/millrace/coord/pause"
	"github.com/millrace-go/millrace/host/internal/boot"
	"github.com/millrace-go/millrace/storage"
)

// pausedLine is what -json prints of a pause.
type pausedLine struct {
	By    string     `json:"by"`
	Why   string     `json:"why"`
	Since time.Time  `json:"since"`
	Until *time.Time `json:"until"` // null: until somebody resumes the queue
}

func newPausedLine(p pause.Pause) *pausedLine {
	return &pausedLine{By: p.By, Why: p.Why, Since: p.Since, Until: maybe(p.Until)}
}

// heldLine is what -json prints of a queue that was paused or resumed.
type heldLine struct {
	Queue  string      `json:"queue"`
	Result string      `json:"result"`
	Paused *pausedLine `json:"paused"` // null: it is consumed
}

// The results of pausing and resuming, beside unchanged. repaired says that the pauses could not be read, and that this
// queue's is one of those that are in force now.
const (
	queuePaused  = "paused"
	queueResumed = "resumed"
)

// queueVerbs are the verbs of queues.
func queueVerbs(many int) []*verb {
	return []*verb{
		{name: "queues list", alone: true, about: "count the messages of each queue and of its poison queue", store: true, run: queues,
			more: "queues alone is the same. READY can be received now. IN FLIGHT is held by a worker. DELAYED becomes ready later. – means\n" +
				"unknown: a queue in the cloud does not count these separately. CONSUMED BY names the programs whose workers have a handler for\n" +
				"the queue and have published that within two days. Under the table it names the queues that are paused,\n" +
				"and those that their workers leave out at the level of their program."},
		{name: "queues pause", args: "QUEUE…", least: 1, most: many, about: "keep queues from being consumed", store: true, run: queuesPause, check: checkPause,
			words: func(c *call, _ int) []string { return slices.Sorted(maps.Keys(c.known.queues)) },
			more: "Workers take no more messages off the queues: at once where the store rings, else within half a minute. Handlers that run are\n" +
				"finished. Messages can be sent, and wait. It holds until queues resume, or for the time of -for or -until, also over restarts.\n" +
				"A queue that is paused already gets the new time and note. Workers of package host obey; others need package worker/limiters.",
			flags: func(set *flag.FlagSet, o *options) {
				noteFlags(set, o)
				set.Func("for", "pause them for this `TIME`: 90s, 30m or 12h, for example, up to 3650 days", func(s string) (err error) {
					if o.length, err = time.ParseDuration(s); err != nil || o.length < time.Second || o.length > mostDelay {
						return errors.New("want 90s, 30m or 12h, for example, from a second up to 3650 days")
					}
					return nil
				})
				set.Func("until", "pause them until this `TIME`, such as 2026-12-24T18:00:00+01:00 or \"2026-12-24 18:00\" of this machine, at most 3650 days ahead", moment(&o.at))
				repairFlag(set, o)
			}},
		{name: "queues resume", args: "QUEUE…", least: 1, most: many, about: "let queues that are paused be consumed again", store: true, run: queuesResume,
			words: func(c *call, _ int) []string { return c.known.names }, names: pausedNames, flags: repairFlag,
			more: "A queue that isn't paused stays as it is."},
	}
}

func repairFlag(set *flag.FlagSet, o *options) {
	set.BoolVar(&o.repair, "repair", false, "replace pauses that can't be read: queues that are not named here are consumed again")
}

func checkPause(verb string, o options) error {
	switch {
	case strings.TrimSpace(o.why) == "":
		return usage("%s: add -why TEXT: it tells others why the queue is paused", verb)
	case o.length > 0 && !o.at.IsZero():
		return usage("%s: want -for or -until, not both", verb)
	case !o.at.IsZero() && time.Until(o.at) < time.Second:
		return usage("%s: -until: %s has passed, or is less than a second ahead", verb, clock(o.at))
	}
	return nil
}

// pausedNames are the paused queues, for completion.
func pausedNames(ctx context.Context, c *call) []string {
	all, _ := coordCall{c}.readPauses(ctx) // nobody could read an error
	return slices.Sorted(maps.Keys(all))
}

// readPauses reads the pauses in force.
func (c coordCall) readPauses(ctx context.Context) (map[string]pause.Pause, error) {
	p, err := pause.New(c.store, pause.Config{})
	if err != nil {
		return nil, err
	}
	return p.List(ctx)
}

// notedPauses is readPauses for a verb that shows more than pauses: of a document that can't be read it makes a note.
func (c coordCall) notedPauses(ctx context.Context) (map[string]pause.Pause, error) {
	all, err := c.readPauses(ctx)
	if errors.Is(err, pause.ErrUnreadable) {
		_, _ = fmt.Fprintf(c.progress, "Note: %s. Workers go on with what they knew; %s queues resume QUEUE -repair ends all pauses.\n", boot.Clean(err.Error()), c.Command)
		return nil, nil
	}
	return all, err
}

// queuesPause pauses queues.
func queuesPause(ctx context.Context, x *call) error {
	c := coordCall{x}
	length := c.length
	if !c.at.IsZero() {
		length = time.Until(c.at)
	}
	note := pause.Note{By: c.author(), Why: c.why}
	return c.hold(ctx, queuePaused, func(p *pause.Pauses, queues []string) error {
		if c.repair {
			return p.Repair(ctx, queues, length, note)
		}
		return p.Pause(ctx, queues, length, note)
	})
}

// queuesResume resumes queues.
func queuesResume(ctx context.Context, x *call) error {
	c := coordCall{x}
	return c.hold(ctx, queueResumed, func(p *pause.Pauses, queues []string) error {
		if c.repair {
			return p.Repair(ctx, nil, 0, pause.Note{By: c.author()})
		}
		return p.Resume(ctx, queues...)
	})
}

// hold changes the pauses of the queues that are named, and prints how each is then.
func (c coordCall) hold(ctx context.Context, result string, change func(p *pause.Pauses, queues []string) error) error {
	p, err := pause.New(c.store, pause.Config{})
	if err != nil {
		return err
	}
	before, err := p.List(ctx)
	if err != nil && !errors.Is(err, pause.ErrUnreadable) {
		return err
	}
	queues := slices.Compact(slices.Sorted(slices.Values(c.args)))
	if err := c.checkKnown(ctx, queues, before); err != nil {
		return err
	}
	switch err := change(p, queues); {
	case errors.Is(err, pause.ErrUnreadable):
		return fmt.Errorf("%w. Nothing is changed, and workers go on with what they knew. Name all queues that shall be paused, and add -repair: "+
			"all others are consumed again. Or resume all by %s queues resume QUEUE -repair", err, c.Command)
	case err != nil:
		return err
	}
	now, err := p.List(ctx)
	if err != nil {
		return fmt.Errorf("the pauses are changed; %w", err)
	}
	for _, q := range queues {
		line := heldLine{Queue: q, Result: result}
		_, was := before[q]
		paused, is := now[q]
		if is {
			line.Paused = newPausedLine(paused)
		}
		switch {
		case c.repair:
			line.Result = repaired
		case !was && !is:
			line.Result = unchanged
		}
		if c.json {
			if err := c.out.line(line); err != nil {
				return err
			}
			continue
		}
		c.out.printf("%s\n", boot.Clean(toldHold(line, paused, is)))
	}
	if c.repair && !c.json {
		c.out.printf("The pauses could not be read. They are replaced: no other queue is paused.\n")
	}
	return nil
}

// checkKnown refuses queues that nobody knows: a pause of a mistyped name would have no effect.
func (c coordCall) checkKnown(ctx context.Context, queues []string, paused map[string]pause.Pause) error {
	names, _, err := c.knownQueues(ctx)
	if err != nil {
		return err
	}
	for _, q := range queues {
		if _, ok := paused[q]; ok || slices.Contains(names, q) {
			continue
		}
		if len(names) == 0 {
			return usage("unknown queue %s: no program has published its queues in this store", storage.Quote(q))
		}
		return usage("unknown queue %s; want one of %s", storage.Quote(q), strings.Join(names, ", "))
	}
	return nil
}

// toldHold tells people what has become of a queue.
func toldHold(line heldLine, p pause.Pause, is bool) string {
	switch name := storage.Quote(line.Queue); {
	case is:
		return fmt.Sprintf("Queue %s is paused%s.", name, untilWhen(p))
	case line.Result == unchanged:
		return fmt.Sprintf("Queue %s was not paused.", name)
	default:
		return fmt.Sprintf("Queue %s is consumed again.", name)
	}
}

// untilWhen tells when a pause ends.
func untilWhen(p pause.Pause) string {
	if p.Until.IsZero() {
		return ""
	}
	return fmt.Sprintf(" until %s, in %s", clock(p.Until), age(time.Until(p.Until)))
}

// pauseOf tells of a pause: by whom it is, since when, until when, and why.
func pauseOf(p pause.Pause) string {
	text := fmt.Sprintf("by %s, %s", p.By, ago(p.Since))
	if !p.Until.IsZero() {
		text += "," + untilWhen(p)
	}
	if p.Why != "" {
		text += ": " + p.Why
	}
	return text
}

// pauseFindings are about paused queues in which messages wait, and pauses that can't be read.
func (c examination) pauseFindings(ctx context.Context, names []string, stats []storage.Stats) (all []finding, err error) {
	paused, err := coordCall(c).readPauses(ctx)
	if errors.Is(err, pause.ErrUnreadable) {
		return []finding{{Severity: wrong, Check: "pauses", Text: "the pauses of queues can't be read: workers that run go on with what they knew, and those that start consume nothing",
			Fix: fmt.Sprintf("Find out who wrote blob queues in container pauses. Then pause the queues that shall be paused: %s queues pause QUEUE… -why TEXT -repair. Or resume all: %s queues resume QUEUE -repair", c.Command, c.Command)}}, nil
	}
	if err != nil {
		return nil, err
	}
	for i, name := range names {
		p, ok := paused[name]
		st := stats[i]
		if !ok || st.Ready <= 0 {
			continue
		}
		f := finding{Severity: note, Check: "pauses", Queue: name, Text: fmt.Sprintf("queue %s is paused %s. %s in it", name, pauseOf(p), waiting(st.Ready)),
			Fix: fmt.Sprintf("When the reason is gone: %s queues resume %s", c.Command, boot.ShellWord(name))}
		if st.Oldest > c.lag {
			f.Severity = wrong
		}
		all = append(all, f)
	}
	return all, nil
}

// withoutLagOf leaves out that messages wait for long in queues of which a pause or a level tells why.
func withoutLagOf(pauses, all []finding) []finding {
	return slices.DeleteFunc(all, func(f finding) bool {
		return f.Check == "lag" && slices.ContainsFunc(pauses, func(p finding) bool { return p.Queue == f.Queue })
	})
}
