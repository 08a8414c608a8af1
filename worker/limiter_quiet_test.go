package worker_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/worker"
)

// While a queue is paused, its consumer asks nothing of the store, however messages come: sent by another process, with
// a ring, or through the same store, which would hand them over.
func TestLawAPausedConsumerIsSilent(t *testing.T) {
	for name, limit := range map[string]func(s *storage.Store, rings chan struct{}) *storage.Store{
		"handed over": func(s *storage.Store, _ chan struct{}) *storage.Store { return s },
		"polled":      func(s *storage.Store, _ chan struct{}) *storage.Store { return storagetest.Plain(s) },
		"rung for":    storagetest.WithRings,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				var calls storagetest.Calls
				rings := make(chan struct{}, 1)
				s := limit(worldtest.OpenStore(t, worldtest.Virtual), rings)
				l, pause := newLab(t, s, nothing), newDial(worker.Limits{Pause: true})
				counted := newLab(t, storagetest.Intercept(s, calls.Hook), nothing)
				counted.Start(worker.Config{Queues: jobsLimiter(pause.open)})
				quiet := func(when string) {
					t.Helper()
					time.Sleep(time.Minute)
					before := calls.Count()
					for range 60 {
						l.sendJobs(t, job{})
						select {
						case rings <- struct{}{}:
						default: // one is waiting
						}
						time.Sleep(time.Minute)
					}
					synctest.Wait()
					worldtest.Want(t, when+": calls of the store in an hour", calls.Count()-before, 0)
					worldtest.Want(t, when+": messages that are handled", len(counted.called()), 0)
				}
				quiet("paused from the start")
				pause.set(worker.Limits{})
				counted.empty(t, time.Second)
				worldtest.Want(t, "messages that are handled", len(counted.called()), 60)
				counted.calls = nil
				pause.set(worker.Limits{Pause: true})
				quiet("paused while it runs")
			})
		})
	}
}
