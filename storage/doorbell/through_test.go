package doorbell

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/azure"
	"github.com/millrace-go/millrace/storage/azure/azuretest"
	"github.com/millrace-go/millrace/storage/inbox"
	"github.com/millrace-go/millrace/storage/redis"
	"github.com/millrace-go/millrace/storage/redis/redistest"
	"github.com/millrace-go/millrace/storage/sqlite"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// bellURL is the URL of a bell on a server, with a prefix.
func bellURL(server *redistest.Server, prefix string) string { return server.URL(prefix) + "&bell=yes" }

// throughRedis opens a file as a store whose rings go through Redis.
func throughRedis(ctx context.Context, inner *storage.Store, url string) (*storage.Store, error) {
	bell, err := redis.Open(ctx, url)
	if err != nil {
		return nil, errors.Join(err, inner.Close())
	}
	return Through(inner, bell)
}

// TestThroughConformance runs the suite over stores without rings, and a bell on Redis.
func TestThroughConformance(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Config{})
	run := func(name string, inner func(*storage.Store) *storage.Store, atomic bool) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := storagetest.Driver(func(ctx context.Context, place string) (*storage.Store, error) {
				path, prefix, _ := strings.Cut(place, "|")
				s, err := sqlite.Open(ctx, path)
				if err != nil {
					return nil, err
				}
				return throughRedis(ctx, inner(s), bellURL(server, prefix))
			}, func(t *testing.T) string {
				return filepath.Join(t.TempDir(), "test.db") + "?wake=off&sync=normal|" + redistest.Fresh()
			})
			cfg.Rings, cfg.Atomic, cfg.Short = true, atomic, true
			storagetest.Run(t, cfg)
		})
	}
	run("plain", storagetest.Plain, false)
	run("atomic", withoutRings, true)
}

// onAzure opens a store on Azurite whose rings go through Redis, until the end of the test, and counts what it asks of
// Azurite.
func onAzure(t *testing.T, place, bell string) (*storage.Store, *storagetest.Calls) {
	t.Helper()
	inner, err := azure.Open(t.Context(), place)
	if err != nil {
		t.Fatal(err)
	}
	calls := new(storagetest.Calls)
	s, err := throughRedis(t.Context(), storagetest.Intercept(inner, calls.Hook), bell)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, calls
}

// receive waits for the next message, and deletes it.
func receive(t *testing.T, s *storage.Store, in *inbox.Inbox) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	batch, err := in.Receive(ctx, 1, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Queue("mails").Delete(t.Context(), []storage.Receipt{batch.Deliveries[0].Receipt}); err != nil {
		t.Fatal(err)
	}
}

// A message of another process comes by a ring through Redis, for one receive that brings it and few others, and
// nothing is written for the bell. While the Redis server is stalled, and while it is dead, the store works as before,
// and polls find what waits. Once the server is back, rings come again.
func TestLawALostBellCostsPollingOnly(t *testing.T) {
	t.Parallel()
	place := azuretest.Start(t).Account(t).ConnectionString()
	server := redistest.Start(t, redistest.Config{Settings: []string{"--appendonly", "no", "--maxmemory-policy", "allkeys-lru"}})
	bell := bellURL(server, redistest.Fresh())
	here, calls := onAzure(t, place, bell)
	there, sent := onAzure(t, place, bell)
	const never = time.Hour // a poll
	in := inbox.Open(here, "mails", inbox.Config{Poll: never})
	defer in.Close()
	for range 5 {
		send(t, there, "mails")
		receive(t, here, in)
	}
	before := calls.Count("receive")
	const messages = 5
	for range messages {
		send(t, there, "mails")
		receive(t, here, in)
	}
	if n := calls.Count("receive") - before; n > 4*messages {
		t.Errorf("%d messages took %d receives", messages, n)
	}
	if n := sent.Count() - sent.Count("send"); n != 0 {
		t.Errorf("the sender has made %d requests besides its sends", n)
	}

	polling := inbox.Open(here, "mails", inbox.Config{Poll: 100 * time.Millisecond})
	defer polling.Close()
	work := func(what string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // more than all take, and less than waits for the bell
		defer cancel()
		for range 10 {
			if err := there.Queue("mails").Send(ctx, []storage.Message{{Body: []byte("body")}}); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			there.Ring("mails")
		}
		for range 10 {
			receive(t, here, polling)
		}
	}
	server.Stall(t)
	work("the bell stands still")
	server.Resume(t)
	server.Kill(t)
	work("the bell is dead")
	if _, err := there.Publish(t.Context(), "news", nil, false); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("a publication while the bell is dead: %v", err)
	}
	server.Restart(t)
	until(t, "rings come again", func() bool {
		drained := here.Listen("again")
		defer drained.Close()
		there.Ring("again")
		n, err := there.Publish(t.Context(), "news", nil, false)
		return n == 0 && err == nil
	})
	sub := here.Listen("mails")
	defer sub.Close()
	until(t, "a ring", func() bool {
		there.Ring("mails")
		select {
		case <-sub.Rings():
			return true
		default:
			return false
		}
	})
}

// An idle consumer asks the store as rarely as with a doorbell of datagrams, and a message still comes at once, for two
// receives.
func TestAnIdleConsumerWithABellPollsRarely(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		open := func(file string) *storage.Store {
			s, err := sqlite.Open(t.Context(), filepath.Join(dir, file)+"?wake=off&sync=normal")
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		calls := new(storagetest.Calls)
		slow := storagetest.WithProps(storagetest.Plain(open("test.db")), func(p *storage.Props) { p.PollInterval = 30 * time.Second })
		s, err := Through(storagetest.Intercept(slow, calls.Hook), open("bell.db"))
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		ctx, cancel := context.WithCancel(t.Context())
		came := make(chan time.Time)
		var all sync.WaitGroup
		all.Go(func() {
			in := inbox.Open(s, "mails", inbox.Config{})
			defer in.Close()
			for {
				if _, err := in.Receive(ctx, 1, time.Hour); err != nil {
					return
				}
				came <- time.Now()
			}
		})
		time.Sleep(time.Hour)
		if n := calls.Count(); n > 170 {
			t.Errorf("an idle consumer made %d requests an hour, want some 130", n)
		}
		before, sent := calls.Count("receive"), time.Now()
		send(t, s, "mails")
		if late := (<-came).Sub(sent); late > pause {
			t.Errorf("the message came after %v", late)
		}
		synctest.Wait()
		if n := calls.Count("receive") - before; n > 2 {
			t.Errorf("a message cost %d receives", n)
		}
		// The end of a delay rings, too, with a second ring a second later.
		if err := s.Queue("mails").Send(ctx, []storage.Message{{Delay: 5 * time.Second}}); err != nil {
			t.Fatal(err)
		}
		sent = time.Now()
		if late := (<-came).Sub(sent); late < 5*time.Second || late > 6*time.Second {
			t.Errorf("the message with a delay of 5 s came after %v", late)
		}
		cancel()
		all.Wait()
	})
}

// A process that sends and ends at once has rung.
func TestAThroughStoreRingsBeforeItIsClosed(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Config{})
	path, bell := filepath.Join(t.TempDir(), "test.db"), bellURL(server, redistest.Fresh())
	hears, err := throughRedis(t.Context(), plain(t, path), bell)
	if err != nil {
		t.Fatal(err)
	}
	defer hears.Close()
	sub := hears.Listen("mails")
	defer sub.Close()
	quiet := func() { // until the rings at the beginning are over
		reg, err := hears.Subscribe(t.Context(), "order", func([]byte, int) int { return 0 })
		if err != nil {
			t.Fatal(err)
		}
		reg.Close()
		for range 2 {
			select {
			case <-sub.Rings():
			case <-time.After(100 * time.Millisecond):
			}
		}
	}
	quiet()
	for range 20 {
		s, err := throughRedis(t.Context(), plain(t, path), bell)
		if err != nil {
			t.Fatal(err)
		}
		send(t, s, "mails")
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		wantRing(t, sub.Rings(), "a send and a close")
	}
}

// The bell is away when a program starts. The program works, and it rings and hears once the bell is there.
func TestThroughLater(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Config{})
	server.Kill(t)
	path, bell := filepath.Join(t.TempDir(), "test.db"), bellURL(server, redistest.Fresh())
	open := func() *storage.Store {
		s, err := ThroughLater(t.Context(), plain(t, path), func(ctx context.Context) (*storage.Store, error) { return redis.Open(ctx, bell) }, slog.New(slog.DiscardHandler))
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
	here, there := open(), open()
	sub := here.Listen("mails")
	defer sub.Close()
	send(t, there, "mails")
	if _, err := here.Subscribe(t.Context(), "news", func([]byte, int) int { return 1 }); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("Subscribe without a bell: %v", err)
	}
	if _, err := there.Publish(t.Context(), "news", nil, true); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("Publish without a bell: %v", err)
	}
	server.Restart(t)
	until(t, "the bell is reached", func() bool {
		reg, err := here.Subscribe(t.Context(), "news", func([]byte, int) int { return 1 })
		if err != nil {
			return false
		}
		defer reg.Close()
		n, err := there.Publish(t.Context(), "news", nil, true)
		return n == 1 && err == nil
	})
	wantRing(t, sub.Rings(), "the bell is reached")
	late := open() // with a bell from the beginning
	for range 3 {
		send(t, late, "mails")
		wantRing(t, sub.Rings(), "a send")
	}
}

func TestBadBells(t *testing.T) {
	t.Parallel()
	file := func() string { return filepath.Join(t.TempDir(), "test.db") }
	rings, err := sqlite.Open(t.Context(), file())
	if err != nil {
		t.Fatal(err)
	}
	defer rings.Close()
	mute := plain(t, file())
	defer mute.Close()
	for what, err := range map[string]error{
		"the store rings":    second(Through(rings, rings)),
		"the bell is silent": second(Through(mute, mute)),
	} {
		if !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", what, err)
		}
	}
	broken := errors.New("a URL that nobody can read")
	if _, err := ThroughLater(t.Context(), mute, func(context.Context) (*storage.Store, error) { return nil, broken }, slog.New(slog.DiscardHandler)); !errors.Is(err, broken) {
		t.Errorf("a bell that can't be opened: %v", err)
	}
	server := redistest.Start(t, redistest.Config{})
	bell, err := redis.Open(t.Context(), bellURL(server, redistest.Fresh()))
	if err != nil {
		t.Fatal(err)
	}
	defer bell.Close()
	for what, err := range map[string]error{
		"send":    bell.Queue("mails").Send(t.Context(), []storage.Message{{}}),
		"receive": second(bell.Queue("mails").Receive(t.Context(), 1, time.Minute)),
		"put":     second(bell.Blobs("documents").Put(t.Context(), "key", nil, storage.Condition{})),
		"get":     second(bell.Blobs("documents").Get(t.Context(), "key", "")),
	} {
		if !errors.Is(err, storage.ErrUnsupported) || !strings.Contains(err.Error(), "bell=yes") {
			t.Errorf("%s in a bell: %v, want ErrUnsupported that says why", what, err)
		}
	}
	if keys := server.Do(t, "KEYS", "*"); keys != "" {
		t.Errorf("a bell has left keys: %q", keys)
	}
}

func second[T any](_ T, err error) error { return err }
