package keylock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/coord/keylock"
	"github.com/millrace-go/millrace/internal/agreetest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// The context of a process that can't reach the store ends 5/6 of the TTL after its last write. Another process takes
// over when it has watched for 7/6 of the TTL, and not before.
func TestLaw1TakeoverAfterTheContextHasEnded(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		link := storagetest.NewLink(s)
		mine, others := newTurns(t, link.Store), newTurns(t, s)
		x := take(t, mine, "a")
		time.Sleep(10*ttl + time.Second) // it is renewed
		if x.Context().Err() != nil || !x.Sure() {
			t.Fatal("a turn that is renewed has ended")
		}
		link.Cut()
		began := time.Now()
		wantHeld(t, others, "a")
		<-x.Context().Done()
		if took := time.Since(began); took > ttl*5/6 || !errors.Is(context.Cause(x.Context()), keylock.ErrLost) {
			t.Errorf("the context ended after %v by %v; want %v at most", took, context.Cause(x.Context()), ttl*5/6)
		}
		time.Sleep(time.Until(began.Add(ttl*7/6 - time.Millisecond)))
		wantHeld(t, others, "a")
		time.Sleep(time.Millisecond)
		y := take(t, others, "a")
		if y.Fence() <= x.Fence() {
			t.Errorf("fence %d after %d", y.Fence(), x.Fence())
		}
		link.Restore()
		if err := x.End(t.Context(), keylock.State{Done: 99}); !errors.Is(err, keylock.ErrLost) {
			t.Errorf("the end of a turn that was taken over: got %v", err)
		}
		wantHeld(t, mine, "a")
		end(t, y, keylock.State{Done: 7})
		if z := take(t, mine, "a"); z.State().Done != 7 {
			t.Errorf("got state %+v, want that of the last holder", z.State())
		}
	})
}

// Fences grow from holder to holder, also when a row was deleted, by hand or because its key was quiet.
func TestLaw2FencesGrow(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		last := int64(0)
		all := []*keylock.Turns{newTurns(t, s), newTurns(t, s)}
		for i := range 20 {
			if i%7 == 6 {
				if err := s.Table("turns").Delete(t.Context(), group, "a", storage.Condition{}); err != nil {
					t.Fatal(err)
				}
			}
			x := take(t, all[i%2], "a")
			if x.Fence() <= last {
				t.Fatalf("turn %d: fence %d after %d", i, x.Fence(), last)
			}
			last = x.Fence()
			end(t, x, keylock.State{})
			time.Sleep(10 * time.Millisecond)
		}
	})
}

// A process whose write to take or to end a turn had no answer takes the turn at its next try.
func TestLaw3LostAnswers(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		var lose atomic.Bool
		deaf := storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
			err := do()
			if err == nil && op.Name == "put row" && lose.Load() {
				return op.Fail(storage.ErrUnavailable)
			}
			return err
		})
		mine, others := newTurns(t, deaf), newTurns(t, s)
		lose.Store(true)
		if _, err := mine.Take(t.Context(), "a", nil); !errors.Is(err, storage.ErrUnavailable) {
			t.Fatalf("got %v, want ErrUnavailable", err)
		}
		wantHeld(t, others, "a")
		lose.Store(false)
		x := take(t, mine, "a")
		lose.Store(true)
		if err := x.End(t.Context(), keylock.State{Done: 3}); err != nil {
			t.Errorf("an end that was done: got %v", err) // it finds its own write
		}
		lose.Store(false)
		y := take(t, mine, "a")
		if y.State().Done != 3 || y.Fence() <= x.Fence() {
			t.Errorf("got %+v with fence %d", y.State(), y.Fence())
		}
	})
}

// Another process may take the turn after an end whose answer was lost, and before the end is repeated. The end can't
// tell that from a takeover, and returns ErrLost. The state is written: the next turn begins with it.
func TestLaw3AnEndWithoutAnAnswerBeforeAnotherTurn(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		others := newTurns(t, s)
		var ends bool
		var y *keylock.Turn
		mine := newTurns(t, storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
			err := do()
			if ends && y == nil && op.Name == "put row" && err == nil {
				y = take(t, others, "a")
				return op.Fail(storage.ErrUnavailable)
			}
			return err
		}))
		x := take(t, mine, "a")
		ends = true
		if err := x.End(t.Context(), keylock.State{Done: 3}); !errors.Is(err, keylock.ErrLost) {
			t.Errorf("got %v, want ErrLost", err)
		}
		if y.State().Done != 3 || y.Fence() <= x.Fence() {
			t.Errorf("got %+v with fence %d, want what was written", y.State(), y.Fence())
		}
		wantHeld(t, mine, "a")
		end(t, y, keylock.State{Done: 4})
		if z := take(t, mine, "a"); z.State().Done != 4 {
			t.Errorf("got %+v, want that of the last holder", z.State())
		}
	})
}

// A turn that a process got at its second try isn't free for the same process, although the first try had no answer.
func TestLaw3ATurnOfTheSecondTry(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		for _, moment := range []string{"before", "after"} {
			var puts atomic.Int64
			deaf := storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
				if op.Name == "put row" && puts.Add(1) == 1 {
					if moment == "after" {
						_ = do()
					}
					return op.Fail(storage.ErrUnavailable)
				}
				return do()
			})
			ts := newTurns(t, deaf)
			x := take(t, ts, moment)
			wantHeld(t, ts, moment)
			time.Sleep(ttl)
			wantHeld(t, ts, moment)
			end(t, x, keylock.State{})
		}
	})
}

// A row that isn't a turn is replaced when it has stayed the same for 70 seconds. A newer version's is left alone.
func TestLaw5RowsThatAreNoTurns(t *testing.T) {
	t.Parallel()
	for name, data := range map[string]string{
		"empty": "", "text": "hello", "number": "7", "no fence": `{"version":1,"ttl":30000}`, "no version": `{"fence":1,"ttl":30000}`,
		"a TTL of a year": `{"version":1,"id":"x","fence":1,"ttl":31536000000}`, "huge": `{"version":1,"holder":"` + strings.Repeat("x", 9000) + `"}`,
		"all is done":         `{"version":1,"fence":1,"ttl":30000,"state":{"done":18446744073709551615}}`,
		"a wait of a century": `{"version":1,"fence":1,"ttl":30000,"state":{"first":{"message":"m","after":3153600000000000000}}}`,
		"a huge fence":        `{"version":1,"fence":9223372036854775807,"ttl":30000}`, "newer": `{"version":2,"fence":1,"ttl":30000}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
				if _, err := s.Table("turns").Put(t.Context(), group, "a", []byte(data), storage.Condition{}); err != nil {
					t.Fatal(err)
				}
				ts := newTurns(t, s)
				wantHeld(t, ts, "a")
				end(t, take(t, ts, "b"), keylock.State{})
				time.Sleep(69 * time.Second)
				wantHeld(t, ts, "a")
				time.Sleep(time.Second)
				if name == "newer" {
					time.Sleep(time.Hour)
					wantHeld(t, ts, "a")
					return
				}
				end(t, take(t, ts, "a"), keylock.State{})
			})
		})
	}
}

// The rows of keys that are quiet are deleted after 31 days. Those that are halted or held stay, and so do young ones.
// Those stay, too, that wait for a message which comes later.
func TestLaw6QuietKeysLeaveNothing(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		ts := newTurns(t, s)
		for i := range 600 {
			end(t, take(t, ts, fmt.Sprintf("old-%03d", i)), keylock.State{Done: 1})
		}
		var halted keylock.State
		halted.Halt("m", "closed", 0)
		end(t, take(t, ts, "old-halted"), halted)
		var waits, waited keylock.State
		waits.Wait("m", 60*24*time.Hour, 0)
		end(t, take(t, ts, "old-waits"), waits)
		waited.Wait("m", 12*time.Hour, 0)
		end(t, take(t, ts, "old-waited"), waited)
		time.Sleep(20 * 24 * time.Hour)
		end(t, take(t, ts, "young"), keylock.State{})
		dead := fmt.Sprintf(`{"version":1,"id":"x","fence":1,"ttl":30000,"at":%d}`, time.Now().Add(-20*24*time.Hour).UnixMilli())
		if _, err := s.Table("turns").Put(t.Context(), group, "old-held", []byte(dead), storage.Condition{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(12 * 24 * time.Hour)
		for range 128 * 12 {
			end(t, take(t, ts, "busy"), keylock.State{})
		}
		left := map[string]bool{}
		for x, err := range keylock.List(t.Context(), s, group, "") {
			if err != nil {
				t.Fatal(err)
			}
			left[x.Key] = true
		}
		for _, key := range []string{"old-halted", "old-waits", "young", "old-held", "busy"} {
			if !left[key] {
				t.Errorf("%s is gone", key)
			}
		}
		if len(left) != 5 {
			t.Errorf("%d keys are left, want 5", len(left))
		}
	})
}

// A row stays small, whatever messages and sources say.
func TestLaw7RowsAreSmall(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		ts := newTurns(t, s)
		long := strings.Repeat("\xffö\"", 5000)
		x := take(t, ts, "a")
		state := x.State()
		state.Halt(long, long, 1<<62)
		state.Wait(long, time.Hour, 1<<63)
		state.Skip(long, long)
		state.WaitFor(long, 1<<63, 1<<62)
		for i := range uint64(1000) {
			state.Pass(state.Done+5+i%3, 0)
		}
		end(t, x, state)
		if data, _ := row(t, s, "a"); len(data) > 6000 {
			t.Errorf("a row of %d bytes: %s", len(data), data)
		}
		if y := take(t, ts, "a"); y.State().Halted == nil {
			t.Error("it can't be read again")
		}
	})
}

// A turn takes two requests where nobody else had it, and a look at one that is held takes one. A key that has a turn
// costs no other key anything.
func TestLaw4TurnsCostTwoRequests(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		var calls storagetest.Calls
		ts, others := newTurns(t, storagetest.Intercept(s, calls.Hook)), newTurns(t, s)
		requests := func() (n int) {
			for _, op := range calls.Ops() {
				if op.Name != "query" { // a sweep, now and then
					n++
				}
			}
			return n
		}
		end(t, take(t, ts, "a"), keylock.State{})
		before := requests()
		for range 10 {
			end(t, take(t, ts, "a"), keylock.State{})
		}
		if n := requests() - before; n != 20 {
			t.Errorf("10 turns took %d requests, want 20", n)
		}
		x := take(t, others, "b")
		before = requests()
		wantHeld(t, ts, "b")
		if n := requests() - before; n != 1 {
			t.Errorf("a look at a turn that is held took %d requests", n)
		}
		before = requests()
		end(t, take(t, ts, "a"), keylock.State{})
		if n := requests() - before; n != 2 {
			t.Errorf("a turn beside a key that is held took %d requests", n)
		}
		end(t, x, keylock.State{})
	})
}

// Keys are just names, however hostile they are.
func TestHostileKeys(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		ts := newTurns(t, s)
		var all []*keylock.Turn
		for _, key := range []string{"a/../b", "..", "/", "\\", "%2f", "#?", "'; drop table turns;--", " ", "ключ", strings.Repeat("k", storage.MaxKey), "A", "a"} {
			all = append(all, take(t, ts, key))
			wantHeld(t, ts, key)
		}
		for _, x := range all {
			end(t, x, keylock.State{})
		}
		for _, key := range []string{"", "\x00", "a\nb", "\xff", strings.Repeat("k", storage.MaxKey+1)} {
			if _, err := ts.Take(t.Context(), key, nil); !errors.Is(err, storage.ErrInvalid) {
				t.Errorf("key %.10q: got %v, want ErrInvalid", key, err)
			}
		}
	})
}

// An operator lets a key go on that waits. A turn that a process has goes on, too.
func TestRelease(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		ts := newTurns(t, s)
		note := keylock.Note{By: "ada", Why: "it is fixed"}
		if _, _, err := keylock.Release(t.Context(), s, group, "a", note); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("a key that never was: got %v", err)
		}
		x := take(t, ts, "a")
		state := x.State()
		state.Done = 4
		state.Halt("m5", "closed", 5)
		end(t, x, state)
		before, released, err := keylock.Release(t.Context(), s, group, "a", note)
		if err != nil || !released || before.State.Halted == nil || before.State.Halted.Message != "m5" {
			t.Errorf("got %+v, %v, %v", before, released, err)
		}
		if _, released, err := keylock.Release(t.Context(), s, group, "a", note); err != nil || released {
			t.Errorf("again: got %v, %v", released, err)
		}
		x = take(t, ts, "a") // it remembers the row as it was before
		now := x.State()
		if now.Halted != nil || now.Released == nil || now.Released.By != "ada" || now.Done != 5 || now.Place(5, 4) != keylock.Late || now.Place(6, 5) != keylock.Next {
			t.Errorf("got %+v", now)
		}
		if _, _, err := keylock.Release(t.Context(), s, group, "a", note); err != nil || x.Context().Err() != nil {
			t.Errorf("a key that is held: got %v", err)
		}
		if _, _, err := keylock.Release(t.Context(), s, group, "a", keylock.Note{}); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("nobody: got %v", err)
		}
		end(t, x, keylock.State{})
	})
}

// A release holds though the holder of the turn writes its state after it.
func TestAReleaseOfAHeldKeyHolds(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		ts := newTurns(t, s)
		x := take(t, ts, "a")
		state := x.State()
		state.Done = 4
		state.Wait("m5", time.Minute, 5)
		end(t, x, state)
		x = take(t, ts, "a")
		held, released, err := keylock.Release(t.Context(), s, group, "a", keylock.Note{By: "ada", Why: "it hangs"})
		if err != nil || !released || !held.Held {
			t.Fatalf("got %+v, %v, %v", held, released, err)
		}
		state = x.State()
		state.Wait("m5", time.Minute, 5) // it has failed once more
		end(t, x, state)
		now := take(t, ts, "a").State()
		if now.First != nil || now.Done != 5 || now.Place(5, 4) != keylock.Late || now.Released == nil || now.Released.Why != "it hangs" {
			t.Errorf("got %+v", now)
		}
	})
}

// A state that is saved outlives its holder, and is kept by renewals. A release of a key in a turn holds, though the
// holder renews the turn after it and then writes an older state.
func TestLaw3ASavedStateIsTheNextOnes(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		link := storagetest.NewLink(s)
		mine, others := newTurns(t, link.Store), newTurns(t, s)
		x, y := take(t, mine, "a"), take(t, mine, "b")
		state := x.State()
		state.Done = 4
		state.Halt("m5", "closed", 5)
		for _, z := range []*keylock.Turn{x, y} {
			if err := z.Save(t.Context(), state); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * ttl)
		wantHeld(t, others, "a")
		if _, released, err := keylock.Release(t.Context(), s, group, "b", keylock.Note{By: "ada"}); err != nil || !released {
			t.Fatalf("release: got %v, %v", released, err)
		}
		time.Sleep(2 * ttl)
		end(t, y, state)
		if now := take(t, others, "b").State(); now.Halted != nil || now.Done != 5 || now.Released == nil {
			t.Errorf("released: got %+v", now)
		}
		link.Cut()
		wantHeld(t, others, "a")
		time.Sleep(ttl * 7 / 6)
		if err := x.Save(t.Context(), keylock.State{}); !errors.Is(err, keylock.ErrLost) {
			t.Errorf("a save of a lost turn: got %v", err)
		}
		if now := take(t, others, "a").State(); now.Halted == nil || now.Done != 4 {
			t.Errorf("got %+v, want what was saved", now)
		}
	})
}

// A store that hangs keeps nobody for long.
func TestAStoreThatHangs(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		var hang atomic.Bool
		ts := newTurns(t, storagetest.Intercept(s, func(ctx context.Context, op storagetest.Op, do func() error) error {
			if hang.Load() {
				<-ctx.Done()
				return op.Fail(storage.ErrUnavailable)
			}
			return do()
		}))
		x := take(t, ts, "a")
		hang.Store(true)
		began := time.Now()
		if _, err := ts.Take(t.Context(), "b", nil); !errors.Is(err, storage.ErrUnavailable) || time.Since(began) > ttl {
			t.Errorf("a take: got %v after %v", err, time.Since(began))
		}
		began = time.Now()
		if err := x.End(t.Context(), keylock.State{}); !errors.Is(err, storage.ErrUnavailable) || time.Since(began) > ttl/3+time.Second {
			t.Errorf("an end: got %v after %v", err, time.Since(began))
		}
		hang.Store(false)
		end(t, take(t, ts, "a"), keylock.State{}) // it is this process's own
	})
}

func TestConfigFaults(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		for name, f := range map[string]func() (*keylock.Turns, error){
			"no store":     func() (*keylock.Turns, error) { return keylock.New(nil, group, keylock.Config{}) },
			"no group":     func() (*keylock.Turns, error) { return keylock.New(s, "", keylock.Config{}) },
			"short TTL":    func() (*keylock.Turns, error) { return keylock.New(s, group, keylock.Config{TTL: time.Second}) },
			"long TTL":     func() (*keylock.Turns, error) { return keylock.New(s, group, keylock.Config{TTL: time.Hour}) },
			"strange name": func() (*keylock.Turns, error) { return keylock.New(s, group, keylock.Config{Holder: "a\nb"}) },
		} {
			if _, err := f(); !errors.Is(err, storage.ErrInvalid) {
				t.Errorf("%s: got %v", name, err)
			}
		}
	})
}
