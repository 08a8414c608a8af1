package worker_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/coord/keylock"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/poison"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/worker"
)

// badEvent is an event whose body doesn't fit its type.
func badEvent(to string, sequence, previous int) channel.Envelope {
	e := event(to, sequence, previous, time.Now())
	e.Data = []byte(`{"to":7}`)
	return e
}

// loseBodies deletes all claim-checked bodies.
func loseBodies(t *testing.T, s *storage.Store) {
	t.Helper()
	for x, err := range s.Blobs("claims").List(t.Context(), "") {
		if err == nil {
			err = s.Blobs("claims").Delete(t.Context(), x.Key, storage.Condition{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// ways are events that are given up without their handler, although their envelopes say what they are.
var ways = map[string]func(e *channel.Envelope){
	"body that doesn't fit": func(e *channel.Envelope) { e.Data = []byte(`{"to":7}`) },
	"unknown kind":          func(e *channel.Envelope) { e.Kind = "test.future.v1" },
	"body is gone":          func(e *channel.Envelope) { e.Data = []byte(`{"note":"` + strings.Repeat("x", 100_000) + `"}`) },
	"body of another queue": func(e *channel.Envelope) {
		e.Data, e.DataRef = nil, "claims/others/01890000-0000-7000-8000-000000000000"
	},
}

// An event that is given up without its handler is over for its value object: the next one goes on at once, or the
// value object is halted until the event is done or an operator releases it. Others go on.
func TestLawInOrderAnEventGivenUpWithoutItsHandler(t *testing.T) {
	t.Parallel()
	for name, spoil := range ways {
		for _, halt := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, halt=%v", name, halt), func(t *testing.T) {
				virtually(t, func(t *testing.T, s *storage.Store) {
					l := newLane(t, s, nil, handlers.TurnConfig{Halt: halt, Patience: 2 * time.Hour}, func(context.Context, Added) error { return nil })
					l.emit(t, "a", 1, 0)
					e := event("a", 2, 1, time.Now())
					spoil(&e)
					l.put(t, e)
					loseBodies(t, s)
					l.emit(t, "a", 3, 2)
					l.emit(t, "b", 1, 0)
					l.emit(t, "b", 2, 1)
					l.Start(worker.Config{UnknownFor: 5 * time.Second, Logger: slog.New(l.log)})
					time.Sleep(2 * time.Minute)
					l.wantRuns(t, "beside it", "b", 1, 2)
					worldtest.Want(t, "poisoned", len(l.Poisoned("audits")), 1)
					worldtest.Want(t, "lines of the halt", l.log.Count("ERROR a message halts its key") == 1, halt)
					if !halt {
						l.wantRuns(t, "after it", "a", 1, 3)
						if x := l.state(t, "a").Skipped; x == nil || x.Number != 1 || x.Last != e.ID {
							t.Errorf("got skipped %+v, want it", x)
						}
						return
					}
					l.wantRuns(t, "halted", "a", 1)
					if x := l.state(t, "a").Halted; x == nil || x.Message != e.ID || x.Sequence != 2 {
						t.Errorf("got halted %+v, want by event 2", x)
					}
					if _, released, err := keylock.Release(t.Context(), s, "audits", "/accounts/a", keylock.Note{By: "ada"}); err != nil || !released {
						t.Errorf("release: got %v, %v", released, err)
					}
					l.empty(t, time.Minute)
					l.wantRuns(t, "released", "a", 1, 3)
				})
			})
		}
	}
}

// An event that is given up waits for its turn as any other: those before it are handled first, and its value object is
// halted only then. A copy of it, and one of an event that is done, halt nothing and are not lost.
func TestLawInOrderAnEventIsGivenUpInItsTurn(t *testing.T) {
	virtually(t, func(t *testing.T, s *storage.Store) {
		l := newLane(t, s, nil, handlers.TurnConfig{Halt: true}, func(context.Context, Added) error { return nil })
		l.Start(worker.Config{Logger: slog.New(l.log)})
		l.put(t, badEvent("a", 2, 1))
		time.Sleep(5 * time.Second)
		worldtest.Want(t, "poisoned before its turn", len(l.Poisoned("audits")), 0)
		l.emit(t, "a", 1, 0)
		time.Sleep(time.Minute)
		l.wantRuns(t, "before it", "a", 1)
		worldtest.Want(t, "poisoned", len(l.Poisoned("audits")), 1)
		if l.state(t, "a").Halted == nil {
			t.Error("the value object isn't halted")
		}
		for _, e := range l.Poisoned("audits") { // an operator has put the cause right
			if err := poison.At(l.Channels, "audits").Discard(t.Context(), e.Key); err != nil {
				t.Fatal(err)
			}
		}
		l.emit(t, "a", 2, 1)
		l.emit(t, "a", 3, 2)
		l.empty(t, time.Minute)
		l.wantRuns(t, "healed", "a", 1, 2, 3)
		l.put(t, badEvent("a", 2, 1))
		l.empty(t, time.Minute)
		worldtest.Want(t, "poisoned copies", len(l.Poisoned("audits")), 1)
		if x := l.state(t, "a").Halted; x != nil {
			t.Errorf("a copy halts it: %+v", x)
		}
	})
}

// An event that kills its workers goes to the poison queue in its turn, when the turn of the last of them is over.
func TestLawInOrderAnEventThatKillsItsWorkers(t *testing.T) {
	t.Parallel()
	for _, halt := range []bool{false, true} {
		t.Run(fmt.Sprintf("halt=%v", halt), func(t *testing.T) {
			virtually(t, func(t *testing.T, s *storage.Store) {
				cfg := handlers.TurnConfig{Halt: halt}
				w := newLane(t, s, nil, cfg, nil)
				for i := range 3 {
					w.emit(t, "a", i+1, i)
				}
				newProcess := func(s *storage.Store, die func()) *world {
					l := newLane(t, s, w.done, cfg, func(_ context.Context, e Added) error {
						if e.Balance == 2 {
							die()
							return errors.New("dead")
						}
						return nil
					})
					l.Registry.Inside().Turns.TTL = 3 * time.Second // four processes die before the release
					return &l.world
				}
				const release = 2 * time.Minute
				if halt {
					time.AfterFunc(release, func() {
						_, _, _ = keylock.Release(context.Background(), s, "audits", "/accounts/a", keylock.Note{By: "ada"})
					})
				}
				began := time.Now()
				deaths := restarted(t, s, worker.Config{Visibility: 3 * time.Second, MaxDeliveries: 4, DrainTimeout: time.Second, Consume: []string{"audits"}}, newProcess)
				worldtest.Want(t, "deaths", deaths, 4)
				if waited := time.Since(began) >= release; waited != halt {
					t.Errorf("the next one ran after %v; halted: %v", time.Since(began), halt)
				}
				if got := w.runs("a"); slices.Index(got, 3) != len(got)-1 {
					t.Errorf("got runs %v", got)
				}
				all := w.Poisoned("audits")
				if len(all) != 1 || all[0].Reason != handlers.ReasonDeliveries {
					t.Errorf("poisoned: %+v", all)
				}
			})
		})
	}
}

// A worker dies in its nth storage call, for every n, while it gives an event up without its handler. Once the event is
// in the poison queue, its turn knows: the others went past it in order, or are halted.
func TestLawInOrderGivenUpCrashAfterEveryCall(t *testing.T) {
	t.Parallel()
	for _, moment := range []storagetest.Moment{storagetest.BeforeEffect, storagetest.AfterEffect} {
		for _, halt := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v, halt=%v", moment, halt), func(t *testing.T) {
				virtually(t, func(t *testing.T, s *storage.Store) {
					for n := int64(1); n < 100 && !t.Failed(); n += worldtest.Stride {
						if !failTrial(t, s, n, moment, halt) {
							return
						}
					}
				})
			})
		}
	}
}

func failTrial(t *testing.T, s *storage.Store, n int64, moment storagetest.Moment, halt bool) bool {
	t.Helper()
	to := fmt.Sprint("a-", n)
	cfg := handlers.TurnConfig{Halt: halt}
	handle := func(context.Context, Added) error { return nil }
	l := newLane(t, s, nil, cfg, handle)
	bad := badEvent(to, 2, 1)
	l.emit(t, to, 1, 0)
	l.put(t, bad)
	l.emit(t, to, 3, 2)
	left := 0
	if halt {
		left = 1
	}
	cfgOf := worker.Config{Visibility: 3 * time.Second, DrainTimeout: time.Second, Consume: []string{"audits"}}
	dying, fuse := storagetest.Crash(s, n, moment)
	stop := newLane(t, dying, l.done, cfg, handle).Start(cfgOf)
	for i := 0; !fuse.Fired() && i < 200; i++ {
		time.Sleep(50 * time.Millisecond)
	}
	fired := fuse.Fired()
	_ = stop()
	state := l.state(t, to)
	if noted := state.Done >= 2 || state.Halted != nil; !noted && len(l.Poisoned("audits")) > 0 {
		t.Errorf("call %d: the event is in the poison queue, and its turn doesn't know: %+v", n, state)
	}
	stop = l.Start(cfgOf)
	for i := 0; (worldtest.Queued(t, s, "audits") > left || len(l.Poisoned("audits")) == 0) && i < 1000; i++ {
		time.Sleep(time.Second)
	}
	worldtest.Want(t, fmt.Sprintf("call %d: left", n), worldtest.Queued(t, s, "audits"), left)
	worldtest.Want(t, fmt.Sprintf("call %d: poisoned", n), len(l.Poisoned("audits")), 1)
	if state := l.state(t, to); halt != (state.Halted != nil && state.Halted.Message == bad.ID) {
		t.Errorf("call %d: got state %+v", n, state)
	}
	if halt {
		if _, _, err := keylock.Release(t.Context(), s, "audits", "/accounts/"+to, keylock.Note{By: "ada"}); err != nil {
			t.Error(err)
		}
		l.empty(t, time.Second)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if got := l.runs(to); slices.Index(got, 3) < 1 || got[len(got)-1] != 3 || slices.Contains(got, 2) { // a crash may repeat all
		t.Errorf("call %d: got runs %v", n, l.runs(to))
	}
	for _, e := range l.Poisoned("audits") {
		if err := poison.At(l.Channels, "audits").Discard(t.Context(), e.Key); err != nil {
			t.Error(err)
		}
	}
	return fired
}

// entry is a message that takes a turn, and that its own Check may refuse.
type entry struct {
	Key  string `json:"key"`
	N    int    `json:"n"`
	Note string `json:"note,omitempty"`
}

func (entry) Kind() channel.Kind { return "test.entry.v1" }

// Check refuses some of those that are received.
func (e entry) Check() error {
	if e.Note == "refused" {
		return errors.New("refused")
	}
	return nil
}

// book is a process that handles entries in turn. All processes share what their handlers did.
type book struct{ world }

func newBook(t testing.TB, s *storage.Store, runs *sync.Map, die func()) *book {
	t.Helper()
	b := &book{}
	b.World = worldtest.NewBare(t, s, handlers.Config{}, channel.Command[entry]("entries"))
	handlers.Turns(b.Registry, "entries", handlers.TurnConfig{Halt: true})
	b.Registry.Inside().Turns.TTL = 3 * time.Second // many processes die
	handlers.OneAtATime(b.Registry, "entries", func(e entry) string {
		switch e.Note {
		case "key kills":
			die()
		case "refused":
			if e.Key == "" {
				panic("no key")
			}
		}
		return e.Key
	}, func(_ context.Context, e entry) error {
		if e.Note == "kills" {
			die()
			return errors.New("dead")
		}
		runs.Store(fmt.Sprint(e.Key, e.N), true)
		return nil
	})
	return b
}

// put puts an entry into the queue, whatever its Check says.
func (b *book) put(t testing.TB, e entry) {
	t.Helper()
	data := fmt.Sprintf(`{"key":%q,"n":%d,"note":%q}`, e.Key, e.N, e.Note)
	if e.Note == "doesn't fit" {
		data = `{"key":"` + e.Key + `","n":"x"}`
	}
	env := worldtest.Envelope(worldtest.IDAt(time.Now(), e.N), entry{})
	env.Data = []byte(data)
	o := b.Channels.Outbox()
	packed, err := o.PackFor(t.Context(), "entries", env)
	if err == nil {
		err = o.SendPacked(t.Context(), packed)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A message that is given up without its handler halts its key, where its body tells the key. Where the key can't be
// known the log says so, and no key is halted.
func TestLawOneAtATimeAMessageGivenUpWithoutItsHandler(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		note, key string
		halts     bool
	}{
		{"kills", "a", true},
		{"refused", "a", true},
		{"refused", "", false},
		{"key kills", "a", false},
		{"doesn't fit", "a", false},
	} {
		t.Run(test.note+" "+test.key, func(t *testing.T) {
			virtually(t, func(t *testing.T, s *storage.Store) {
				var runs sync.Map
				log := worldtest.NewLog()
				b := newBook(t, s, &runs, nil)
				b.put(t, entry{Key: test.key, N: 1, Note: test.note})
				cfg := worker.Config{Visibility: 3 * time.Second, MaxDeliveries: 3, DrainTimeout: time.Second, Logger: slog.New(log)}
				restarted(t, s, cfg, func(s *storage.Store, die func()) *world { return &newBook(t, s, &runs, die).world })
				worldtest.Want(t, "poisoned", len(b.Poisoned("entries")), 1)
				told := log.Count("ERROR message is in the poison queue", "the key of the message can't be known")
				worldtest.Want(t, "told that the key isn't known", told == 1, !test.halts)
				b.put(t, entry{Key: "a", N: 2})
				b.put(t, entry{Key: "b", N: 2})
				b.Start(worker.Config{Visibility: 3 * time.Second})
				time.Sleep(time.Hour)
				if _, ran := runs.Load("a2"); ran == test.halts {
					t.Errorf("the next of the key has run: %v", ran)
				}
				if _, ran := runs.Load("b2"); !ran {
					t.Error("another key is halted")
				}
			})
		})
	}
}

// A message whose turn can't be written doesn't go to the poison queue, whoever has given it up: its key would not be
// halted.
func TestLawOneAtATimeNothingIsPoisonedUntilItsTurnIsWritten(t *testing.T) {
	virtually(t, func(t *testing.T, s *storage.Store) {
		var away atomic.Bool
		var first sync.Once
		sick := storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
			if op.Name == "put row" && away.Load() {
				return op.Fail(storage.ErrUnavailable)
			}
			return do()
		})
		x := newStreet(t, sick, nil, handlers.TurnConfig{Halt: true}, func(context.Context, visit) error {
			first.Do(func() { away.Store(true) })
			return handlers.Poison("closed", nil)
		})
		x.Start(worker.Config{})
		x.send(t, numbered("a", 2)...)
		time.Sleep(20 * time.Second)
		worldtest.Want(t, "poisoned", len(x.Poisoned("visits")), 0)
		away.Store(false)
		time.Sleep(time.Hour)
		worldtest.Want(t, "poisoned in the end", len(x.Poisoned("visits")), 1)
		x.wantRuns(t, "a", 1, 1)
	})
}

// A message whose handler hangs is given up while it holds its turn. Its key is halted, although its process dies
// before the handler ends.
func TestLawOneAtATimeAHangThatIsGivenUpHalts(t *testing.T) {
	virtually(t, func(t *testing.T, s *storage.Store) {
		handle := func(_ context.Context, e visit) error {
			if e.N == 1 {
				time.Sleep(3 * time.Hour)
			}
			return nil
		}
		cfg := handlers.TurnConfig{Halt: true}
		x := newStreet(t, s, nil, cfg, handle)
		x.send(t, numbered("a", 2)...)
		for range 3 { // each process has one hang
			dying, dead := mortal(s)
			stop := newStreet(t, dying, x, cfg, handle).Start(worker.Config{DrainTimeout: time.Second})
			time.Sleep(10 * time.Minute)
			dead.Store(true)
			_ = stop()
		}
		worldtest.Want(t, "poisoned", len(x.Poisoned("visits")), 1)
		x.Start(worker.Config{})
		time.Sleep(4 * time.Hour) // until the handlers end
		x.wantRuns(t, "a", 1, 1, 1)
	})
}
