package rate_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/internal/rate"
)

// A gate accepts a number of requests a second, and refuses others.
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

// count returns the counts, and resets them.
func (g *gate) count() (ok, refused int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	ok, refused = g.ok, g.refused
	g.ok, g.refused = 0, 0
	return ok, refused
}

// Many processes that would send a hundred times a gate's rate nearly reach that rate, and share it.
func TestPace(t *testing.T) {
	t.Parallel()
	for _, processes := range []int{1, 10, 100} {
		t.Run(fmt.Sprint(processes), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const taken = 1000
				g := &gate{rate: taken, left: taken, last: time.Now()}
				ctx, stop := context.WithCancel(t.Context())
				var all sync.WaitGroup
				done := make([]atomic.Int64, processes)
				for i := range processes {
					var p rate.Pace
					for range max(1, 256/processes) { // each has some at once
						all.Go(func() {
							for ctx.Err() == nil {
								if p.Wait(ctx, time.Minute) != nil {
									return
								}
								time.Sleep(5 * time.Millisecond)
								if g.ask() {
									done[i].Add(1)
								} else {
									p.Refused()
								}
							}
						})
					}
				}
				time.Sleep(30 * time.Second)
				g.count()
				for i := range done {
					done[i].Store(0)
				}
				time.Sleep(60 * time.Second)
				ok, refused := g.count()
				stop()
				all.Wait()
				least, most := done[0].Load(), done[0].Load()
				for i := range done {
					least, most = min(least, done[i].Load()), max(most, done[i].Load())
				}
				t.Logf("%d a second, %.1f %% refused, by process %d to %d", ok/60, 100*float64(refused)/float64(ok+refused), least, most)
				if ok/60 < taken*8/10 || refused > ok/5 || most > 10*least {
					t.Errorf("%d a second of %d; %d refused; by process %d to %d; want most of them, few, and shares", ok/60, taken, refused, least, most)
				}
			})
		})
	}
}

// A request doesn't wait without a refusal, nor long after one. It waits no longer than its caller allows, and no
// longer than half of its context's time.
func TestPaceWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var p rate.Pace
		took := func(n int, ctx context.Context, most time.Duration) time.Duration {
			t.Helper()
			began := time.Now()
			for range n {
				if err := p.Wait(ctx, most); err != nil {
					t.Fatal(err)
				}
			}
			return time.Since(began)
		}
		expect := func(what string, got, least, most time.Duration) {
			t.Helper()
			if got < least || got > most {
				t.Errorf("%s: waited %v, want %v to %v", what, got, least, most)
			}
		}
		ctx, second := t.Context(), time.Second
		expect("no refusal", took(1000, ctx, time.Hour), 0, 0)
		time.Sleep(time.Hour)
		expect("nor after a rest", took(100, ctx, time.Hour), 0, 0)
		p.Refused() // a hundred at once are two thousand a second at least
		expect("a hundred after a refusal", took(100, ctx, time.Hour), 10*time.Millisecond, second)
		expect("who doesn't wait", took(100, ctx, 0), 0, 0)
		time.Sleep(time.Hour)
		expect("long after it", took(1000, ctx, time.Hour), 0, 0)

		time.Sleep(time.Hour)
		took(1, ctx, time.Hour)
		for range 200 {
			p.Refused() // down to the least rate; the repeats delay others
			time.Sleep(100 * time.Millisecond)
		}
		expect("one after two hundred refusals", took(1, ctx, time.Hour), 0, 3*second)
		expect("ten more, at most a second each", took(10, ctx, second), second, 10*second)
		short, cancel := context.WithTimeout(ctx, second/2)
		defer cancel()
		expect("one who has half a second", took(1, short, time.Hour), 0, second/4)
		cancel()
		if err := p.Wait(short, time.Hour); err != context.Canceled {
			t.Errorf("a caller who has left: %v", err)
		}
		time.Sleep(10 * second)
		expect("then", took(1000, ctx, time.Hour), 0, 0)
	})
}
