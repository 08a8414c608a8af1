package lease_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/coord/lease"
	"github.com/millrace-go/millrace/internal/agreetest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

var because = lease.Note{By: "ada", Why: "it hangs"}

func breakIt(t *testing.T, s *storage.Store) {
	t.Helper()
	if err := lease.Break(t.Context(), s, name, because); err != nil {
		t.Error(err)
	}
}

// A broken lease ends at the holder's next renewal. Nobody gets it before the holder's period is surely over, unless
// the holder gives it back.
func TestBreak(t *testing.T) {
	t.Parallel()
	for way, c := range map[string]struct {
		cut     bool // the holder can't reach the store any more
		release bool
		want    time.Duration // from the break until another has it
	}{
		"the holder goes on":       {want: ttl * 7 / 6},
		"the holder is dead":       {cut: true, want: ttl * 7 / 6},
		"the holder gives it back": {release: true, want: ttl/3 - time.Second},
	} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
				link := storagetest.NewLink(s)
				l := acquire(t, link.Store)
				time.Sleep(time.Second)
				next := inBackground(t, s, lease.Config{TTL: ttl})
				synctest.Wait()
				if c.cut {
					link.Cut()
				}
				begin := time.Now()
				breakIt(t, s)
				<-l.Context().Done()
				wantCause(t, l, lease.ErrLost)
				if took := time.Since(begin); !c.cut && took > ttl/3 {
					t.Errorf("the context ended after %v", took)
				}
				if why := context.Cause(l.Context()).Error(); !c.cut && (!strings.Contains(why, because.By) || !strings.Contains(why, because.Why)) {
					t.Errorf("it ended with %q", why)
				}
				if c.release {
					release(t, l)
				}
				n := <-next
				if took := time.Since(begin); took < c.want || took > c.want+ttl/3 {
					t.Errorf("another has it after %v, want %v", took, c.want)
				}
				info := wantState(t, s, true, 2)
				if b := info.Broken; b == nil || b.By != because.By || b.Why != because.Why || b.Fence != 1 || !b.At.Equal(begin) {
					t.Errorf("the note is %+v", b)
				}
				link.Restore()
				release(t, l) // harmless, and later than the next holder
				wantState(t, s, true, 2)
				release(t, n)
			})
		})
	}
}

// The holder reads its lease's blob for the last time right before the break. It is alive for as long as it can be.
func TestTheNextHolderAfterABreakIsAlone(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		link := storagetest.NewLink(s)
		var seen watch
		l := acquire(t, link.Store)
		seen.see(t, l)
		link.Cut()
		breakIt(t, s)
		n := acquire(t, s)
		seen.see(t, n)
		release(t, n)
	})
}

func TestBreakOfWhatNobodyHolds(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		if err := lease.Break(t.Context(), s, name, because); !errors.Is(err, storage.ErrNotFound) || !strings.Contains(err.Error(), name) {
			t.Errorf("a lease that never was: %v", err)
		}
		for _, n := range []lease.Note{{}, {By: "a\n"}, {By: "a", Why: strings.Repeat("x", 257)}, {By: "\xff"}} {
			if err := lease.Break(t.Context(), s, name, n); !errors.Is(err, storage.ErrInvalid) {
				t.Errorf("%q: %v", n, err)
			}
		}
		l := acquire(t, s)
		breakIt(t, s)
		if err := lease.Break(t.Context(), s, name, lease.Note{By: "bob"}); err != nil {
			t.Error(err)
		}
		if info := wantState(t, s, true, 1); info.Broken.By != "ada" {
			t.Errorf("the note is %+v", info.Broken)
		}
		release(t, l) // it learns of the break here
		var calls storagetest.Calls
		breakIt(t, storagetest.Intercept(s, calls.Hook))
		if n := calls.Count("put blob"); n != 0 {
			t.Errorf("the break of a free lease wrote %d times", n)
		}
		l, err := lease.Try(t.Context(), s, name, lease.Config{})
		if err != nil || l.Fence() != 2 {
			t.Fatalf("after the release of a broken lease: %v", err)
		}
		if err := l.HandOver(t.Context(), "nobody"); err != nil {
			t.Error(err)
		}
		breakIt(t, s) // takes the hand-over back
		l, err = lease.Try(t.Context(), s, name, lease.Config{})
		if err != nil {
			t.Fatal(err)
		}
		release(t, l)
	})
}

func TestAnyCallOfBreakFails(t *testing.T) {
	t.Parallel()
	eachCallFails(t, 2, func(t *testing.T, failing, s *storage.Store) {
		l := acquire(t, s)
		breakIt(t, failing)
		<-l.Context().Done()
		wantCause(t, l, lease.ErrLost)
		release(t, l)
		wantState(t, s, false, 1)
	})
}

// A break meets a renewal: it follows it.
func TestBreakWhileTheHolderRenews(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		l := acquire(t, s)
		breakIt(t, storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
			err := do()
			if op.Seq == 1 {
				time.Sleep(ttl/3 + time.Second) // between its read and its write
			}
			return err
		}))
		<-l.Context().Done()
		wantCause(t, l, lease.ErrLost)
		release(t, l)
		wantState(t, s, false, 1)
	})
}

// The holder releases the lease while an operator breaks it. The next holder keeps it.
func TestABreakSparesTheNextHolder(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		l := acquire(t, s)
		var next *lease.Lease
		late := storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
			if op.Name == "put blob" && next == nil {
				release(t, l)
				next = acquire(t, s)
			}
			return do()
		})
		if err := lease.Break(t.Context(), late, name, lease.Note{By: "ada"}); err != nil {
			t.Error(err)
		}
		time.Sleep(ttl)
		if err := context.Cause(next.Context()); err != nil {
			t.Errorf("the next holder's lease ended: %v", err)
		}
		release(t, next)
	})
}
