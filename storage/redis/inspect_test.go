package redis_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/redis"
	"github.com/millrace-go/millrace/storage/redis/redistest"
)

// open opens a store whose log nobody reads.
func open(t *testing.T, url string) *storage.Store {
	t.Helper()
	return openWith(t, url, storage.OpenConfig{Logger: slog.New(slog.DiscardHandler)})
}

// existing opens a store as an operator's command does.
func existing(t *testing.T, url string) *storage.Store {
	t.Helper()
	return openWith(t, url, storage.OpenConfig{Existing: true, Logger: slog.New(slog.DiscardHandler)})
}

func openWith(t *testing.T, url string, cfg storage.OpenConfig) *storage.Store {
	t.Helper()
	s, err := storage.Drivers{redis.Driver}.Open(t.Context(), url, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// faults fails the test unless the store has exactly the faults of these names, and each text holds what is wanted.
func faults(t *testing.T, s *storage.Store, want map[string]string) {
	t.Helper()
	all, err := s.Inspect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if text, ok := want[f.Name]; !ok || !strings.Contains(f.Text, text) {
			t.Errorf("got the fault %+v; want %q", f, want)
		}
	}
	if len(all) != len(want) {
		t.Errorf("got %d faults, want %q", len(all), want)
	}
}

func send(ctx context.Context, s *storage.Store, n int) error {
	return s.Queue("orders").Send(ctx, []storage.Message{{Body: make([]byte, n)}})
}

// A server that was set badly under a running store is told of, and each fault ends when the server is set right.
func TestInspectTellsOfBadSettings(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Config{})
	s := open(t, server.URL("app"))
	faults(t, s, nil)
	server.Do(t, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	faults(t, s, map[string]string{"policy": "maxmemory-policy is allkeys-lru"})
	server.Do(t, "CONFIG", "SET", "appendonly", "no")
	faults(t, s, map[string]string{"policy": "allkeys-lru", "file": "no append-only file"})
	faults(t, existing(t, server.URL("app")+"&durable=no"), map[string]string{"policy": "allkeys-lru"})
	server.Do(t, "CONFIG", "SET", "maxmemory-policy", "noeviction", "appendonly", "yes")
	faults(t, s, nil)
}

// An operator's command opens a store on a server that was set badly, and takes no writes. A program is refused.
func TestACommandLooksAtAStoreOnABadServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Config{})
	if err := send(t.Context(), open(t, server.URL("app")), 1); err != nil {
		t.Fatal(err)
	}
	server.Do(t, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	if _, err := redis.Open(t.Context(), server.URL("app")); !errors.Is(err, storage.ErrUnsupported) || !strings.Contains(err.Error(), "set it to noeviction") {
		t.Errorf("a program opens the store: got %v, want it refused", err)
	}
	s := existing(t, server.URL("app"))
	faults(t, s, map[string]string{"policy": "allkeys-lru"})
	if st, err := s.Queue("orders").Stats(t.Context()); err != nil || st.Ready != 1 {
		t.Errorf("got %+v, %v; want the message shown", st, err)
	}
	if err := send(t.Context(), s, 1); !errors.Is(err, storage.ErrUnsupported) {
		t.Errorf("a send: got %v, want it refused", err)
	}
}

// Memory is told of before it is full, and when it is full. Then messages are still received and deleted, and the fault
// ends.
func TestInspectTellsOfMemory(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Config{Settings: []string{"--maxmemory", "12mb"}})
	s := open(t, server.URL("app"))
	faults(t, s, nil)
	sent, warned := 0, false
	for ; sent < 1000; sent++ {
		all, err := s.Inspect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		warned = warned || len(all) == 1 && all[0].Name == "memory" && strings.Contains(all[0].Text, "% of the server's memory is used")
		if err := send(t.Context(), s, 40_000); err != nil {
			if !errors.Is(err, storage.ErrUnavailable) || !strings.Contains(err.Error(), "the server's memory is full") {
				t.Fatalf("a send: got %v, want memory named", err)
			}
			break
		}
	}
	if !warned {
		t.Error("nothing was told before memory was full")
	}
	faults(t, s, map[string]string{"memory": "memory is full"})
	for received := 0; received < sent; {
		ds, err := s.Queue("orders").Receive(t.Context(), 32, time.Minute)
		if err != nil || len(ds) == 0 {
			t.Fatalf("got %d messages, %v; want the rest of %d", len(ds), err, sent-received)
		}
		for _, d := range ds {
			if err := s.Queue("orders").Delete(t.Context(), []storage.Receipt{d.Receipt}); err != nil {
				t.Fatal(err)
			}
		}
		received += len(ds)
	}
	faults(t, s, nil)
}

// A server that comes back with an older state has lost changes. That is told by who knows it, before anything is
// changed and after, and once.
func TestInspectTellsOfLostChanges(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t, redistest.Config{})
	replica := redistest.Start(t, redistest.Config{ReplicaOf: master})
	url := strings.Replace(master.URL("app"), master.Addr(), replica.Addr(), 1)
	before := open(t, master.URL("app"))
	if err := send(t.Context(), before, 1); err != nil {
		t.Fatal(err)
	}
	master.Do(t, "WAIT", "1", "5000")
	replica.Promote(t)
	after := open(t, url)
	faults(t, after, nil)
	for range 4 {
		if err := send(t.Context(), after, 1); err != nil {
			t.Fatal(err)
		}
	}
	// As a failover to a replica that lagged leaves the store.
	replica.Do(t, "EVAL", `
		local own = redis.call('HGETALL', KEYS[1])
		for i = 1, #own, 2 do
			if string.sub(own[i], 1, 2) == 'n:' and own[i + 1] == '4' then redis.call('HINCRBY', KEYS[1], own[i], -4) end
		end`, "1", "{app}")
	faults(t, after, map[string]string{"loss": "4 acknowledged change(s) are lost"})
	for range 3 { // nothing is received that would change the store
		if _, err := after.Queue("nothing").Receive(t.Context(), 1, time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	if err := send(t.Context(), after, 1); err != nil {
		t.Fatal(err)
	}
	faults(t, after, map[string]string{"loss": "4 acknowledged change(s) are lost"})
	faults(t, open(t, url), map[string]string{"loss": "4 acknowledged change(s) are lost"})
}

func TestInspectTellsOfAReplica(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t, redistest.Config{})
	other := redistest.Start(t, redistest.Config{})
	s := open(t, master.URL("app"))
	_, port, _ := strings.Cut(other.Addr(), ":")
	w := open(t, master.URL("app")+"&wait=1")
	faults(t, w, map[string]string{"replicas": "waits for 1 replica(s), and the server has 0"})
	faults(t, s, nil)
	// Its data goes, as it does when an old master comes back.
	master.Do(t, "REPLICAOF", "127.0.0.1", port)
	if all, err := s.Inspect(t.Context()); err == nil && (len(all) == 0 || all[0].Name != "role") {
		t.Errorf("got %+v, %v; want the replica, or the store gone", all, err)
	}
}
