package worker_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/millrace-go/millrace/coord/keylock"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/worker"
)

// withAndWithoutHalt runs a test for keys that go on and for keys that halt.
func withAndWithoutHalt(t *testing.T, test func(t *testing.T, s *storage.Store, cfg handlers.TurnConfig)) {
	t.Helper()
	t.Parallel()
	for _, halt := range []bool{false, true} {
		t.Run(fmt.Sprint("halt ", halt), func(t *testing.T) {
			virtually(t, func(t *testing.T, s *storage.Store) { test(t, s, handlers.TurnConfig{Halt: halt}) })
		})
	}
}

// wantNoneMissed fails the test if a message is said not to have come.
func wantNoneMissed(t *testing.T, log *worldtest.Log) {
	t.Helper()
	for _, line := range []string{"ERROR a message halts its key", "WARN a message that should come first", "WARN an event waits"} {
		worldtest.Want(t, line, log.Count(line), 0)
	}
}

// A pause of the queue doesn't use up the patience of a key, however long it is and how many messages come meanwhile.
func TestLawOneAtATimeAPauseIsNotWaitedFor(t *testing.T) {
	withAndWithoutHalt(t, func(t *testing.T, s *storage.Store, cfg handlers.TurnConfig) {
		failed := 0
		x := newStreet(t, s, nil, cfg, func(_ context.Context, e visit) error {
			if e.Key == "a" && e.N == 1 && failed < 2 {
				failed++
				return handlers.Later(time.Minute, "the service is away")
			}
			time.Sleep(100 * time.Millisecond)
			return nil
		})
		d := newDial(worker.Limits{})
		x.Start(worker.Config{Logger: slog.New(x.log), Queues: map[string]worker.QueueConfig{"visits": {Concurrency: 1, MaxInHand: 1, Limiter: d.open}}})
		x.send(t, numbered("a", 3)...)
		for range 2 {
			time.Sleep(5 * time.Second)
			d.set(worker.Limits{Pause: true})
			for i := range 100 {
				x.send(t, visit{Key: fmt.Sprint("k", i), N: i})
				time.Sleep(12 * time.Second)
			}
			d.set(worker.Limits{})
		}
		time.Sleep(10 * time.Minute)
		x.wantRuns(t, "a", 1, 1, 1, 2, 3)
		wantNoneMissed(t, x.log)
	})
}

// A message that failed comes again behind a long backlog. The others of its key, which stand in that backlog, wait for
// it.
func TestLawOneAtATimeABacklogIsNotWaitedFor(t *testing.T) {
	withAndWithoutHalt(t, func(t *testing.T, s *storage.Store, cfg handlers.TurnConfig) {
		failed := false
		x := newStreet(t, s, nil, cfg, func(_ context.Context, e visit) error {
			if e.Key == "a" && !failed {
				failed = true
				return errors.New("fails once")
			}
			time.Sleep(20 * time.Second)
			return nil
		})
		for i := range 240 {
			if i%30 == 0 {
				x.send(t, visit{Key: "a", N: 1 + i/30})
			}
			x.send(t, visit{Key: fmt.Sprint("k", i), N: i})
		}
		x.Start(worker.Config{Logger: slog.New(x.log), Queues: map[string]worker.QueueConfig{"visits": {Concurrency: 1}}})
		time.Sleep(3 * time.Hour)
		x.wantRuns(t, "a", 1, 1, 2, 3, 4, 5, 6, 7, 8)
		wantNoneMissed(t, x.log)
	})
}

// Nor does a pause make a gap between events.
func TestLawInOrderAPauseIsNoGap(t *testing.T) {
	withAndWithoutHalt(t, func(t *testing.T, s *storage.Store, cfg handlers.TurnConfig) {
		failed := false
		l := newLane(t, s, nil, cfg, func(_ context.Context, e Added) error {
			if e.Balance == 1 && !failed {
				failed = true
				return handlers.Later(2*time.Minute, "the service is away")
			}
			return nil
		})
		d := newDial(worker.Limits{})
		l.emit(t, "a", 1, 0)
		time.Sleep(time.Second)
		l.emit(t, "a", 2, 1)
		l.emit(t, "a", 3, 2)
		l.Start(worker.Config{Logger: slog.New(l.log), Queues: map[string]worker.QueueConfig{"audits": {Concurrency: 1, MaxInHand: 1, Limiter: d.open}}})
		time.Sleep(30 * time.Second)
		d.set(worker.Limits{Pause: true})
		time.Sleep(20 * time.Minute)
		d.set(worker.Limits{})
		time.Sleep(10 * time.Minute)
		l.wantRuns(t, "after a pause", "a", 1, 1, 2, 3)
		wantNoneMissed(t, l.log)
	})
}

// The messages that wait behind a halt cost each some requests an hour.
func TestLawOneAtATimeAHaltedKeyCostsLittle(t *testing.T) {
	virtually(t, func(t *testing.T, s *storage.Store) {
		const many = 40
		var calls storagetest.Calls
		handle := func(context.Context, visit) error { return handlers.Poison("bad", nil) }
		x := newStreet(t, s, nil, handlers.TurnConfig{Halt: true}, handle)
		x.send(t, numbered("a", 1+many)...)
		newStreet(t, storagetest.Intercept(s, calls.Hook), x, handlers.TurnConfig{Halt: true}, handle).Start(worker.Config{})
		requests := func() (rewrites, turns int) {
			for _, op := range calls.Ops() {
				switch op.Name {
				case "rewrite":
					rewrites++
				case "get row", "put row":
					turns++
				}
			}
			return rewrites, turns
		}
		time.Sleep(time.Hour)
		rewrites, turns := requests()
		t.Logf("the first hour: %d rewrites and %d requests for the turn for %d messages", rewrites, turns, many)
		if rewrites > 20*many {
			t.Errorf("the first hour: %d rewrites for %d messages", rewrites, many)
		}
		time.Sleep(5 * time.Hour)
		more, moreTurns := requests()
		t.Logf("five hours more: %d rewrites, %d requests for the turn", more-rewrites, moreTurns-turns)
		if n := more - rewrites; n < 5*many || n > 11*many || moreTurns-turns > n/5 {
			t.Errorf("five hours: %d rewrites and %d requests for the turn for %d messages; want each to come every 30 minutes", n, moreTurns-turns, many)
		}
	})
}

// After a release the others come within as long as the key was halted, or a minute, and 30 minutes at most.
func TestLawOneAtATimeAReleasedKeyGoesOn(t *testing.T) {
	t.Parallel()
	for halted, want := range map[time.Duration]time.Duration{10 * time.Second: 70 * time.Second, 3 * time.Minute: 3 * time.Minute, 5 * time.Hour: 31 * time.Minute} {
		t.Run(halted.String(), func(t *testing.T) {
			virtually(t, func(t *testing.T, s *storage.Store) {
				x := newStreet(t, s, nil, handlers.TurnConfig{Halt: true}, func(_ context.Context, e visit) error {
					if e.N == 1 {
						return handlers.Poison("bad", nil)
					}
					return nil
				})
				x.send(t, numbered("a", 20)...)
				x.Start(worker.Config{})
				time.Sleep(halted)
				x.wantRuns(t, "a", 1)
				if _, released, err := keylock.Release(t.Context(), s, "visits", "a", keylock.Note{By: "ada"}); err != nil || !released {
					t.Fatalf("release: got %v, %v", released, err)
				}
				time.Sleep(want)
				if n := len(x.runs("a")); n != 20 {
					t.Errorf("%d of 20 have run %v after the release", n, want)
				}
			})
		})
	}
}
