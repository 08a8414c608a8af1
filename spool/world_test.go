package spool

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/driver"
	"github.com/millrace-go/millrace/storage/sqlite"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// note is a message to a queue of its own.
type note struct {
	Text string `json:"text"`
}

func (note) Kind() channel.Kind { return "test.note.v1" }

const notes = "notes"

// steps is a store that does a unit of work step by step, so that a test sees the queues.
type steps struct{ driver.Store }

func (steps) Committer() driver.Committer { return nil }

// Moods of the store.
const (
	up     = iota
	away   // calls fail without an effect
	lost   // calls fail after their effect
	silent // calls end with their context
)

// A world is a sending program on a store that can be away.
type world struct {
	t     *testing.T
	store *storage.Store // as it is
	seen  *storage.Store // as the program sees it
	path  string
	log   *worldtest.Log
	mood  atomic.Int32
	calls atomic.Int64 // of the store
	slow  atomic.Int64 // how long each takes, in nanoseconds
	bad   atomic.Value // string: a queue that is away for itself

	channels *channel.Channels // without a spool
	spool    *Spool
	adds     *channel.Sender[worldtest.Add]
	stop     func() error // ends Run, and returns its error
}

func routes(t *testing.T) *channel.Routes {
	t.Helper()
	r, err := channel.NewRoutes(channel.Command[worldtest.Add](worldtest.Accounts), channel.Command[note](notes))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// newWorld makes a world without a spool. The caller is in a bubble.
func newWorld(t *testing.T) *world {
	w := &world{t: t, store: worldtest.OpenStore(t, worldtest.Virtual), path: filepath.Join(t.TempDir(), "web.spool"), log: worldtest.NewLog()}
	w.bad.Store("")
	w.seen = storagetest.Intercept(storage.New(steps{w.store.Driver()}), func(ctx context.Context, op storagetest.Op, do func() error) error {
		w.calls.Add(1)
		_ = worldtest.Pause(ctx, time.Duration(w.slow.Load()))
		switch mood := w.mood.Load(); {
		case mood == away, op.Resource == "queue "+w.bad.Load().(string):
			return op.Fail(storage.ErrUnavailable)
		case mood == lost:
			_ = do() // its answer is lost
			return op.Fail(storage.ErrUnavailable)
		case mood == silent:
			<-ctx.Done()
			return op.Fail(context.Cause(ctx))
		}
		return do()
	})
	w.channels = channelsOver(t, w.seen, routes(t))
	return w
}

func channelsOver(t *testing.T, s *storage.Store, r *channel.Routes) *channel.Channels {
	t.Helper()
	c, err := channel.New(s, r, "/web")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// openLocal opens the file of the spool as Open does, without the lock.
func (w *world) openLocal() *storage.Store {
	w.t.Helper()
	local, err := sqlite.OpenSpool(w.t.Context(), w.path+"?wake=off&sync=normal", slog.New(slog.DiscardHandler), false)
	if err != nil {
		w.t.Fatal(err)
	}
	return local
}

// start opens the spool and runs it. over may change how the program sees the file.
func (w *world) start(cfg Config, over func(*storage.Store) *storage.Store) {
	w.t.Helper()
	cfg.Logger = slog.New(w.log)
	if err := cfg.check(); err != nil {
		w.t.Fatal(err)
	}
	local := w.openLocal()
	seen := local
	if over != nil {
		seen = over(local)
	}
	s, err := w.open(seen, cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	w.use(s, s.Close)
}

// open opens the spool in a file that is open as a store.
func (w *world) open(local *storage.Store, cfg Config) (*Spool, error) {
	f, err := newFile(w.path, local, cfg.Logger)
	if err != nil {
		return nil, err
	}
	return open(w.t.Context(), f, w.channels, cfg)
}

// use makes the program send through a spool, and runs it.
func (w *world) use(s *Spool, closing func() error) {
	w.spool, w.adds = s, worldtest.SenderOf[worldtest.Add](w.t, s.Channels())
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	stopped := false
	w.stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		err := <-ended
		if closed := closing(); closed != nil {
			w.t.Errorf("close: %v", closed)
		}
		return err
	}
	w.t.Cleanup(func() {
		w.mood.Store(up)
		if err := w.stop(); err != nil {
			w.t.Errorf("Run: %v", err)
		}
	})
}

// send sends the nth command, and reports whether it is in the spool.
func (w *world) send(ctx context.Context, n int) (spooled bool, err error) {
	ctx, kept := channel.NoteSpooled(ctx)
	err = w.adds.Send(ctx, worldtest.Add{Key: key(n), To: "a", Amount: n})
	return kept() > 0, err
}

func key(n int) string { return fmt.Sprintf("order-%04d", n) }

// keep sends some commands that must be kept.
func (w *world) keep(from, to int) {
	w.t.Helper()
	for n := from; n < to; n++ {
		if spooled, err := w.send(w.t.Context(), n); err != nil || !spooled {
			w.t.Fatalf("send %d: spooled %v, error %v; want it in the spool", n, spooled, err)
		}
	}
}

// arrived returns the IDs in a queue, in the order of the queue.
func (w *world) arrived(queue string) (all []string) {
	w.t.Helper()
	for _, e := range worldtest.Take(w.t, w.store, queue) {
		all = append(all, e.ID)
	}
	return all
}

// wantWaiting fails the test unless so many messages wait.
func (w *world) wantWaiting(n int64) {
	w.t.Helper()
	if got := w.spool.Waiting(); got != n {
		w.t.Fatalf("%d messages wait, want %d; log:\n%s", got, n, w.log)
	}
}

// settle lets virtual time pass until an outage that is over has no effect any more.
func settle() {
	time.Sleep(time.Minute)
	synctest.Wait()
}

func bubble(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { test(t, newWorld(t)) })
}
