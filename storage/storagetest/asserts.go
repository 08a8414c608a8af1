package storagetest

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/storage"
)

// asserts compares what a store did with what it promises, and waits for it no longer than the Config allows.
type asserts struct {
	*testing.T
	cfg Config
	ctx context.Context
}

// ok ends the test on an error.
func (t *asserts) ok(err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("unexpected error: %v", err)
	}
}

// fails fails the test unless err is an error of the given kind, in the shape that package storage promises: one
// storage.Error (or a StaleError) that names the resource and tells no body and no receipt. It doesn't look for
// very short secrets, which may occur by chance.
func (t *asserts) fails(err, kind error, resource string, secrets ...string) {
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
func (t *asserts) stale(err error, queue string, want ...storage.Receipt) {
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
func (t *asserts) eventually(what string, ok func() bool) {
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
func (t *asserts) until(at time.Time) {
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
func (t *asserts) past(t0 time.Time, d time.Duration) {
	t.Helper()
	t.until(t0.Add(d + t.cfg.Precision + 100*time.Millisecond))
}

// within fails the test when f takes longer than three times Patience, and so hangs.
func (t *asserts) within(what string, f func()) {
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
func (t *asserts) same(what string, got, want []string) {
	t.Helper()
	got, want = slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))
	if !slices.Equal(got, want) {
		t.Fatalf("%s: got %d %s; want %d %s", what, len(got), brief(got), len(want), brief(want))
	}
}

// equal compares two sequences.
func (t *asserts) equal(what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("%s: got %d %s; want %d %s", what, len(got), brief(got), len(want), brief(want))
	}
}

// brief quotes the first of some texts.
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
func (t *asserts) bytesEqual(what string, got, want []byte) {
	t.Helper()
	if !bytes.Equal(got, want) {
		t.Fatalf("%s: got %s; want %s", what, storage.Quote(string(got)), storage.Quote(string(want)))
	}
}

// outcome fails the test unless found has all of done, nothing but done and open, and each body once.
func (t *asserts) outcome(found, done, open []string) {
	t.Helper()
	count := map[string]int{}
	for _, f := range found {
		count[f]++
	}
	for _, d := range done {
		if count[d] != 1 {
			t.Errorf("%s was acknowledged and is there %d times", storage.Quote(d), count[d])
		}
		delete(count, d)
	}
	for f, n := range count {
		if n != 1 || !slices.Contains(open, f) {
			t.Errorf("%s is there %d times; it was never given or is doubled", storage.Quote(f), n)
		}
	}
}

// rings fails the test unless act brings a ring, at or after from. A ring may rarely be missing, so act is repeated
// a few times. Rings before from don't count.
func (t *asserts) rings(ring <-chan struct{}, act func() (from time.Time)) {
	t.Helper()
	const tries = 3
	for range tries {
		from := act().Add(-t.cfg.Precision)
		limit := time.NewTimer(max(0, time.Until(from)) + t.cfg.Patience/tries)
		for waiting := true; waiting; {
			select {
			case _, ok := <-ring:
				if !ok {
					t.Fatal("the channel was closed")
				}
				if !time.Now().Before(from) {
					limit.Stop()
					return
				}
			case <-limit.C:
				waiting = false
			}
		}
	}
	t.Fatalf("no ring in %d tries", tries)
}

// quiet drops rings that are under way.
func (t *asserts) quiet(ring <-chan struct{}) {
	calm := time.NewTimer(150 * time.Millisecond)
	defer calm.Stop()
	for {
		select {
		case <-ring:
		case <-calm.C:
			return
		}
	}
}

// bothRing fails the test unless one act rings both channels. A ring may rarely be missing, so there are a few
// tries.
func (t *asserts) bothRing(a, b <-chan struct{}, act func()) {
	t.Helper()
	const tries = 5
	rung := map[string]bool{}
	t.quiet(a)
	t.quiet(b)
	for i := 0; i < tries && len(rung) < 2; i++ {
		act()
		limit := time.NewTimer(t.cfg.Patience / tries)
		for waiting := true; waiting && len(rung) < 2; {
			select {
			case <-a:
				rung["first"] = true
			case <-b:
				rung["second"] = true
			case <-limit.C:
				waiting = false
			}
		}
		limit.Stop()
	}
	if len(rung) < 2 {
		t.Errorf("of two listeners %v got a ring; want both", rung)
	}
}
