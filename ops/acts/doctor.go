package acts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/coord/gate"
	"github.com/millrace-go/millrace/coord/ids"
	"github.com/millrace-go/millrace/coord/lease"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/catalog"
	"github.com/millrace-go/millrace/ops/internal/known"
	"github.com/millrace-go/millrace/storage"
)

const (
	clocksApart = time.Minute // more than a slow write takes
	besideAfter = 25 * time.Hour
	mostSeen    = 1000      // counters, and as many gates and locks, that doctor looks at: each costs a request
	logTooLarge = 256 << 20 // bytes of a log of SQLite that no copy into the file has emptied
)

// A doctorInput is what doctor takes.
type doctorInput struct{ lag time.Duration }

func doctorActs() []*act.Act {
	return []*act.Act{act.New(act.Act{Noun: "doctor", About: "find out what is wrong", Role: act.Viewer,
		More: "It looks for queues that nobody consumes, kinds without a handler, messages that wait for long, poison queues, schedules that " +
			"don't run, processes that are stuck or overdue, messages that stay in a web's spool, clocks that differ, old versions of a program " +
			"beside newer ones, a log of SQLite that can't shrink, and a process that keeps others from writing to it. It changes nothing. Its exit " +
			"code is 4 if something is wrong, and 3 if it knows no queue. A NOTE alone is not wrong.",
	}, func(in *doctorInput) []act.Field {
		in.lag = 5 * time.Minute
		return []act.Field{act.Duration(&in.lag, "lag", "the `TIME` that messages may wait", 1, act.MaxAhead)}
	}, doctor)}
}

// doctor tells what is wrong, and what to do about it.
func doctor(ctx context.Context, c *act.Call, in *doctorInput) error {
	all, err := Examine(ctx, c.Desk, in.lag)
	if err != nil {
		return err
	}
	bad := 0
	for _, f := range all {
		if f.Severity == Wrong {
			bad++
		}
		if err := c.Say(f, "%-5s  %s\n       %s", strings.ToUpper(f.Severity), f.Text, f.Fix); err != nil {
			return err
		}
	}
	switch {
	case bad == 0 && len(c.Known.Queues) == 0:
		return act.Nothing("doctor: no queue is known in this store, so nothing says that all is well")
	case bad == 0:
		return c.Say(nil, "Nothing is wrong.")
	case bad == 1:
		err = c.Say(nil, "\n1 thing is wrong.")
	default:
		err = c.Say(nil, "\n%d things are wrong.", bad)
	}
	return errors.Join(err, act.ErrWrong)
}

// Examine finds what is wrong, the worst first. lag is how long messages may wait.
func Examine(ctx context.Context, desk *act.Desk, lag time.Duration) ([]Finding, error) {
	names, poisoned, err := knownQueues(ctx, desk)
	if err != nil {
		return nil, err
	}
	names, stats, unlisted, err := withUnseen(ctx, desk, names)
	if err != nil {
		return nil, err
	}
	pauses, err := pauseFindings(ctx, desk, names, stats, lag)
	if err != nil {
		return nil, err
	}
	levels, err := levelFindings(ctx, desk, names, stats, lag)
	if err != nil {
		return nil, err
	}
	held := slices.Concat(pauses, levels)
	all := slices.Concat(withoutLagOf(held, programFindings(desk, names, stats, poisoned, lag)), logFindings(desk.File), held)
	for _, look := range []func(context.Context, *act.Desk) ([]Finding, error){
		writerFindings, listenerFindings, laneFindings,
		func(ctx context.Context, desk *act.Desk) ([]Finding, error) { return spoolFindings(ctx, desk, lag) },
		guardFindings, scheduleFindings, coordFindings, processFindings, settingsFindings,
	} {
		more, err := look(ctx, desk)
		if err != nil {
			return nil, err
		}
		all = append(all, more...)
	}
	turns, err := turnFindings(ctx, desk, names, lag)
	if err != nil {
		return nil, err
	}
	all = append(all, turns...)
	all = append(all, listFindings(unlisted)...)
	slices.SortStableFunc(all, func(a, b Finding) int { return -cmp.Compare(a.Severity, b.Severity) }) // wrong before note
	return all, nil
}

// listFindings are about a store that doesn't list its queues, and say why.
func listFindings(fault error) []Finding {
	if fault == nil {
		return nil
	}
	return []Finding{{Severity: Note, Check: "queues", Text: fmt.Sprintf("queues of which no program tells are not looked at, because the store doesn't list its queues: %v", fault),
		Fix: "Run doctor where it has the right to list them."}}
}

// programFindings are about programs and their queues, as far as they have published what they know.
func programFindings(desk *act.Desk, names []string, stats []storage.Stats, poisoned map[string]int64, lag time.Duration) []Finding {
	return slices.Concat(catalogFindings(desk), queueFindings(desk, names, stats, poisoned, lag), kindFindings(desk), collectionFindings(desk),
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
		all = append(all, Finding{Severity: Wrong, Check: "catalog", Program: d.Name, Text: fmt.Sprintf("the description of %s %s can't be read: %s", d.Name, d.Version, d.Fault),
			Fix: fmt.Sprintf("Delete blob %s/%s in container programs. A worker that runs writes it again within a day.", d.Name, d.Version)})
	}
	return all
}

// queueFindings are about consumers, lag and poison.
func queueFindings(desk *act.Desk, names []string, stats []storage.Stats, poisoned map[string]int64, lag time.Duration) (all []Finding) {
	routed, next := desk.Known.RoutedNow(), desk.Known.RoutedNext()
	for i, name := range names {
		st, consumers, own := stats[i], desk.Known.Consumers(name), ownRoutes(desk, name)
		waits := ""
		if st.Ready > 0 {
			waits = fmt.Sprintf(", with %s ready", act.Count(int(st.Ready), "message"))
		}
		held := max(0, st.Ready) + max(0, st.InFlight) + max(0, st.Delayed)
		last := lastConsumer(desk, name)
		switch {
		case last == "" && !routed[name] && own: // it may be a queue of a version that is yet to come
			if st.Ready > 0 {
				all = append(all, Finding{Severity: Wrong, Check: "consumers", Queue: name, Text: fmt.Sprintf("%s in %s, and no worker has ever run that consumes it", waiting(st.Ready), name), Fix: "Start one."})
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

// kindFindings are about kinds that come to a queue and that none of its consumers handles. They come by the routes of
// the programs that run, and by those of this binary: it may be the web of a version whose workers are yet to come.
func kindFindings(desk *act.Desk) (all []Finding) {
	coming := map[string]map[channel.Kind]bool{} // by queue; true if a program that runs sends them
	routing := desk.Known.Running()
	if desk.Known.Own != nil {
		routing = append(routing, desk.Known.Own)
	}
	for _, d := range routing {
		for _, q := range d.Queues {
			for _, k := range q.Kinds {
				if coming[q.Name] == nil {
					coming[q.Name] = map[channel.Kind]bool{}
				}
				coming[q.Name][k] = coming[q.Name][k] || d != desk.Known.Own
			}
		}
	}
	for _, queue := range slices.Sorted(maps.Keys(coming)) {
		consumers := desk.Known.Consumers(queue)
		if len(consumers) == 0 {
			continue // that is a finding of its own
		}
		for _, k := range slices.Sorted(maps.Keys(coming[queue])) {
			if !slices.ContainsFunc(consumers, func(d *catalog.Description) bool { return handlesKind(d, queue, k) }) {
				by := ""
				if !coming[queue][k] {
					by = " by the routes of this binary"
				}
				all = append(all, Finding{Severity: Wrong, Check: "kinds", Queue: queue, Text: fmt.Sprintf("%s comes to queue %s%s, and its consumers have no handler for it: %s", k, queue, by, known.Versions(consumers)),
					Fix: "Start a version that has one; the messages are handed back for an hour, and then go to the poison queue. Or take the queue out of the kind's route."})
			}
		}
	}
	return all
}

func handlesKind(d *catalog.Description, queue string, kind channel.Kind) bool {
	for _, q := range d.Queues {
		if q.Name == queue && slices.ContainsFunc(q.Handlers, func(h catalog.Handler) bool { return h.Kind == kind }) {
			return true
		}
	}
	return false
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
		all = append(all, Finding{Severity: Wrong, Check: "clocks", Program: d.Name, Text: text,
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
			all = append(all, Finding{Severity: Wrong, Check: "versions", Program: d.Name,
				Text: fmt.Sprintf("%s %s still runs beside %s, which came %s ago", d.Name, d.Version, x.Version, act.Age(time.Since(x.First))),
				Fix:  fmt.Sprintf("Update or stop the workers of %s. The finding goes within two days.", d.Version)})
		}
	}
	return all
}

// logFindings are about the log of a store in a file.
func logFindings(file string) []Finding {
	if file == "" {
		return nil
	}
	info, err := os.Stat(file + "-wal")
	if err != nil || info.Size() < logTooLarge {
		return nil
	}
	return []Finding{{Severity: Wrong, Check: "log", Text: fmt.Sprintf("the log of the database, %s, has %d MB and can't shrink: some program keeps a read transaction open", file+"-wal", info.Size()>>20),
		Fix: "End that transaction or its program: look for a database tool or a backup (fuser -v " + act.ShellWord(file) + " lists who has it open). The log shrinks by itself then."}}
}

// writerFindings are about a process that keeps all others from writing to a store in a file. While a process is in a
// transaction, they wait until it goes on.
func writerFindings(ctx context.Context, desk *act.Desk) ([]Finding, error) {
	if desk.Standstill == nil {
		return nil, nil
	}
	who, lasted, err := desk.Standstill(ctx)
	if err != nil || who == "" {
		return nil, err
	}
	return []Finding{{Severity: Wrong, Check: "writers", Text: fmt.Sprintf("nothing can be written to %s: %s has been in a transaction for %s", desk.File, who, act.Age(lasted)),
		Fix: "If that process stands still, let it go on (kill -CONT PID) or end it. What it has not committed is undone then, and messages in its hands are delivered again."}}, nil
}

// coordFindings are about counters, gates and locks that can't be read, and gates that nobody has looked at since their
// time came. A lock of a dead process is no finding: a process that waits for the lock takes it over.
func coordFindings(ctx context.Context, desk *act.Desk) (all []Finding, err error) {
	seen := 0
	for x, err := range ids.List(ctx, desk.Store) {
		switch {
		case errors.Is(err, ids.ErrCorrupt):
			all = append(all, Finding{Severity: Wrong, Check: "counters", Text: fmt.Sprintf("counter %s can't be read, so programs get no number from it", x.Name),
				Fix: fmt.Sprintf("Find the largest number that was ever given out, and repair the counter: %s ids raise %s NUMBER --yes", desk.Command, act.ShellWord(x.Name))})
		case err != nil:
			return nil, err
		}
		if seen++; seen == mostSeen {
			break
		}
	}
	seen = 0
	for g, err := range gate.List(ctx, desk.Store) {
		switch {
		case err != nil && g.Name == "":
			return nil, err
		case err != nil:
			all = append(all, Finding{Severity: Wrong, Check: "gates", Text: fmt.Sprintf("gate %s can't be read, so programs get an error in place of waiting for it", g.Name),
				Fix: fmt.Sprintf("Close it: %s gates repair %s", desk.Command, act.ShellWord(g.Name))})
		case isDue(g.State, time.Now().Add(-clocksApart)):
			all = append(all, Finding{Severity: Note, Check: "gates", Text: fmt.Sprintf("gate %s was to open at %s, and no program has looked at it since", g.Name, act.Clock(g.OpensAt)),
				Fix: "It opens when a program looks at it. Does one run?"})
		}
		if seen++; seen == mostSeen {
			break
		}
	}
	seen = 0
	for x, err := range lease.List(ctx, desk.Store, notUpdates) {
		switch {
		case err != nil && x.Name == "":
			return nil, err
		case err != nil:
			all = append(all, Finding{Severity: Wrong, Check: "locks", Text: fmt.Sprintf("lock %s can't be read, so nobody gets it", x.Name),
				Fix: fmt.Sprintf("Find the largest fence in the documents that it guards, and repair the lock: %s locks raise %s FENCE", desk.Command, act.ShellWord(x.Name))})
		}
		if seen++; seen == mostSeen {
			break
		}
	}
	return all, nil
}
