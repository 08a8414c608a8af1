package redis_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/redis"
	"github.com/millrace-go/millrace/storage/redis/redistest"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// openStore opens a store until the end of the test.
func openStore(t testing.TB, url string) *storage.Store {
	t.Helper()
	s, err := redis.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// newList returns the list that a test uses.
func newList(t testing.TB, s *storage.Store) *redis.List {
	t.Helper()
	l, err := redis.NewList(s, "readings")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// lists runs a test with a list that two stores share.
func lists(t *testing.T, f func(t *testing.T, here, there *redis.List)) {
	t.Helper()
	url := redistest.Start(t, redistest.Config{}).URL(redistest.Fresh())
	f(t, newList(t, openStore(t, url)), newList(t, openStore(t, url)))
}

func push(t testing.TB, l *redis.List, values ...string) {
	t.Helper()
	all := make([][]byte, len(values))
	for i, v := range values {
		all[i] = []byte(v)
	}
	if err := l.Push(t.Context(), all...); err != nil {
		t.Fatal(err)
	}
}

// rest pops all that wait, the oldest first.
func rest(t testing.TB, l *redis.List) (all []string) {
	t.Helper()
	for {
		v, err := l.NoWait().PopFirst(t.Context())
		if errors.Is(err, redis.ErrEmpty) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(v))
	}
}

func wantLen(t testing.TB, l *redis.List, waiting, held int64) {
	t.Helper()
	if w, h, err := l.Len(t.Context()); w != waiting || h != held || err != nil {
		t.Errorf("%d wait and %d are held, %v; want %d and %d", w, h, err, waiting, held)
	}
}

func take(t testing.TB, get func(context.Context) (*redis.Taken, error), want string) *redis.Taken {
	t.Helper()
	taken, err := get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if string(taken.Value) != want {
		t.Fatalf("took %q, want %q", taken.Value, want)
	}
	return taken
}

func TestLawFirstInFirstOutAndNewestFirst(t *testing.T) {
	t.Parallel()
	lists(t, func(t *testing.T, here, there *redis.List) {
		push(t, here, "1", "2", "", "4", "5")
		push(t, there, "6")
		for _, c := range []struct {
			pop  func(context.Context) ([]byte, error)
			want string
		}{{there.PopFirst, "1"}, {here.PopLast, "6"}, {here.PopFirst, "2"}, {there.PopLast, "5"}} {
			if got, err := c.pop(t.Context()); string(got) != c.want || err != nil {
				t.Errorf("got %q, %v; want %q", got, err, c.want)
			}
		}
		a := take(t, here.TakeFirst, "")
		b := take(t, there.TakeLast, "4")
		wantLen(t, here, 0, 2)
		push(t, here, "7")
		if err := errors.Join(a.HandBack(t.Context()), b.HandBack(t.Context())); err != nil {
			t.Fatal(err)
		}
		if got, want := rest(t, there), []string{"", "7", "4"}; !slices.Equal(got, want) {
			t.Errorf("after two were handed back: %q, want %q", got, want)
		}
		wantLen(t, here, 0, 0)
	})
}

func TestLawAPushIsAllOrNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Config{})
	prefix := redistest.Fresh()
	l := newList(t, openStore(t, server.URL(prefix)))
	large := strings.Repeat("x", 256<<10)
	for what, c := range map[string]struct {
		values []string
		want   error
		says   string
	}{
		"none":      {nil, storage.ErrInvalid, "want 1 to 512"},
		"too many":  {make([]string, 513), storage.ErrInvalid, "want 1 to 512"},
		"too large": {[]string{"a", large + "x"}, storage.ErrTooLarge, "value 1 has 262145 bytes; at most 262144"},
		"together":  {[]string{large, large, large, large, "x"}, storage.ErrTooLarge, "1048577 bytes in one call; at most 1048576"},
	} {
		all := make([][]byte, len(c.values))
		for i, v := range c.values {
			all[i] = []byte(v)
		}
		if err := l.Push(t.Context(), all...); !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "list readings") {
			t.Errorf("%s: %v, want %v that says %q", what, err, c.want, c.says)
		}
	}
	wantLen(t, l, 0, 0)
	push(t, l, large, large, large, large)
	wantLen(t, l, 4, 0)
	if got, err := l.PopLast(t.Context()); string(got) != large || err != nil {
		t.Errorf("a large value comes back with %d bytes, %v", len(got), err)
	}

	// The claims' key is of a foreign type: nothing is written, and the error says why.
	server.Do(t, "SET", "{"+prefix+"}:H:readings", "x")
	if err := l.Push(t.Context(), []byte("a")); !errors.Is(err, storage.ErrUnavailable) || !strings.Contains(err.Error(), "holds something of another program") {
		t.Errorf("beside a key of a foreign type: %v", err)
	}
	if n := server.Do(t, "LLEN", "{"+prefix+"}:L:readings"); n != "3" {
		t.Errorf("a push that failed has left %s values, want 3", n)
	}
}

// Memory is full: pushes are refused, and what is there can be handled.
func TestAFullServerGivesWhatItHas(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Config{})
	l := newList(t, openStore(t, server.URL(redistest.Fresh())))
	push(t, l, "1", "2", "3")
	server.Do(t, "CONFIG", "SET", "maxmemory", "1")
	if err := l.Push(t.Context(), []byte("4")); !errors.Is(err, storage.ErrUnavailable) || !strings.Contains(err.Error(), "memory is full") {
		t.Errorf("a push to a full server: %v", err)
	}
	if err := take(t, l.TakeFirst, "1").Done(t.Context()); err != nil {
		t.Error(err)
	}
	if err := take(t, l.TakeFirst, "2").HandBack(t.Context()); err != nil {
		t.Error(err)
	}
	if got := rest(t, l); !slices.Equal(got, []string{"2", "3"}) {
		t.Errorf("got %q", got)
	}
}

// Many consumers, in two stores, get each value once.
func TestLawAValueIsGivenToOne(t *testing.T) {
	t.Parallel()
	lists(t, func(t *testing.T, here, there *redis.List) {
		const values, consumers = 2000, 8
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var mu sync.Mutex
		got := map[string]int{}
		var all sync.WaitGroup
		for i := range consumers {
			l := []*redis.List{here, there}[i%2]
			all.Go(func() {
				for {
					var v []byte
					var err error
					if i < consumers/2 {
						v, err = l.PopFirst(ctx)
					} else if taken, e := l.TakeLast(ctx); e != nil {
						err = e
					} else {
						v, err = taken.Value, taken.Done(context.WithoutCancel(ctx))
					}
					if ctx.Err() != nil && err != nil {
						return
					}
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					got[string(v)]++
					if len(got) == values {
						cancel()
					}
					mu.Unlock()
				}
			})
		}
		for i := 0; i < values; i += 100 {
			var some []string
			for j := range 100 {
				some = append(some, fmt.Sprint(i+j))
			}
			push(t, here, some...)
		}
		all.Wait()
		for v, n := range got {
			if n != 1 {
				t.Errorf("%s came %d times", v, n)
			}
		}
		wantLen(t, here, 0, 0)
	})
}

// Fifty consumers of one process wait. Each push costs a look of the one whose turn it is, and one of the next.
func TestLawOneConsumerOfAProcessLooks(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t, redistest.Config{}).URL(redistest.Fresh())
	store := openStore(t, url)
	here, there := newList(t, store), newList(t, openStore(t, url))
	const consumers = 50
	got := make(chan string, consumers)
	var all sync.WaitGroup
	for range consumers {
		all.Go(func() {
			v, err := here.PopFirst(t.Context())
			if err != nil {
				t.Error(err)
			}
			got <- string(v)
		})
	}
	for i := range consumers {
		push(t, there, fmt.Sprint(i))
		if v := <-got; v != fmt.Sprint(i) {
			t.Errorf("push %d: got %s", i, v)
		}
	}
	all.Wait()
	looks := int64(0)
	for _, r := range store.Requests() {
		if r.Op == "pop from" {
			looks += r.Count
		}
	}
	// Two for each value at most, two at the beginning of the subscription, and those after each 5 seconds of a slow test.
	if looks < consumers || looks > 3*consumers {
		t.Errorf("%d consumers that got a value each have looked %d times", consumers, looks)
	}
}

// An element that comes while a consumer's context ends is not lost, whether it is popped or taken, and whether the
// server has the call already.
func TestLawTheEndOfAContextLosesNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Config{})
	l := newList(t, openStore(t, server.URL(redistest.Fresh())))
	push(t, l, "1", "2")
	for what, get := range map[string]func(context.Context) error{
		"pop first": func(ctx context.Context) error { _, err := l.PopFirst(ctx); return err },
		"pop last":  func(ctx context.Context) error { _, err := l.PopLast(ctx); return err },
		"take":      func(ctx context.Context) error { _, err := l.TakeFirst(ctx); return err },
	} {
		server.Stall(t)
		ctx, cancel := context.WithCancelCause(t.Context())
		gone := errors.New("the consumer has gone")
		ended := make(chan error)
		go func() { ended <- get(ctx) }()
		select {
		case err := <-ended:
			t.Fatalf("%s from a server that stands still: %v", what, err)
		case <-time.After(200 * time.Millisecond): // by now the call is on its way
		}
		cancel(gone)
		if err := <-ended; !errors.Is(err, gone) {
			t.Errorf("%s: %v, want the context's cause", what, err)
		}
		server.Resume(t)
		eventually(t, what+": both values wait again", func() bool {
			w, h, err := l.Len(t.Context())
			return w == 2 && h == 0 && err == nil
		})
	}
	if got := rest(t, l); !slices.Equal(got, []string{"1", "2"}) {
		t.Errorf("got %q", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.PopFirst(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a pop with a context that has ended: %v", err)
	}
}

// eventually waits until something is so.
func eventually(t testing.TB, what string, so func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for limit := time.After(time.Minute); !so(); {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("waited a minute until %s", what)
		}
	}
}

// The connection dies after the server has done a take, and before the answer comes. The next take gives the value, or
// Recover gives it back. A pop's value is gone, as its law says.
func TestLawATakeWhoseAnswerIsLostIsRepeated(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Config{})
	way := newWay(t, server.Addr())
	l := newList(t, openStore(t, "redis://"+way.addr()+"/?prefix="+redistest.Fresh()))
	push(t, l, "1", "2", "3", "4")
	if err := take(t, l.TakeFirst, "1").HandBack(t.Context()); err != nil { // now the server knows the scripts
		t.Fatal(err)
	}
	lose := func(get func(context.Context) error) {
		t.Helper()
		if _, _, err := l.Len(t.Context()); err != nil { // now there is a connection
			t.Fatal(err)
		}
		way.loseAnswers(true)
		if err := get(t.Context()); !errors.Is(err, storage.ErrUnavailable) {
			t.Fatalf("a call whose answer is lost: %v", err)
		}
		way.loseAnswers(false)
	}
	takeFirst := func(ctx context.Context) error { _, err := l.TakeFirst(ctx); return err }
	lose(takeFirst)
	wantLen(t, l, 3, 1)
	if err := take(t, l.TakeFirst, "1").Done(t.Context()); err != nil {
		t.Error(err)
	}
	lose(takeFirst)
	lose(func(ctx context.Context) error { _, err := l.TakeLast(ctx); return err })
	wantLen(t, l, 1, 2)
	if n, err := l.Recover(t.Context()); n != 2 || err != nil {
		t.Errorf("%d values were recovered, %v; want 2", n, err)
	}
	lose(func(ctx context.Context) error { _, err := l.PopFirst(ctx); return err })
	if got, want := rest(t, l), []string{"3", "4"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A way is what a store's connections to a server go through.
type way struct {
	listener net.Listener
	loses    atomic.Bool
}

func newWay(t *testing.T, server string) *way {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &way{listener: listener}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", server)
			if err != nil {
				_ = from.Close()
				continue
			}
			go func() { _, _ = io.Copy(to, from); _ = to.Close() }()
			go w.answer(from, to)
		}
	}()
	return w
}

func (w *way) addr() string { return w.listener.Addr().String() }

// loseAnswers makes each connection end at its next answer, which is lost.
func (w *way) loseAnswers(lose bool) { w.loses.Store(lose) }

func (w *way) answer(client, server net.Conn) {
	defer func() { _, _ = client.Close(), server.Close() }()
	b := make([]byte, 1<<16)
	for {
		n, err := server.Read(b)
		if err != nil || w.loses.Load() {
			return
		}
		if _, err := client.Write(b[:n]); err != nil {
			return
		}
	}
}

// A wait ends with a push by another program, without the framework, and with the server's restart in between.
func TestAWaitOutlivesTheServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Config{Always: true})
	prefix := redistest.Fresh()
	l := newList(t, openStore(t, server.URL(prefix)))
	got := make(chan string)
	go func() {
		for {
			v, err := l.PopFirst(t.Context())
			if err == nil {
				got <- string(v)
				return
			}
			if !errors.Is(err, storage.ErrUnavailable) {
				t.Error(err)
				close(got)
				return
			}
		}
	}()
	server.Kill(t)
	server.Restart(t)
	server.Do(t, "RPUSH", "{"+prefix+"}:L:readings", "foreign")
	if v := <-got; v != "foreign" {
		t.Errorf("got %q", v)
	}
}

func TestBadLists(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Config{})
	good := openStore(t, server.URL(redistest.Fresh()))
	for what, c := range map[string]struct {
		store *storage.Store
		name  string
		want  error
		says  string
	}{
		"no store":    {nil, "readings", storage.ErrInvalid, "the store is nil"},
		"a name":      {good, "Readings", storage.ErrInvalid, "lower-case"},
		"a decorator": {storagetest.Plain(good), "readings", storage.ErrUnsupported, "redis.Open"},
		"a bell":      {openStore(t, server.URL(redistest.Fresh())+"&bell=yes"), "readings", storage.ErrUnsupported, "bell=yes"},
		"wake=off":    {openStore(t, server.URL(redistest.Fresh())+"&wake=off"), "readings", storage.ErrUnsupported, "wake=off"},
	} {
		if _, err := redis.NewList(c.store, c.name); !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %v that says %q", what, err, c.want, c.says)
		}
	}
	closed, err := redis.Open(t.Context(), server.URL(redistest.Fresh()))
	if err != nil {
		t.Fatal(err)
	}
	l := newList(t, closed)
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.PopFirst(t.Context()); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("after Close: %v", err)
	}
}
