package worker_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/coord/keylock"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/worker"
)

// virtually runs a test on one store in virtual time.
func virtually(t *testing.T, test func(t *testing.T, s *storage.Store)) {
	t.Helper()
	inBubble(t, func(t *testing.T) { test(t, patient(worldtest.OpenStore(t, worldtest.Virtual), 3*time.Second)) })
}

// Whatever a handler does, its message alone fails, and the next goes on.
func TestLawOneAtATimePanicAndGoexit(t *testing.T) {
	virtually(t, func(t *testing.T, s *storage.Store) {
		x := newStreet(t, s, nil, handlers.TurnConfig{}, func(_ context.Context, e visit) error {
			switch e.N {
			case 2:
				panic("at two")
			case 3:
				runtime.Goexit()
			}
			return nil
		})
		x.Start(worker.Config{MaxAttempts: 2})
		x.send(t, numbered("a", 4)...)
		x.empty(t, time.Second)
		x.wantRuns(t, "a", 1, 2, 2, 3, 3, 4)
		worldtest.Want(t, "poisoned", len(x.Poisoned("visits")), 2)
		x.wantAlone(t)
	})
}

// A handler that hangs keeps its turn until it ends, although its message is given up. Other keys go on.
func TestLawOneAtATimeAHangKeepsItsTurn(t *testing.T) {
	virtually(t, func(t *testing.T, s *storage.Store) {
		hung := true
		handle := func(_ context.Context, e visit) error {
			if e.Key == "a" && e.N == 1 && hung {
				hung = false
				time.Sleep(time.Hour)
			}
			return nil
		}
		x := newStreet(t, s, nil, handlers.TurnConfig{}, handle)
		x.Start(worker.Config{})
		newStreet(t, s, x, handlers.TurnConfig{}, handle).Start(worker.Config{Name: "other"})
		x.send(t, numbered("a", 3)...)
		time.Sleep(30 * time.Minute)
		x.send(t, numbered("b", 3)...)
		time.Sleep(10 * time.Second)
		x.wantRuns(t, "a", 1)
		x.wantRuns(t, "b", 1, 2, 3)
		x.empty(t, time.Minute)
		x.wantAlone(t)
		if got := x.runs("a"); len(got) != 4 || got[1] != 1 {
			t.Errorf("got runs %v; want the first one again, and then the others", got)
		}
		worldtest.Want(t, "poisoned", len(x.Poisoned("visits")), 0)
	})
}

// A poisoned message halts its key, and no other, where the configuration says so. Sent back and done, it lets the
// others go on; an operator can let them go past it.
func TestLawOneAtATimeHalts(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		closed := true
		x := newStreet(t, s, nil, handlers.TurnConfig{Halt: true}, func(_ context.Context, e visit) error {
			if e.N == 2 && closed && e.Key != "c" {
				return handlers.Poison("closed", nil)
			}
			return nil
		})
		x.Start(worker.Config{Logger: slog.New(x.log)})
		for _, key := range []string{"a", "b", "c"} {
			x.send(t, numbered(key, 4)...)
		}
		time.Sleep(2 * time.Hour) // longer than any patience
		x.wantRuns(t, "a", 1, 2)
		x.wantRuns(t, "b", 1, 2)
		x.wantRuns(t, "c", 1, 2, 3, 4)
		if x.log.Count("ERROR a message halts its key") != 2 {
			t.Error("it isn't told")
		}
		closed = false
		before, released, err := keylock.Release(t.Context(), s, "visits", "a", keylock.Note{By: "ada"})
		if err != nil || !released || before.State.Halted.Why != "poison: closed" {
			t.Errorf("release: got %+v, %v, %v", before.State.Halted, released, err)
		}
		time.Sleep(31 * time.Minute)
		x.wantRuns(t, "a", 1, 2, 3, 4)
		x.wantRuns(t, "b", 1, 2)
		retryAll(t, x)
		x.empty(t, time.Minute)
		x.wantRuns(t, "a", 1, 2, 3, 4, 2)
		x.wantRuns(t, "b", 1, 2, 2, 3, 4)
		x.wantAlone(t)
	})
}

// A message that should come first and never comes back is waited for, as long as the configuration says. That is told.
func TestLawOneAtATimePatienceEnds(t *testing.T) {
	t.Parallel()
	for name, halt := range map[string]bool{"skip": false, "halt": true} {
		t.Run(name, func(t *testing.T) {
			virtually(t, func(t *testing.T, s *storage.Store) {
				cfg := handlers.TurnConfig{Patience: time.Minute, Halt: halt}
				handle := func(_ context.Context, e visit) error {
					if e.N == 1 {
						return handlers.Later(time.Hour, "not yet")
					}
					return nil
				}
				x := newStreet(t, s, nil, cfg, handle)
				stop := x.Start(worker.Config{})
				x.send(t, numbered("a", 2)...)
				time.Sleep(time.Second)
				if err := stop(); err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * time.Hour)
				loseFirst(t, s)
				y := newStreet(t, s, x, cfg, handle)
				y.Start(worker.Config{Logger: slog.New(x.log)})
				time.Sleep(59 * time.Minute)
				x.wantRuns(t, "a", 1)
				time.Sleep(4 * time.Minute)
				if halt {
					x.wantRuns(t, "a", 1)
					worldtest.Want(t, "told", x.log.Count("ERROR a message halts its key", "has not come for 1m0s"), 1)
					return
				}
				x.wantRuns(t, "a", 1, 2)
				worldtest.Want(t, "told", x.log.Count("WARN a message that should come first has not come"), 1)
			})
		})
	}
}

// loseFirst deletes the message that has number 1, as an operator with a mind of his own does.
func loseFirst(t *testing.T, s *storage.Store) {
	t.Helper()
	q := s.Queue("visits")
	all, err := q.Receive(t.Context(), 10, time.Minute)
	if err != nil || len(all) != 2 {
		t.Fatalf("got %d messages, %v; want 2", len(all), err)
	}
	for _, d := range all {
		if strings.Contains(string(d.Body), `"n":1`) {
			err = q.Delete(t.Context(), []storage.Receipt{d.Receipt})
		} else {
			_, err = q.Extend(t.Context(), d.Receipt, 0)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A key that a message can't have, or whose function panics, is that message's fault alone. Hostile keys are keys.
func TestLawOneAtATimeKeys(t *testing.T) {
	virtually(t, func(t *testing.T, s *storage.Store) {
		x := newStreet(t, s, nil, handlers.TurnConfig{}, func(context.Context, visit) error { return nil })
		bad := []string{"", "\x00", "a\nb", strings.Repeat("k", 257)}
		good := []string{"../..", "/", "\\", "%2f", "#?", "' or 1=1", "ключ", " ", "A", strings.Repeat("k", 256)}
		for _, key := range append(bad, good...) {
			x.send(t, visit{Key: key})
		}
		x.Start(worker.Config{})
		x.empty(t, time.Second)
		for _, key := range good {
			if len(x.runs(key)) != 1 {
				t.Errorf("key %.10q: ran %d times", key, len(x.runs(key)))
			}
		}
		all := x.Poisoned("visits")
		worldtest.Want(t, "poisoned", len(all), len(bad))
		for _, e := range all {
			worldtest.Want(t, "reason", e.Reason, handlers.ReasonBadKey)
		}
	})
}

// The turn of a handler that still runs is taken away. Its context ends, and no attempt is spent.
func TestLawOneAtATimeALostTurnEndsTheContext(t *testing.T) {
	virtually(t, func(t *testing.T, s *storage.Store) {
		var first atomic.Bool
		first.Store(true)
		x := newStreet(t, s, nil, handlers.TurnConfig{}, func(ctx context.Context, _ visit) error {
			if n, _ := handlers.Attempt(ctx); n != 1 {
				t.Errorf("attempt %d", n)
			}
			if !first.Swap(false) {
				return nil
			}
			<-ctx.Done()
			if !errors.Is(context.Cause(ctx), keylock.ErrLost) {
				t.Errorf("got cause %v", context.Cause(ctx))
			}
			return ctx.Err()
		})
		x.Start(worker.Config{})
		x.send(t, visit{Key: "a"})
		time.Sleep(time.Second)
		if err := s.Table("turns").Delete(t.Context(), "visits", "a", storage.Condition{}); err != nil {
			t.Fatal(err)
		}
		x.empty(t, time.Second)
		worldtest.Want(t, "runs", len(x.runs("a")), 2)
	})
}

// Messages of one key that are in hand together take about two requests for their turn, not two each.
func TestLawOneAtATimeTwoRequestsForAGroup(t *testing.T) {
	virtually(t, func(t *testing.T, s *storage.Store) {
		var calls storagetest.Calls
		handle := func(context.Context, visit) error { return nil }
		x := newStreet(t, s, nil, handlers.TurnConfig{}, handle)
		for i := range 4 {
			x.send(t, numbered(fmt.Sprint("k", i), 50)...)
		}
		newStreet(t, storagetest.Intercept(s, calls.Hook), x, handlers.TurnConfig{}, handle).Start(worker.Config{})
		x.empty(t, time.Second)
		n := 0
		for _, op := range calls.Ops() {
			if strings.Contains(op.Resource, "turns/") {
				n++
			}
		}
		t.Logf("%d requests for the turns of 200 messages", n)
		if n > 40 {
			t.Errorf("%d requests for the turns of 200 messages of 4 keys", n)
		}
	})
}

// A worker dies in its nth storage call, for every n. Another one finishes: every message has run, none beside another,
// and none is poisoned.
func TestLawOneAtATimeCrashAfterEveryCall(t *testing.T) {
	t.Parallel()
	for _, moment := range []storagetest.Moment{storagetest.BeforeEffect, storagetest.AfterEffect} {
		t.Run(fmt.Sprint(moment), func(t *testing.T) {
			t.Parallel()
			worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
				s = patient(s, 3*time.Second)
				for n := int64(1); n < 100 && !t.Failed(); n += worldtest.Stride {
					if !turnTrial(t, s, n, moment) {
						return
					}
				}
			})
		})
	}
}

// turnTrial reports whether the first worker came as far as its nth call.
func turnTrial(t *testing.T, s *storage.Store, n int64, moment storagetest.Moment) bool {
	t.Helper()
	key := fmt.Sprint("key-", n)
	handle := func(ctx context.Context, e visit) error {
		time.Sleep(time.Second)
		if a, _ := handlers.Attempt(ctx); e.N == 2 && a == 1 {
			return errors.New("not at first")
		}
		return nil
	}
	x := newStreet(t, s, nil, handlers.TurnConfig{}, handle)
	x.send(t, numbered(key, 4)...)
	dying, fuse := storagetest.Crash(s, n, moment)
	stop := newStreet(t, dying, x, handlers.TurnConfig{}, handle).Start(worker.Config{Visibility: 3 * time.Second, DrainTimeout: time.Second})
	for i := 0; !fuse.Fired() && worldtest.Queued(t, s, "visits") > 0 && i < 10_000; i++ {
		time.Sleep(50 * time.Millisecond)
	}
	fired := fuse.Fired()
	_ = stop()
	synctest.Wait()
	x.mu.Lock()
	clear(x.running) // what died with its process
	x.mu.Unlock()
	stop = x.Start(worker.Config{Visibility: 3 * time.Second})
	x.empty(t, time.Second)
	if err := stop(); err != nil {
		t.Error(err)
	}
	got := x.runs(key)
	slices.Sort(got)
	if got = slices.Compact(got); !slices.Equal(got, []int{1, 2, 3, 4}) {
		t.Errorf("call %d: got runs %v", n, x.runs(key))
	}
	if len(x.Poisoned("visits")) > 0 {
		t.Errorf("call %d: poisoned", n)
	}
	x.wantAlone(t)
	return fired
}

// A message that failed keeps its place until it comes again, however long the delay of its retry is.
func TestLawOneAtATimeALongRetryKeepsItsPlace(t *testing.T) {
	virtually(t, func(t *testing.T, s *storage.Store) {
		failed := false
		x := newStreet(t, s, nil, handlers.TurnConfig{Halt: true}, func(_ context.Context, e visit) error {
			if e.N == 1 && !failed {
				failed = true
				return errors.New("fails once")
			}
			return nil
		})
		x.Start(worker.Config{Logger: slog.New(x.log), RetryDelay: func(int, string) time.Duration { return time.Hour }})
		x.send(t, numbered("a", 3)...)
		time.Sleep(50 * time.Minute)
		if got := x.runs("a"); len(got) != 1 || x.log.Count("ERROR a message halts its key") != 0 {
			t.Errorf("before the retry: got runs %v, %d halts", got, x.log.Count("ERROR a message halts its key"))
		}
		time.Sleep(4 * time.Hour)
		if got := x.runs("a"); !slices.Equal(got, []int{1, 1, 2, 3}) {
			t.Errorf("in the end: got runs %v", got)
		}
	})
}
