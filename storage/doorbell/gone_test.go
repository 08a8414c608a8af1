package doorbell

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// A poller is a process under virtual time that keeps its row and polls a queue. It has no socket, because virtual
// time stands still while a goroutine waits for the network; a test puts rings into its bells.
type poller struct {
	*Doorbell
	t     *testing.T
	calls storagetest.Calls
	down  atomic.Bool  // the store fails
	slow  atomic.Bool  // it takes a second
	ahead atomic.Int64 // nanoseconds, of the wall clock
}

func polling(t *testing.T) *poller {
	t.Helper()
	x := &poller{t: t}
	x.Doorbell = put(t, storagetest.Intercept(plain(t, filepath.Join(t.TempDir(), "test.db")), func(ctx context.Context, op storagetest.Op, do func() error) error {
		if x.down.Load() {
			return op.Fail(storage.ErrUnavailable)
		}
		if x.slow.Load() {
			time.Sleep(time.Second)
		}
		return x.calls.Hook(ctx, op, do)
	}), loopback(), usualPace())
	x.own.listening = true
	x.own.dir.wall = func() time.Time { return time.Now().Round(0).Add(time.Duration(x.ahead.Load())) }
	t.Cleanup(x.Listen("queue").Close)
	x.own.all.Go(func() { x.own.row.run(keyOf(1), netip.MustParseAddrPort("127.0.0.1:9")) })
	time.Sleep(time.Minute)
	if !x.stands() {
		t.Fatal("there is no row")
	}
	return x
}

func (x *poller) stands() bool {
	x.t.Helper()
	_, err := x.Table(tableName).Get(x.t.Context(), partition, x.own.dir.id)
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		x.t.Fatal(err)
	}
	return err == nil
}

// look receives and deletes messages. It wants that many, or an error for -1.
func (x *poller) look(want int) {
	x.t.Helper()
	q := x.Queue("queue")
	got, err := q.Receive(x.t.Context(), 32, time.Minute)
	if len(got) != max(0, want) || (err != nil) != (want < 0) {
		x.t.Fatalf("received %d messages, error %v; want %d", len(got), err, want)
	}
	for _, d := range got {
		if err := q.Delete(x.t.Context(), []storage.Receipt{d.Receipt}); err != nil {
			x.t.Fatal(err)
		}
	}
}

// comes sends a message from another process, and its ring arrives or not.
func (x *poller) comes(rung bool) {
	x.t.Helper()
	send(x.t, storage.New(x.own.Store), "queue")
	if rung {
		x.rings()
	}
}

func (x *poller) rings() {
	x.t.Helper()
	if !x.own.bells.ringForOther("queue") {
		x.t.Fatal("a ring was not heeded")
	}
	time.Sleep(pause)
}

// TestVanishedRowComesBack removes the row. At the first sign of that the row is written again, long before its
// renewal.
func TestVanishedRowComesBack(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sign string
		give func(x *poller)
	}{
		{"the store works again", func(x *poller) {
			x.down.Store(true)
			x.look(-1)
			time.Sleep(time.Second)
			x.look(-1)
			x.down.Store(false)
			x.look(0)
		}},
		{"a read of the table", func(x *poller) { send(x.t, x, "elsewhere") }},
		{"a message that nobody rang for", func(x *poller) {
			x.rings()
			x.look(0)
			x.comes(false)
			time.Sleep(30 * time.Second)
			x.look(1)
		}},
	} {
		t.Run(c.sign, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				x := polling(t)
				if err := x.Table(tableName).Delete(t.Context(), partition, x.own.dir.id, storage.Condition{}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				if x.stands() {
					t.Fatal("the row can't be taken away")
				}
				before := x.calls.Count("put row")
				c.give(x)
				synctest.Wait()
				if !x.stands() {
					t.Error("the row is not written again")
				}
				time.Sleep(2 * time.Minute)
				if n := x.calls.Count("put row") - before; n != 1 {
					t.Errorf("the row was written %d times; want once", n)
				}
			})
		})
	}
}

// TestNoSignNoRequest counts the writes of the row in an hour. Without a sign there are only renewals, and no read.
// With one sign after the other the writes are bounded.
func TestNoSignNoRequest(t *testing.T) {
	t.Parallel()
	const least, most = 13, 17 // renewals
	for _, c := range []struct {
		name  string
		every time.Duration
		step  func(x *poller, i int)
		most  int
	}{
		{"nothing comes", 30 * time.Second, func(x *poller, i int) { x.look(0) }, most},
		{"messages are rung for", 30 * time.Second, func(x *poller, i int) {
			x.comes(true)
			x.look(1)
			x.look(0)
		}, most},
		{"messages come faster than rings", 10 * time.Second, func(x *poller, i int) {
			x.comes(true)
			x.look(1)
			x.comes(false)
			x.look(1)
		}, most},
		{"rings never arrive", 30 * time.Second, func(x *poller, i int) {
			x.look(0)
			x.comes(false)
			x.look(1)
		}, most},
		{"rings have ceased to arrive", 30 * time.Second, func(x *poller, i int) {
			if i == 0 {
				x.rings()
			}
			x.look(0)
			x.comes(false)
			x.look(1)
		}, most + 1},
		{"the store fails every other time", 5 * time.Second, func(x *poller, i int) {
			x.down.Store(i%2 == 0)
			x.look(-1 + i%2)
		}, 121},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				x := polling(t)
				rows, reads := x.calls.Count("put row"), x.calls.Count("query")
				for i := range int(time.Hour / c.every) {
					c.step(x, i)
					time.Sleep(c.every)
				}
				if n := x.calls.Count("put row") - rows; n < least || n > c.most {
					t.Errorf("%d writes of the row; want %d to %d", n, least, c.most)
				}
				if n := x.calls.Count("query") - reads; n != 0 {
					t.Errorf("the table was read %d times", n)
				}
			})
		})
	}
}

// TestRungAgain removes the row in the table between two processes, until the sender knows no listener. One message
// waits for a poll; the next one rings.
func TestRungAgain(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	p := quick()
	p.retry = time.Millisecond
	a, b := put(t, plain(t, path), loopback(), p), put(t, plain(t, path), loopback(), p)
	ring := watch(t, a, b, "queue")
	receive := func(want int) {
		t.Helper()
		if got, err := a.Queue("queue").Receive(t.Context(), 32, time.Hour); err != nil || len(got) != want {
			t.Fatalf("received %d messages, %v; want %d", len(got), err, want)
		}
	}
	send(t, b, "queue")
	wantRing(t, ring, "a send")
	receive(1)
	if err := a.Table(tableName).Delete(t.Context(), partition, a.own.dir.id, storage.Condition{}); err != nil {
		t.Fatal(err)
	}
	until(t, "the sender to forget the listener", func() bool {
		send(t, b, "elsewhere")
		b.own.send.mu.Lock()
		defer b.own.send.mu.Unlock()
		return len(b.own.send.list) == 0
	})
	receive(0)
	send(t, b, "queue")
	receive(1)
	listeners(t, b, 1)
	send(t, b, "queue")
	wantRing(t, ring, "the row is back")
}

// After its machine was suspended, a process writes its row soon. A Registration is lost if others didn't believe the
// row any more. The monotonic clock stood still, so only the wall clock shows it.
func TestLostByASuspendedMachine(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		suspended time.Duration
		written   int
		lost      bool
	}{{time.Minute, 0, false}, {-time.Hour, 0, false}, {5 * time.Minute, 1, false}, {6 * time.Minute, 1, true}, {8 * time.Hour, 1, true}} {
		t.Run(fmt.Sprint(c.suspended), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				x := polling(t)
				h := subscribe(t, x.Doorbell, "topic", takesOne)
				before := x.calls.Count("put row")
				x.ahead.Store(int64(c.suspended))
				time.Sleep(checkAge)
				synctest.Wait()
				if n := x.calls.Count("put row") - before; n != c.written || isLost(h) != c.lost {
					t.Errorf("%d writes, lost %v; want %d, %v", n, isLost(h), c.written, c.lost)
				}
				again := subscribe(t, x.Doorbell, "topic", takesOne)
				x.ahead.Store(0)
				time.Sleep(2 * time.Minute)
				if n := x.calls.Count("put row") - before; n != c.written || isLost(again) {
					t.Errorf("the clock is back: %d writes, lost %v; want %d, and no loss", n, isLost(again), c.written)
				}
			})
		})
	}
}
