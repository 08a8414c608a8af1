package worker_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/coord/keylock"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/poison"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/values"
	"github.com/millrace-go/millrace/worker"
)

// lane is a process whose reactions take events in order. All processes share what the reactions did.
type lane struct {
	world
	log  *worldtest.Log
	done *doings
}

type doings struct {
	mu      sync.Mutex
	running map[string]int
	runs    map[string][]int // balances, by account
}

func newLane(t testing.TB, s *storage.Store, of *doings, cfg handlers.TurnConfig, f func(ctx context.Context, e Added) error) *lane {
	t.Helper()
	if of == nil {
		of = &doings{running: map[string]int{}, runs: map[string][]int{}}
	}
	l := &lane{log: worldtest.NewLog(), done: of}
	l.World = worldtest.NewBare(t, s, handlers.Config{Logger: slog.New(l.log)},
		channel.Command[Add]("accounts"), channel.Event[Added]("audits"), channel.Event[worldtest.Refused](), channel.InOrder("audits"))
	l.Accounts = values.New(l.Channels, "accounts", values.Config[Account]{})
	handlers.Decide(l.Registry, l.Accounts, Add.Subject, Account.Add, Added{}, worldtest.Refused{})
	handlers.ReactInOrder(l.Registry, "audits", func(ctx context.Context, e Added) error {
		of.mu.Lock()
		if of.running[e.To]++; of.running[e.To] > 1 {
			t.Errorf("two events of %s at the same time", e.To)
		}
		of.runs[e.To] = append(of.runs[e.To], e.Balance)
		of.mu.Unlock()
		defer func() { of.mu.Lock(); of.running[e.To]--; of.mu.Unlock() }()
		return f(ctx, e)
	})
	if cfg != (handlers.TurnConfig{}) {
		handlers.Turns(l.Registry, "audits", cfg)
	}
	return l
}

func (l *lane) runs(to string) []int {
	l.done.mu.Lock()
	defer l.done.mu.Unlock()
	return slices.Clone(l.done.runs[to])
}

func (l *lane) wantRuns(t testing.TB, what, to string, want ...int) {
	t.Helper()
	if got := l.runs(to); !slices.Equal(got, want) {
		t.Errorf("%s: got runs %v, want %v", what, got, want)
	}
}

// emit puts an event into the queue as the value object emits it. Its balance is its sequence number.
func (l *lane) emit(t testing.TB, to string, sequence int, previous int) {
	t.Helper()
	l.emitAfter(t, to, sequence, previous, time.Now())
}

// emitAfter is emit for an event whose previous one was emitted at a time.
func (l *lane) emitAfter(t testing.TB, to string, sequence int, previous int, at time.Time) {
	t.Helper()
	l.put(t, event(to, sequence, previous, at))
}

// event is an event as a value object emits it, whose previous one was emitted at a time.
func event(to string, sequence, previous int, at time.Time) channel.Envelope {
	e := worldtest.Envelope(worldtest.IDAt(time.Now(), sequence), Added{To: to, Balance: sequence})
	e.Source, e.Sequence = "/accounts/"+to, uint64(sequence)
	if previous >= 0 {
		e.SetPrevious([]string{"audits"}, func(string) wire.Stamp {
			return wire.Stamp{Sequence: uint64(previous), At: at.UnixMilli()}
		})
	}
	return e
}

// put puts an event into the queue.
func (l *lane) put(t testing.TB, e channel.Envelope) {
	t.Helper()
	o := l.Channels.Outbox()
	packed, err := o.PackFor(t.Context(), "audits", e)
	if err == nil {
		err = o.SendPacked(t.Context(), packed)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (l *lane) state(t testing.TB, to string) keylock.State {
	t.Helper()
	for x, err := range keylock.List(t.Context(), l.Store, "audits", "") {
		if err != nil {
			t.Fatal(err)
		}
		if x.Key == "/accounts/"+to {
			return x.State
		}
	}
	return keylock.State{}
}

// Workers that take events from one queue handle those of each value object in the order in which it emitted them.
// Events that went to other queues in between are no gap.
func TestLawInOrder(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		var mu sync.Mutex
		r := rand.New(rand.NewPCG(1, 2))
		handle := func(context.Context, Added) error {
			mu.Lock()
			pause := time.Duration(r.IntN(300)) * time.Millisecond
			fails := r.IntN(12) == 0
			mu.Unlock()
			time.Sleep(pause)
			if fails {
				return errors.New("by chance")
			}
			return nil
		}
		l := newLane(t, s, nil, handlers.TurnConfig{}, handle)
		for i := range 3 {
			p := l
			if i > 0 {
				p = newLane(t, s, l.done, handlers.TurnConfig{}, handle)
			}
			p.Start(worker.Config{Name: fmt.Sprint("w", i), MaxAttempts: 20})
		}
		for i := range 20 {
			for _, to := range []string{"a", "b", "c"} {
				worldtest.Send(l.World, Add{To: to, Amount: 1})
				if i%3 == 0 {
					worldtest.Send(l.World, Add{To: to, Amount: -1000})
				}
			}
			time.Sleep(50 * time.Millisecond)
		}
		l.empty(t, time.Second)
		for _, to := range []string{"a", "b", "c"} {
			got := l.runs(to)
			if !slices.IsSorted(got) || len(slices.Compact(got)) != 20 {
				t.Errorf("%s: got runs %v", to, l.runs(to))
			}
		}
		worldtest.Want(t, "poisoned", len(l.Poisoned("audits")), 0)
		worldtest.Want(t, "gaps", l.log.Count("an event waits for one"), 0)
	})
}

// A gap is told, in the log and in the listing, and the events after it wait. They cost other value objects nothing.
func TestLawInOrderAGapIsNoticed(t *testing.T) {
	virtually(t, func(t *testing.T, s *storage.Store) {
		l := newLane(t, s, nil, handlers.TurnConfig{}, func(context.Context, Added) error { return nil })
		l.Start(worker.Config{Logger: slog.New(l.log)})
		l.emit(t, "a", 1, 0)
		l.emit(t, "a", 7, 4)
		l.emit(t, "a", 9, 7)
		l.emit(t, "b", 1, 0)
		l.emit(t, "b", 2, 1)
		time.Sleep(5 * time.Second)
		l.wantRuns(t, "beside a gap", "b", 1, 2)
		time.Sleep(time.Minute)
		l.wantRuns(t, "before the gap", "a", 1)
		if g := l.state(t, "a").Gap; g == nil || g.Previous != 4 || g.Sequence != 7 {
			t.Errorf("got gap %+v", g)
		}
		worldtest.Want(t, "told", l.log.Count("WARN an event waits for one before it that has not come"), 1)
		l.emit(t, "a", 4, 1)
		l.empty(t, time.Second)
		l.wantRuns(t, "after the gap", "a", 1, 4, 7, 9)
		if g := l.state(t, "a").Gap; g != nil {
			t.Errorf("got gap %+v after it closed", g)
		}
	})
}

// Others go past an event that never comes, after the patience of the configuration. If it comes after that it runs, so
// nothing is lost. A repeat of an event that is done doesn't run.
func TestLawInOrderAGapThatNeverCloses(t *testing.T) {
	virtually(t, func(t *testing.T, s *storage.Store) {
		l := newLane(t, s, nil, handlers.TurnConfig{Patience: 5 * time.Minute}, func(context.Context, Added) error { return nil })
		l.Start(worker.Config{Logger: slog.New(l.log)})
		l.emit(t, "a", 1, 0)
		l.emit(t, "a", 5, 3)
		time.Sleep(4 * time.Minute)
		l.wantRuns(t, "before", "a", 1)
		time.Sleep(2 * time.Minute)
		l.wantRuns(t, "after", "a", 1, 5)
		worldtest.Want(t, "told", l.log.Count("WARN a message that should come first has not come", "for 5m0s"), 1)
		if x := l.state(t, "a").Skipped; x == nil || x.Number != 1 {
			t.Errorf("got %+v, want it noted", x)
		}
		l.emit(t, "a", 1, 0)
		l.emit(t, "a", 3, 1)
		l.emit(t, "a", 5, 3)
		l.emit(t, "a", 3, 1)
		l.empty(t, time.Second)
		l.wantRuns(t, "late", "a", 1, 5, 3)
	})
}

// A gap halts its value object where the configuration says so, until the event comes, or an operator releases it.
func TestLawInOrderAGapHalts(t *testing.T) {
	virtually(t, func(t *testing.T, s *storage.Store) {
		l := newLane(t, s, nil, handlers.TurnConfig{Patience: time.Minute, Halt: true}, func(context.Context, Added) error { return nil })
		l.Start(worker.Config{Logger: slog.New(l.log)})
		for _, to := range []string{"a", "b"} {
			l.emit(t, to, 1, 0)
			l.emit(t, to, 3, 2)
		}
		time.Sleep(time.Hour)
		for _, to := range []string{"a", "b"} {
			l.wantRuns(t, "halted", to, 1)
			if l.state(t, to).Halted == nil {
				t.Errorf("%s is not halted: %+v", to, l.state(t, to))
			}
		}
		l.emit(t, "a", 2, 1)
		if _, released, err := keylock.Release(t.Context(), s, "audits", "/accounts/b", keylock.Note{By: "ada"}); err != nil || !released {
			t.Errorf("release: got %v, %v", released, err)
		}
		l.empty(t, time.Minute)
		l.wantRuns(t, "healed", "a", 1, 2, 3)
		l.wantRuns(t, "released", "b", 1, 3)
	})
}

// Others go past an event that is poisoned, or wait for it, as the configuration says. Sent back, it runs.
func TestLawInOrderPoison(t *testing.T) {
	t.Parallel()
	for name, halt := range map[string]bool{"skip": false, "halt": true} {
		t.Run(name, func(t *testing.T) {
			virtually(t, func(t *testing.T, s *storage.Store) {
				closed := true
				l := newLane(t, s, nil, handlers.TurnConfig{Halt: halt}, func(_ context.Context, e Added) error {
					if closed && e.Balance == 2 {
						return errors.New("closed")
					}
					return nil
				})
				l.Start(worker.Config{MaxAttempts: 2})
				l.emit(t, "a", 1, 0)
				l.emit(t, "a", 2, 1)
				l.emit(t, "a", 3, 2)
				time.Sleep(time.Hour)
				closed = false
				want := []int{1, 2, 2, 3}
				if halt {
					want = want[:3]
				}
				l.wantRuns(t, "before", "a", want...)
				for _, e := range l.Poisoned("audits") {
					if err := poison.At(l.Channels, "audits").Retry(t.Context(), e.Key); err != nil {
						t.Fatal(err)
					}
				}
				l.empty(t, time.Minute)
				if want = append(want, 2); halt {
					want = append(want, 3)
				}
				l.wantRuns(t, "after", "a", want...)
			})
		})
	}
}

// Events outside of the order run when they come, and nothing waits for them.
func TestLawInOrderOutsideOfTheOrder(t *testing.T) {
	virtually(t, func(t *testing.T, s *storage.Store) {
		l := newLane(t, s, nil, handlers.TurnConfig{}, func(context.Context, Added) error { return nil })
		l.Start(worker.Config{Logger: slog.New(l.log)})
		l.emit(t, "a", 12, -1) // of a program whose routes say nothing of order
		l.emit(t, "a", 1, 0)
		time.Sleep(time.Second)
		l.emit(t, "a", 14, -1)
		l.emit(t, "a", 16, 1)
		l.emit(t, "a", 9, -1)
		l.empty(t, time.Second)
		got := l.runs("a")
		slices.Sort(got)
		if !slices.Equal(got, []int{1, 9, 12, 14, 16}) {
			t.Errorf("got runs %v", l.runs("a"))
		}
	})
}

// The row of a value object that is quiet for long is gone, and its next event is no gap.
func TestLawInOrderAQuietSource(t *testing.T) {
	virtually(t, func(t *testing.T, s *storage.Store) {
		l := newLane(t, s, nil, handlers.TurnConfig{}, func(context.Context, Added) error { return nil })
		l.Start(worker.Config{Logger: slog.New(l.log)})
		l.emitAfter(t, "a", 8, 7, time.Now().Add(-31*24*time.Hour))
		time.Sleep(5 * time.Second)
		l.wantRuns(t, "at once", "a", 8)
	})
}

// A worker dies in its nth storage call, for every n. Another one finishes: every event has run, none before the one
// before it has run to its end.
func TestLawInOrderCrashAfterEveryCall(t *testing.T) {
	t.Parallel()
	for _, moment := range []storagetest.Moment{storagetest.BeforeEffect, storagetest.AfterEffect} {
		t.Run(fmt.Sprint(moment), func(t *testing.T) {
			virtually(t, func(t *testing.T, s *storage.Store) {
				for n := int64(1); n < 100 && !t.Failed(); n += worldtest.Stride {
					if !orderTrial(t, s, n, moment) {
						return
					}
				}
			})
		})
	}
}

func orderTrial(t *testing.T, s *storage.Store, n int64, moment storagetest.Moment) bool {
	t.Helper()
	to := fmt.Sprint("a-", n)
	handle := func(context.Context, Added) error { time.Sleep(900 * time.Millisecond); return nil }
	l := newLane(t, s, nil, handlers.TurnConfig{}, handle)
	for i := range 4 {
		l.emit(t, to, i+1, i)
	}
	dying, fuse := storagetest.Crash(s, n, moment)
	stop := newLane(t, dying, l.done, handlers.TurnConfig{}, handle).Start(worker.Config{Visibility: 3 * time.Second, DrainTimeout: time.Second, Consume: []string{"audits"}})
	for i := 0; !fuse.Fired() && worldtest.Queued(t, s, "audits") > 0 && i < 10_000; i++ {
		time.Sleep(50 * time.Millisecond)
	}
	fired := fuse.Fired()
	_ = stop()
	stop = l.Start(worker.Config{Visibility: 3 * time.Second})
	l.empty(t, time.Second)
	if err := stop(); err != nil {
		t.Error(err)
	}
	seen := map[int]bool{}
	for _, i := range l.runs(to) {
		if i > 1 && !seen[i-1] {
			t.Errorf("call %d: got runs %v", n, l.runs(to))
		}
		seen[i] = true
	}
	if len(seen) != 4 || len(l.Poisoned("audits")) > 0 {
		t.Errorf("call %d: got runs %v, poisoned %d", n, l.runs(to), len(l.Poisoned("audits")))
	}
	return fired
}

// An event that is done in a turn whose end can't be written isn't deleted: else the next one would wait for it for
// ever.
func TestLawInOrderAnEndThatFails(t *testing.T) {
	virtually(t, func(t *testing.T, s *storage.Store) {
		var away atomic.Bool
		sick := storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
			if op.Name == "put row" && away.Load() {
				return op.Fail(storage.ErrUnavailable)
			}
			return do()
		})
		var first sync.Once
		l := newLane(t, sick, nil, handlers.TurnConfig{}, func(context.Context, Added) error {
			first.Do(func() { away.Store(true) })
			return nil
		})
		l.Start(worker.Config{Logger: slog.New(l.log)})
		l.emit(t, "a", 1, 0)
		time.Sleep(20 * time.Second)
		away.Store(false)
		l.emit(t, "a", 2, 1)
		l.empty(t, time.Second)
		if got := l.runs("a"); len(got) < 3 || got[1] != 1 || got[len(got)-1] != 2 {
			t.Errorf("got runs %v; want the first again, and then the second", got)
		}
	})
}

// An event with a number that no value object reaches goes to the poison queue, and costs its value object nothing: the
// next one begins at once, in another process, too, and what is done stays done.
func TestLawInOrderNoNumberStopsAValueObject(t *testing.T) {
	virtually(t, func(t *testing.T, s *storage.Store) {
		l := newLane(t, s, nil, handlers.TurnConfig{}, func(context.Context, Added) error { return nil })
		stop := l.Start(worker.Config{Logger: slog.New(l.log)})
		l.emit(t, "a", 1, 0)
		e := badEvent("a", 2, 1)
		e.Sequence = 1 << 63
		l.put(t, e)
		l.empty(t, time.Second)
		l.emit(t, "a", 2, 1)
		l.empty(t, time.Second)
		worldtest.Want(t, "poisoned", len(l.Poisoned("audits")), 1)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		newLane(t, s, l.done, handlers.TurnConfig{}, func(context.Context, Added) error { return nil }).Start(worker.Config{Logger: slog.New(l.log)})
		l.emit(t, "a", 3, 2)
		l.emit(t, "a", 1, 0)
		time.Sleep(30 * time.Second)
		l.wantRuns(t, "in another process", "a", 1, 2, 3)
	})
}
