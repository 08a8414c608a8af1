// Package redistest gives tests real Redis servers, which they may kill, stall, promote and fill.
//
// scripts/setup.sh, and so make test, installs the program (apt-get install redis-server). Where the program is missing
// or older than 7.0, tests that ask for a server are skipped. With redis in MILLRACE_REQUIRE (a list with commas) they
// fail instead.
//
// A test that does something to a server has its own:
//
//	server := redistest.Start(t, redistest.Config{Always: true})
//	store, err := redis.Open(t.Context(), server.URL("shop"))
//	server.Kill(t)
//	server.Restart(t) // with the same address and data
//
// The other tests of a package share a server, and each has its own prefix:
//
//	var server = sync.OnceValues(redistest.Launch)
//
//	url := redistest.Place(t, server)
//
// A server with replicas, and sentinels that watch the servers:
//
//	master := redistest.Start(t, redistest.Config{})
//	replica := redistest.Start(t, redistest.Config{ReplicaOf: master})
//	sentinels := redistest.StartSentinels(t, 3, master, "mymaster")
//	master.Kill(t)
//	sentinels.Await(t, replica)
//
// A server has a folder of its own, a free port of 127.0.0.1 and a socket in the folder. The server persists as Redis
// people run it: appendonly, with appendfsync everysec, and noeviction. It ends no later than the process that launched
// it, even if that process is killed, and its folder goes with it. So a shared server needs no stop.
package redistest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// ErrNotInstalled is in the error of Launch where no redis-server of version 7.0 or newer is in PATH.
var ErrNotInstalled = errors.New("no redis-server of version 7.0 or newer in PATH: apt-get install redis-server")

// A Config says how a server differs from the ordinary one.
type Config struct {
	// Always makes the server sync each write to the disk before the answer. Defaults to a sync each second.
	Always bool

	// Settings are further arguments of redis-server, such as "--maxmemory", "3mb". They win over the others. Defaults
	// to none.
	Settings []string

	// Env are further variables of the process's environment, such as "NAME=value". Defaults to none.
	Env []string

	// Password is the password of the user named default. Defaults to none: everybody may do everything.
	Password string

	// TLS makes the port speak TLS only, with a certificate for 127.0.0.1. The socket speaks no TLS. Defaults to false.
	TLS bool

	// ReplicaOf is the server that the new one follows, with the same password, TLS and certificate. Defaults to nil:
	// the server is a master.
	ReplicaOf *Server
}

// Start launches a server that ends with the test. A failed test shows the end of the server's log.
func Start(tb testing.TB, c Config) *Server {
	tb.Helper()
	s := demand(tb, func() (*Server, error) { return LaunchWith(c) })
	tb.Cleanup(s.Stop)
	s.showLog(tb) // before Stop removes the log
	return s
}

// Shared returns launch's server. launch is [Launch], or [Launch] in [sync.OnceValues]. Without a server the test ends
// here: skipped if Redis isn't installed and isn't required, else failed. A failed test shows the end of the log.
func Shared(tb testing.TB, launch func() (*Server, error)) *Server {
	tb.Helper()
	s := demand(tb, launch)
	s.showLog(tb)
	return s
}

func demand(tb testing.TB, launch func() (*Server, error)) *Server {
	tb.Helper()
	s, err := launch()
	if err == nil {
		if err = s.child.ended(); err != nil {
			err = fmt.Errorf("redistest: %w", err)
		}
	}
	switch {
	case err == nil:
		return s
	case !errors.Is(err, ErrNotInstalled):
		tb.Fatal(err)
	case slices.Contains(strings.Split(os.Getenv("MILLRACE_REQUIRE"), ","), "redis"):
		tb.Fatalf("redistest: MILLRACE_REQUIRE has redis: %v", err)
	}
	tb.Skip(err)
	return nil
}

// Place returns the store URL of a place that no other test uses: a fresh prefix on launch's server.
func Place(tb testing.TB, launch func() (*Server, error)) string {
	tb.Helper()
	return Shared(tb, launch).URL(Fresh())
}

// Fresh returns a prefix that no other test has.
func Fresh() string { return "t" + strings.ToLower(rand.Text()[:12]) }

// Launch is LaunchWith for an ordinary server.
func Launch() (*Server, error) { return LaunchWith(Config{}) }

// LaunchWith starts a server and waits until the server answers, and a replica has all that its master has. The server
// lives until Stop, or for as long as this process.
func LaunchWith(c Config) (*Server, error) {
	s, err := launch(func(s *Server) error { return s.configure(c) })
	if err != nil || c.ReplicaOf == nil {
		return s, err
	}
	if err := s.await("the replica has all that its master has, also in its files", func(ctx context.Context) bool {
		info, err := s.Ask(ctx, "INFO")
		return err == nil && field(info, "master_link_status:") == "up" &&
			field(info, "aof_rewrite_in_progress:") == "0" && field(info, "aof_rewrite_scheduled:") == "0"
	}); err != nil {
		s.Stop()
		return nil, fmt.Errorf("redistest: start Redis: %w", err)
	}
	return s, nil
}
