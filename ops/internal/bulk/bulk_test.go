package bulk_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/audit"
	"github.com/millrace-go/millrace/ops/internal/bulk"
	"github.com/millrace-go/millrace/poison"
	"github.com/millrace-go/millrace/storage"
	storagedriver "github.com/millrace-go/millrace/storage/driver"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// crashes runs a test for a process that dies in its nth call, before the effect of the call and after it, until it
// needs fewer calls. The test gets a store, and the same store as the process sees it.
func crashes(t *testing.T, plain bool, test func(t *testing.T, s, dying *storage.Store)) {
	t.Helper()
	t.Parallel()
	for _, when := range []storagetest.Moment{storagetest.BeforeEffect, storagetest.AfterEffect} {
		for n := int64(1); ; n += worldtest.Stride {
			crashed := false
			synctest.Test(t, func(t *testing.T) {
				s := worldtest.OpenStore(t, worldtest.Virtual)
				if plain {
					s = storagetest.Plain(s)
				}
				dying, fuse := storagetest.Crash(s, n, when)
				test(t, s, dying)
				crashed = fuse.Fired()
			})
			if t.Failed() {
				t.Fatalf("a crash in call %d, %s", n, when)
			}
			if !crashed {
				break
			}
		}
	}
}

// A process that does an act dies in one of its calls, and another one does the rest: each chosen message is in its
// queue once, and no other one is. Where a unit of work isn't atomic, a message of the page may be there twice, as one
// message.
func TestLawEachChosenMessageOnce(t *testing.T) {
	for name, plain := range map[string]bool{"atomic": false, "plain": true} {
		t.Run(name, func(t *testing.T) {
			crashes(t, plain, func(t *testing.T, s, dying *storage.Store) {
				l := newLab(t, s)
				want := l.poison(t, 10)
				put(t, s, entry(queue, "other", "worse"))
				id := l.ask(t, bulk.Retry, bulk.Filter{Reason: "bad"}).ID
				put(t, s, entry(queue, "later", "bad"))
				_, _ = driver(t, dying, "dies").Follow(t.Context(), id, bulk.Follower{}) // it may die
				follow(t, driver(t, s, "next"), id)
				got := l.sent(t)
				once := slices.Compact(slices.Clone(got))
				wantIDs(t, "sent back", once, want)
				if twice := len(got) - len(once); twice > 0 && !plain || twice > 4 {
					t.Errorf("%d messages were sent twice", twice)
				}
				wantIDs(t, "left", l.left(), []string{"later", "other"})
				l.ended(t, id, bulk.Done, len(want))
			})
		})
	}
}

// A call of the store is done and its answer is lost, or the call isn't done. The process goes on, and sends nothing
// twice.
func TestLawALostAnswerIsHarmless(t *testing.T) {
	t.Parallel()
	for _, done := range []bool{false, true} {
		for n := int64(1); ; n += worldtest.Stride {
			lost := false
			synctest.Test(t, func(t *testing.T) {
				s := worldtest.OpenStore(t, worldtest.Virtual)
				l := newLab(t, s)
				want := l.poison(t, 10)
				id := l.ask(t, bulk.Retry, bulk.Filter{}).ID
				d := driver(t, storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
					if op.Seq != n {
						return do()
					}
					lost = true
					if done {
						_ = do() // nobody hears the answer
					}
					return op.Fail(storage.ErrUnavailable)
				}), "")
				ctx, stop := context.WithCancel(t.Context())
				var running sync.WaitGroup
				running.Go(func() { d.Run(ctx) })
				time.Sleep(5 * time.Minute)
				d.Wake() // somebody looks
				time.Sleep(time.Minute)
				stop()
				running.Wait()
				wantIDs(t, "sent back", l.sent(t), want)
				wantIDs(t, "left", l.left(), nil)
				l.ended(t, id, bulk.Done, len(want))
			})
			if t.Failed() {
				t.Fatalf("call %d, done: %v", n, done)
			}
			if !lost {
				break
			}
		}
	}
}

// As above, for an act that discards.
func TestLawADiscardIsDoneByTheNext(t *testing.T) {
	crashes(t, false, func(t *testing.T, s, dying *storage.Store) {
		l := newLab(t, s)
		want := l.poison(t, 6)
		id := l.ask(t, bulk.Discard, bulk.Filter{}).ID
		put(t, s, entry(queue, "later", "bad"))
		_, _ = driver(t, dying, "dies").Follow(t.Context(), id, bulk.Follower{}) // it may die
		follow(t, driver(t, s, "next"), id)
		wantIDs(t, "left", l.left(), []string{"later"})
		l.ended(t, id, bulk.Done, len(want))
	})
}

// A process dies while it asks. Another one asks again under the ID and gets the act, and the first set counts.
func TestLawAskingIsDoneOnce(t *testing.T) {
	crashes(t, false, func(t *testing.T, s, dying *storage.Store) {
		l := newLab(t, s)
		l.poison(t, 3)
		c := act.NewCall(l.desk, "ada", nil)
		c.ID = audit.NewID()
		dead := act.NewCall(&act.Desk{Store: dying, Channels: driver(t, dying, "").Channels, Known: l.desk.Known}, "ada", nil)
		dead.ID = c.ID
		_, _ = bulk.Ask(t.Context(), dead, bulk.Retry, bulk.Filter{}) // it may die
		first, err := bulk.Ask(t.Context(), c, bulk.Retry, bulk.Filter{})
		worldtest.WantErr(t, err, nil)
		put(t, s, entry(queue, "later", "bad"))
		second, err := bulk.Ask(t.Context(), c, bulk.Retry, bulk.Filter{})
		if err != nil || second.Chosen != 3 || !second.Asked.Equal(first.Asked) {
			t.Errorf("got %+v, %v; want the first act, with 3 chosen", second, err)
		}
	})
}

// A message that a worker has poisoned again, after the act has sent it back, is not chosen again: neither by the
// driver nor by another one that comes after the driver died.
func TestLawPoisonedAgainIsNotChosen(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		l := newLab(t, s)
		want := l.poison(t, 6)
		id := l.ask(t, bulk.Retry, bulk.Filter{}).ID
		var mu sync.Mutex
		var handled []string
		dying := storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
			if op.Name != "delete blob" {
				return do()
			}
			mu.Lock() // a worker is quicker than the driver
			defer mu.Unlock()
			if len(handled) == 0 {
				handled = l.sent(t)
				for _, id := range handled {
					put(t, s, entry(queue, id, "bad"))
				}
			}
			return op.Fail(storage.ErrUnavailable)
		})
		if _, err := driver(t, dying, "dies").Follow(t.Context(), id, bulk.Follower{}); !errors.Is(err, storage.ErrUnavailable) {
			t.Fatalf("got %v", err)
		}
		follow(t, driver(t, s, "next"), id)
		wantIDs(t, "handled before", handled, want[:4])
		wantIDs(t, "sent back after", l.sent(t), want[4:])
		wantIDs(t, "left", l.left(), handled)
		l.ended(t, id, bulk.Done, len(want))
	})
}

// No clock decides what came later: a worker's may be wrong.
func TestLawNoClockDecidesWhatIsChosen(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		l := newLab(t, s)
		ahead, behind := entry(queue, "ahead", "bad"), entry(queue, "behind", "bad")
		ahead.Last, behind.Last = time.Now().Add(time.Hour), time.Now().Add(-time.Hour)
		put(t, s, ahead)
		id := l.ask(t, bulk.Retry, bulk.Filter{}).ID
		put(t, s, behind)
		follow(t, driver(t, s, ""), id)
		wantIDs(t, "sent back", l.sent(t), []string{"ahead"})
		before := l.ask(t, bulk.Retry, bulk.Filter{Before: time.Now().Add(-2 * time.Hour)}).ID
		follow(t, driver(t, s, ""), before)
		wantIDs(t, "sent back", l.sent(t), nil)
		l.ended(t, before, bulk.Done, 0)
	})
}

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

// unclaim takes the right to an act from its driver, as if the driver had stood still for long.
func unclaim(t *testing.T, s *storage.Store, id string) {
	t.Helper()
	blob, err := s.Blobs("bulk").Get(t.Context(), "act/"+id, "")
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(blob.Body, &doc); err != nil {
		t.Fatal(err)
	}
	delete(doc, "right")
	body, err := json.Marshal(doc)
	if err == nil {
		_, err = s.Blobs("bulk").Put(t.Context(), "act/"+id, body, storage.Condition{IfMatch: blob.ETag})
	}
	if err != nil {
		t.Fatal(err)
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

// A driver in the background goes on when the store can be reached again.
func TestTheStoreIsAwayForAWhile(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		l := newLab(t, s)
		want := l.poison(t, 6)
		id := l.ask(t, bulk.Retry, bulk.Filter{}).ID
		back := time.Now().Add(time.Minute)
		log := worldtest.NewLog()
		d := driver(t, storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
			if time.Now().Before(back) {
				return op.Fail(storage.ErrUnavailable)
			}
			return do()
		}), "")
		d.Logger = slog.New(log)
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { d.Run(ctx) })
		time.Sleep(2 * time.Minute)
		stop()
		running.Wait()
		wantIDs(t, "sent back", l.sent(t), want)
		l.ended(t, id, bulk.Done, len(want))
		if log.Count("can't look for bulk acts") == 0 {
			t.Errorf("got %s", log)
		}
	})
}

// A message that can't be sent back is counted, stays, and keeps no other one back.
func TestLawAnEntryFailsAlone(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		l := newLab(t, s)
		want := l.poison(t, 6)
		noQueue := entry("No Queue!", "unsendable", "bad")
		put(t, s, noQueue)
		if _, err := s.Blobs("poison").Put(t.Context(), queue+"/k-m00002x", []byte("junk"), storage.Condition{}); err != nil {
			t.Fatal(err)
		}
		lost := entry(queue, "lost", "bad")
		e := worldtest.Envelope("lost", worldtest.Add{To: "a"})
		e.Data, e.DataRef = nil, "claims/"+queue+"/01890a5d-ac96-774b-bcce-b302099a8057"
		body, err := e.Encode()
		if err != nil {
			t.Fatal(err)
		}
		lost.Body = body
		put(t, s, lost)
		id := l.ask(t, bulk.Retry, bulk.Filter{}).ID
		var mu sync.Mutex
		told := map[bool]int{}
		a, err := driver(t, s, "").Follow(t.Context(), id, bulk.Follower{Settled: func(_ poisonEntry, err error) {
			mu.Lock()
			defer mu.Unlock()
			told[err == nil]++
		}})
		if err != nil || a.Failed != 3 || len(a.Faults) != 3 || told[true] != 6 || told[false] != 3 {
			t.Errorf("got %+v, %v, told %v; want three that failed", a, err, told)
		}
		wantIDs(t, "sent back", l.sent(t), want)
		l.ended(t, id, bulk.Done, len(want))
		if n, err := poison.Count(t.Context(), s); err != nil || n[queue] != 2 || n["No Queue!"] != 1 {
			t.Errorf("left %v, %v", n, err)
		}
	})
}

// Bad input, and what isn't there.
func TestBadInput(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, "")
	l := newLab(t, s)
	c := act.NewCall(l.desk, "ada", nil)
	c.ID = audit.NewID()
	var bad *act.UsageError
	if _, err := bulk.Ask(t.Context(), c, bulk.Retry, bulk.Filter{Queue: "nope"}); !errors.As(err, &bad) || bad.Field != "queue" {
		t.Errorf("an unknown queue: got %v", err)
	}
	for _, err := range []error{
		second(bulk.Get(t.Context(), s, "no-id")), second(bulk.Set(t.Context(), s, "../x", bulk.Paused, "ada", "")), second(driver(t, s, "").Follow(t.Context(), "", bulk.Follower{})),
	} {
		worldtest.WantErr(t, err, storage.ErrInvalid)
	}
	worldtest.WantErr(t, second(bulk.Get(t.Context(), s, audit.NewID())), storage.ErrNotFound)
	damaged := audit.NewID()
	for _, body := range []string{"", "{}", `{"id":"x"}`, fmt.Sprintf(`{"id":%q,"verb":"edit","state":"running"}`, damaged), fmt.Sprintf(`{"id":%q,"verb":"retry","state":"flying"}`, damaged)} {
		if _, err := s.Blobs("bulk").Put(t.Context(), "act/"+damaged, []byte(body), storage.Condition{}); err != nil {
			t.Fatal(err)
		}
		worldtest.WantErr(t, second(bulk.Get(t.Context(), s, damaged)), storage.ErrInvalid)
		worldtest.WantErr(t, second(driver(t, s, "").Follow(t.Context(), damaged, bulk.Follower{})), storage.ErrInvalid)
	}
	l.poison(t, 1)
	id := l.ask(t, bulk.Retry, bulk.Filter{}).ID
	if err := s.Blobs("bulk").Delete(t.Context(), "chosen/"+id, storage.Condition{}); err != nil {
		t.Fatal(err)
	}
	worldtest.WantErr(t, second(driver(t, s, "").Follow(t.Context(), id, bulk.Follower{})), storage.ErrInvalid)
	worldtest.WantErr(t, second(bulk.Set(t.Context(), s, id, bulk.Cancelled, "bob", "")), nil)
	follow(t, driver(t, s, ""), id) // at once
	l.ended(t, id, bulk.Cancelled, 0)
	var listed []string
	for a, err := range bulk.List(t.Context(), s) {
		if listed = append(listed, a.ID); (err != nil) != (a.ID == damaged) {
			t.Errorf("%s: got %v", a.ID, err)
		}
	}
	wantIDs(t, "listed", listed, []string{id, damaged})
}

func second(_ bulk.Act, err error) error { return err }

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

// A page that can't be written is settled entry by entry. The driver doesn't try the whole page again and again.
func TestLawAPageThatCannotBeWrittenIsTakenApart(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		l := newLab(t, s)
		l.poison(t, 6)
		id := l.ask(t, bulk.Discard, bulk.Filter{}).ID
		var puts atomic.Int32
		narrow := storage.New(narrowStore{s.Driver(), &puts})
		follow(t, driver(t, narrow, ""), id)
		wantIDs(t, "left", l.left(), nil)
		l.ended(t, id, bulk.Done, 6)
	})
}

// A narrowStore takes a document with one entry at most, and after very many documents none.
type narrowStore struct {
	storagedriver.Store
	puts *atomic.Int32
}

func (s narrowStore) Blobs(name string) storagedriver.Blobs {
	return narrowBlobs{s.Store.Blobs(name), name, s.puts}
}

type narrowBlobs struct {
	storagedriver.Blobs
	name string
	puts *atomic.Int32
}

func (b narrowBlobs) Put(ctx context.Context, key string, body []byte, cond storage.Condition) (storage.ETag, error) {
	if b.name == "bulk" && (b.puts.Add(1) > 100 || strings.Count(string(body), `"k":`) > 1) {
		return "", storage.ErrTooLarge
	}
	return b.Blobs.Put(ctx, key, body, cond)
}
