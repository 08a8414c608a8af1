// Package azuretest gives tests a real Azurite, which plays Azure Storage on this machine.
//
// scripts/setup.sh, and so make test, installs it into tools/azurite. Where it is missing, tests that ask for it are
// skipped; with azurite in MILLRACE_REQUIRE (a list with commas) they fail instead.
//
// A test that takes the store away has a server of its own:
//
//	server := azuretest.Start(t)
//	place := server.Account(t).ConnectionString()
//	server.Pause(t)
//
// The others of a package share one, and keep apart by their accounts:
//
//	var azurite = sync.OnceValues(azuretest.Launch)
//
//	place := azuretest.Shared(t, azurite).Account(t).ConnectionString()
//
// Nobody has to stop a shared server: a server lives no longer than the process that launched it, even when that is
// killed. Everything is kept in memory ([LaunchIn]: in files), and no two servers have a port in common.
//
// Azurite isn't Azure: it is slow, above all with queues of more than some hundred messages, refuses versions of the
// API that are newer than itself, and forgives much that the service refuses.
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

// Shared returns what launch returns, which is [Launch], or the same behind [sync.OnceValues]. Without a server the test
// ends here: as skipped if Azurite isn't installed and needn't be, else as failed.
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

// EnvAccount names the environment variable with a real account to test on, as it stands behind "azure:" in a store URL, without
// parameters. The tests then use it in place of Azurite.
const EnvAccount = "MILLRACE_TEST_AZURE"

// EnvRun names the environment variable with what the prefixes of all places of one run begin with, a letter and up to four
// letters or digits, so that what a killed test has left can be found. Defaults to t.
const EnvRun = "MILLRACE_TEST_AZURE_RUN"

// Place returns what stands behind "azure:" for a place that nobody else uses: an account of the shared server, or a fresh
// prefix on the account that EnvAccount names, which wipe cleans after the test.
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

// An Account is a storage account. Nothing is in it at first.
type Account struct {
	Name, Key          string
	Blob, Queue, Table string // endpoints: URLs that end with the account's name
}

// ConnectionString is what Azure's libraries and tools want to know of an account.
func (a Account) ConnectionString() string {
	return fmt.Sprintf("DefaultEndpointsProtocol=http;AccountName=%s;AccountKey=%s;BlobEndpoint=%s;QueueEndpoint=%s;TableEndpoint=%s;",
		a.Name, a.Key, a.Blob, a.Queue, a.Table)
}

// Azurite learns its accounts when it starts, from an environment variable of at most 128 KiB.
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

// Account returns an account that nobody has had before.
func (s *Server) Account(tb testing.TB) Account {
	tb.Helper()
	i := s.given.Add(1) - 1
	if i >= accounts {
		tb.Fatalf("azuretest: all %d accounts are given away", accounts)
	}
	return s.account(int(i))
}

func (s *Server) account(i int) Account {
	name := accountName(i)
	return Account{
		Name:  name,
		Key:   key,
		Blob:  s.blob + "/" + name,
		Queue: s.queue + "/" + name,
		Table: s.table + "/" + name,
	}
}
