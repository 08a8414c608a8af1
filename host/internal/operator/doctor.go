package operator

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
	"github.com/millrace-go/millrace/host/internal/boot"
	"github.com/millrace-go/millrace/ops/catalog"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/sqlite"
)

const (
	clocksApart = time.Minute // more than a slow write takes
	besideAfter = 25 * time.Hour
	mostSeen    = 1000      // counters, and as many gates and locks, that doctor looks at: each costs a request
	logTooLarge = 256 << 20 // bytes of a log of SQLite that no copy into the file has emptied
)

// Severities of a finding.
const (
	wrong = "wrong" // somebody should do something
	note  = "note"  // good to know
)

// A finding is what -json prints of something that doctor has found.
type finding struct {
	Severity string `json:"severity"`
	Check    string `json:"check"` // collections, consumers, kinds, lag, lanes, levels, poison, queues, clocks, versions, log, writers, catalog, schedules, guards, counters, gates, locks, pauses, processes, settings, spools, turns or listeners
	Queue    string `json:"queue,omitempty"`
	Program  string `json:"program,omitempty"`
	Text     string `json:"text"`
	Fix      string `json:"fix"`
}

// An examination is a run of doctor.
type examination struct{ *call }

func checkDoctor(verb string, o options) error {
	if o.lag <= 0 {
		return usage("%s: -lag: want a time above 0", verb)
	}
	return nil
}

// doctor prints what is wrong, and what to do about it.
func doctor(ctx context.Context, x *call) error {
	c := examination{x}
	names, poisoned, err := c.knownQueues(ctx)
	if err != nil {
		return err
	}
	names, stats, unlisted, err := c.withUnseen(ctx, names)
	if err != nil {
		return err
	}
	pauses, err := c.pauseFindings(ctx, names, stats)
	if err != nil {
		return err
	}
	levels, err := c.levelFindings(ctx, names, stats)
	if err != nil {
		return err
	}
	held := slices.Concat(pauses, levels)
	all := slices.Concat(withoutLagOf(held, c.findings(names, stats, poisoned)), held)
	turns := func(ctx context.Context) ([]finding, error) { return c.turnFindings(ctx, names) }
	for _, look := range []func(context.Context) ([]finding, error){
		c.writerFindings, c.listenerFindings, c.laneFindings, c.spoolFindings, c.guardFindings, c.scheduleFindings, c.coordFindings, c.processFindings, c.settingsFindings, turns,
	} {
		more, err := look(ctx)
		if err != nil {
			return err
		}
		all = append(all, more...)
	}
	all = append(all, listFindings(unlisted)...)
	slices.SortStableFunc(all, func(a, b finding) int { return -cmp.Compare(a.Severity, b.Severity) }) // wrong before note
	bad := 0
	for _, f := range all {
		if f.Severity == wrong {
			bad++
		}
		if !c.json {
			c.out.printf("%-5s  %s\n       %s\n", strings.ToUpper(f.Severity), boot.Clean(f.Text), boot.Clean(f.Fix))
		} else if err := c.out.line(f); err != nil {
			return err
		}
	}
	switch {
	case bad == 0 && len(c.known.queues) == 0:
		return nothing("doctor: no queue is known in this store, so nothing says that all is well")
	case c.json:
	case bad == 1:
		c.out.printf("\n1 thing is wrong.\n")
	case bad > 1:
		c.out.printf("\n%d things are wrong.\n", bad)
	default:
		c.out.printf("Nothing is wrong.\n")
	}
	if bad > 0 {
		return wrongError{}
	}
	return nil
}

// listFindings are about a store that doesn't list its queues, and say why.
func listFindings(fault error) []finding {
	if fault == nil {
		return nil
	}
	return []finding{{Severity: note, Check: "queues", Text: fmt.Sprintf("queues of which no program tells are not looked at, because the store doesn't list its queues: %v", fault),
		Fix: "Run doctor where it has the right to list them."}}
}

// findings are about programs and their queues.
func (c examination) findings(names []string, stats []storage.Stats, poisoned map[string]int64) []finding {
	return slices.Concat(c.catalogFindings(), c.queueFindings(names, stats, poisoned), c.kindFindings(), c.collectionFindings(), c.clockFindings(time.Now()), c.versionFindings(), logFindings(c.file))
}

// catalogFindings are about the descriptions of programs themselves.
func (c examination) catalogFindings() (all []finding) {
	if len(c.known.published) == 0 {
		seen := "poison queues and queues with messages"
		if c.known.own != nil {
			seen = "poison queues, queues with messages and the queues of this binary"
		}
		all = append(all, finding{Severity: note, Check: "catalog", Text: "no program has published what it knows, so only " + seen + " can be looked at",
			Fix: "Start a worker of package host, or let yours call catalog.Keep."})
	}
	for _, d := range c.known.faulty {
		all = append(all, finding{Severity: wrong, Check: "catalog", Program: d.Name, Text: fmt.Sprintf("the description of %s %s can't be read: %s", d.Name, d.Version, d.Fault),
			Fix: fmt.Sprintf("Delete blob %s/%s in container programs. A worker that runs writes it again within a day.", d.Name, d.Version)})
	}
	return all
}

// queueFindings are about consumers, lag and poison.
func (c examination) queueFindings(names []string, stats []storage.Stats, poisoned map[string]int64) (all []finding) {
	routed, next := c.known.routedNow(), c.known.routedNext()
	for i, name := range names {
		st, consumers, own := stats[i], c.known.consumers(name), ownRoutes(c.call, name)
		waits := ""
		if st.Ready > 0 {
			waits = fmt.Sprintf(", with %s ready", count(int(st.Ready), "message"))
		}
		held := max(0, st.Ready) + max(0, st.InFlight) + max(0, st.Delayed)
		last := c.lastConsumer(name)
		switch {
		case last == "" && !routed[name] && own: // it may be a queue of a version that is yet to come
			if st.Ready > 0 {
				all = append(all, finding{Severity: wrong, Check: "consumers", Queue: name, Text: fmt.Sprintf("%s in %s, and no worker has ever run that consumes it", waiting(st.Ready), name), Fix: "Start one."})
			}
		case len(c.known.published) == 0:
		case !routed[name] && !own:
			if held > 0 {
				all = append(all, finding{Severity: wrong, Check: "consumers", Queue: name, Text: fmt.Sprintf("%s in %s, which nothing routes to%s", count(int(held), "message"), name, last),
					Fix: "Was the queue renamed? Start a worker of a version that handles it, until it is empty."})
			}
		case len(consumers) == 0:
			all = append(all, finding{Severity: wrong, Check: "consumers", Queue: name, Text: fmt.Sprintf("queue %s is consumed by nobody%s%s", name, last, waits),
				Fix: "Start a worker of a program with handlers for it, or take the queue out of the routes."})
		case !next[name] && !own && held > 0:
			all = append(all, finding{Severity: note, Check: "consumers", Queue: name, Text: fmt.Sprintf("%s in %s, to which only older versions of programs route: %s", count(int(held), "message"), name, versions(consumers)),
				Fix: "Let a worker of an older version run until the queue is empty."})
		}
		if st.Oldest > c.lag && st.Ready > 0 {
			text := fmt.Sprintf("queue %s: the oldest of %s was sent %s ago", name, count(int(st.Ready), "ready message"), age(st.Oldest))
			all = append(all, finding{Severity: wrong, Check: "lag", Queue: name, Text: text,
				Fix: c.lagFix(st)})
		}
		if n := poisoned[name]; n > 0 {
			all = append(all, finding{Severity: wrong, Check: "poison", Queue: name, Text: fmt.Sprintf("the poison queue of %s holds %s", name, count(int(n), "message")),
				Fix: fmt.Sprintf("%s poison list -queue %s shows why. Then edit, retry or discard them.", c.Command, boot.ShellWord(name))})
		}
	}
	return all
}

// waiting is the subject of a sentence on ready messages, and its verb.
func waiting(ready int64) string {
	if ready == 1 {
		return "1 message waits"
	}
	return fmt.Sprintf("%d messages wait", ready)
}

// lagFix says what to do about messages that wait for long.
func (c examination) lagFix(st storage.Stats) string {
	watch := fmt.Sprintf("%s top shows whether that shrinks. If it does not, look at the workers' logs", c.Command)
	switch {
	case st.InFlight == 0:
		return "Nothing of it is being handled: does a worker run? " + watch + "."
	case st.InFlight < 0: // the store doesn't tell
		return "Does a worker run? " + watch + ", or start more workers."
	}
	return watch + ", or start more workers."
}

// ownRoutes reports that the routes of this binary's program lead to a queue.
func ownRoutes(c *call, queue string) bool {
	return c.known.own != nil && slices.ContainsFunc(c.known.own.Queues, func(q catalog.Queue) bool { return q.Name == queue })
}

// lastConsumer names the last program that consumed a queue without a consumer, or whose routes led to it.
func (c examination) lastConsumer(queue string) string {
	for i := range slices.Backward(c.known.published) {
		d := &c.known.published[i]
		if d.Consumes(queue) {
			return fmt.Sprintf(" (%s %s did, seen last %s ago)", d.Name, d.Version, age(time.Since(d.Last)))
		}
		if j := slices.IndexFunc(d.Left, func(x catalog.Left) bool { return x.Name == queue }); j >= 0 {
			return fmt.Sprintf(" (an earlier %s %s did, until %s ago)", d.Name, d.Version, age(time.Since(d.Left[j].At)))
		}
	}
	return ""
}

// kindFindings are about kinds that come to a queue and that none of its consumers handles. They come by the routes of
// the programs that run, and by those of this binary: it may be the web of a version whose workers are yet to come.
func (c examination) kindFindings() (all []finding) {
	coming := map[string]map[channel.Kind]bool{} // by queue; true if a program that runs sends them
	routing := c.known.running()
	if c.known.own != nil {
		routing = append(routing, c.known.own)
	}
	for _, d := range routing {
		for _, q := range d.Queues {
			for _, k := range q.Kinds {
				if coming[q.Name] == nil {
					coming[q.Name] = map[channel.Kind]bool{}
				}
				coming[q.Name][k] = coming[q.Name][k] || d != c.known.own
			}
		}
	}
	for _, queue := range slices.Sorted(maps.Keys(coming)) {
		consumers := c.known.consumers(queue)
		if len(consumers) == 0 {
			continue // that is a finding of its own
		}
		for _, k := range slices.Sorted(maps.Keys(coming[queue])) {
			if !slices.ContainsFunc(consumers, func(d *catalog.Description) bool { return handlesKind(d, queue, k) }) {
				by := ""
				if !coming[queue][k] {
					by = " by the routes of this binary"
				}
				all = append(all, finding{Severity: wrong, Check: "kinds", Queue: queue, Text: fmt.Sprintf("%s comes to queue %s%s, and its consumers have no handler for it: %s", k, queue, by, versions(consumers)),
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
func (c examination) clockFindings(now time.Time) (all []finding) {
	for _, d := range c.known.running() {
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
		text := fmt.Sprintf("the clock of a machine that runs %s %s is %s ahead of %s", d.Name, d.Version, age(apart), with)
		if apart < 0 {
			text = fmt.Sprintf("the clock of a machine that runs %s %s is %s behind %s", d.Name, d.Version, age(-apart), with)
		}
		all = append(all, finding{Severity: wrong, Check: "clocks", Program: d.Name, Text: text,
			Fix: "Let both machines take their time from the network (NTP). No message is lost, but late ones cost more requests, and delays are wrong by as much."})
	}
	return all
}

// versionFindings are about older versions that still run long after a newer one has come.
func (c examination) versionFindings() (all []finding) {
	running := c.known.running() // by name, the oldest first
	for i, d := range running {
		newer := slices.IndexFunc(running[i+1:], func(x *catalog.Description) bool {
			return x.Name == d.Name && d.Last.Sub(x.First) > besideAfter
		})
		if newer >= 0 {
			x := running[i+1+newer]
			all = append(all, finding{Severity: wrong, Check: "versions", Program: d.Name,
				Text: fmt.Sprintf("%s %s still runs beside %s, which came %s ago", d.Name, d.Version, x.Version, age(time.Since(x.First))),
				Fix:  fmt.Sprintf("Update or stop the workers of %s. The finding goes within two days.", d.Version)})
		}
	}
	return all
}

// logFindings are about the log of a store in a file.
func logFindings(file string) []finding {
	if file == "" {
		return nil
	}
	info, err := os.Stat(file + "-wal")
	if err != nil || info.Size() < logTooLarge {
		return nil
	}
	return []finding{{Severity: wrong, Check: "log", Text: fmt.Sprintf("the log of the database, %s, has %d MB and can't shrink: some program keeps a read transaction open", file+"-wal", info.Size()>>20),
		Fix: "End that transaction or its program: look for a database tool or a backup (fuser -v " + boot.ShellWord(file) + " lists who has it open). The log shrinks by itself then."}}
}

// writerFindings are about a process that keeps all others from writing to a store in a file. While a process is in a
// transaction, they wait until it goes on.
func (c examination) writerFindings(ctx context.Context) ([]finding, error) {
	if c.file == "" {
		return nil, nil
	}
	look := sqlite.Standstill(c.file)
	for first := true; ; first = false {
		who, lasted := look()
		switch {
		case who == "", lasted == 0 && !first:
			return nil, nil
		case lasted >= boot.StandsStill:
			return []finding{{Severity: wrong, Check: "writers", Text: fmt.Sprintf("nothing can be written to %s: %s has been in a transaction for %s", c.file, who, age(lasted)),
				Fix: "If that process stands still, let it go on (kill -CONT PID) or end it. What it has not committed is undone then, and messages in its hands are delivered again."}}, nil
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// coordFindings are about counters, gates and locks that can't be read, and gates that nobody has looked at since their
// time came. A lock of a dead process is no finding: a process that waits for the lock takes it over.
func (c examination) coordFindings(ctx context.Context) (all []finding, err error) {
	seen := 0
	for x, err := range ids.List(ctx, c.store) {
		switch {
		case errors.Is(err, ids.ErrCorrupt):
			all = append(all, finding{Severity: wrong, Check: "counters", Text: fmt.Sprintf("counter %s can't be read, so programs get no number from it", x.Name),
				Fix: fmt.Sprintf("Find the largest number that was ever given out, and repair the counter: %s ids raise %s NUMBER -yes", c.Command, boot.ShellWord(x.Name))})
		case err != nil:
			return nil, err
		}
		if seen++; seen == mostSeen {
			break
		}
	}
	seen = 0
	for g, err := range gate.List(ctx, c.store) {
		switch {
		case err != nil && g.Name == "":
			return nil, err
		case err != nil:
			all = append(all, finding{Severity: wrong, Check: "gates", Text: fmt.Sprintf("gate %s can't be read, so programs get an error in place of waiting for it", g.Name),
				Fix: fmt.Sprintf("Close it: %s gates repair %s", c.Command, boot.ShellWord(g.Name))})
		case isDue(g.State, time.Now().Add(-clocksApart)):
			all = append(all, finding{Severity: note, Check: "gates", Text: fmt.Sprintf("gate %s was to open at %s, and no program has looked at it since", g.Name, clock(g.OpensAt)),
				Fix: "It opens when a program looks at it. Does one run?"})
		}
		if seen++; seen == mostSeen {
			break
		}
	}
	seen = 0
	for x, err := range lease.List(ctx, c.store, notUpdates) {
		switch {
		case err != nil && x.Name == "":
			return nil, err
		case err != nil:
			all = append(all, finding{Severity: wrong, Check: "locks", Text: fmt.Sprintf("lock %s can't be read, so nobody gets it", x.Name),
				Fix: fmt.Sprintf("Find the largest fence in the documents that it guards, and repair the lock: %s locks raise %s FENCE", c.Command, boot.ShellWord(x.Name))})
		}
		if seen++; seen == mostSeen {
			break
		}
	}
	return all, nil
}
