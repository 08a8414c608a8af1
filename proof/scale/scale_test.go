// Package scale shows how the framework behaves with more workers, queues and commands than a test machine can run.
//
// Channels, workers, handlers, values and views are the real ones. They run in virtual time (testing/synctest) on a
// model of an Azure Storage account. The model has the limits that the service documents, the driver's reaction to a
// refusal, and latencies with a tail. It keeps everything in memory, and is good for measurements only. It passes the
// conformance suite all the same, so that its results aren't better than the real store's.
//
// A run has processes, queues, keys and a load. It ends when every command is in its view, and then counts: commands
// a second, lag, requests, refusals, money. docs/scale.md shows the results.
//
//	make scale        all runs, some twenty minutes: writes the tables and charts in docs/measured/scale
//
// The package consists of tests.
package scale

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"
)

// A group is the runs of one table and one chart.
type group struct {
	name, title string
	runs        []scenario
}

// groups are the runs of make scale. Each is just long enough for a steady rate.
func groups(burst int) []group {
	var queues, workers, waiting, hot, steady, accounts group
	queues = group{name: "queues", title: "More queues: 4 workers, a backlog"}
	for _, q := range []int{1, 2, 4, 8, 16, 64} {
		queues.runs = append(queues.runs, scenario{name: fmt.Sprintf("%d queues", q), workers: 4, queues: q, commands: max(12_000, min(6000*q, 100_000))})
	}
	workers = group{name: "workers", title: "More workers: 16 queues, a backlog, handlers that only compute"}
	for _, n := range []int{1, 4, 16, 64, 256, 1000} {
		workers.runs = append(workers.runs, scenario{name: fmt.Sprintf("%d workers", n), workers: n, queues: 16, commands: 100_000})
	}
	waiting = group{name: "waiting", title: "Handlers that wait 10 s: as many queues as workers, at most 16; a backlog"}
	for _, n := range []int{1, 10, 100, 1000} {
		run := scenario{name: fmt.Sprintf("%d workers", n), workers: n, queues: min(n, 16), keys: 5000, commands: min(600*n, 300_000), work: 10 * time.Second}
		waiting.runs = append(waiting.runs, run)
		if n >= 100 {
			run.name, run.single = run.name+", commands one at a time", true
			waiting.runs = append(waiting.runs, run)
		}
	}
	hot = group{name: "hot", title: "Skewed keys: 4 queues, a backlog"}
	for _, x := range []struct {
		workers int
		share   float64
	}{{4, 0}, {4, 0.2}, {4, 0.5}, {4, 1}, {16, 1}, {64, 1}} {
		hot.runs = append(hot.runs, scenario{name: fmt.Sprintf("%.0f %%, %d workers", 100*x.share, x.workers), workers: x.workers, queues: 4, keys: 5000, hot: x.share, commands: 16_000})
	}
	for _, n := range []int{4, 16, 64} {
		hot.runs = append(hot.runs, scenario{name: fmt.Sprintf("Zipf 1.1, %d workers", n), workers: n, queues: 4, keys: 5000, zipf: 1.1, commands: 16_000})
	}
	steady = group{name: "steady", title: "A steady stream: 4 workers, 16 queues"}
	for _, rate := range []float64{100, 500, 1000, 2000, 2500, 3000, 3500} {
		steady.runs = append(steady.runs, scenario{name: fmt.Sprintf("%.0f a second", rate), workers: 4, queues: 16, keys: 5000, rate: rate, commands: int(min(20*rate, 50_000))})
	}
	skew := group{name: "skew", title: "Skewed keys by queues: Zipf 1.1, 4 workers, a backlog"}
	lagQueues := group{name: "lag-queues", title: "Lag by queues: 400 commands a second, 4 workers"}
	for _, q := range []int{1, 4, 16, 64} {
		name := fmt.Sprintf("%d queues", q)
		skew.runs = append(skew.runs, scenario{name: name, workers: 4, queues: q, keys: 5000, zipf: 1.1, commands: max(12_000, min(6000*q, 100_000))})
		lagQueues.runs = append(lagQueues.runs, scenario{name: name, workers: 4, queues: q, keys: 5000, rate: 400, commands: 12_000})
	}
	skewWorkers := group{name: "skew-workers", title: "Skewed keys by workers: Zipf 1.1, 16 queues, a backlog"}
	lagWorkers := group{name: "lag-workers", title: "Lag by workers: 1,000 commands a second, 16 queues"}
	for _, n := range []int{1, 4, 16, 64, 256, 1000} {
		skewWorkers.runs = append(skewWorkers.runs, scenario{name: fmt.Sprintf("%d workers", n), workers: n, queues: 16, keys: 5000, zipf: 1.1, commands: 100_000})
		lagWorkers.runs = append(lagWorkers.runs, scenario{name: fmt.Sprintf("%d workers", n), workers: n, queues: 16, keys: 5000, rate: 1000, commands: 30_000})
	}
	for _, n := range []int{16, 64, 1000} {
		lagWorkers.runs = append(lagWorkers.runs, scenario{name: fmt.Sprintf("%d workers, one at a time", n), workers: n, queues: 16, keys: 5000, rate: 1000, commands: 30_000, single: true})
	}
	single := group{name: "single", title: "All workers, or one at a time for each queue: a backlog"}
	for _, x := range []scenario{
		{name: "uniform", queues: 16, commands: 100_000},
		{name: "Zipf 1.1", queues: 16, keys: 5000, zipf: 1.1, commands: 100_000},
		{name: "one key", queues: 4, keys: 5000, hot: 1, commands: 16_000},
	} {
		for _, n := range []int{16, 64, 256, 1000} {
			if n > 16*x.queues && x.hot > 0 {
				continue // no system has so many for one key
			}
			for _, x.single = range []bool{false, true} {
				run := x
				run.workers, run.name = n, fmt.Sprintf("%s, %d workers, %s", x.name, n, map[bool]string{false: "all", true: "one at a time"}[x.single])
				single.runs = append(single.runs, run)
			}
		}
	}
	accounts = group{name: "accounts", title: "More accounts: 16 workers, 64 queues, a backlog"}
	for _, n := range []int{1, 2, 4} {
		accounts.runs = append(accounts.runs, scenario{name: fmt.Sprintf("%d accounts", n), workers: 16, queues: 64, accounts: n, commands: 80_000 * n})
	}
	all := []group{queues, workers, waiting, hot, skew, skewWorkers, steady, lagQueues, lagWorkers, single, accounts}
	if burst > 0 {
		flood := scenario{name: fmt.Sprintf("%d in %d s", burst, burst/burstRate), workers: 16, queues: 64, keys: burst / 100, rate: burstRate, commands: burst}
		all = append(all, group{"burst", "A burst that is levelled: 16 workers, 64 queues", []scenario{flood}})
	}
	return all
}

// perKey is how many commands a key has by default.
const perKey = 8

// burstRate is ten million commands in ten minutes.
const burstRate = 16_667

// TestScale is make scale: it writes the tables that docs/scale.md explains into the folder that MILLRACE_SCALE
// names. MILLRACE_SCALE_BURST is the number of commands of the burst; without it there is no burst.
// MILLRACE_SCALE_ONLY names one group.
func TestScale(t *testing.T) {
	dir := os.Getenv("MILLRACE_SCALE")
	if dir == "" {
		return // TestWalls is the short version
	}
	burst := 0
	if v := os.Getenv("MILLRACE_SCALE_BURST"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil {
			t.Fatal(err)
		}
		burst = n
	}
	only := os.Getenv("MILLRACE_SCALE_ONLY")
	known := false
	for _, g := range groups(burst) {
		if only != "" && only != g.name {
			continue
		}
		known = true
		var results []result
		for i, s := range g.runs {
			s.seed = uint64(i + 1)
			if s.keys == 0 {
				s.keys = s.commands / perKey
			}
			r := run(t, s)
			t.Log(r)
			t.Logf("    requests a command: %s", r.detail)
			for _, text := range r.says {
				t.Logf("    logged %s", text)
			}
			results = append(results, r)
		}
		if err := write(dir, g, results); err != nil {
			t.Fatal(err)
		}
	}
	if !known {
		t.Fatalf("MILLRACE_SCALE_ONLY: there is no group %q; their names are in docs/measured/scale, and the burst wants BURST", only)
	}
}

// The limits of docs/scale.md hold on an account a tenth as large, which takes only seconds.
func TestWalls(t *testing.T) {
	t.Parallel()
	small := limits{account: 2000, queue: 200, blob: 300, partition: 200}
	s := scenario{queues: 4, keys: 500, commands: 1000, limits: small, work: time.Second, seed: 1}
	const perQueue, slots = 200 / 3.0, 32 // a message takes a send, a receive and a deletion

	run := func(name string, change func(*scenario)) result {
		x := s
		x.name = name
		change(&x)
		r := run(t, x)
		t.Log(r)
		return r
	}
	one := run("one worker that waits", func(s *scenario) { s.workers, s.commands, s.queues = 1, 400, 1 })
	four := run("four workers that wait", func(s *scenario) { s.workers = 4 })
	many := run("32 workers that wait", func(s *scenario) { s.workers = 32 })
	quick := run("one worker, one queue, a view", func(s *scenario) { s.workers, s.queues, s.work = 1, 1, 0 })
	hot := run("one hot key, eight workers", func(s *scenario) { s.workers, s.queues, s.hot, s.work = 8, 1, 1, 0 })
	single := run("one hot key, one of eight at a time", func(s *scenario) { s.workers, s.queues, s.hot, s.work, s.single = 8, 1, 1, 0, true })
	stream := run("a stream below the wall", func(s *scenario) { s.workers, s.rate, s.work = 2, 150, 0 })

	between := func(what string, got, least, most float64) {
		t.Helper()
		if got < least || got > most {
			t.Errorf("%s: got %.2f, want %.2f to %.2f", what, got, least, most)
		}
	}
	// A worker runs that many reactions at a time for each queue. The rates of workers add up, until the queues'
	// limit.
	between("rate of one worker that waits", one.perSecond, 0.8*slots, 1.05*slots)
	between("rate of four", four.perSecond, 3*one.perSecond, 4.2*one.perSecond)
	between("rate of one queue, to its wall", quick.perSecond, 0.7*perQueue, 1.2*perQueue)
	between("rate of a stream", stream.perSecond, 130, 170)
	for _, r := range []result{one, four, quick, stream} {
		between(r.name+": requests a command", r.requests, 4, 11)
		between(r.name+": refused share", r.throttled, 0, 0.35)
	}
	if stream.throttled > 0.01 || stream.p99 > 5*time.Second || stream.p50 > time.Second || stream.p50 <= 0 {
		t.Errorf("a stream below the wall: %v", stream)
	}
	// With more workers than the account can feed, the account refuses requests, but work goes on and nothing is
	// lost: each run checks that.
	between("rate of 32", many.perSecond, 0.5*4*perQueue, 4*small.queue) // all messages are sent when they start, and each needs one deletion at least
	// The commands of one hot key are folded. One worker at a time does that without races and with fewer requests.
	between("documents written for a hot command", hot.writes, 0, 0.7)
	between("documents written by one at a time", single.writes, 0, 0.35)
	between("races lost by one at a time", single.lost, 0, 0.02)
	if single.requests >= hot.requests {
		t.Errorf("one at a time makes %.1f requests for a hot command, all together %.1f", single.requests, hot.requests)
	}
	if many.throttled <= four.throttled {
		t.Errorf("eight times the workers that the account can feed are refused %.3f of their requests, those %.3f", many.throttled, four.throttled)
	}
}
