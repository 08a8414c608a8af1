package signal_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-go/millrace/coord/signal"
	"github.com/millrace-go/millrace/internal/agreetest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/azure"
	"github.com/millrace-go/millrace/storage/azure/azuretest"
	"github.com/millrace-go/millrace/storage/doorbell"
	"github.com/millrace-go/millrace/storage/redis"
	"github.com/millrace-go/millrace/storage/redis/redistest"
	"github.com/millrace-go/millrace/storage/sqlite"
)

var (
	azurite     = sync.OnceValues(azuretest.Launch)
	redisServer = sync.OnceValues(redistest.Launch)
)

// TestMain runs the test binary as another process of the program when a test has started it as one.
func TestMain(m *testing.M) {
	if place := os.Getenv("MILLRACE_SIGNAL_CHILD"); place != "" {
		if err := child(place); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// openPlace opens "sqlite:PATH", a URL of Redis, or an account of Azure with a doorbell: of datagrams, or behind a "|"
// the URL of a bell on Redis.
func openPlace(ctx context.Context, place string) (*storage.Store, error) {
	if path, ok := strings.CutPrefix(place, "sqlite:"); ok {
		return sqlite.Open(ctx, path)
	}
	if strings.HasPrefix(place, "redis") {
		return redis.Open(ctx, place)
	}
	place, bellURL, through := strings.Cut(place, "|")
	inner, err := azure.Open(ctx, place)
	if err != nil {
		return nil, err
	}
	if through {
		bell, err := redis.Open(ctx, bellURL)
		if err != nil {
			return nil, err
		}
		return doorbell.Through(inner, bell)
	}
	bell, err := doorbell.Over(inner, doorbell.Config{Listen: "127.0.0.1:0"})
	if err != nil {
		return nil, err
	}
	return bell.Store, nil
}

// child prints the events that it hears, until standard input ends.
func child(place string) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s, err := openPlace(ctx, place)
	if err != nil {
		return err
	}
	l, err := signal.Listen(ctx, s, "events.*")
	if err != nil {
		return err
	}
	fmt.Println("ready")
	go func() {
		io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	for {
		event, err := l.Any(ctx)
		if ctx.Err() != nil {
			l.Close()
			return s.Close()
		}
		if err != nil {
			return err
		}
		fmt.Printf("%s %s\n", event.Name, event.Data)
	}
}

// start starts a process, and returns when it listens.
func start(t *testing.T, place string) *agreetest.Process {
	t.Helper()
	p := agreetest.Start(t, "MILLRACE_SIGNAL_CHILD="+place)
	p.Says("ready")
	return p
}

// places runs a test on each transport.
func places(t *testing.T, f func(t *testing.T, place string, s *storage.Store)) {
	t.Parallel()
	for kind, place := range map[string]func(t *testing.T) string{
		"sqlite": func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "test.db") },
		"redis":  func(t *testing.T) string { return redistest.Place(t, redisServer) },
		"azure":  func(t *testing.T) string { return azuretest.Place(t, azurite, azure.Wipe) },
		"azure with a bell on Redis": func(t *testing.T) string {
			return azuretest.Place(t, azurite, azure.Wipe) + "|" + redistest.Place(t, redisServer) + "&bell=yes"
		},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			at := place(t)
			s, err := openPlace(t.Context(), at)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
			f(t, at, s)
		})
	}
}

// sendOne sends a signal to one process. On a busy machine a process may not say in time that it waits.
func sendOne(t *testing.T, s *storage.Store, name, data string) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for limit := time.Now().Add(time.Minute); ; <-tick.C {
		ok, err := signal.One(t.Context(), s, name, []byte(data))
		if err != nil || !ok && time.Now().After(limit) {
			t.Fatalf("%s %s was taken: %v, %v", name, data, ok, err)
		}
		if ok {
			return
		}
	}
}

// sendAll sends a signal to each process, and returns how many are known to have taken it.
func sendAll(t *testing.T, s *storage.Store, name string) int {
	t.Helper()
	n, err := signal.Broadcast(t.Context(), s, name, nil)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Ten events are finished by two processes, each by exactly one.
func TestTenEventsTwoProcesses(t *testing.T) {
	places(t, func(t *testing.T, place string, s *storage.Store) {
		one(t, s, "events.early", "", false)
		a, b := start(t, place), start(t, place)
		var want []string
		for i := range 10 {
			sendOne(t, s, "events.new", fmt.Sprint(i))
			want = append(want, fmt.Sprint("events.new ", i))
		}
		one(t, s, "other", "", false)
		sendAll(t, s, "events.end")
		var got []string
		for _, p := range []*agreetest.Process{a, b} {
			for line := p.Read(); line != "events.end "; line = p.Read() {
				got = append(got, line)
			}
			p.In.Close()
		}
		for _, p := range []*agreetest.Process{a, b} {
			if rest := p.Stop(); len(rest) > 0 {
				t.Errorf("after the last one: %q", rest)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want each of %q", got, want)
		}
		one(t, s, "events.late", "", false)
	})
}

// A listener is killed, and the next signals to one go to the other.
func TestAKilledListenerIsPassedOver(t *testing.T) {
	places(t, func(t *testing.T, place string, s *storage.Store) {
		a, b := start(t, place), start(t, place)
		sendAll(t, s, "events.both")
		a.Kill()
		for i := range 10 {
			sendOne(t, s, "events.new", fmt.Sprint(i))
		}
		if got := b.Read(); got != "events.both " {
			t.Errorf("got %q", got)
		}
		for i := range 10 {
			if got, want := b.Read(), fmt.Sprint("events.new ", i); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		b.Kill()
		one(t, s, "events.new", "", false)
	})
}

// A store loses its socket, as by a clean-up of the folder. Its listener hears of it, and the next one is reached.
func TestALostSocketIsAnError(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	var stores []*storage.Store
	for range 2 {
		s, err := openPlace(t.Context(), "sqlite:"+path)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		stores = append(stores, s)
	}
	l := listen(t, stores[0], ">")
	sendOne(t, stores[1], name, "before")
	sockets, err := filepath.Glob(filepath.Join(path+"-wake", "ear-*"))
	if err != nil || len(sockets) == 0 {
		t.Fatalf("sockets %q, %v", sockets, err)
	}
	for _, socket := range sockets {
		if err := os.Remove(socket); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if got, err := l.Any(ctx); string(got.Data) != "before" || err != nil {
		t.Errorf("heard %q, %v", got.Data, err)
	}
	if _, err := l.Any(ctx); !errors.Is(err, signal.ErrLost) {
		t.Errorf("then %v", err)
	}
	l = listen(t, stores[0], ">")
	sendOne(t, stores[1], name, "after")
	if got := drain(t, l); !slices.Equal(got, []string{"after"}) {
		t.Errorf("heard %q", got)
	}
}
