package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/catalog"
	"github.com/millrace-go/millrace/ops/internal/known"
)

// programFindings are about programs and their queues, as far as they have published what they know.
func programFindings(desk *act.Desk, q queued, lag time.Duration) []Finding {
	return slices.Concat(catalogFindings(desk), queueFindings(desk, q, lag), kindFindings(desk, q), collectionFindings(desk),
		clockFindings(desk, time.Now()), versionFindings(desk))
}

// catalogFindings are about the descriptions of programs themselves.
func catalogFindings(desk *act.Desk) (all []Finding) {
	if len(desk.Known.Published) == 0 {
		seen := "poison queues and queues with messages"
		if desk.Known.Own != nil {
			seen = "poison queues, queues with messages and the queues of this binary"
		}
		all = append(all, Finding{Severity: Note, Check: "catalog", Text: "no program has published what it knows, so only " + seen + " can be looked at",
			Fix: "Start a worker of package host, or let yours call catalog.Keep."})
	}
	for _, d := range desk.Known.Faulty {
		all = append(all, Finding{Severity: Wrong, Check: "catalog", Program: d.Name, About: d.Version, Text: fmt.Sprintf("the description of %s %s can't be read: %s", d.Name, d.Version, d.Fault),
			Fix: fmt.Sprintf("Delete blob %s/%s in container programs. A worker that runs writes it again within a day.", d.Name, d.Version)})
	}
	return all
}

// kindFindings are about kinds that come to a queue and that none of its consumers handles. They come by the routes of
// the programs that run, and by those of this binary: it may be the web of a version whose workers are yet to come. Or
// they are in the poison queue already.
func kindFindings(desk *act.Desk, q queued) (all []Finding) {
	coming := map[string]map[channel.Kind]bool{} // by queue; true if a program that runs sends them
	routing := desk.Known.Running()
	if desk.Known.Own != nil {
		routing = append(routing, desk.Known.Own)
	}
	for _, d := range routing {
		for _, to := range d.Queues {
			for _, k := range to.Kinds {
				if coming[to.Name] == nil {
					coming[to.Name] = map[channel.Kind]bool{}
				}
				coming[to.Name][k] = coming[to.Name][k] || d != desk.Known.Own
			}
		}
	}
	for _, queue := range slices.Sorted(maps.Keys(q.samples)) {
		s := q.samples[queue]
		for _, k := range s.unhandled(desk, queue) {
			all = append(all, unhandledFinding(desk, queue, k, q.poisoned[queue], s))
			delete(coming[queue], k)
		}
	}
	for _, queue := range slices.Sorted(maps.Keys(coming)) {
		consumers := desk.Known.Consumers(queue)
		if len(consumers) == 0 {
			continue // that is a finding of its own
		}
		for _, k := range slices.Sorted(maps.Keys(coming[queue])) {
			if handled(consumers, queue, k) {
				continue
			}
			by := ""
			if !coming[queue][k] {
				by = " by the routes of this binary"
			}
			all = append(all, Finding{Severity: Wrong, Check: "kinds", Queue: queue, About: string(k), Text: fmt.Sprintf("%s comes to queue %s%s, and its consumers have no handler for it: %s", k, queue, by, known.Versions(consumers)),
				Fix: "Start a version that has one; the messages are handed back for an hour (worker.Config.UnknownFor), and then go to the poison queue. Or take the queue out of the kind's route."})
		}
	}
	slices.SortStableFunc(all, func(a, b Finding) int { return cmp.Compare(a.Queue, b.Queue) })
	return all
}

// clockFindings compare the clocks of the machines that have published with that of the store, and with this one.
func clockFindings(desk *act.Desk, now time.Time) (all []Finding) {
	for _, d := range desk.Known.Running() {
		apart := d.Last.Sub(d.Stored)
		with := "the store's"
		if apart.Abs() < clocksApart {
			apart, with = d.Last.Sub(now), "this machine's"
			if apart < 0 {
				continue // it was published in the past
			}
		}
		if apart.Abs() < clocksApart {
			continue
		}
		text := fmt.Sprintf("the clock of a machine that runs %s %s is %s ahead of %s", d.Name, d.Version, act.Age(apart), with)
		if apart < 0 {
			text = fmt.Sprintf("the clock of a machine that runs %s %s is %s behind %s", d.Name, d.Version, act.Age(-apart), with)
		}
		all = append(all, Finding{Severity: Wrong, Check: "clocks", Program: d.Name, About: d.Version, Text: text,
			Fix: "Let both machines take their time from the network (NTP). No message is lost, but late ones cost more requests, and delays are wrong by as much."})
	}
	return all
}

// versionFindings are about older versions that still run long after a newer one has come.
func versionFindings(desk *act.Desk) (all []Finding) {
	running := desk.Known.Running() // by name, the oldest first
	for i, d := range running {
		newer := slices.IndexFunc(running[i+1:], func(x *catalog.Description) bool {
			return x.Name == d.Name && d.Last.Sub(x.First) > besideAfter
		})
		if newer >= 0 {
			x := running[i+1+newer]
			all = append(all, Finding{Severity: Wrong, Check: "versions", Program: d.Name, About: d.Version,
				Text: fmt.Sprintf("%s %s still runs beside %s, which came %s ago", d.Name, d.Version, x.Version, act.Age(time.Since(x.First))),
				Fix:  fmt.Sprintf("Update or stop the workers of %s. The finding goes within two days.", d.Version)})
		}
	}
	return all
}
