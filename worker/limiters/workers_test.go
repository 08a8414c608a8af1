package limiters_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/worker"
	"github.com/millrace-go/millrace/worker/limiters"
)

func consumer(s *storage.Store, name string, kinds ...channel.Kind) worker.Consumer {
	return worker.Consumer{
		Store: s, Queue: "jobs", Worker: name, Kinds: kinds, Visibility: 30 * time.Second,
		Logger: slog.New(slog.DiscardHandler), Fit: func() bool { return true },
	}
}

func join(t *testing.T, n int, c worker.Consumer) worker.Limiter {
	t.Helper()
	limiter, err := limiters.Workers(n)(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := limiter.Leave(context.WithoutCancel(t.Context())); err != nil { // a second time is harmless
			t.Error(err)
		}
	})
	return limiter
}

func active(all ...worker.Limiter) (n int) {
	for _, limiter := range all {
		if limits, _ := limiter.Now(); limits == (worker.Limits{}) {
			n++
		}
	}
	return n
}

// As many workers are active as were asked for. Workers that know other kinds don't count.
func TestWorkers(t *testing.T) {
	inBubble(t, func(t *testing.T, s *storage.Store) {
		var same, other []worker.Limiter
		for i := range 5 {
			same = append(same, join(t, 2, consumer(s, fmt.Sprint(i), "a.v1", "b.v1")))
			other = append(other, join(t, 1, consumer(s, fmt.Sprint("other", i), "a.v1")))
		}
		time.Sleep(time.Minute)
		if n, m := active(same...), active(other...); n != 2 || m != 1 {
			t.Errorf("limiters: got %d and %d, want 2 and 1", n, m)
		}
	})
}

// A worker that leaves, or that can't receive, is followed by another one, which is told of that.
func TestSuccession(t *testing.T) {
	for _, why := range []string{"leave", "unfit"} {
		t.Run(why, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *storage.Store) {
				var fit [2]atomic.Bool
				var all []worker.Limiter
				for i := range fit {
					fit[i].Store(true)
					c := consumer(s, fmt.Sprint(i), "a.v1")
					c.Fit = fit[i].Load
					all = append(all, join(t, 1, c))
				}
				time.Sleep(time.Minute)
				first := 0
				if active(all[0]) == 0 {
					first = 1
				}
				_, changed := all[1-first].Now()
				began := time.Now()
				if why == "leave" {
					if err := all[first].Leave(t.Context()); err != nil {
						t.Fatal(err)
					}
				} else {
					fit[first].Store(false)
				}
				<-changed
				if d := time.Since(began); active(all[1-first]) != 1 || d > 20*time.Second {
					t.Errorf("after %v: active %d; want 1 within two beats", d, active(all[1-first]))
				}
			})
		})
	}
}

func TestBadNumber(t *testing.T) {
	inBubble(t, func(t *testing.T, s *storage.Store) {
		for _, n := range []int{0, -1} {
			if _, err := limiters.Workers(n)(t.Context(), consumer(s, "a")); err == nil || !strings.Contains(err.Error(), fmt.Sprint(n, " workers at a time; want a positive number")) {
				t.Errorf("%d workers: got %v", n, err)
			}
		}
	})
}
