package engine

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/storage/driver"
	"github.com/millrace-go/millrace/storage/redis/internal/client"
	"github.com/millrace-go/millrace/storage/redis/redistest"
)

// A lossy connection loses one answer, or one call, which arrives later.
type lossy struct {
	client.Conn
	answer func()            // the next answer is lost after this
	call   func(late func()) // the next call is lost
	each   func()            // before each call
}

func (c *lossy) Eval(ctx context.Context, s *client.Script, key string, args func() []string, replicas int) (client.Reply, error) {
	if c.each != nil {
		c.each()
	}
	if f := c.call; f != nil {
		c.call = nil
		lost := args()
		f(func() {
			_, _ = c.Conn.Eval(ctx, s, key, func() []string { return lost }, replicas) // nobody hears the answer
		})
		return client.Reply{}, io.EOF
	}
	r, err := c.Conn.Eval(ctx, s, key, args, replicas)
	if f := c.answer; f != nil {
		c.answer = nil
		f()
		return client.Reply{}, io.EOF
	}
	return r, err
}

// openLossy opens a store on a server of its own, and the same store for somebody else.
func openLossy(t *testing.T) (*redistest.Server, *lossy, *Engine, *Engine) {
	t.Helper()
	server := redistest.Start(t, redistest.Config{})
	open := func(wrap func(client.Conn) client.Conn) *Engine {
		conn, err := client.Dial(t.Context(), client.Options{Addrs: []string{server.Addr()}})
		if err != nil {
			t.Fatal(err)
		}
		e, err := Open(t.Context(), wrap(conn), Config{Prefix: "app", Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(e.Close)
		return e
	}
	c := &lossy{}
	e := open(func(inner client.Conn) client.Conn { c.Conn = inner; return c })
	return server, c, e, open(func(inner client.Conn) client.Conn { return inner })
}

func do(t *testing.T, e *Engine, fill func(u *Unit)) *Unit {
	t.Helper()
	u := new(Unit)
	fill(u)
	if err := e.Do(t.Context(), u); err != nil {
		t.Fatal(err)
	}
	return u
}

func send(e *Engine) func(u *Unit) {
	return func(u *Unit) { u.Send("jobs", e.NewID()+"12345678body", "", 0) }
}

// Law: a call that reaches the server after its repeat was refused by a condition does nothing, either.
func TestLawALateCallBehindARefusedRepeat(t *testing.T) {
	t.Parallel()
	server, c, e, other := openLossy(t)
	write := func(e *Engine, want string) func(u *Unit) {
		return func(u *Unit) { u.Write("docs", "a", e.NewID(), e.NewID()+"state", want) }
	}
	do(t, other, write(other, Always))
	var late func()
	c.call = func(f func()) { late = f }
	if u := do(t, e, write(e, Absent)); len(u.Failures) != 1 || !errors.Is(u.Failures[0].Err, driver.ErrExists) {
		t.Fatalf("got %v, want that there is one", u.Failures)
	}
	do(t, other, func(u *Unit) { u.Remove("docs", "a", Always) })
	late()
	if there := server.Do(t, "EXISTS", "{app}:D:docs\x00a"); there != "0" {
		t.Error("a write that was refused was done late")
	}
}

// Law: a repeat does nothing twice, also where others took the process for dead meanwhile, at its first call.
func TestLawARepeatOfAProcessThatWasForgotten(t *testing.T) {
	t.Parallel()
	server, c, e, other := openLossy(t)
	c.answer = func() {
		if _, err := other.Release(t.Context(), 3, []string{e.Process()}); err != nil {
			t.Error(err)
		}
	}
	do(t, e, send(e))
	if n := server.Do(t, "LLEN", "{app}:q:jobs:r"); n != "1" {
		t.Errorf("the message was sent %s times, want once", n)
	}
	if e.Lost() != 0 {
		t.Errorf("%d changes are told as lost, want none", e.Lost())
	}
}

// Law: a repeat that the server refuses leaves the outcome unknown, because the first call may have been done.
func TestLawARefusedRepeatIsUnknown(t *testing.T) {
	t.Parallel()
	server, c, e, _ := openLossy(t)
	do(t, e, send(e))
	c.answer = func() { server.Do(t, "CONFIG", "SET", "maxmemory", "1") }
	u := new(Unit)
	send(e)(u)
	err := e.Do(t.Context(), u)
	if !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "outcome is unknown") || strings.Contains(err.Error(), "takes no writes") {
		t.Errorf("got %v, want an unknown outcome", err)
	}
	server.Do(t, "CONFIG", "SET", "maxmemory", "0")
	if n := server.Do(t, "LLEN", "{app}:q:jobs:r"); n != "2" {
		t.Errorf("%s messages are there, want 2", n)
	}
}

// A clock that jumps again while the first jump is judged is judged as a whole.
func TestTwoJumpsInOneCall(t *testing.T) {
	t.Parallel()
	server, c, e, _ := openLossy(t)
	do(t, e, send(e))
	before := e.Now()
	shift := func(by int64) { // a store whose time is behind by so much sees the clock so much ahead
		x := &e.caller.clock
		x.mu.Lock()
		defer x.mu.Unlock()
		x.at, x.last = x.at-by, 0
		server.Do(t, "HINCRBY", "{app}", "seen", strconv.FormatInt(-by, 10))
	}
	const first, second = 100_000_000, 50_000_000
	shift(first)
	calls := 0
	c.each = func() {
		if calls++; calls == 2 {
			shift(second)
		}
	}
	do(t, e, send(e))
	if calls > 4 {
		t.Errorf("%d calls were needed, want 3", calls)
	}
	if gone := before - e.Now(); gone < first+second-10_000_000 {
		t.Errorf("%d µs were taken away, want %d", gone, first+second)
	}
}

// A busy store, whose changes are less than a millisecond apart, gets back the time that was taken away.
func TestABusyStoreGetsItsTimeBack(t *testing.T) {
	t.Parallel()
	server, _, e, _ := openLossy(t)
	do(t, e, send(e))
	const taken = 93_000_000
	server.Do(t, "HSET", "{app}", "ahead", strconv.Itoa(-taken), "seen", strconv.FormatInt(time.Now().UnixMicro()-taken, 10))
	fresh, err := Open(t.Context(), e.caller.conn, Config{Prefix: "app", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for range 2000 {
		do(t, fresh, send(fresh))
	}
	passed := time.Since(began).Microseconds()
	ahead, err := strconv.ParseInt(server.Do(t, "HGET", "{app}", "ahead"), 10, 64)
	if back := taken + ahead; err != nil || back < passed/2000 || back > passed/500+1000 {
		t.Errorf("%d µs came back in %d (%v), want a thousandth", back, passed, err)
	}
}
