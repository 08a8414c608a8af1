package limit_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/coord/limit"
)

// Calls that wait get permits, and slots, in the order in which they have come, and one that doesn't wait gets none
// before them. One that gives up lets the next one on.
func TestWaitersGetTheirsInOrder(t *testing.T) {
	for name, open := range map[string]func() (take func() (time.Duration, bool), wait func(context.Context) error, give func()){
		"rate": func() (func() (time.Duration, bool), func(context.Context) error, func()) {
			r, err := limit.LocalRate(10)
			if err != nil {
				t.Fatal(err)
			}
			return r.Take, r.Wait, func() {}
		},
		"slots": func() (func() (time.Duration, bool), func(context.Context) error, func()) {
			s, err := limit.LocalSlots(2)
			if err != nil {
				t.Fatal(err)
			}
			return s.Take, s.Wait, s.Give
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				take, wait, give := open()
				got := make(chan int, 20)
				begin := func(n int, ctx context.Context) {
					go func() {
						if wait(ctx) == nil {
							got <- n
							time.Sleep(100 * time.Millisecond)
							give()
						}
					}()
					synctest.Wait()
				}
				hurried, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				defer cancel()
				for n := range 20 {
					if n == 7 {
						begin(-1, hurried)
					}
					begin(n, t.Context())
				}
				for n := 0; n < 20; {
					select {
					case next := <-got:
						if next != n {
							t.Fatalf("the next one is %d, want %d", next, n)
						}
						n++
					case <-time.After(time.Millisecond):
						if _, ok := take(); ok && n < 20 {
							t.Fatalf("one that doesn't wait goes before number %d", n)
						}
					}
				}
				time.Sleep(time.Second)
			})
		})
	}
}
