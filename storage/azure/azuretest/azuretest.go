// Package azuretest gives tests a real Azurite, which plays Azure Storage on this machine.
//
// scripts/setup.sh, and so make test, installs it into scripts/azurite. Where it is missing, tests that ask for it
// are skipped. With azurite in MILLRACE_REQUIRE (a list with commas) they fail instead.
//
// A test that makes the store unavailable has its own server:
//
//	server := azuretest.Start(t)
//	place := server.Account(t).ConnectionString()
//	server.Pause(t)
//
// The other tests of a package share a server, and each has its own account:
//
//	var azurite = sync.OnceValues(azuretest.Launch)
//
//	place := azuretest.Shared(t, azurite).Account(t).ConnectionString()
//
// A shared server needs no stop: a server lives no longer than the process that launched it, even if that process
// is killed. It keeps everything in memory, or in files after [LaunchIn]. No two servers have a port in common.
//
// Azurite isn't Azure:
//
//   - It is slow, above all with queues of more than some hundred messages.
//   - It refuses versions of the API that are newer than itself.
//   - It accepts many requests that the service refuses.
package azuretest

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// ErrNotInstalled is in the error of Launch where Azurite, or the Node.js that it needs, is missing.
var ErrNotInstalled = errors.New("azuretest: Azurite is not installed")

// Start launches a server that ends with the test.
func Start(tb testing.TB) *Server {
	tb.Helper()
	s := Shared(tb, Launch)
	tb.Cleanup(s.Stop)
	return s
}

// Shared returns launch's server. launch is [Launch], or [Launch] in [sync.OnceValues]. Without a server the test
// ends here: skipped if Azurite isn't installed and isn't required, else failed.
func Shared(tb testing.TB, launch func() (*Server, error)) *Server {
	tb.Helper()
	s, err := launch()
	if err == nil {
		err = s.ended()
	}
	switch {
	case err == nil:
		return s
	case !errors.Is(err, ErrNotInstalled):
		tb.Fatal(err)
	case slices.Contains(strings.Split(os.Getenv("MILLRACE_REQUIRE"), ","), "azurite"):
		tb.Fatalf("MILLRACE_REQUIRE has azurite: %v", err)
	}
	tb.Skip(err)
	return nil
}

// EnvAccount names the environment variable with a real account for the tests, as it stands behind "azure:" in a
// store URL, without parameters. The tests then use it instead of Azurite.
const EnvAccount = "MILLRACE_TEST_AZURE"

// EnvRun names the environment variable with the beginning of every prefix of one run: a letter and up to four
// letters or digits. By it the remains of a killed test can be found. Defaults to t.
const EnvRun = "MILLRACE_TEST_AZURE_RUN"

// Place returns a place that no other test uses, as it stands behind "azure:" in a store URL. It is an account of
// the shared server, or a fresh prefix on the account that EnvAccount names. After the test, wipe deletes
// everything with that prefix.
func Place(tb testing.TB, launch func() (*Server, error), wipe func(ctx context.Context, place string) error) string {
	tb.Helper()
	account := os.Getenv(EnvAccount)
	if account == "" {
		return Shared(tb, launch).Account(tb).ConnectionString()
	}
	place := account + "?prefix=" + cmp.Or(os.Getenv(EnvRun), "t") + strings.ToLower(rand.Text()[:7])
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		if err := wipe(ctx, place); err != nil {
			tb.Errorf("azuretest: cleaning up: %v", err)
		}
	})
	return place
}

// WithPrefix returns the place with a prefix, if it has none. Only a place with a prefix lists its queues.
func WithPrefix(place string) string {
	if strings.Contains(place, "prefix=") {
		return place
	}
	return place + "?prefix=shop"
}

// An Account is a storage account. It begins empty.
type Account struct {
	Name, Key          string
	Blob, Queue, Table string // URLs that end with the account's name; with it in the host, after [LaunchOAuth]
}

// ConnectionString is the account's connection string for Azure's libraries and tools.
func (a Account) ConnectionString() string {
	return fmt.Sprintf("DefaultEndpointsProtocol=http;AccountName=%s;AccountKey=%s;BlobEndpoint=%s;QueueEndpoint=%s;TableEndpoint=%s;",
		a.Name, a.Key, a.Blob, a.Queue, a.Table)
}

// Azurite reads its accounts at its start from an environment variable of at most 128 KiB.
const (
	accounts = 4096
	key      = "bWlsbHJhY2U="
)

func accountName(i int) string { return fmt.Sprintf("test%04d", i) }

func accountList() string {
	var list strings.Builder
	for i := range accounts {
		fmt.Fprintf(&list, "%s:%s;", accountName(i), key)
	}
	return list.String()
}

// Account is Take for a test, which ends if there is none left.
func (s *Server) Account(tb testing.TB) Account {
	tb.Helper()
	a, err := s.Take()
	if err != nil {
		tb.Fatal(err)
	}
	return a
}

// Take returns an account that nobody has taken before.
func (s *Server) Take() (Account, error) {
	i := s.given.Add(1) - 1
	if i >= accounts {
		return Account{}, fmt.Errorf("azuretest: all %d accounts are in use", accounts)
	}
	return s.account(int(i)), nil
}

func (s *Server) account(i int) Account {
	name := accountName(i)
	if s.roots != nil {
		return Account{
			Name:  name,
			Key:   key,
			Blob:  address(s.blob, "blob", name),
			Queue: address(s.queue, "queue", name),
			Table: address(s.table, "table", name),
		}
	}
	return Account{
		Name:  name,
		Key:   key,
		Blob:  s.blob + "/" + name,
		Queue: s.queue + "/" + name,
		Table: s.table + "/" + name,
	}
}
