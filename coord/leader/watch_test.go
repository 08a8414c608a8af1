package leader_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/coord/leader"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/driver"
	"github.com/millrace-go/millrace/storage/storagetest"
)

const usual = 2500 * time.Millisecond // between two reads of a watcher

// A sight is what a watcher's loop got, and when.
type sight struct {
	who leader.Leader
	err error
	at  time.Time
}

// watcher watches until ctx ends. The channel is closed after the last sight.
func watcher(ctx context.Context, s *storage.Store, every time.Duration) <-chan sight {
	seen := make(chan sight, 1000)
	go func() {
		defer close(seen)
		for who, err := range leader.WatchEvery(ctx, s, name, every) {
			seen <- sight{who, err, time.Now()}
		}
	}()
	return seen
}

func wantSight(t *testing.T, seen <-chan sight, holder string, term int64) sight {
	t.Helper()
	select {
	case got := <-seen:
		if got.err != nil || got.who.Name != name || got.who.Holder != holder || got.who.Term != term {
			t.Errorf("seen: %+v, %v; want %q with term %d", got.who, got.err, holder, term)
		}
		return got
	case <-time.After(time.Hour):
		t.Fatalf("%q with term %d isn't seen within an hour", holder, term)
		return sight{}
	}
}

// deaf is a store that doesn't hear what is told.
func deaf(s *storage.Store) *storage.Store {
	return storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
		if op.Name == "subscribe" {
			return op.Fail(storage.ErrUnavailable)
		}
		return do()
	})
}

// A watcher sees the present state, and each change that lasts: at once where it hears of it, and else by a poll.
func TestLawAWatcherSeesEachChange(t *testing.T) {
	t.Parallel()
	for way, c := range map[string]struct {
		view func(*storage.Store) *storage.Store
		most time.Duration
	}{
		"told":   {func(s *storage.Store) *storage.Store { return s }, 0},
		"polled": {deaf, 2500 * time.Millisecond * 5 / 4},
	} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			virtual(t, func(t *testing.T, s *storage.Store) {
				ctx, stop := context.WithCancelCause(t.Context())
				seen := watcher(ctx, c.view(s), usual)
				wantSight(t, seen, "", 0)
				for term := int64(1); term <= 5; term++ {
					a := begin(t, s, "a", leader.Config{})
					r := a.reign(t)
					if took := wantSight(t, seen, "a", term).at.Sub(r.began); took > c.most {
						t.Errorf("the beginning of term %d is seen after %v, want %v at most", term, took, c.most)
					}
					time.Sleep(3 * ttl)
					left := time.Now()
					a.quit(t, r)
					if took := wantSight(t, seen, "", term).at.Sub(left); took > c.most {
						t.Errorf("the end of term %d is seen after %v, want %v at most", term, took, c.most)
					}
				}
				end := errors.New("over")
				stop(end)
				if last := <-seen; !errors.Is(last.err, end) {
					t.Errorf("at the end it yields %+v, want the cause", last)
				}
				if more, ok := <-seen; ok {
					t.Errorf("after the end it yields %+v", more)
				}
			})
		})
	}
}

// A loop that takes long gets the newest state.
func TestASlowWatcher(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		var got []int64
		work := func(context.Context, leader.Term) error { return nil }
		for who, err := range leader.Watch(t.Context(), s, name) {
			if err != nil {
				t.Fatal(err)
			}
			if got = append(got, who.Term); len(got) == 3 {
				break
			}
			for range 5 {
				if err := leader.Run(t.Context(), s, name, leader.Config{}, work); err != nil {
					t.Fatal(err)
				}
			}
		}
		if got[0] != 0 || got[1] != 5 || got[2] != 10 {
			t.Errorf("seen: terms %v, want 0, 5 and 10", got)
		}
	})
}

// A failing store is told of once, and the watcher goes on.
func TestAWatcherOutlivesFailures(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		ctx, stop := context.WithCancel(t.Context())
		link := storagetest.NewLink(s)
		seen := watcher(ctx, link.Store, time.Second)
		wantSight(t, seen, "", 0)
		for range 2 {
			link.Cut()
			time.Sleep(time.Minute)
			if got := <-seen; !errors.Is(got.err, storage.ErrUnavailable) || !strings.Contains(got.err.Error(), name) {
				t.Errorf("while the store fails: %+v, want one error", got)
			}
			link.Restore()
			time.Sleep(time.Minute)
		}
		a := begin(t, s, "a", leader.Config{})
		r := a.reign(t)
		wantSight(t, seen, "a", 1)
		a.quit(t, r)
		wantSight(t, seen, "", 1)
		stop()
		<-seen
	})
}

// A frail store loses each hearing after a minute.
type frail struct{ driver.Store }

func (s frail) Listener() driver.Listener { return frailListener{s.Store.Listener()} }

type frailListener struct{ driver.Listener }

func (l frailListener) Subscribe(ctx context.Context, topic string, ear driver.Receiver) (driver.Registration, error) {
	h, err := l.Listener.Subscribe(ctx, topic, ear)
	if err != nil {
		return nil, err
	}
	lost := make(chan struct{})
	time.AfterFunc(time.Minute, func() {
		h.Close()
		close(lost)
	})
	return frailHearing{h, lost}, nil
}

type frailHearing struct {
	driver.Registration
	lost chan struct{}
}

func (h frailHearing) Lost() <-chan struct{} { return h.lost }

// A watcher whose connection is lost hears again, within a poll.
func TestAWatcherHearsAgain(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		ctx, stop := context.WithCancel(t.Context())
		seen := watcher(ctx, storage.New(frail{s.Driver()}), 5*time.Second)
		wantSight(t, seen, "", 0)
		time.Sleep(time.Minute + 10*time.Second)
		a := begin(t, s, "a", leader.Config{})
		r := a.reign(t)
		if took := wantSight(t, seen, "a", 1).at.Sub(r.began); took > 0 {
			t.Errorf("the beginning is seen after %v, want at once", took)
		}
		a.quit(t, r)
		wantSight(t, seen, "", 1)
		stop()
		<-seen
		time.Sleep(time.Minute)
	})
}

// An idle watcher makes one conditional read each Every, and a change costs it one more.
func TestTheCostOfWatching(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		ctx, stop := context.WithCancel(t.Context())
		var calls storagetest.Calls
		seen := watcher(ctx, storagetest.Intercept(s, calls.Hook), usual)
		wantSight(t, seen, "", 0)
		time.Sleep(time.Hour)
		if n := calls.Count("get blob"); n < 1300 || n > 1600 || calls.Count() != n+1 {
			t.Errorf("%d reads in an hour, and %d calls in all; want about 1440, and one to hear", n, calls.Count())
		}
		before := calls.Count()
		if err := leader.Run(t.Context(), s, name, leader.Config{}, func(context.Context, leader.Term) error { return nil }); err != nil {
			t.Error(err)
		}
		if n := calls.Count() - before; n > 2 {
			t.Errorf("two changes cost %d calls", n)
		}
		stop()
		for range seen {
		}
	})
}

func TestBadWatches(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		for name, want := range map[string]string{"": "key", strings.Repeat("x", storage.MaxKey): "249 bytes"} {
			n := 0
			for _, err := range leader.Watch(t.Context(), s, name) {
				if n++; !errors.Is(err, storage.ErrInvalid) || !strings.Contains(err.Error(), want) {
					t.Errorf("%q: %v; want a word about %s", name, err, want)
				}
			}
			if n != 1 {
				t.Errorf("%q: %d errors, want 1", name, n)
			}
		}
		if _, err := leader.Current(t.Context(), s, ""); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("Current of no name: %v", err)
		}
	})
}

func TestList(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		list := func() (all []leader.Leader) {
			for who, err := range leader.List(t.Context(), s) {
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, who)
			}
			return all
		}
		if got := list(); len(got) != 0 {
			t.Errorf("before any leader: %+v", got)
		}
		for _, n := range []string{"b", "a/b", "reports"} {
			if err := leader.Run(t.Context(), s, n, leader.Config{}, func(context.Context, leader.Term) error { return nil }); err != nil {
				t.Fatal(err)
			}
		}
		a := begin(t, s, "a", leader.Config{})
		r := a.reign(t)
		b := begin(t, s, "b", leader.Config{})
		time.Sleep(time.Minute) // b is a row from its second poll on
		got := list()
		if len(got) != 3 || got[0].Name != "a/b" || got[1].Name != "b" || got[2].Name != "reports" {
			t.Fatalf("listed: %+v", got)
		}
		if got[0].Holder != "" || got[0].Term != 1 || got[2].Holder != "a" || got[2].Term != 2 {
			t.Errorf("listed: %+v", got)
		}
		if c := got[2].Candidates; len(c) != 1 || c[0].Holder != "b" || len(got[0].Candidates) != 0 {
			t.Errorf("listed candidates: %+v", got)
		}
		b.quit(t, nil)
		a.quit(t, r)
		if _, err := s.Blobs("leases").Put(t.Context(), "leader/a", []byte("x"), storage.Condition{}); err != nil {
			t.Fatal(err)
		}
		var names []string
		for who, err := range leader.List(t.Context(), s) {
			if bad := who.Name == "a"; bad != (err != nil) || bad && !errors.Is(err, storage.ErrInvalid) {
				t.Errorf("%s is listed with the error %v", who.Name, err)
			}
			names = append(names, who.Name)
		}
		if want := []string{"a", "a/b", "b", "reports"}; !slices.Equal(names, want) {
			t.Errorf("with a blob that is no lease: %q, want %q", names, want)
		}
	})
}
