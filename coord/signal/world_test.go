package signal_test

import (
	"context"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/millrace-go/millrace/coord/signal"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/driver"
	"github.com/millrace-go/millrace/storage/sqlite"
)

const name = "orders.eu.paid"

// open opens a store of this process alone until the end of the test.
func open(t testing.TB) *storage.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "test.db")+"?wake=off&sync=normal")
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

// virtual runs a test in virtual time. It fails if a goroutine is left.
func virtual(t *testing.T, f func(t *testing.T, s *storage.Store)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, open(t)) })
}

// listen listens until the end of the test.
func listen(t testing.TB, s *storage.Store, patterns ...string) *signal.Listener {
	t.Helper()
	l, err := signal.Listen(t.Context(), s, patterns...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

// broadcast sends a signal that want listeners take.
func broadcast(t testing.TB, s *storage.Store, name, data string, want int) {
	t.Helper()
	if n, err := signal.Broadcast(t.Context(), s, name, []byte(data)); n != want || err != nil {
		t.Errorf("%s was taken by %d, %v; want %d", name, n, err, want)
	}
}

// one sends a signal that one takes, or nobody.
func one(t testing.TB, s *storage.Store, name, data string, want bool) {
	t.Helper()
	if ok, err := signal.One(t.Context(), s, name, []byte(data)); ok != want || err != nil {
		t.Errorf("%s was taken: %v, %v; want %v", name, ok, err, want)
	}
}

// drain returns the data of all signals that a listener has.
func drain(t testing.TB, l *signal.Listener) []string {
	t.Helper()
	var all []string
	for {
		s, ok, err := l.Try()
		if err != nil {
			t.Error(err)
		}
		if !ok {
			return all
		}
		all = append(all, string(s.Data))
	}
}

// A brokenStore loses the answers to what it tells, and its hearings when it is cut.
type brokenStore struct {
	driver.Store
	answer error // of Tell, after the effect

	mu    sync.Mutex
	lost  []chan struct{}
	tells int
}

func (b *brokenStore) Listener() driver.Listener { return brokenListener{b.Store.Listener(), b} }

// cut loses all hearings.
func (b *brokenStore) cut() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.lost {
		close(c)
	}
	b.lost = nil
}

type brokenListener struct {
	driver.Listener
	b *brokenStore
}

func (l brokenListener) Subscribe(ctx context.Context, topic string, ear driver.Receiver) (driver.Registration, error) {
	h, err := l.Listener.Subscribe(ctx, topic, ear)
	if err != nil {
		return nil, err
	}
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	lost := make(chan struct{})
	l.b.lost = append(l.b.lost, lost)
	return brokenHearing{h, lost}, nil
}

func (l brokenListener) Publish(ctx context.Context, topic string, data []byte, one bool) (int, error) {
	l.b.mu.Lock()
	l.b.tells++
	l.b.mu.Unlock()
	n, err := l.Listener.Publish(ctx, topic, data, one)
	if l.b.answer != nil {
		return 0, l.b.answer
	}
	return n, err
}

type brokenHearing struct {
	driver.Registration
	lost chan struct{}
}

func (h brokenHearing) Lost() <-chan struct{} { return h.lost }
