package leader_test

import (
	"context"
	"testing"
	"time"

	"github.com/millrace-go/millrace/coord/leader"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// Of fifty candidates one is woken when a leader leaves. The others go on reading in their own time, and don't write.
func TestNoHerd(t *testing.T) {
	t.Parallel()
	const n = 50
	for _, way := range []string{"stop", "death"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			virtual(t, func(t *testing.T, s *storage.Store) {
				a := begin(t, s, "a", leader.Config{})
				r := a.reign(t)
				var calls storagetest.Calls
				counted := storagetest.Intercept(s, func(ctx context.Context, op storagetest.Op, do func() error) error {
					if op.Name == "put blob" {
						time.Sleep(50 * time.Millisecond) // long enough for others to come
					}
					return calls.Hook(ctx, op, do)
				})
				ctx, stop := context.WithCancel(t.Context())
				next, over := make(chan time.Time, n), make(chan error, n)
				for _, holder := range holders(n) {
					go func() {
						over <- leader.Run(ctx, counted, name, leader.Config{TTL: ttl, Holder: holder}, func(ctx context.Context, _ leader.Term) error {
							next <- time.Now()
							<-ctx.Done()
							return ctx.Err()
						})
					}()
				}
				time.Sleep(10*ttl + time.Second) // a second after a renewal
				before, left := calls.Count(), time.Now()
				if way == "stop" {
					a.quit(t, r)
				} else {
					a.link.Cut()
					<-r.ctx.Done()
					a.stop()
					r.end <- nil
					_ = a.ended(t)
				}
				took := (<-next).Sub(left)
				spent, rivals := calls.Count()-before, calls.Count("put blob")
				t.Logf("the next leads after %v; the candidates made %d requests meanwhile, %d of them writes", took, spent, rivals)
				// a poll of each sixth of the TTL at the shortest, and a row of each TTL, for each candidate
				most := 8 + int(float64(n)*took.Seconds()/ttl.Seconds()*7)
				if spent > most || rivals > 3 {
					t.Errorf("%d requests and %d writes by the candidates, want %d and 3 at most", spent, rivals, most)
				}
				stop()
				for range n {
					if err := <-over; err != nil {
						t.Error(err)
					}
				}
			})
		})
	}
}

// An hour of a leader and a candidate costs what the package comment says.
func TestTheCostOfStanding(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		var leading, standing storagetest.Calls
		a := begin(t, storagetest.Intercept(s, leading.Hook), "a", leader.Config{})
		r := a.reign(t)
		b := begin(t, storagetest.Intercept(s, standing.Hook), "b", leader.Config{})
		time.Sleep(time.Hour)
		turns := int(time.Hour / ttl)
		if n, want := leading.Count(), 3*turns; n < want || n > want+5 {
			t.Errorf("a leader makes %d requests in an hour, want %d", n, want)
		}
		if n, rows := standing.Count("get blob"), standing.Count("put row"); n < 3*turns || n > 6*turns || rows > turns || standing.Count() > n+rows+1 {
			t.Errorf("a candidate makes %d requests in an hour, %d of them reads and %d of rows; want %d to %d reads", standing.Count(), n, rows, 3*turns, 6*turns)
		}
		b.quit(t, nil)
		a.quit(t, r)
	})
}
