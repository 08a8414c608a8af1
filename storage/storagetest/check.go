package storagetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/storage"
)

// hold is a visibility that doesn't end within a test.
const hold = 5 * time.Minute

// secret is in bodies; no error may tell it.
const secret = "s3cret-b0dy"

// check is one running test: its store, its context and its assumptions.
type check struct {
	*testing.T
	cfg   Config
	s     *storage.Store // shared with other tests
	ctx   context.Context
	names *atomic.Int64
}

// name returns a name that no other test uses.
func (t *check) name(kind string) string { return fmt.Sprintf("%s-%d", kind, t.names.Add(1)) }

// own opens a store that the test may close.
func (t *check) own() *storage.Store {
	t.Helper()
	return openStore(t.T, t.cfg)
}

// absent is the panic that leaves a test out. It is no skip, because a store that doesn't claim an ability proves
// all it claims. Where skips are failures, a skip means that something is missing.
type absent string

// leaveOut ends the test of an ability that the store doesn't claim.
func (t *check) leaveOut(why string) { panic(absent(why)) }

// again opens s's place a second time, or leaves the test out.
func (t *check) again(s *storage.Store) *storage.Store {
	t.Helper()
	if t.cfg.Reopen == nil {
		t.leaveOut("Config.Reopen is not set")
	}
	b := t.cfg.Reopen(t.T, s)
	t.Cleanup(func() { t.ok(b.Close()) })
	return b
}

// short is the shortest visibility or delay that certainly isn't over at once.
func (t *check) short() time.Duration {
	return storage.MinVisibility + t.cfg.Precision.Truncate(time.Second)
}

// many is n, or fewer for a slow engine.
func (t *check) many(n int) int {
	if t.cfg.Short {
		return max(n/10, 5)
	}
	return n
}

// ok ends the test on an error.
func (t *check) ok(err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("unexpected error: %v", err)
	}
}

// fails fails the test unless err is an error of the given kind, in the shape that package storage promises: one
// storage.Error (or a StaleError) that names the resource and tells no body and no receipt. It doesn't look for
// very short secrets, which may occur by chance.
func (t *check) fails(err, kind error, resource string, secrets ...string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Fatalf("got error %v; want %q", err, kind)
	}
	for _, s := range append(secrets, secret) {
		if len(s) >= 7 && strings.Contains(err.Error(), s) {
			t.Errorf("error tells a body or receipt: %v", err)
		}
	}
	var stale *storage.StaleError
	if errors.As(err, &stale) {
		return
	}
	var e *storage.Error
	if !errors.As(err, &e) {
		t.Fatalf("error is a %T; want a *storage.Error: %v", err, err)
	}
	if e.Op == "" || e.Resource == "" || !strings.Contains(e.Resource, resource) {
		t.Errorf("error has Op %q and Resource %q; want both, and %q in the latter", e.Op, e.Resource, resource)
	}
	if inner := new(storage.Error); errors.As(e.Err, &inner) {
		t.Errorf("a *storage.Error within another: %v", err)
	}
}

// stale fails the test unless a Delete named exactly the given receipts as dead.
func (t *check) stale(err error, queue string, want ...storage.Receipt) {
	t.Helper()
	var e *storage.StaleError
	if !errors.As(err, &e) {
		t.Fatalf("got error %v; want a *storage.StaleError", err)
	}
	if !errors.Is(err, storage.ErrReceiptStale) {
		t.Errorf("%v does not match ErrReceiptStale", err)
	}
	if e.Queue != queue {
		t.Errorf("StaleError.Queue = %q; want %q", e.Queue, queue)
	}
	got := slices.Sorted(slices.Values(e.Receipts))
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("StaleError names %d receipt(s) %q; want %d %q", len(got), got, len(want), want)
	}
}

// eventually polls until ok, and fails the test after Patience.
func (t *check) eventually(what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	limit := time.NewTimer(t.cfg.Patience)
	defer limit.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-limit.C:
			t.Fatalf("not within %v: %s", t.cfg.Patience, what)
		case <-t.ctx.Done():
			t.Fatalf("test took too long waiting: %s", what)
		}
	}
}

// until waits for a time, such as one when a visibility has certainly ended.
func (t *check) until(at time.Time) {
	t.Helper()
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.ctx.Done():
		t.Fatal("test took too long")
	}
}

// past waits until a visibility or delay d that began at or before t0 has certainly ended.
func (t *check) past(t0 time.Time, d time.Duration) {
	t.Helper()
	t.until(t0.Add(d + t.cfg.Precision + 100*time.Millisecond))
}

// within fails the test when f takes longer than three times Patience, and so hangs.
func (t *check) within(what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	limit := time.NewTimer(3 * t.cfg.Patience) // f may be long work on a busy machine
	defer limit.Stop()
	select {
	case <-done:
	case <-limit.C:
		t.Fatalf("hangs: %s", what)
	}
}

// same compares two collections in any order.
func (t *check) same(what string, got, want []string) {
	t.Helper()
	got, want = slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))
	if !slices.Equal(got, want) {
		t.Fatalf("%s: got %d %s; want %d %s", what, len(got), brief(got), len(want), brief(want))
	}
}

// equal compares two sequences.
func (t *check) equal(what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("%s: got %d %s; want %d %s", what, len(got), brief(got), len(want), brief(want))
	}
}

func brief(list []string) string {
	const most = 12
	cut := list[:min(len(list), most)]
	var b strings.Builder
	for i, s := range cut {
		if i > 0 {
			b.WriteString(" ")
		}
		b.WriteString(storage.Quote(s))
	}
	if len(list) > most {
		b.WriteString(" …")
	}
	return "[" + b.String() + "]"
}

// bytesEqual compares bodies without printing long ones.
func (t *check) bytesEqual(what string, got, want []byte) {
	t.Helper()
	if !bytes.Equal(got, want) {
		t.Fatalf("%s: got %s; want %s", what, storage.Quote(string(got)), storage.Quote(string(want)))
	}
}

// collect reads a listing to its end. It fails the test if the listing goes on after an error.
func collect[T any](t *check, seq iter.Seq2[T, error]) ([]T, error) {
	t.Helper()
	var items []T
	var failed error
	for it, err := range seq {
		switch {
		case failed != nil:
			t.Fatalf("listing goes on after its error %v with (%v, %v)", failed, it, err)
		case err != nil:
			failed = err
		default:
			items = append(items, it)
		}
	}
	return items, failed
}

// filled returns n bytes that are not valid UTF-8, and different for each seed.
func filled(n int, seed byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7+i>>8) ^ seed
	}
	return b
}
