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
