package signal_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/coord/signal"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

func TestBroadcastReachesEach(t *testing.T) {
	t.Parallel()
	s := open(t)
	fits := []*signal.Listener{listen(t, s, name), listen(t, s, "orders.*.paid"), listen(t, s, "stop", "orders.>"), listen(t, s, ">", "*.*.*")}
	others := []*signal.Listener{listen(t, s, "orders.eu"), listen(t, s, "orders.*"), listen(t, s, "orders.eu.paid.>")}
	broadcast(t, s, name, "data", len(fits))
	for i, l := range fits {
		got, ok, err := l.Try()
		if got.Name != name || string(got.Data) != "data" || !ok || err != nil {
			t.Errorf("listener %d: got %s %q, %v, %v", i, got.Name, got.Data, ok, err)
		}
		clear(got.Data) // each has bytes of its own
	}
	for i, l := range slices.Concat(fits, others) {
		if got := drain(t, l); len(got) > 0 {
			t.Errorf("listener %d: got %q", i, got)
		}
	}
}

func TestAClosedListenerTakesNothing(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		l := listen(t, s, ">")
		ended := make(chan error)
		go func() { _, err := l.Any(t.Context()); ended <- err }()
		synctest.Wait()
		l.Close()
		if err := <-ended; !errors.Is(err, signal.ErrClosed) {
			t.Errorf("a wait ended with %v", err)
		}
		broadcast(t, s, name, "", 0)
		one(t, s, name, "", false)
		l.Close()

		l = listen(t, s, ">")
		broadcast(t, s, name, "before", 1)
		l.Close()
		if got, err := l.Any(t.Context()); string(got.Data) != "before" || err != nil {
			t.Errorf("what it took before: got %q, %v", got.Data, err)
		}
		if _, ok, err := l.Try(); ok || !errors.Is(err, signal.ErrClosed) {
			t.Errorf("got %v, %v", ok, err)
		}
	})
}

func TestAnyWaits(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		l := listen(t, s, "a", "b")
		time.AfterFunc(time.Hour, func() { broadcast(t, s, "b", "1", 1); broadcast(t, s, "a", "2", 1) })
		begin := time.Now()
		for _, want := range []string{"b 1", "a 2"} {
			if got, err := l.Any(t.Context()); got.Name+" "+string(got.Data) != want || err != nil {
				t.Errorf("got %s %q, %v; want %s", got.Name, got.Data, err, want)
			}
		}
		synctest.Wait() // for the sender
		if took := time.Since(begin); took != time.Hour {
			t.Errorf("it took %v", took)
		}

		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("too late"))
		defer cancel()
		if _, err := l.Any(ctx); err == nil || err.Error() != `signal: wait for "a b": too late` {
			t.Errorf("got %v", err)
		}
	})
}

// Of many that wait on one listener, each gets another signal.
func TestManyWaitOnOneListener(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		l := listen(t, s, ">")
		heard := make(chan string, 10)
		for range 10 {
			go func() {
				got, err := l.Any(t.Context())
				if err != nil {
					t.Error(err)
				}
				heard <- string(got.Data)
			}()
		}
		synctest.Wait()
		var want, got []string
		for i := range 10 {
			broadcast(t, s, name, fmt.Sprint(i), 1)
			want = append(want, fmt.Sprint(i))
		}
		for range 10 {
			got = append(got, <-heard)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("heard %q", got)
		}
	})
}

func TestAllWaitsForEachPattern(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		l := listen(t, s, "a", "b.*", "b.x", "c")
		broadcast(t, s, "b.y", "before", 1)
		broadcast(t, s, "b.y", "kept", 1)
		done := make(chan []signal.Signal)
		go func() {
			all, err := l.All(t.Context())
			if err != nil {
				t.Error(err)
			}
			done <- all
		}()
		synctest.Wait()
		one(t, s, "b.z", "", false) // it has one for that pattern
		one(t, s, "b.x", "third", true)
		one(t, s, "b.x", "", false)
		one(t, s, "c", "fourth", true)
		one(t, s, "c", "", false)
		synctest.Wait()
		select {
		case all := <-done:
			t.Fatalf("All returned %v", all)
		default:
		}
		one(t, s, "a", "first", true)
		var got []string
		for _, s := range <-done {
			got = append(got, string(s.Data))
		}
		if want := []string{"first", "before", "third", "fourth"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		broadcast(t, s, "b.z", "next", 1)
		if got, want := drain(t, l), []string{"kept", "next"}; !slices.Equal(got, want) {
			t.Errorf("then %q, want %q", got, want)
		}
	})
}

// A signal may be the first one for several patterns.
func TestOneSignalForSeveralPatterns(t *testing.T) {
	t.Parallel()
	s := open(t)
	l := listen(t, s, "a.*", "a.b", ">")
	broadcast(t, s, "a.b", "it", 1)
	all, err := l.All(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, got := range all {
		if string(got.Data) != "it" {
			t.Errorf("got %v", all)
		}
	}
	if rest := drain(t, l); len(all) != 3 || len(rest) > 0 {
		t.Errorf("got %d signals, and then %q", len(all), rest)
	}
}

// A listener that is full of signals for one pattern still takes one for each of the others.
func TestAllOfAFullListener(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		l := listen(t, s, "a", "b")
		for range 64 {
			broadcast(t, s, "a", "", 1)
		}
		broadcast(t, s, "b", "", 0)
		ctx, cancel := context.WithCancel(t.Context())
		first := make(chan error)
		go func() { _, err := l.All(ctx); first <- err }()
		synctest.Wait()
		broadcast(t, s, "a", "", 0)
		cancel()
		if err := <-first; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		broadcast(t, s, "b", "", 0)

		time.AfterFunc(time.Minute, func() { broadcast(t, s, "b", "", 1) })
		all, err := l.All(t.Context())
		synctest.Wait() // for the sender
		if len(all) != 2 || err != nil {
			t.Errorf("got %v, %v", all, err)
		}
		if got := drain(t, l); len(got) != 63 {
			t.Errorf("%d were kept, want 63", len(got))
		}
	})
}

// The end of ctx in All loses nothing either.
func TestAllInTwoWaits(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		l := listen(t, s, "a", "b")
		time.AfterFunc(time.Second, func() { broadcast(t, s, "a", "1", 1) })
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := l.All(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		time.AfterFunc(time.Second, func() { broadcast(t, s, "b", "2", 1) })
		all, err := l.All(t.Context())
		synctest.Wait() // for the sender
		if err != nil || len(all) != 2 || string(all[0].Data)+string(all[1].Data) != "12" {
			t.Errorf("got %v, %v", all, err)
		}
	})
}

// A wait that closes its listener takes what it needs, and leaves the rest to others.
func TestAWaitTakesWhatItNeeds(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		done := make(chan string)
		go func() {
			got, err := signal.Any(t.Context(), s, ">")
			done <- fmt.Sprint(got.Name, err)
		}()
		synctest.Wait()
		one(t, s, "a", "", true)
		one(t, s, "b", "", false)
		if got := <-done; got != "a<nil>" {
			t.Errorf("Any: %s", got)
		}
		one(t, s, "c", "", false)

		go func() {
			all, err := signal.All(t.Context(), s, "a", "b")
			names := ""
			for _, one := range all {
				names += one.Name
			}
			done <- fmt.Sprint(names, err)
		}()
		synctest.Wait()
		one(t, s, "b", "", true)
		one(t, s, "b", "", false)
		one(t, s, "a", "", true)
		one(t, s, "a", "", false)
		if got := <-done; got != "ab<nil>" {
			t.Errorf("All: %s", got)
		}
		one(t, s, "a", "", false)
	})
}

// The topic is a name that others may use as well.
func TestForeignFramesAreIgnored(t *testing.T) {
	t.Parallel()
	s := open(t)
	l := listen(t, s, ">")
	for _, frame := range []string{"", "hello", "\x02\x01a", "\x01\x05a", "\x01\x01*", "\x01\x00data"} {
		for _, toOne := range []bool{true, false} {
			if n, err := s.Publish(t.Context(), "signals", []byte(frame), toOne); n != 0 || err != nil {
				t.Errorf("%q was taken by %d, %v", frame, n, err)
			}
		}
	}
	if got := drain(t, l); len(got) > 0 {
		t.Errorf("heard %q", got)
	}
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	b := &brokenStore{Store: open(t).Driver()}
	s := storage.New(b)
	listen(t, s, ">")
	for _, c := range []struct {
		name, data string
		want       string
	}{
		{"", "", `signal: broadcast "": `},
		{"a..b", "", `name "a..b": want segments`},
		{"a.*", "", `name "a.*": want segments`},
		{strings.Repeat("x", 201), "", "200 bytes at most"},
		{"a", strings.Repeat("x", 1025), "data of 1025 bytes; want at most 1024"},
	} {
		n, err := signal.Broadcast(t.Context(), s, c.name, []byte(c.data))
		if n != 0 || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Broadcast %q: got %d, %v; want %q in it", c.name, n, err, c.want)
		}
		if ok, err := signal.One(t.Context(), s, c.name, []byte(c.data)); ok || err == nil {
			t.Errorf("One %q: got %v, %v", c.name, ok, err)
		}
	}
	if b.tells != 0 {
		t.Errorf("the store was told %d times", b.tells)
	}
	broadcast(t, s, strings.Repeat("x", 200), strings.Repeat("x", 1024), 1)
	for _, patterns := range [][]string{nil, {"a", "b.", ">.a"}} {
		if _, err := signal.Listen(t.Context(), s, patterns...); !errors.Is(err, storage.ErrInvalid) || !strings.HasPrefix(err.Error(), "signal: listen ") {
			t.Errorf("Listen %q: %v", patterns, err)
		}
		if _, err := signal.Any(t.Context(), s, patterns...); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("Any %q: %v", patterns, err)
		}
		if _, err := signal.All(t.Context(), s, patterns...); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("All %q: %v", patterns, err)
		}
	}
}

func TestAStoreThatDoesNotRing(t *testing.T) {
	t.Parallel()
	s := storagetest.Plain(open(t))
	if _, err := signal.Listen(t.Context(), s, ">"); !errors.Is(err, storage.ErrUnsupported) {
		t.Errorf("Listen: %v", err)
	}
	if _, err := signal.Broadcast(t.Context(), s, name, nil); !errors.Is(err, storage.ErrUnsupported) {
		t.Errorf("Broadcast: %v", err)
	}
	if _, err := signal.One(t.Context(), s, name, nil); !errors.Is(err, storage.ErrUnsupported) {
		t.Errorf("One: %v", err)
	}
}

func BenchmarkBroadcast(b *testing.B) {
	for _, listeners := range []int{1, 100} {
		b.Run(fmt.Sprint(listeners), func(b *testing.B) {
			s := open(b)
			var ls []*signal.Listener
			for range listeners {
				ls = append(ls, listen(b, s, "orders.*.paid"))
			}
			data := make([]byte, 100)
			b.ReportAllocs()
			for b.Loop() {
				if n, err := signal.Broadcast(b.Context(), s, name, data); n != listeners || err != nil {
					b.Fatal(n, err)
				}
				for _, l := range ls {
					if _, ok, err := l.Try(); !ok || err != nil {
						b.Fatal(ok, err)
					}
				}
			}
		})
	}
}
