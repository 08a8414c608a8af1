package doctor

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
	"github.com/millrace-go/millrace/ops/catalog"
	"github.com/millrace-go/millrace/ops/internal/known"
	"github.com/millrace-go/millrace/ops/internal/look"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/lanes"
)

// queueFindings are about consumers, lag and poison.
func queueFindings(desk *act.Desk, names []string, stats []storage.Stats, poisoned map[string]int64, lag time.Duration) (all []Finding) {
	routed, next := desk.Known.RoutedNow(), desk.Known.RoutedNext()
	for i, name := range names {
		st, consumers, own := stats[i], desk.Known.Consumers(name), look.OwnRoutes(desk, name)
		waits := ""
		if st.Ready > 0 {
			waits = fmt.Sprintf(", with %s ready", act.Count(int(st.Ready), "message"))
		}
		held := max(0, st.Ready) + max(0, st.InFlight) + max(0, st.Delayed)
		last := lastConsumer(desk, name)
		switch {
		case last == "" && !routed[name] && own: // it may be a queue of a version that is yet to come
			if st.Ready > 0 {
				all = append(all, Finding{Severity: Wrong, Check: "consumers", Queue: name, Text: fmt.Sprintf("%s in %s, and no worker has ever run that consumes it", look.Waiting(st.Ready), name), Fix: "Start one."})
			}
		case len(desk.Known.Published) == 0:
		case !routed[name] && !own:
			if held > 0 {
				all = append(all, Finding{Severity: Wrong, Check: "consumers", Queue: name, Text: fmt.Sprintf("%s in %s, which nothing routes to%s", act.Count(int(held), "message"), name, last),
					Fix: "Was the queue renamed? Start a worker of a version that handles it, until it is empty."})
			}
		case len(consumers) == 0:
			all = append(all, Finding{Severity: Wrong, Check: "consumers", Queue: name, Text: fmt.Sprintf("queue %s is consumed by nobody%s%s", name, last, waits),
				Fix: "Start a worker of a program with handlers for it, or take the queue out of the routes."})
		case !next[name] && !own && held > 0:
			all = append(all, Finding{Severity: Note, Check: "consumers", Queue: name, Text: fmt.Sprintf("%s in %s, to which only older versions of programs route: %s", act.Count(int(held), "message"), name, known.Versions(consumers)),
				Fix: "Let a worker of an older version run until the queue is empty."})
		}
		if st.Oldest > lag && st.Ready > 0 {
			text := fmt.Sprintf("queue %s: the oldest of %s was sent %s ago", name, act.Count(int(st.Ready), "ready message"), act.Age(st.Oldest))
			all = append(all, Finding{Severity: Wrong, Check: "lag", Queue: name, Text: text,
				Fix: lagFix(desk, st)})
		}
		if n := poisoned[name]; n > 0 {
			all = append(all, Finding{Severity: Wrong, Check: "poison", Queue: name, Text: fmt.Sprintf("the poison queue of %s holds %s", name, act.Count(int(n), "message")),
				Fix: fmt.Sprintf("%s poison list --queue %s shows why. Then edit, retry or discard them.", desk.Command, act.ShellWord(name))})
		}
	}
	return all
}

// lagFix says what to do about messages that wait for long.
func lagFix(desk *act.Desk, st storage.Stats) string {
	watch := fmt.Sprintf("%s top shows whether that shrinks. If it does not, look at the workers' logs", desk.Command)
	switch {
	case st.InFlight == 0:
		return "Nothing of it is being handled: does a worker run? " + watch + "."
	case st.InFlight < 0: // the store doesn't tell
		return "Does a worker run? " + watch + ", or start more workers."
	}
	return watch + ", or start more workers."
}

// lastConsumer names the last program that consumed a queue without a consumer, or whose routes led to it.
func lastConsumer(desk *act.Desk, queue string) string {
	for i := range slices.Backward(desk.Known.Published) {
		d := &desk.Known.Published[i]
		if d.Consumes(queue) {
			return fmt.Sprintf(" (%s %s did, seen last %s ago)", d.Name, d.Version, act.Age(time.Since(d.Last)))
		}
		if j := slices.IndexFunc(d.Left, func(x catalog.Left) bool { return x.Name == queue }); j >= 0 {
			return fmt.Sprintf(" (an earlier %s %s did, until %s ago)", d.Name, d.Version, act.Age(time.Since(d.Left[j].At)))
		}
	}
	return ""
}

// withoutLagOf leaves out that messages wait for long in queues of which a pause or a level tells why.
func withoutLagOf(pauses, all []Finding) []Finding {
	return slices.DeleteFunc(all, func(f Finding) bool {
		return f.Check == "lag" && slices.ContainsFunc(pauses, func(p Finding) bool { return p.Queue == f.Queue })
	})
}

// pauseFindings are about paused queues in which messages wait, and pauses that can't be read.
func pauseFindings(ctx context.Context, d *act.Desk, names []string, stats []storage.Stats, lag time.Duration) (all []Finding, err error) {
	paused, err := look.Pauses(ctx, d)
	if errors.Is(err, pause.ErrUnreadable) {
		return []Finding{{Severity: Wrong, Check: "pauses", Text: "the pauses of queues can't be read: workers that run go on with what they knew, and those that start consume nothing",
			Fix: fmt.Sprintf("Find out who wrote blob queues in container pauses. Then pause the queues that shall be paused: %s queues pause QUEUE… --why TEXT --repair. Or resume all: %s queues resume QUEUE --repair", d.Command, d.Command)}}, nil
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
		f := Finding{Severity: Note, Check: "pauses", Queue: name, Text: fmt.Sprintf("queue %s is paused %s. %s in it", name, look.PauseText(p), look.Waiting(st.Ready)),
			Fix: fmt.Sprintf("When the reason is gone: %s queues resume %s", d.Command, act.ShellWord(name))}
		if st.Oldest > lag {
			f.Severity = Wrong
		}
		all = append(all, f)
	}
	return all, nil
}

// levelFindings are about optional queues in which messages wait.
func levelFindings(ctx context.Context, d *act.Desk, names []string, stats []storage.Stats, lag time.Duration) (all []Finding, err error) {
	waits, err := look.Levels(ctx, d)
	if err != nil {
		return nil, err
	}
	for i, name := range names {
		from, st := waits[name], stats[i]
		if from == 0 || st.Ready <= 0 {
			continue
		}
		f := Finding{Severity: Note, Check: "levels", Queue: name, Text: fmt.Sprintf("queue %s waits for its level: %s. %s in it", name, look.LevelText(from), look.Waiting(st.Ready)),
			Fix: fmt.Sprintf("When there is time for it, lower the level: %s settings set level=%d. If long queues have raised the level, it falls with them.", d.Command, from-1)}
		if st.Oldest > lag {
			f.Severity = Wrong
		}
		all = append(all, f)
	}
	return all, nil
}

// laneFindings are about messages in lanes that the program of today doesn't look into. A program may have been
// replaced by one of the same version, so all lanes that a queue can have are looked at.
func laneFindings(ctx context.Context, desk *act.Desk) (all []Finding, err error) {
	for _, queue := range slices.Sorted(maps.Keys(desk.Known.Queues)) {
		now, ok := desk.Known.Divided(queue)
		if !ok {
			continue
		}
		seen := []string{queue}
		if now != (lanes.Queue{}) {
			seen = now.Names(queue)
		}
		left := slices.DeleteFunc(lanes.Queue{Lanes: lanes.Most, Priorities: true}.Names(queue), func(name string) bool { return slices.Contains(seen, name) || desk.Known.Queues[name] })
		stats, err := look.Stats(ctx, desk, left)
		if err != nil {
			return nil, err
		}
		n, fixes := int64(0), map[string]bool{}
		for i, st := range stats {
			here := max(0, st.Ready) + max(0, st.Delayed)
			if n += here; here == 0 {
				continue
			}
			lane := strings.TrimPrefix(left[i], queue)
			if strings.HasPrefix(lane, "-high") || strings.HasPrefix(lane, "-low") {
				fixes[fmt.Sprintf("channel.Priorities(%q)", queue)] = true
			} else {
				fixes[fmt.Sprintf("channel.Lanes(%q, 1)", queue)] = true
			}
		}
		if n == 0 {
			continue
		}
		all = append(all, Finding{Severity: Wrong, Check: "lanes", Queue: queue,
			Text: fmt.Sprintf("%s in lanes that queue %s no longer has", look.Waiting(n), queue),
			Fix:  fmt.Sprintf("Start a worker with %s among its routes, until this is gone.", strings.Join(slices.Sorted(maps.Keys(fixes)), " and "))})
	}
	return all, nil
}
