package storage_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/storage"
)

// A gate lets through so many requests a second, and refuses others.
type gate struct {
	mu          sync.Mutex
	rate, left  float64
	last        time.Time
	ok, refused int
}

func (g *gate) ask() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	g.left, g.last = min(g.rate, g.left+now.Sub(g.last).Seconds()*g.rate), now
	if g.left < 1 {
		g.refused++
		return false
	}
	g.left--
	g.ok++
	return true
}

// count returns what was counted, and begins anew.
func (g *gate) count() (ok, refused int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	ok, refused = g.ok, g.refused
	g.ok, g.refused = 0, 0
	return ok, refused
}

// Many processes that would ask a hundred times what a gate lets through come near to what it does, and share it.
func TestPace(t *testing.T) {
	t.Parallel()
	for _, processes := range []int{1, 10, 100} {
		t.Run(fmt.Sprint(processes), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const rate = 1000
				g := &gate{rate: rate, left: rate, last: time.Now()}
				ctx, stop := context.WithCancel(t.Context())
				var all sync.WaitGroup
				done := make([]int, processes)
				for i := range processes {
					var p storage.Pace
					var mu sync.Mutex
					for range max(1, 256/processes) { // each has some at once
						all.Go(func() {
							for ctx.Err() == nil {
								if p.Wait(ctx, time.Minute) != nil {
									return
								}
								time.Sleep(5 * time.Millisecond)
								if g.ask() {
									mu.Lock()
									done[i]++
									mu.Unlock()
								} else {
									p.Refused()
								}
							}
						})
					}
				}
				time.Sleep(30 * time.Second)
				g.count()
				clear(done)
				time.Sleep(60 * time.Second)
				ok, refused := g.count()
				stop()
				all.Wait()
				least, most := done[0], done[0]
				for _, n := range done {
					least, most = min(least, n), max(most, n)
				}
				t.Logf("%d a second, %.1f %% refused, by process %d to %d", ok/60, 100*float64(refused)/float64(ok+refused), least, most)
				if ok/60 < rate*8/10 || refused > ok/5 || most > 10*least {
					t.Errorf("%d a second of %d; %d refused; by process %d to %d; want most of them, few, and shares", ok/60, rate, refused, least, most)
				}
			})
		})
	}
}

// Without a refusal, and long after one, nobody waits. In between who would wait too long is told so at once.
func TestPaceLine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var p storage.Pace
		began := time.Now()
		for range 1000 {
			if err := p.Wait(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
		}
		if d := time.Since(began); d != 0 {
			t.Errorf("waited %v without a refusal", d)
		}
		p.Refused()
		var err error
		n := 0
		for ; err == nil && n < 100_000; n++ {
			err = p.Wait(t.Context(), 0)
		}
		if !errors.Is(err, storage.ErrThrottled) || n < 2 || n > 20 {
			t.Errorf("the request %d: %v; want a few that don't wait, then ErrThrottled", n, err)
		}
		for range 100 {
			_ = p.Wait(t.Context(), time.Hour)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("the caller left")
		cancel(cause)
		if err := p.Wait(ctx, time.Hour); err != cause {
			t.Errorf("a caller that has left: %v", err)
		}
		time.Sleep(time.Hour)
		began = time.Now()
		for range 100_000 {
			if err := p.Wait(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
		}
		if d := time.Since(began); d != 0 {
			t.Errorf("waited %v an hour after a refusal", d)
		}
	})
}
