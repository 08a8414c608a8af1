package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/handling"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/poison"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/inbox"
	"github.com/millrace-go/millrace/storage/sqlite"
)

// The rooms of a consumer are tested here one by one, each on those below it: without the rooms above.

type errand struct {
	Name string `json:"name"`
}

func (errand) Kind() channel.Kind { return "test.errand.v1" }

// ground is what a room stands on: a queue with a reaction to errands.
type ground struct {
	setup
	t    *testing.T
	send *channel.Sender[errand]
}

func newGround(t *testing.T, cfg Config, handle func(ctx context.Context, e errand) error) *ground {
	t.Helper()
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "test.db")+"?wake=off&sync=normal")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	routes, err := channel.NewRoutes(channel.Command[errand]("errands"))
	if err != nil {
		t.Fatal(err)
	}
	channels, err := channel.New(store, routes, "/test")
	if err != nil {
		t.Fatal(err)
	}
	g := &ground{t: t}
	if g.send, err = channel.NewSender[errand](channels); err != nil {
		t.Fatal(err)
	}
	registry := handlers.NewRegistry(channels, handlers.Config{Logger: slog.New(slog.DiscardHandler)})
	handlers.React(registry, "errands", handle)
	w, err := New(registry, cfg)
	if err != nil {
		t.Fatal(err)
	}
	g.setup = w.setup("errands")
	return g
}

func (g *ground) sendErrands(names ...string) {
	g.t.Helper()
	for _, name := range names {
		if err := g.send.Send(g.t.Context(), errand{Name: name}); err != nil {
			g.t.Fatal(err)
		}
	}
}

// receive returns the messages of the queue, as an intake would receive them.
func (g *ground) receive() inbox.Batch {
	g.t.Helper()
	since := time.Now()
	ds, err := g.q.Receive(g.t.Context(), 100, g.cfg.Visibility)
	if err != nil {
		g.t.Fatal(err)
	}
	return inbox.Batch{Deliveries: ds, Since: since}
}

func (g *ground) wantStats(what string, ready, inFlight, delayed int64) {
	g.t.Helper()
	synctest.Wait()
	s, err := g.q.Stats(g.t.Context())
	if err != nil || s.Ready != ready || s.InFlight != inFlight || s.Delayed != delayed {
		g.t.Errorf("%s: got %+v, %v; want %d ready, %d in flight, %d delayed", what, s, err, ready, inFlight, delayed)
	}
}

// A settler ends each delivery by its outcome, once, and then says that it is over.
func TestSettlerAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGround(t, Config{}, func(context.Context, errand) error { return nil })
		var mu sync.Mutex
		released := map[string]int{}
		s := newSettler(t.Context(), g.setup, newHung(g.queue, g.cfg.Concurrency, g.log, g.stats.abandoned), func(m *message) {
			mu.Lock()
			defer mu.Unlock()
			var e errand
			if err := json.Unmarshal(m.envelope.Data, &e); err != nil {
				t.Error(err)
			}
			released[e.Name]++
		})
		outcomes := map[string]handling.Outcome{
			"done":     {},
			"again":    {Err: errors.New("not yet")},
			"later":    {Err: handlers.Later(time.Hour, "closed")},
			"poison":   {Err: handlers.Poison("bad", nil)},
			"lost":     {Ended: handling.Stale},
			"in a row": {},
		}
		for name := range outcomes {
			g.sendErrands(name)
		}
		batch := g.receive()
		for _, d := range batch.Deliveries {
			m := &message{queue: g.queue, body: d.Body, deliveries: d.Deliveries, claim: newClaim(d.Receipt, batch.Since)}
			var err error
			if m.envelope, err = wire.Decode(d.Body); err != nil {
				t.Fatal(err)
			}
			var e errand
			if err := json.Unmarshal(m.envelope.Data, &e); err != nil {
				t.Fatal(err)
			}
			s.conclude(t.Context(), m, outcomes[e.Name])
			s.conclude(t.Context(), m, handling.Outcome{Err: errors.New("too late")}) // by a handler that was given up
		}
		s.wait()
		g.wantStats("afterwards", 0, 1, 2) // the lost one is another worker's
		for name := range outcomes {
			if released[name] != 1 {
				t.Errorf("%s was released %d times", name, released[name])
			}
		}
		n := 0
		for _, err := range poison.At(g.registry.Channels, g.queue).List(t.Context()) {
			if n++; err != nil {
				t.Error(err)
			}
		}
		if n != 1 || g.stats.done.n.Load() != 2 {
			t.Errorf("got %d in the poison queue and %d handled, want 1 and 2", n, g.stats.done.n.Load())
		}
	})
}

func newTestHand(g *ground) *hand {
	r := newRoom(g.cfg.Concurrency, g.cfg.MaxInHand, false)
	return newHand(g.t.Context(), g.setup, r, newHung(g.queue, g.cfg.Concurrency, g.log, g.stats.abandoned), new(suspects))
}

// A hand runs the handlers of the messages that it is given, as many at a time as may run. Closed, it hands back those
// that wait.
func TestHandAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var running atomic.Int64
		finish := make(chan struct{})
		g := newGround(t, Config{Concurrency: 2}, func(context.Context, errand) error {
			running.Add(1)
			defer running.Add(-1)
			<-finish
			return nil
		})
		h := newTestHand(g)
		want := func(what string, n int64) {
			t.Helper()
			if synctest.Wait(); running.Load() != n {
				t.Errorf("%s: %d run, want %d", what, running.Load(), n)
			}
		}
		g.sendErrands(strings.Split("abcdefghij", "")...)
		h.sort(t.Context(), h.take(g.receive()))
		want("at first", 2)
		h.setConcurrency(4)
		want("after the limit rose", 4)
		h.setClosed(true)
		want("closed", 4)
		g.wantStats("closed", 6, 4, 0)
		h.setClosed(false)
		h.sort(t.Context(), h.take(g.receive()))
		want("open again", 4)
		h.setConcurrency(1)
		for range 4 {
			finish <- struct{}{}
		}
		want("when those from before have ended", 1)
		go func() { finish <- struct{}{} }()
		if err := h.drain(); err != nil {
			t.Error(err)
		}
		want("drained", 0)
		g.wantStats("drained", 5, 0, 0)
	})
}

// An intake takes messages when its limiters allow that and there is room. It closes the hand when they don't.
func TestIntakeAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		finish := make(chan struct{})
		g := newGround(t, Config{Concurrency: 1, MaxInHand: 1, StuckAfter: time.Minute}, func(context.Context, errand) error { <-finish; return nil })
		h := newTestHand(g)
		in := &intake{setup: g.setup, hand: h, room: h.room, hung: h.hung, suspects: h.suspects}
		go h.watch(t.Context()) // else the message that runs would come back
		ctx, stop := context.WithCancel(t.Context())
		limits := make(chan Limits)
		limiters, err := openBoard(ctx, Consumer{Logger: g.log}, func(context.Context, Consumer) (Limiter, error) { return given{ctx, limits}, nil })
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			in.run(ctx, t.Context(), limiters)
		}()
		g.sendErrands("a", "b", "c")
		time.Sleep(time.Minute)
		g.wantStats("before the limiter answers", 3, 0, 0)
		limits <- Limits{}
		time.Sleep(time.Minute)
		g.wantStats("with room for one", 2, 1, 0)
		limits <- Limits{Pause: true}
		time.Sleep(10 * time.Second)
		if !h.starts.closed.Load() || in.fit() {
			t.Errorf("paused without room for more than a minute: closed %v, fit %v; want true, false", h.starts.closed.Load(), in.fit())
		}
		finish <- struct{}{}
		time.Sleep(time.Second)
		g.wantStats("paused", 2, 0, 0)
		if !in.fit() {
			t.Error("it is not fit, though there is room")
		}
		limits <- Limits{Concurrency: 2}
		time.Sleep(time.Minute)
		g.wantStats("with room for two", 0, 2, 0)
		close(finish)
		stop()
		<-ended
		if err := h.drain(); err != nil {
			t.Error(err)
		}
		g.wantStats("in the end", 0, 0, 0)
	})
}

// given is a limiter whose limits come through a channel. Now waits for them.
type given struct {
	ctx    context.Context
	limits chan Limits
}

func (g given) Now() (Limits, <-chan struct{}) {
	again := make(chan struct{})
	close(again)
	select {
	case l := <-g.limits:
		return l, again
	case <-g.ctx.Done():
		return Limits{}, nil
	}
}

func (given) Leave(context.Context) error { return nil }

// A consumer holds more messages while they don't wait long, and fewer when they do. It keeps within its bounds, which
// may change.
func TestRoom(t *testing.T) {
	t.Parallel()
	r := newRoom(2, 16, false)
	round := func(what string, wait time.Duration, want int) {
		t.Helper()
		n := r.free()
		if n != want {
			t.Errorf("%s: free for %d, want %d", what, n, want)
		}
		r.take(n, 0, true)
		r.waited(wait)
		for range n {
			r.leave(false)
		}
	}
	for i, want := range []int{2, 4, 8, 16, 16} {
		round(fmt.Sprintf("fast, round %d", i), time.Millisecond, want)
	}
	r.setLimits(4, 6)
	round("with a lower limit", time.Second, 6)
	round("slow", time.Second, 4)
	round("still slow", time.Millisecond, 4)
	r.setLimits(8, 8)
	round("with a higher limit", time.Millisecond, 8)
	r.take(8, 0, true)
	if n := r.free(); n != 0 {
		t.Errorf("full: free for %d", n)
	}
	r.setLimits(2, 2)
	for range 6 {
		r.leave(false)
	}
	select {
	case <-r.freed:
		t.Error("freed, though there are as many as the lower limit")
	default:
	}
	if n := r.free(); n != 0 {
		t.Errorf("full within the lower limit: free for %d", n)
	}
	r.leave(false)
	select {
	case <-r.freed:
	default:
		t.Error("not freed")
	}
}

// A message whose commit failed is renewed again: its fold may be repeated for longer than the visibility.
func TestRenewalGoesOnAfterACommitThatFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGround(t, Config{}, func(context.Context, errand) error { return nil })
		g.sendErrands("a")
		h := newTestHand(g)
		ms := h.take(g.receive())
		lost := storage.Work{Write: &storage.Write{Container: "docs", Key: "k", Body: []byte("{}"), If: storage.Condition{IfMatch: "0000000000000001"}}}
		if _, ended, err := h.settler.commit(t.Context(), lost, ms, []int{0}); !storage.LostRace(err) || ended != nil {
			t.Fatalf("got %v and error %v, want a lost race", ended, err)
		}
		watching, stop := context.WithCancel(t.Context())
		go h.watch(watching)
		time.Sleep(3*g.cfg.Visibility + time.Second) // not while one is renewed
		stop()
		g.wantStats("after three visibilities", 0, 1, 0)
		_, ended, err := h.settler.commit(t.Context(), storage.Work{}, ms, []int{0})
		if err != nil || len(ended) != 1 || ended[0] != handling.Deleted {
			t.Errorf("got %v and error %v, want that it is deleted", ended, err)
		}
	})
}
