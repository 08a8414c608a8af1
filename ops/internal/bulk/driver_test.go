package bulk_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/ops/internal/bulk"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// A driver stands still in each of its calls, while another one takes the act over and does it. Then the call goes on.
// Each message is sent once all the same.
func TestLawTwoDriversSendNothingTwice(t *testing.T) {
	t.Parallel()
	for n := int64(1); ; n += worldtest.Stride {
		stood := false
		synctest.Test(t, func(t *testing.T) {
			s := worldtest.OpenStore(t, worldtest.Virtual)
			l := newLab(t, s)
			want := l.poison(t, 10)
			id := l.ask(t, bulk.Retry, bulk.Filter{}).ID
			slow := storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
				if op.Seq == n {
					stood = true
					unclaim(t, s, id)
					follow(t, driver(t, s, "quick"), id)
				}
				return do()
			})
			follow(t, driver(t, slow, "slow"), id)
			wantIDs(t, "sent back", l.sent(t), want)
			wantIDs(t, "left", l.left(), nil)
			l.ended(t, id, bulk.Done, len(want))
		})
		if t.Failed() {
			t.Fatalf("it stood still in call %d", n)
		}
		if !stood {
			return
		}
	}
}

// A driver stands still for longer than its right lasts, in each of its calls, beside another one that waits for the
// act. Each message is sent once, and both see the end.
func TestLawADriverThatStoodStillSendsNothing(t *testing.T) {
	t.Parallel()
	for n := int64(1); ; n += worldtest.Stride {
		stood := false
		synctest.Test(t, func(t *testing.T) {
			s := worldtest.OpenStore(t, worldtest.Virtual)
			l := newLab(t, s)
			want := l.poison(t, 10)
			id := l.ask(t, bulk.Retry, bulk.Filter{}).ID
			slow := storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
				if op.Seq == n {
					stood = true
					time.Sleep(time.Minute) // whatever its context says
				}
				return do()
			})
			var both sync.WaitGroup
			for name, s := range map[string]*storage.Store{"slow": slow, "quick": s} {
				both.Go(func() {
					for d := driver(t, s, name); ; {
						if _, err := d.Follow(t.Context(), id, bulk.Follower{}); !errors.Is(err, storage.ErrUnavailable) { // a call took too long
							worldtest.WantErr(t, err, nil)
							return
						}
					}
				})
			}
			both.Wait()
			wantIDs(t, "sent back", l.sent(t), want)
			wantIDs(t, "left", l.left(), nil)
			l.ended(t, id, bulk.Done, len(want))
		})
		if t.Failed() {
			t.Fatalf("it stood still in call %d", n)
		}
		if !stood {
			return
		}
	}
}

// While a driver lives, no other one takes its act over.
func TestLawALiveDriverKeepsItsAct(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		l := newLab(t, s)
		want := l.poison(t, 12)
		id := l.ask(t, bulk.Retry, bulk.Filter{}).ID
		slow := storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
			if op.Name == "delete blob" {
				time.Sleep(5 * time.Second)
			}
			return do()
		})
		var claims atomic.Int32
		other := storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
			if op.Name == "commit" || op.Name == "put blob" {
				claims.Add(1)
			}
			return do()
		})
		began := make(chan struct{})
		var once sync.Once
		var both sync.WaitGroup
		both.Go(func() {
			_, err := driver(t, slow, "slow").Follow(t.Context(), id, bulk.Follower{Moved: func(bulk.Act) { once.Do(func() { close(began) }) }})
			worldtest.WantErr(t, err, nil)
		})
		<-began
		both.Go(func() { follow(t, driver(t, other, "other"), id) })
		both.Wait()
		worldtest.Want(t, "writes of the other", claims.Load(), 0)
		wantIDs(t, "sent back", l.sent(t), want)
	})
}

// A paused act sends nothing, until it is resumed. A cancelled act sends nothing any more, and the audit log has its
// end.
func TestLawPausedAndCancelled(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		l := newLab(t, s)
		l.poison(t, 12)
		id := l.ask(t, bulk.Retry, bulk.Filter{}).ID
		set := func(state bulk.State) func() {
			return sync.OnceFunc(func() {
				if _, err := bulk.Set(t.Context(), s, id, state, "bob", "wait"); err != nil {
					t.Error(err)
				}
			})
		}
		pause := set(bulk.Paused)
		a, err := driver(t, s, "").Follow(t.Context(), id, bulk.Follower{Settled: func(poisonEntry, error) { pause() }})
		if err != nil || a.State != bulk.Paused || a.Done != 4 || a.Driver != "" || a.SetBy != "bob" || a.Over() {
			t.Fatalf("got %+v, %v; want it paused after a page", a, err)
		}
		if a = follow(t, driver(t, s, ""), id); a.State != bulk.Paused || a.Done != 4 {
			t.Errorf("got %+v, want it paused", a)
		}
		set(bulk.Running)()
		cancel := set(bulk.Cancelled)
		if a, err = driver(t, s, "").Follow(t.Context(), id, bulk.Follower{Settled: func(poisonEntry, error) { cancel() }}); err != nil {
			t.Fatal(err)
		}
		a = l.ended(t, id, bulk.Cancelled, 8)
		worldtest.Want(t, "sent back", len(l.sent(t)), 8)
		worldtest.Want(t, "left", len(l.left()), 4)
		if !strings.Contains(a.Result(), "8 of 8 messages; then it was cancelled by bob") {
			t.Errorf("got %q", a.Result())
		}
		for _, state := range []bulk.State{bulk.Running, bulk.Paused} {
			_, err := bulk.Set(t.Context(), s, id, state, "bob", "")
			worldtest.WantErr(t, err, bulk.ErrOver)
		}
	})
}

// The end of the context leaves the act to others at once, or pauses it where a person has stopped it.
func TestAStopIsNoEnd(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		l := newLab(t, s)
		want := l.poison(t, 12)
		id := l.ask(t, bulk.Retry, bulk.Filter{}).ID
		stop := func(stopped func() (string, string)) (bulk.Act, error) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			return driver(t, s, "").Follow(ctx, id, bulk.Follower{Settled: func(poisonEntry, error) { cancel() }, Stopped: stopped})
		}
		a, err := stop(func() (string, string) { return "ada", "enough" })
		if !errors.Is(err, context.Canceled) || a.State != bulk.Paused || a.SetWhy != "enough" || a.Done != 4 {
			t.Errorf("got %+v, %v; want it paused", a, err)
		}
		if _, err := bulk.Set(t.Context(), s, id, bulk.Running, "ada", ""); err != nil {
			t.Fatal(err)
		}
		if a, err = stop(nil); !errors.Is(err, context.Canceled) || a.State != bulk.Running || a.Done != 8 {
			t.Errorf("got %+v, %v; want it left to others", a, err)
		}
		began := time.Now()
		follow(t, driver(t, s, ""), id)
		worldtest.Want(t, "time until another driver has done it", time.Since(began), 0)
		wantIDs(t, "sent back", l.sent(t), want)
	})
}

// A driver in the background does what goes on when it begins, and what it is woken for. Otherwise it asks nothing.
func TestLawNobodyAsksWhileNoActGoesOn(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		l := newLab(t, s)
		want := l.poison(t, 6)
		orphan := l.ask(t, bulk.Retry, bulk.Filter{}).ID
		var calls atomic.Int32
		d := driver(t, storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
			calls.Add(1)
			return do()
		}), "background")
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { d.Run(ctx) })
		time.Sleep(time.Hour)
		wantIDs(t, "sent back", l.sent(t), want)
		l.ended(t, orphan, bulk.Done, len(want))

		calls.Store(0)
		time.Sleep(24 * time.Hour)
		worldtest.Want(t, "calls in a day", calls.Load(), 0)
		for range 20 {
			d.Look()
		}
		synctest.Wait()
		worldtest.Want(t, "calls of 20 looks", calls.Load(), 1)

		put(t, s, entry(queue, "again", "bad"))
		id := l.ask(t, bulk.Retry, bulk.Filter{}).ID
		d.Wake()
		time.Sleep(time.Second)
		wantIDs(t, "sent back", l.sent(t), []string{"again"})
		l.ended(t, id, bulk.Done, 1)
		stop()
		running.Wait()
	})
}

// Somebody resumes an act after its driver has read that the act is paused, and before the driver has left off. The
// driver does the act all the same.
func TestLawAResumedActGoesOn(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		l := newLab(t, s)
		want := l.poison(t, 6)
		id := l.ask(t, bulk.Retry, bulk.Filter{}).ID
		set := func(state bulk.State) {
			if _, err := bulk.Set(t.Context(), s, id, state, "bob", "wait"); err != nil {
				t.Error(err)
			}
		}
		set(bulk.Paused)
		var d *bulk.Driver
		resume := sync.OnceFunc(func() {
			set(bulk.Running)
			d.Wake()
			time.Sleep(time.Second) // until the driver has seen that it was woken
		})
		d = driver(t, storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
			err := do()
			if op.Name == "get blob" && op.Resource == "blob bulk/act/"+id {
				resume()
			}
			return err
		}), "background")
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { d.Run(ctx) })
		time.Sleep(time.Minute)
		stop()
		running.Wait()
		wantIDs(t, "sent back", l.sent(t), want)
		l.ended(t, id, bulk.Done, len(want))
	})
}
