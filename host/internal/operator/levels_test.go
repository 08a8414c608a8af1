package operator

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/ops/acts"
	"github.com/millrace-go/millrace/ops/catalog"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/worker"
)

// publishWaiting runs the report of a worker that leaves out the queue wishes from level 1 on while waits is set.
func (x *stranger) publishWaiting(t *testing.T, waits *atomic.Bool) (stop func()) {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	w, err := worker.New(x.Registry, worker.Config{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	p, err := catalog.NewReporter(x.Store, w, catalog.ReporterConfig{Logger: quiet, WaitsFrom: func(queue string) int {
		if queue == "wishes" && waits.Load() {
			return 1
		}
		return 0
	}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// While all workers leave a queue out at their level, doctor and queues say so, and don't ask whether a worker runs.
func TestQueuesThatWaitForTheirLevel(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		const asks = "queue wishes: the oldest of"
		x := newStranger(t, s)
		x.publish(t)
		worldtest.Send(x.World, wish{For: "ada"})
		var one, two atomic.Bool
		one.Store(true)
		two.Store(true)
		stopOne, stopTwo := x.publishWaiting(t, &one), x.publishWaiting(t, &two)
		defer stopOne()
		time.Sleep(3 * time.Minute)
		contains(t, "doctor", x.want(t, exitWrong, "", "doctor"),
			"NOTE queue wishes waits for its level: its workers leave it out from level 1 on. 1 message waits in it When there is time for it, lower the level: millrace settings set level=0")
		time.Sleep(7 * time.Minute)
		out := x.want(t, exitWrong, "", "doctor")
		contains(t, "doctor, later", out, "WRONG queue wishes waits for its level")
		if strings.Contains(out, asks) {
			t.Errorf("doctor asks for a worker: %s", out)
		}
		contains(t, "doctor -json", x.want(t, exitWrong, "", "doctor", "-json"), `"check":"levels","queue":"wishes"`)
		contains(t, "queues", x.want(t, 0, "", "queues"), "Waits: wishes, its workers leave it out from level 1 on")
		for _, line := range jsonLines[acts.Queue](t, result{out: x.want(t, 0, "", "queues", "-json")}) {
			if got := line.WaitsFrom; (got != nil) != (line.Queue == "wishes") || got != nil && *got != 1 {
				t.Errorf("%s waits from %v", line.Queue, got)
			}
		}

		two.Store(false)                          // one worker consumes it again, so its messages should go
		time.Sleep(2*time.Minute + 7*time.Second) // a worker doesn't stop in the moment of its report
		out = x.want(t, exitWrong, "", "doctor")
		contains(t, "doctor, when a worker consumes it", out, asks)
		if strings.Contains(out+x.want(t, 0, "", "queues"), "leave it out") {
			t.Errorf("the queue still waits: %s", out)
		}
		stopTwo() // the other one alone is left
		time.Sleep(2 * time.Minute)
		contains(t, "queues, when that worker has stopped", x.want(t, 0, "", "queues"), "Waits: wishes")
	})
}
