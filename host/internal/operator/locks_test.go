package operator

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-go/millrace/coord/leader"
	"github.com/millrace-go/millrace/coord/lease"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/ops/acts"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// The list has the holder, the waiters and the break of each lock. A break tells from when others can have the lock.
func TestLocks(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		x := newStranger(t, s)
		list := func(args ...string) (all []acts.Lock) {
			t.Helper()
			return jsonLines[acts.Lock](t, result{out: x.want(t, 0, "", append([]string{"locks", "list", "-json"}, args...)...)})
		}
		brk := func(name string) acts.LockBroken {
			t.Helper()
			return oneLine[acts.LockBroken](t, x.want(t, 0, "", "locks", "break", name, "-json", "-by", "ada", "-why", "it hangs"))
		}
		contains(t, "never held", x.want(t, 3, "", "locks", "break", "a", "-why", "x"), `no lock "a": nobody has ever held it`)
		first := acquire(t, s, "a", "one")
		if err := acquire(t, s, "b", "two").Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		second := make(chan *lease.Lease, 1)
		go func() {
			l, err := lease.Acquire(t.Context(), s, "a", lease.Config{Holder: "three"})
			if err != nil {
				t.Error(err)
			}
			second <- l
		}()
		var left sync.WaitGroup
		for i := range 4 {
			time.Sleep(time.Second)
			left.Go(func() {
				_, err := lease.Acquire(ctx, s, "a", lease.Config{Holder: fmt.Sprint("late-", i), TTL: 24 * time.Hour})
				worldtest.WantErr(t, err, context.Canceled)
			})
		}
		time.Sleep(time.Minute)
		if got := list(); len(got) != 1 || *got[0].Holder != "one" || *got[0].Fence != 1 || *got[0].TTL != 30 || got[0].Waiters[0].Holder != "three" || got[0].Broken != nil {
			t.Errorf("got %+v", got)
		}
		if got := list("-all"); len(got) != 2 || *got[1].Held || got[1].Holder != nil || got[1].Name != "b" {
			t.Errorf("got %+v", got)
		}
		contains(t, "list", x.want(t, 0, "", "locks", "list", "-all"), "a one 1 1m4s ago 30s – three 1m4s, late-0 1m3s, late-1 1m2s, 2 more b – 1 – – – –")
		cancel()
		left.Wait()
		time.Sleep(time.Second)

		got := brk("a")
		if got.Result != "broken" || *got.Holder != "one" || got.Fence != 1 || *got.Within != 35 || got.Broken.By != "ada" || got.Broken.Why != "it hangs" {
			t.Errorf("got %+v", got)
		}
		contains(t, "list", x.want(t, 0, "", "locks", "list"), "a one 1 1m5s ago 30s 0s ago by ada: it hangs three 1m5s")
		if got := brk("a"); got.Result != "broken before" || *got.Holder != "one" {
			t.Errorf("got %+v", got)
		}
		contains(t, "again", x.want(t, 0, "", "locks", "break", "a", "-why", "x"), `Lock "a" was taken away from one (fence 1) already, 0s ago by ada: it hangs. Others can have it when one releases it, or 35s after`)
		<-first.Context().Done()
		l := <-second
		if got := list(); len(got) != 1 || *got[0].Holder != "three" || *got[0].Fence != 2 || got[0].Broken.Fence != 1 {
			t.Errorf("after the takeover: got %+v", got)
		}
		contains(t, "list", x.want(t, 0, "", "locks", "list"), "a three 2 0s ago 30s – ")

		brk("a")
		_ = l.Release(t.Context()) // the lock is lost
		if got := brk("a"); got.Result != "free" || got.Broken != nil || got.Within != nil || got.Holder != nil {
			t.Errorf("a lock that was broken and released: got %+v", got)
		}

		if err := acquire(t, s, "c", "four").HandOver(t.Context(), "five"); err != nil {
			t.Fatal(err)
		}
		contains(t, "handed over", x.want(t, 0, "", "locks", "list", "-prefix", "c"), "c kept for five 1 – – – –")
		contains(t, "handed over", x.want(t, 0, "", "locks", "break", "c", "-why", "x"), `Lock "c" is no longer kept for five. Others can have it at once.`)
		time.Sleep(time.Minute) // a lease may be telling others that its waiter has left
	})
}

// A lock whose holder changes between the look and the break is reported as it was broken.
func TestLocksBreakTellsWhoseLockItBroke(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		l := acquire(t, s, "a", "one")
		change := sync.OnceFunc(func() {
			if err := l.Release(t.Context()); err != nil {
				t.Error(err)
			}
			l = acquire(t, s, "a", "two")
		})
		reads := 0
		x := newStranger(t, s)
		slow := storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
			if strings.HasSuffix(op.Resource, "leases/a") {
				if reads++; reads == 2 {
					change()
				}
			}
			return do()
		})
		_, out, _ := x.doOn(t, slow, "", "locks", "break", "a", "-json", "-why", "x")
		if got := oneLine[acts.LockBroken](t, out); got.Result != "broken" || *got.Holder != "two" || got.Fence != 2 {
			t.Errorf("got %s", out)
		}
		_ = l.Release(t.Context())
	})
}

// The list of leaders agrees with package leader, and has the candidates.
func TestLeaders(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		x := newStranger(t, s)
		ctx, cancel := context.WithCancel(t.Context())
		var runs sync.WaitGroup
		for _, holder := range []string{"one", "two"} {
			runs.Go(func() {
				_ = leader.Run(ctx, s, "reports", leader.Config{Holder: holder}, func(ctx context.Context, _ leader.Term) error {
					<-ctx.Done()
					return ctx.Err()
				})
			})
			time.Sleep(time.Second)
		}
		time.Sleep(time.Minute)
		putBlob(t, s, "leases", "leader/bad", "junk")
		got := jsonLines[acts.Leader](t, result{out: x.printed(t, "leaders", "list", "-json")})
		if len(got) != 2 || got[0].Name != "bad" || got[0].Error == "" || got[0].Leader != nil {
			t.Fatalf("got %+v", got)
		}
		of, err := leader.Current(t.Context(), s, "reports")
		if g := got[1]; err != nil || of.Holder != "one" || g.Name != of.Name || *g.Leader != of.Holder || *g.Term != of.Term || !g.Since.Equal(of.Since) || len(g.Candidates) != 1 || g.Candidates[0].Holder != "two" {
			t.Errorf("got %+v, want %+v (%v)", g, of, err)
		}
		contains(t, "leaders list", x.want(t, 0, "", "leaders", "list"), "bad corrupt – – – reports one 1 1m2s ago two 1m1s", "leader/bad")
		contains(t, "locks list", x.want(t, 0, "", "locks", "list"), "leader/bad corrupt")
		contains(t, "locks list", x.want(t, 0, "", "locks", "list", "-all"), "leader/reports one 1")
		contains(t, "break", x.want(t, 0, "", "locks", "break", "leader/reports", "-why", "x"), "taken away from one (fence 1)")
		cancel()
		runs.Wait()
		contains(t, "leaders list", x.want(t, 0, "", "leaders", "list"), "reports nobody 1 ")
		time.Sleep(time.Minute) // a lease may be telling others that its waiter has left
	})
}
