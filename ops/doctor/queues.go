package doctor

import (
	"fmt"
	"slices"
	"time"

	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/catalog"
	"github.com/millrace-go/millrace/ops/internal/known"
	"github.com/millrace-go/millrace/ops/internal/look"
	"github.com/millrace-go/millrace/storage"
)

// queueFindings are about consumers, lag and poison.
func queueFindings(desk *act.Desk, q queued, lag time.Duration) (all []Finding) {
	routed, next := desk.Known.RoutedNow(), desk.Known.RoutedNext()
	for i, name := range q.names {
		st, consumers, own := q.stats[i], desk.Known.Consumers(name), look.OwnRoutes(desk, name)
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
			all = append(all, lagFix(desk, Finding{Severity: Wrong, Check: "lag", Queue: name, Text: text}, st))
		}
		if n := q.poisoned[name]; n > 0 && !q.samples[name].tells(desk, name) {
			all = append(all, Finding{Severity: Wrong, Check: "poison", Queue: name, Text: fmt.Sprintf("the poison queue of %s holds %s", name, act.Count(int(n), "message"))}.
				mended(desk, "%s shows why. Then edit, retry or discard them.", act.Hint{Act: "poison list", Flags: map[string]string{"queue": name}}).
				and(act.Hint{Act: "poison retry", Flags: map[string]string{"queue": name, "all": "true"}}).and(act.Hint{Act: "poison discard", Flags: map[string]string{"queue": name, "all": "true"}}))
		}
	}
	return all
}

// lagFix says what to do about messages that wait for long.
func lagFix(desk *act.Desk, f Finding, st storage.Stats) Finding {
	before, after := "", ", or start more workers."
	switch {
	case st.InFlight == 0:
		before, after = "Nothing of it is being handled: does a worker run? ", "."
	case st.InFlight < 0: // the store doesn't tell
		before = "Does a worker run? "
	}
	return f.mended(desk, "%s%s shows whether that shrinks. If it does not, look at the workers' logs%s", before, act.Hint{Act: "top"}, after).
		and(act.Hint{Act: "queues peek", Args: []string{f.Queue}})
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
