package catalog_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/ops/catalog"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/azure"
	"github.com/millrace-go/millrace/storage/azure/azuretest"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// virtual runs a test in virtual time, on a store in a file. Idle workers look seldom, so that long times cost little.
func virtual(t *testing.T, test func(t *testing.T, s *storage.Store)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		test(t, storagetest.WithProps(worldtest.OpenStore(t, worldtest.Virtual), func(p *storage.Props) { p.PollInterval = 10 * time.Minute }))
	})
}

// Law 1: the reports add up to what the worker has done, over a graceful stop.
func TestLaw8ReportsAddUp(t *testing.T) {
	virtual(t, func(t *testing.T, s *storage.Store) {
		w := newWorld(t, s)
		stop := w.work(t, s, catalog.ReporterConfig{})
		for i := range 150 { // seconds
			worldtest.Send(w.World, job{Name: fmt.Sprint("job", i)})
			if i%50 == 7 {
				worldtest.Send(w.World, job{Name: "bad"})
			}
			time.Sleep(time.Second)
			if i == 57 {
				worldtest.Want(t, "reports in the first minute", len(readAll(t, s)), 0)
			}
		}
		worldtest.Want(t, "reports after two minutes and a half", len(readAll(t, s)), 2)
		stop()
		all := readAll(t, s)
		if len(all) != 3 || all[0].Last || all[1].Last || !all[2].Last {
			t.Fatalf("got %+v, want three reports, the last one marked", all)
		}
		w.wantSum(t, all)
		p := all[1]
		if p.Program != "shop" || p.Version != "v1" || p.Worker != "one" || p.Seconds != 60 || p.Up != 120 || p.Queues["jobs"].P99 <= 0 || len(p.Queues) != 2 {
			t.Errorf("got %+v", p)
		}
		if c := w.worker.Counts()["jobs"]; c.Done != 150 || c.Poisoned != 3 || c.Retried != 3 {
			t.Errorf("got %+v, want 150 done and 3 poisoned", c)
		}
	})
}

// A worker that has done nothing and stops in its first minute leaves no row.
func TestNothingIsPublishedOfNothing(t *testing.T) {
	virtual(t, func(t *testing.T, s *storage.Store) {
		w := newWorld(t, s)
		stop := w.work(t, s, catalog.ReporterConfig{})
		time.Sleep(30 * time.Second)
		stop()
		worldtest.Want(t, "reports", len(readAll(t, s)), 0)
	})
}

// Law 2: a store that fails, before a write or after it, costs no count, and is two lines in the log.
func TestLaw9AStoreThatFailsCostsNoCount(t *testing.T) {
	virtual(t, func(t *testing.T, s *storage.Store) {
		r := rand.New(rand.NewPCG(3, 4))
		var mu sync.Mutex
		down := false
		faulty := storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
			mu.Lock()
			fails, after := down && op.Name == "put row", r.IntN(2) == 0
			mu.Unlock()
			if !fails {
				return do()
			}
			if after {
				_ = do()
			}
			return op.Fail(storage.ErrUnavailable)
		})
		set := func(v bool) { mu.Lock(); down = v; mu.Unlock() }
		w, log := newWorld(t, s), worldtest.NewLog()
		stop := w.work(t, faulty, catalog.ReporterConfig{Logger: slog.New(log)})
		for i := range 40 {
			set(i >= 10 && i < 30)
			for range i {
				worldtest.Send(w.World, job{Name: "good"})
			}
			time.Sleep(time.Minute)
		}
		stop()
		w.wantSum(t, readAll(t, s))
		worldtest.Want(t, "warnings", log.Count("WARN", "can't publish what this worker counts"), 1)
		worldtest.Want(t, "lines that it is over", log.Count("INFO", "is published again"), 1)
	})
}

// Law 2: a store that hangs delays a stop by three seconds at most, and the worker by nothing.
func TestLaw9AStoreThatHangs(t *testing.T) {
	virtual(t, func(t *testing.T, s *storage.Store) {
		hung := storagetest.Intercept(s, func(ctx context.Context, op storagetest.Op, _ func() error) error {
			<-ctx.Done()
			return ctx.Err()
		})
		w := newWorld(t, s)
		stop := w.work(t, hung, catalog.ReporterConfig{})
		time.Sleep(65 * time.Second)
		worldtest.Send(w.World, job{Name: "good"})
		time.Sleep(time.Minute)
		worldtest.Want(t, "messages handled", w.worker.Handled("jobs"), 1)
		begin := time.Now()
		stop()
		if took := time.Since(begin); took > 3*time.Second {
			t.Errorf("the stop took %v", took)
		}
	})
}

// Law 3: rates come from the workers' own time, and clocks decide only which reports are recent.
func TestLaw10RatesNeedNoClocks(t *testing.T) {
	virtual(t, func(t *testing.T, s *storage.Store) {
		now := time.Now().UTC()
		for i, c := range []struct {
			ahead time.Duration
			read  bool
		}{{-4 * time.Minute, false}, {-59 * time.Second, true}, {0, true}, {59 * time.Second, true}, {2 * time.Minute, false}} {
			put(t, s, catalog.Report{Time: now.Add(c.ahead), Seconds: 30, Up: 30, Queues: map[string]catalog.QueueReport{"jobs": {Done: 300, Poisoned: 30, Cancelled: 30, Retried: 77}}}, fmt.Sprint("w", i))
			put(t, s, catalog.Report{Time: now.Add(c.ahead), Seconds: 60, Up: 90, Queues: map[string]catalog.QueueReport{"jobs": {Done: 540, P99: 20}}}, fmt.Sprint("w", i))
			found := 0
			for _, p := range readReports(t, s) {
				if p.ID == fmt.Sprint("w", i) {
					found++
				}
			}
			if (found == 2) != c.read {
				t.Errorf("a clock that is %v ahead: got %d of 2 reports", c.ahead, found)
			}
		}
		r := catalog.Rates(readReports(t, s), catalog.Window)["jobs"]
		if want := (catalog.Rate{Out: 3 * 10, Over: 90 * time.Second, P99: 20 * time.Millisecond}); r != want {
			t.Errorf("got %+v, want %+v", r, want)
		}
		r = catalog.Rates(readReports(t, s), time.Minute)["jobs"]
		if want := (catalog.Rate{Out: 3 * 9, Over: time.Minute, P99: 20 * time.Millisecond}); r != want {
			t.Errorf("within a minute: got %+v, want %+v", r, want)
		}
		put(t, s, catalog.Report{Time: now, Seconds: 1, Up: 91, Last: true, Queues: map[string]catalog.QueueReport{"jobs": {Done: 1000}}}, "w2")
		worldtest.Want(t, "the rate when one has stopped", catalog.Rates(readReports(t, s), catalog.Window)["jobs"].Out, 2*10)
	})
}

// put puts the row of a report.
func put(t testing.TB, s *storage.Store, p catalog.Report, id string) {
	t.Helper()
	body, err := p.Encode()
	if err != nil {
		t.Fatal(err)
	}
	putRaw(t, s, p.Time, catalog.KeyOf(p.Time, id, int(p.Up)), body)
}

func putRaw(t testing.TB, s *storage.Store, at time.Time, key string, body []byte) {
	t.Helper()
	if _, err := s.Table("pulse").Put(t.Context(), at.UTC().Format("15"), key, body, storage.Condition{}); err != nil {
		t.Fatal(err)
	}
}

// Law 4: rows stay for a day, and go with the next report in their hour after that, also where workers run for some
// minutes a day, and however many workers there are.
func TestLaw11OldRowsGo(t *testing.T) {
	for name, c := range map[string]struct {
		workers      int
		runs, pauses time.Duration
		least, most  int
	}{
		"one that always runs": {workers: 1, runs: 24 * time.Hour, least: 24 * 6, most: 48*6 + 2},
		"three together":       {workers: 3, runs: 24 * time.Hour, least: 3 * 24 * 6, most: 3 * (48*6 + 2)},
		"a job each day":       {workers: 1, runs: 90 * time.Minute, pauses: 22*time.Hour + 30*time.Minute, least: 9, most: 2*9 + 4},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, s *storage.Store) {
				w := newWorld(t, s)
				for range 3 {
					var stops []func()
					for range c.workers {
						time.Sleep(time.Second)
						stops = append(stops, run(t, w.publisher(t, s, catalog.ReporterConfig{Every: 10 * time.Minute}).Run))
					}
					time.Sleep(c.runs)
					for _, stop := range stops {
						stop()
					}
					all := readAll(t, s)
					if n := len(all); n < c.least || n > c.most || time.Since(all[0].Time) > 48*time.Hour+20*time.Minute {
						t.Errorf("got %d reports of %v, want %d to %d", n, time.Since(all[0].Time), c.least, c.most)
					}
					time.Sleep(c.pauses)
				}
			})
		})
	}
}

// Law 4: a report removes 500 rows at most, and the next one goes on.
func TestLaw11TheWorkOfAReportIsBounded(t *testing.T) {
	virtual(t, func(t *testing.T, s *storage.Store) {
		var rows []storage.RowPut
		for i := range 2*catalog.SweepMost + 100 {
			rows = append(rows, storage.RowPut{Key: catalog.KeyOf(time.Now().AddDate(0, -1, 0), "old", i), Data: []byte("{}")})
		}
		table, hour := s.Table("pulse"), time.Now().UTC().Format("15")
		if err := table.PutRows(t.Context(), hour, rows); err != nil {
			t.Fatal(err)
		}
		p := newWorld(t, s).publisher(t, s, catalog.ReporterConfig{})
		for _, want := range []int{catalog.SweepMost + 101, 102, 3, 4} {
			p.Publish(t.Context())
			n := 0
			for _, err := range table.Query(t.Context(), hour, storage.RowRange{}) {
				if err != nil {
					t.Fatal(err)
				}
				n++
			}
			worldtest.Want(t, "rows", n, want)
		}
	})
}

// Law 5: a row is bounded, and keeps what matters most.
func TestLaw12BoundsTheSize(t *testing.T) {
	t.Parallel()
	p := catalog.Report{Program: strings.Repeat("ä", 500), Worker: strings.Repeat("\x00", 500), Queues: map[string]catalog.QueueReport{}}
	for i := range 2000 {
		q := catalog.QueueReport{Done: int64(i), Kinds: map[channel.Kind]catalog.KindReport{}}
		q.Kinds["a.kind.of.it.v1"] = catalog.KindReport{Done: int64(i)}
		p.Queues[fmt.Sprintf("queue-%04d", i)] = q
		if i%50 > 0 && i < 1999 {
			continue
		}
		body, err := p.Encode()
		if err != nil || len(body) > catalog.MaxRow {
			t.Fatalf("%d queues: got %d bytes, %v", i, len(body), err)
		}
	}
	s := worldtest.OpenStore(t, "")
	p.Time = time.Now()
	put(t, s, p, "a")
	all := readReports(t, s)
	if len(all) != 1 || !all[0].Cut || all[0].Queues["queue-1999"].Done != 1999 || len(all[0].Queues) < 500 || !strings.HasSuffix(all[0].Program, "ä…") {
		t.Errorf("got %d reports", len(all))
	}
}

// Off publishes nothing, and other settings that can't be right are refused.
func TestReporterConfig(t *testing.T) {
	virtual(t, func(t *testing.T, s *storage.Store) {
		w := newWorld(t, s)
		stop := w.work(t, s, catalog.ReporterConfig{Every: catalog.NoReports})
		worldtest.Send(w.World, job{Name: "good"})
		time.Sleep(3 * time.Hour)
		stop()
		worldtest.Want(t, "reports", len(readAll(t, s)), 0)
		for _, every := range []time.Duration{-2, 1, 10*time.Second - 1, -time.Hour} {
			if _, err := catalog.NewReporter(s, w.worker, catalog.ReporterConfig{Every: every}); err == nil || !strings.Contains(err.Error(), "want at least 10s") {
				t.Errorf("%v: got error %v", every, err)
			}
		}
	})
}

// An idle hour costs 60 writes and one listing.
func TestCostOfAnIdleHour(t *testing.T) {
	virtual(t, func(t *testing.T, s *storage.Store) {
		asked := map[string]int{}
		var mu sync.Mutex
		metered := storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
			mu.Lock()
			defer mu.Unlock()
			asked[op.Name]++
			return do()
		})
		w := newWorld(t, s)
		run(t, w.publisher(t, metered, catalog.ReporterConfig{}).Run)
		run(t, w.worker.Run)
		time.Sleep(30*time.Minute + time.Second)
		for hour := range 3 {
			mu.Lock()
			clear(asked)
			mu.Unlock()
			time.Sleep(time.Hour)
			mu.Lock()
			if got := fmt.Sprint(asked); got != "map[put row:60 query:1]" {
				t.Errorf("hour %d: got %s", hour, got)
			}
			mu.Unlock()
		}
	})
}

// The same on Azurite: a report is one request, and old rows go in one more beside the listing.
func TestReportsOnAzurite(t *testing.T) {
	t.Parallel()
	s, err := azure.Open(t.Context(), azuretest.Place(t, azuretest.Launch, azure.Wipe))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	w := newWorld(t, s)
	for i := range 50 {
		old := time.Now().AddDate(0, 0, -1-i%7)
		putRaw(t, s, time.Now(), catalog.KeyOf(old.Add(-time.Minute), "old", i), []byte("{}"))
	}
	p := w.publisher(t, s, catalog.ReporterConfig{})
	before := requests(s)
	for range 3 {
		p.Publish(t.Context())
	}
	after := requests(s)
	for op, want := range map[string]int64{"put": 3, "query": 1, "delete batch": 1} {
		if got := after[op] - before[op]; got != want {
			t.Errorf("%s: got %d requests, want %d; in all %v", op, got, want, after)
		}
	}
	worldtest.Want(t, "reports", len(readReports(t, s)), 3)
}

// requests counts the requests of a store about reports.
func requests(s *storage.Store) map[string]int64 {
	all := map[string]int64{}
	for _, r := range s.Requests() {
		if r.Target == "pulse" {
			all[r.Op] += r.Count
		}
	}
	return all
}
