package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/host/internal/top"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/ops/catalog"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/worker"
)

// startWorker runs a worker that publishes its reports. stop stops it in order; kill leaves it as it is, but without a
// last report.
func (x *stranger) startWorker(t *testing.T, cfg worker.Config) (stop, kill func()) {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	cfg.Logger = quiet
	w, err := worker.New(x.Registry, cfg)
	if err != nil {
		t.Fatal(err)
	}
	alive := make(chan struct{})
	cut := storagetest.Intercept(x.Store, func(_ context.Context, op storagetest.Op, do func() error) error {
		select {
		case <-alive:
			return op.Fail(storage.ErrUnavailable)
		default:
			return do()
		}
	})
	p, err := catalog.NewReporter(cut, w, catalog.ReporterConfig{Program: "stranger", Version: "v1", Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	working, stopWorker := context.WithCancel(t.Context())
	publishing, stopReports := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	go func() { ended <- w.Run(working) }()
	go func() { ended <- p.Run(publishing) }()
	stop = func() {
		stopWorker()
		err := <-ended
		stopReports()
		if err = errors.Join(err, <-ended); err != nil {
			t.Error(err)
		}
	}
	return stop, func() { close(alive); stop() }
}

// load sends a number of commands a second until stop is called.
func (x *stranger) load(t *testing.T, perSecond int) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for worldtest.Pause(ctx, time.Second) == nil {
			worldtest.Send(x.World, slices.Repeat([]worldtest.Add{{To: "ada", Amount: 1}}, perSecond)...)
		}
	}()
	return func() { cancel(); <-ended }
}

// watchFor is what top prints of each queue in its last round. It looks every ten seconds.
func (x *stranger) watchFor(t *testing.T, seconds int) map[string]top.Line {
	t.Helper()
	last := map[string]top.Line{}
	out := x.want(t, 0, "", "top", "-json", "-every", "10s", "-n", fmt.Sprint(1+seconds/10))
	for text := range strings.Lines(out) {
		var line top.Line
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		last[line.Queue] = line
	}
	return last
}

func near(got *float64, want float64) bool {
	return got != nil && *got > want-0.25 && *got < want+0.25
}

func show(x *float64) string {
	if x == nil {
		return "null"
	}
	return fmt.Sprint(*x)
}

// top shows the rates of two workers together: OUT at once, and IN when it has watched for a minute.
func TestTopShowsTheRatesOfAllWorkers(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, x *stranger) {
		few := worker.Config{Concurrency: 1, MaxInHand: 1}
		stopOne, _ := x.startWorker(t, few)
		stopTwo, _ := x.startWorker(t, few)
		stopLoad := x.load(t, 2)
		time.Sleep(125 * time.Second)
		reports, err := catalog.ReadReports(t.Context(), x.Store)
		if err != nil || len(reports) != 4 || reports[0].ID == reports[1].ID {
			t.Errorf("got %d reports, %v; want 2 of each worker", len(reports), err)
		}
		if at := x.watchFor(t, 30)["accounts"]; !near(at.Out, 2) || at.In != nil || at.P99 == nil {
			t.Errorf("at once: got in %s, out %s, p99 %s; want out 2", show(at.In), show(at.Out), show(at.P99))
		}
		all := x.watchFor(t, 70)
		if at := all["accounts"]; !near(at.Out, 2) || !near(at.In, 2) || !near(at.Change, 0) {
			t.Errorf("after a minute: got in %s, out %s, change %s; want 2, 2, 0", show(at.In), show(at.Out), show(at.Change))
		}
		if at := all["lists"]; at.Out != nil || at.In != nil || !near(at.Change, 2) {
			t.Errorf("a queue without a worker: got in %s, out %s, change %s; want unknown, unknown, 2", show(at.In), show(at.Out), show(at.Change))
		}
		out := x.want(t, 0, "", "top", "-n", "1")
		contains(t, "lines", out, "lag 0s in – out 2.0/s p99 ")
		var w strings.Builder
		if err := topOn(t, t.Context(), x.Store, &w, nil, "-every", "1s", "-n", "1"); err != nil {
			t.Error(err)
		}
		contains(t, "screen", w.String(), "LAG IN OUT P99", "0s – 2.0/s ")
		if strings.Contains(out+w.String(), "Note") {
			t.Errorf("got a note: %s%s", out, w.String())
		}
		stopLoad()
		stopOne()
		stopTwo()
		contains(t, "after both have stopped", x.want(t, 0, "", "top", "-n", "1"), "in – out –", "Note: no worker publishes")
	})
}

// IN is more than OUT while a queue grows. A worker that was killed counts for some minutes only.
func TestTopShowsAQueueThatGrows(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, x *stranger) {
		x.fail = func(worldtest.Add) error { time.Sleep(time.Second); return nil }
		_, kill := x.startWorker(t, worker.Config{Concurrency: 1, MaxInHand: 1})
		stopLoad := x.load(t, 3)
		time.Sleep(125 * time.Second)
		if at := x.watchFor(t, 70)["accounts"]; !near(at.Out, 1) || !near(at.In, 3) || !near(at.P99, 1) {
			t.Errorf("got in %s, out %s, p99 %s; want 3, 1, 1", show(at.In), show(at.Out), show(at.P99))
		}
		stopLoad()
		kill()
		if at := x.watchFor(t, 0)["accounts"]; !near(at.Out, 1) {
			t.Errorf("after the kill: got out %s", show(at.Out))
		}
		time.Sleep(3 * time.Minute)
		if at := x.watchFor(t, 0)["accounts"]; at.Out != nil || at.In != nil {
			t.Errorf("some minutes later: got in %s, out %s, want unknown", show(at.In), show(at.Out))
		}
	})
}

// Rows that can't be read take the rates away, and nothing else.
func TestTopWithoutTheReports(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, x *stranger) {
		away := storagetest.Intercept(x.Store, func(_ context.Context, op storagetest.Op, do func() error) error {
			if op.Name == "query" && strings.Contains(op.Resource, "pulse/") {
				return op.Fail(storage.ErrUnavailable)
			}
			return do()
		})
		code, out, told := x.doOn(t, away, "", "top", "-n", "3")
		if code != 0 || strings.Count(told, "Note: what the workers publish can't be read") != 1 || strings.Count(out, "  accounts  ready 0") != 3 {
			t.Errorf("got exit code %d, %q, %q", code, out, told)
		}
		var w strings.Builder
		if err := topOn(t, t.Context(), away, &w, nil, "-every", "1s", "-n", "1"); err != nil || !strings.Contains(w.String(), "Note: what the workers publish can't be") {
			t.Errorf("on a screen: got %q, %v", w.String(), err)
		}
	})
}
