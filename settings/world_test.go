package settings_test

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/settings"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/sqlite"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// A shop is the settings of the tests.
type shop struct {
	Seats   int             `json:"seats"`
	Half    int             `json:"half"` // of Seats, so that a mix of two versions shows
	Mail    mail            `json:"mail"`
	Tags    map[string]int  `json:"tags,omitempty"`
	Key     settings.Secret `json:"key"`
	Workers int             `json:"workers" settings:"restart"`
}

type mail struct {
	Rate int    `json:"rate"`
	From string `json:"from,omitempty"`
}

func (s shop) Check() error {
	switch {
	case s.Seats < 0:
		return errors.New("seats is negative")
	case s.Seats == 666:
		panic("the number of the beast")
	case s.Workers > s.Seats:
		return errors.New("more workers than seats")
	}
	return nil
}

const (
	name = "shop"
	poll = 30 * time.Second // the default
)

func defaults() shop { return shop{Seats: 40, Half: 20, Mail: mail{Rate: 10}, Workers: 2} }

// virtual runs a test in virtual time, on a store in a file. It fails if a goroutine is left.
func virtual(t *testing.T, f func(t *testing.T, s *storage.Store)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "test.db")
	synctest.Test(t, func(t *testing.T) {
		s, err := sqlite.Open(t.Context(), path+"?wake=off&sync=normal")
		must(t, err)
		t.Cleanup(func() { must(t, s.Close()) })
		f(t, s)
	})
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantErr(t *testing.T, err, kind error, words ...string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Fatalf("got error %v, want %v", err, kind)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("got error %v, want it to say %q", err, w)
		}
	}
}

// node starts a node, which the end of the test closes.
func node(t *testing.T, s *storage.Store, cfg settings.Config) *settings.Settings[shop] {
	t.Helper()
	if cfg.Name == "" {
		cfg.Name = "node"
	}
	n, err := settings.Open(t.Context(), s, name, defaults(), cfg)
	must(t, err)
	t.Cleanup(sync.OnceFunc(func() { _ = n.Close(context.WithoutCancel(t.Context())) }))
	return n
}

func ledger(t *testing.T, s *storage.Store) *settings.Ledger {
	t.Helper()
	l, err := settings.At(s, name)
	must(t, err)
	return l
}

// seats changes the seats to n.
func seats(n int) func(*shop) { return func(s *shop) { s.Seats, s.Half = n, n/2 } }

var ada = settings.By("ada", "Black Friday")

// propose changes the seats, and fails the test if that fails.
func propose(t *testing.T, n *settings.Settings[shop], seatsNow int) int64 {
	t.Helper()
	e, err := n.Propose(t.Context(), ada, seats(seatsNow))
	must(t, err)
	return e.Version
}

func current(t *testing.T, s *storage.Store) settings.Current {
	t.Helper()
	c, err := ledger(t, s).Current(t.Context())
	must(t, err)
	return c
}

// wantSeats fails the test unless all nodes run so many seats.
func wantSeats(t *testing.T, want int, nodes ...*settings.Settings[shop]) {
	t.Helper()
	for i, n := range nodes {
		if now := n.Now(); now.Seats != want || now.Half != want/2 {
			t.Errorf("node %d has %d seats and a half of %d, want %d: %+v", i, now.Seats, now.Half, want, n.State())
		}
	}
}

type jsonText = json.RawMessage

// silent is a store that loses what is told.
func silent(s *storage.Store) *storage.Store {
	return storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
		if op.Name == "publish" {
			return nil
		}
		return do()
	})
}
