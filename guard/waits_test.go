package guard_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// Law 9: a process that is idle hears that the service asks another one to wait, and its first look fails. It waits for
// the whole time.
func TestLaw9ALookThatFails(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := worldtest.OpenStore(t, worldtest.Virtual)
		var fail atomic.Bool
		unsteady := storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
			if op.Name == "get blob" && fail.CompareAndSwap(true, false) {
				return op.Fail(storage.ErrUnavailable)
			}
			return do()
		})
		a, b := join(t, s), join(t, unsteady)
		time.Sleep(2 * time.Minute)
		fail.Store(true)
		began := time.Now()
		_ = a.Do(handling(t, id(1), 1), asks(300))
		time.Sleep(2 * time.Second) // it looks again
		for n := 2; time.Since(began) < 299*time.Second; n++ {
			if !b.refused(t, n) {
				t.Fatalf("it calls after %v", time.Since(began))
			}
			time.Sleep(time.Second)
		}
		a.leave(t)
		b.leave(t)
	})
}

// Law 9: of two waits that a service asks for, all processes keep to the longer one, whichever comes first.
func TestLaw9TheLongerOfTwoWaits(t *testing.T) {
	for name, c := range map[string]struct{ first, second int }{"the longer one last": {10, 300}, "the longer one first": {300, 10}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := worldtest.OpenStore(t, worldtest.Virtual)
				a, b := join(t, s), join(t, s)
				time.Sleep(2 * time.Second)
				began := time.Now()
				ended := make(chan error)
				go func() { // under way when the other is asked to wait
					ended <- a.Do(handling(t, id(1), 1), func(ctx context.Context) error {
						time.Sleep(time.Second)
						return asks(c.second)(ctx)
					})
				}()
				time.Sleep(time.Millisecond)
				_ = b.Do(handling(t, id(2), 1), asks(c.first))
				<-ended
				for n := 3; time.Since(began) < 299*time.Second; n += 2 {
					if !a.refused(t, n) || !b.refused(t, n+1) {
						t.Fatalf("a call is made after %v", time.Since(began))
					}
					time.Sleep(time.Second)
				}
				for n := 1000; a.refused(t, n); n++ {
					if time.Since(began) > 10*time.Minute {
						t.Fatal("no call is made any more")
					}
					time.Sleep(time.Second)
				}
				a.leave(t)
				b.leave(t)
			})
		})
	}
}

// Law 9: processes that only read of a wait end with it. They don't ask the others to wait once more, however late they
// read of it.
func TestLaw9AWaitThatWasReadIsNotToldAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := worldtest.OpenStore(t, worldtest.Virtual)
		var opens atomic.Int32 // writes of a record that is open
		plain := storagetest.Plain(storagetest.Intercept(s, func(ctx context.Context, op storagetest.Op, do func() error) error {
			err := do()
			if op.Name == "put blob" && err == nil {
				if found := outages(t, s); len(found) == 1 && found[0].All {
					opens.Add(1)
				}
			}
			return err
		}))
		var all []member
		for range 4 {
			all = append(all, join(t, plain))
		}
		for n := range 4 * 25 { // all breakers are open
			_ = all[n%4].Do(handling(t, id(n), 1), ends(errDown))
			time.Sleep(10 * time.Millisecond)
		}
		a, asked := all[0], false
		for n := 1000; !asked; n++ {
			_ = a.Do(handling(t, id(n), 1), func(ctx context.Context) error { asked = true; return asks(5)(ctx) })
			time.Sleep(100 * time.Millisecond)
		}
		before := opens.Load()
		for n := 5000; a.refused(t, n); n++ {
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(11 * time.Second) // they look
		for i, m := range all {
			if m.Open() {
				t.Errorf("process %d makes no calls", i)
			}
		}
		if n := opens.Load() - before; n > 3 { // the wait, and a claim with its beats
			t.Errorf("%d writes of an open record since the service asked to wait", n)
		}
		for _, m := range all {
			m.leave(t)
		}
	})
}
