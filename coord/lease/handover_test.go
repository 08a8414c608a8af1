package lease_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/coord/lease"
	"github.com/millrace-go/millrace/internal/agreetest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// Of many waiters exactly one looks after a release, and gets the lease at once.
func TestAReleaseWakesOne(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		const n = 30
		var calls storagetest.Calls
		all := storagetest.Intercept(s, calls.Hook)
		l := acquire(t, s)
		got := make(chan *lease.Lease)
		for range n {
			go func() {
				l, err := lease.Acquire(t.Context(), all, name, lease.Config{TTL: ttl})
				if err != nil {
					t.Error(err)
				}
				got <- l
			}()
		}
		time.Sleep(time.Millisecond)
		for i := range n {
			before, begin := calls.Count("get blob"), time.Now()
			release(t, l)
			l = <-got
			synctest.Wait()
			if looks := calls.Count("get blob") - before; looks != 1 || !time.Now().Equal(begin) {
				t.Errorf("release %d: %d looks, %v", i, looks, time.Since(begin))
			}
		}
		release(t, l)
		wantState(t, s, false, n+1)
	})
}

// A waiter that gives up just when a release wakes it wakes another one.
func TestAWaiterThatGivesUpWakesAnother(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		gaveUp := 0
		for range 40 { // by chance one waiter is woken or the other
			over := errors.New("over")
			ctx, giveUp := context.WithCancelCause(t.Context())
			var released atomic.Bool
			quitter := storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
				if op.Name == "get blob" && released.Load() {
					gaveUp++
					giveUp(over)
					return over
				}
				return do()
			})
			l := acquire(t, s)
			quit := make(chan error, 1)
			go func() {
				_, err := lease.Acquire(ctx, quitter, name, lease.Config{TTL: ttl})
				quit <- err
			}()
			next := inBackground(t, s, lease.Config{TTL: ttl})
			synctest.Wait()
			released.Store(true)
			begin := time.Now()
			release(t, l)
			l = <-next
			if took := time.Since(begin); took > 0 {
				t.Errorf("the other got the lease after %v", took)
			}
			giveUp(over)
			if err := <-quit; !errors.Is(err, over) {
				t.Errorf("got %v", err)
			}
			release(t, l)
		}
		if gaveUp == 0 {
			t.Error("no waiter gave up when it was woken")
		}
	})
}

// A release between a waiter's first look and its hearing is told to nobody. The waiter looks once more.
func TestAReleaseWhileAWaiterBeginsToHear(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		l := acquire(t, s)
		begin := time.Now()
		late := storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
			if op.Name == "subscribe" {
				release(t, l)
			}
			return do()
		})
		next := acquire(t, late)
		if took := time.Since(begin); took > 0 {
			t.Errorf("the waiter got the lease after %v", took)
		}
		release(t, next)
	})
}

// A waiter that isn't told finds the lease by its polls.
func TestARingThatIsLost(t *testing.T) {
	t.Parallel()
	for _, lost := range []string{"subscribe", "publish"} {
		t.Run(lost, func(t *testing.T) {
			t.Parallel()
			agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
				link := storagetest.NewLink(s)
				l := acquire(t, link.Store)
				link.Cut(lost)
				next := inBackground(t, link.Store, lease.Config{TTL: ttl})
				time.Sleep(time.Second)
				begin := time.Now()
				release(t, l)
				n := <-next
				if took := time.Since(begin); took > ttl/3 {
					t.Errorf("it took %v", took)
				}
				release(t, n)
			})
		})
	}
}

func TestHandOver(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		l := acquire(t, s)
		others := make(chan *lease.Lease)
		for i := range 5 {
			other := inBackground(t, s, lease.Config{TTL: ttl, Holder: fmt.Sprint("other ", i)})
			go func() { others <- <-other }()
		}
		heir := inBackground(t, s, lease.Config{TTL: ttl, Holder: "heir"})
		time.Sleep(time.Minute)
		var seen watch
		seen.see(t, l)
		begin := time.Now()
		for range 2 { // the second call does nothing
			if err := l.HandOver(t.Context(), "heir"); err != nil {
				t.Error(err)
			}
		}
		release(t, l) // so does this
		n := <-heir
		seen.see(t, n)
		if took := time.Since(begin); took != 0 || n.Fence() != 2 {
			t.Errorf("the heir has it after %v, with fence %d", took, n.Fence())
		}
		release(t, n)
		for range 5 {
			l := <-others
			seen.see(t, l)
			release(t, l)
		}
		wantState(t, s, false, 7)
	})
}

// The process that a lease is handed over to doesn't come. Others wait as if it had died.
func TestHandOverToNobody(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		l := acquire(t, s)
		if err := l.HandOver(t.Context(), "heir"); err != nil {
			t.Fatal(err)
		}
		if info := wantState(t, s, false, 1); info.Next != "heir" {
			t.Errorf("kept for %q", info.Next)
		}
		if _, err := lease.Try(t.Context(), s, name, lease.Config{}); !errors.Is(err, lease.ErrHeld) || !strings.Contains(err.Error(), "heir") {
			t.Fatalf("Try of another: %v", err)
		}
		begin := time.Now()
		n := acquire(t, s)
		if took := time.Since(begin); took != ttl*7/6 || n.Fence() != 2 {
			t.Errorf("another has it after %v, fence %d", took, n.Fence())
		}
		if err := n.HandOver(t.Context(), "heir"); err != nil {
			t.Error(err)
		}
		h, err := lease.Try(t.Context(), s, name, lease.Config{Holder: "heir"})
		if err != nil {
			t.Fatal(err)
		}
		if info := wantState(t, s, true, 3); info.Next != "" {
			t.Errorf("still kept for %q", info.Next)
		}
		release(t, h)
	})
}

func TestHandOverOfWhatIsGone(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		want := func(what string, l *lease.Lease, kind error) {
			t.Helper()
			if err := l.HandOver(t.Context(), "heir"); !errors.Is(err, kind) {
				t.Errorf("hand-over of a lease that is %s: %v", what, err)
			}
		}
		l := acquire(t, s)
		for _, to := range []string{"", "a\n", strings.Repeat("x", 257)} {
			if err := l.HandOver(t.Context(), to); !errors.Is(err, storage.ErrInvalid) || l.Context().Err() != nil {
				t.Errorf("to %q: %v", to, err)
			}
		}
		release(t, l)
		want("released", l, lease.ErrLost)

		l = acquire(t, s)
		breakIt(t, s)
		want("broken", l, lease.ErrLost)
		want("broken", l, lease.ErrLost)
		wantState(t, s, true, 2)
		release(t, l)
		wantState(t, s, false, 2)

		link := storagetest.NewLink(s)
		l = acquire(t, link.Store)
		link.Cut()
		<-l.Context().Done()
		want("lost", l, lease.ErrLost)

		link.Restore()
		want("lost", l, lease.ErrLost)
		release(t, acquire(t, s))
	})
}

// A hand-over fails, and the lease is released instead.
func TestReleaseAfterAHandOverThatFailed(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		cut := false
		l := acquire(t, storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
			if !cut {
				return do()
			}
			_ = do()
			return op.Fail(storage.ErrUnavailable)
		}))
		cut = true
		if err := l.HandOver(t.Context(), "heir"); !errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("without answers: %v", err)
		}
		cut = false
		release(t, l)
		if info := wantState(t, s, false, 1); info.Next != "" {
			t.Errorf("kept for %q", info.Next)
		}
	})
}

func TestAnyCallOfHandOverFails(t *testing.T) {
	t.Parallel()
	eachCallFails(t, 4, func(t *testing.T, failing, s *storage.Store) {
		l := acquire(t, failing)
		heir := inBackground(t, s, lease.Config{TTL: ttl, Holder: "heir"})
		time.Sleep(time.Second)
		if err := l.HandOver(t.Context(), "heir"); err != nil {
			t.Error(err)
		}
		n := <-heir
		if n.Fence() != 2 {
			t.Errorf("fence %d", n.Fence())
		}
		release(t, n)
	})
}
