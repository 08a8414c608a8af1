package redis

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/redis/redistest"
)

// A setClock is the file that says how many seconds a server's clock is off.
type setClock string

// startWithClock starts a server whose clock the test sets, by libfaketime. The server's own allocator asks for the
// time before libfaketime is ready, so the C library's goes before it.
func startWithClock(t *testing.T) (*redistest.Server, setClock) {
	t.Helper()
	var libraries []string
	for _, pattern := range []string{"/lib/*/libc_malloc_debug.so.0", "/usr/lib/*/faketime/libfaketimeMT.so.1"} {
		found, err := filepath.Glob(pattern)
		must(t, err)
		if len(found) == 0 {
			if slices.Contains(strings.Split(os.Getenv("MILLRACE_REQUIRE"), ","), "faketime") {
				t.Fatalf("MILLRACE_REQUIRE has faketime, and there is no %s: apt-get install faketime", pattern)
			}
			t.Skipf("no %s: apt-get install faketime", pattern)
		}
		libraries = append(libraries, found[0])
	}
	c := setClock(filepath.Join(t.TempDir(), "clock"))
	c.set(t, "+0")
	server := redistest.Start(t, redistest.Config{Env: []string{"LD_PRELOAD=" + strings.Join(libraries, ":"),
		"FAKETIME_TIMESTAMP_FILE=" + string(c), "FAKETIME_NO_CACHE=1", "FAKETIME_DONT_FAKE_MONOTONIC=1"}})
	return server, c
}

// set sets the clock to the true time plus some seconds.
func (c setClock) set(t *testing.T, seconds string) {
	t.Helper()
	next := string(c) + "next"
	must(t, os.WriteFile(next, []byte(seconds+"\n"), 0o600))
	must(t, os.Rename(next, string(c)))
}

// looks receives again and again, without a message. Each look tells the time to the store.
func looks(t *testing.T, s *storage.Store, queue string) {
	t.Helper()
	for range 300 {
		if got, err := s.Queue(queue).Receive(t.Context(), 1, time.Minute); err != nil || len(got) > 0 {
			t.Fatalf("got %d messages of %s, %v; want none", len(got), queue, err)
		}
	}
}

func comes(t *testing.T, s *storage.Store, queue string) {
	t.Helper()
	until(t, "the message of "+queue+" comes", func() bool {
		got, err := s.Queue(queue).Receive(t.Context(), 1, time.Hour)
		return err == nil && len(got) == 1
	})
}

// hide makes a message that is hidden for a minute, and others that are hidden for two seconds: one received, one
// delayed.
func hide(t *testing.T, s *storage.Store) {
	t.Helper()
	for name, visibility := range map[string]time.Duration{"minute": time.Minute, "soon": 2 * time.Second} {
		must(t, s.Queue(name).Send(t.Context(), texts("x")))
		receiveOne(t, s.Queue(name), visibility)
	}
	must(t, s.Queue("delayed").Send(t.Context(), []storage.Message{{Delay: 2 * time.Second}}))
}

// However the server's clock is set, no visibility and no delay ends early by more than a second, and none lasts on.
// The programs change nothing meanwhile: they look only.
func TestTheClockIsSet(t *testing.T) {
	t.Parallel()
	for name, steps := range map[string][]string{
		"back":            {"-3600"},
		"forward":         {"+3600"},
		"forward, back":   {"+7200", "+0"},
		"back, forward":   {"-7200", "+0"},
		"again and again": {"+90", "+180", "+270", "+360", "-1000", "+5000"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, clock := startWithClock(t)
			s, inner := openStore(t, server.URL("clock"))
			second, _ := openStore(t, server.URL("clock"))
			hide(t, s)
			before := inner.e.Now()
			for _, step := range steps {
				clock.set(t, step)
				looks(t, s, "minute")
				looks(t, second, "minute")
			}
			comes(t, s, "soon")
			comes(t, second, "delayed")
			fresh, _ := openStore(t, server.URL("clock"))
			looks(t, fresh, "minute")
			if gone := inner.e.Now() - before; gone < 2e6-1e6 || gone > 55e6 {
				t.Errorf("the store's time went on by %d µs while messages of 2 s came, and one of a minute stayed hidden", gone)
			}
		})
	}
}

// The clock is set while the server is down.
func TestTheClockIsSetDuringARestart(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"-3600", "+3600"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			server, clock := startWithClock(t)
			s, _ := openStore(t, server.URL("clock"))
			hide(t, s)
			server.Shutdown(t)
			clock.set(t, step)
			server.Restart(t)
			awaitAnswer(t, s)
			looks(t, s, "minute")
			comes(t, s, "soon")
			comes(t, s, "delayed")
		})
	}
}

// A store whose time lost a minute, because a machine slept for example, gets it back by a thousandth of the time that
// passes.
func TestATimeThatWasTakenAwayComesBack(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Config{})
	s, _ := openStore(t, server.URL("app")+"&wake=off")
	must(t, s.Close())
	const taken, passed = 93_000_000, 1_000_000_000
	seen := time.Now().UnixMicro() - taken - passed
	server.Do(t, "HSET", "{app}", "ahead", fmt.Sprint(-taken), "seen", fmt.Sprint(seen))
	s, _ = openStore(t, server.URL("app"))
	must(t, s.Queue("jobs").Send(t.Context(), texts("x")))
	ahead, err := strconv.Atoi(server.Do(t, "HGET", "{app}", "ahead"))
	if back := taken + ahead; err != nil || back < passed/1000 || back > passed/1000+1_000_000 {
		t.Errorf("after %d µs, %d came back (%v); want a thousandth", passed, back, err)
	}
}

// A failover brings another clock, which is an hour behind or ahead.
func TestAFailoverToAnotherClock(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"-3600", "+3600"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			server, clock := startWithClock(t)
			clock.set(t, step)
			master := redistest.Start(t, redistest.Config{})
			server.Do(t, "CONFIG", "SET", "masterauth", "")
			_, port, _ := strings.Cut(master.Addr(), ":")
			server.Do(t, "REPLICAOF", "127.0.0.1", port)
			at := newLink(t, master)
			s, _ := openStore(t, at.url("clock"))
			hide(t, s)
			until(t, "the replica follows", func() bool { return info(t, server)["master_link_status"] == "up" })
			awaitCopy(t, master, server)
			server.Promote(t)
			at.point(t, server)
			master.Kill(t)
			awaitAnswer(t, s)
			looks(t, s, "minute")
			comes(t, s, "soon")
			comes(t, s, "delayed")
		})
	}
}
