package leader_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/millrace-go/millrace/coord/leader"
	"github.com/millrace-go/millrace/coord/lease"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// A typedNil is an error that is not nil, and that panics when it is asked what it says.
type typedNil struct{ text string }

func (e *typedNil) Error() string { return e.text }

// A function that fails, in whatever way, lets the other candidate lead, and leads again after the other has left. The
// failure is in the log.
func TestLawAFailedLeaderStandsBack(t *testing.T) {
	t.Parallel()
	for way, c := range map[string]struct {
		fail func() error
		log  string
	}{
		"error":        {func() error { return errors.New("no ink") }, "no ink"},
		"typed nil":    {func() error { var e *typedNil; return e }, "nil"},
		"panic":        {func() error { panic("no paper") }, "function_test.go"},
		"nil panic":    {func() error { panic(nil) }, "panic: "},
		"panic in say": {func() error { var e *typedNil; panic(e) }, "panic: a nil *leader_test.typedNil"},
		"exit":         {func() error { runtime.Goexit(); return nil }, "runtime.Goexit"},
		"canceled":     {func() error { return context.Canceled }, "canceled"},
	} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			virtual(t, func(t *testing.T, s *storage.Store) {
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				var log bytes.Buffer
				calls, over := make(chan time.Time, 2), make(chan error, 1)
				go func() {
					n := 0
					over <- leader.Run(ctx, s, name, leader.Config{TTL: ttl, Logger: slog.New(slog.NewTextHandler(&log, nil))}, func(ctx context.Context, _ leader.Term) error {
						calls <- time.Now()
						if n++; n > 1 {
							<-ctx.Done()
							return ctx.Err()
						}
						time.Sleep(ttl)
						return c.fail()
					})
				}()
				<-calls
				other := begin(t, s, "other", leader.Config{})
				r := other.reign(t)
				wantTerm(t, r, 2)
				time.Sleep(3 * ttl)
				r.end <- nil // the other's work is done for good
				if err := other.ended(t); err != nil {
					t.Error(err)
				}
				<-calls
				stop()
				if err := <-over; err != nil {
					t.Error(err)
				}
				wantLeader(t, s, "", 3)
				if !strings.Contains(log.String(), c.log) || !strings.Contains(log.String(), "level=ERROR") {
					t.Errorf("the log says nothing of %q: %s", c.log, &log)
				}
			})
		})
	}
}

// A failed leader without rivals leads again after its pause.
func TestThePauseIsKept(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		a := begin(t, s, "a", leader.Config{})
		r := a.reign(t)
		r.end <- errors.New("some failure")
		failed := time.Now()
		next := <-a.reigns
		if took := next.began.Sub(failed); took != ttl {
			t.Errorf("it led again after %v, want %v", took, ttl)
		}
		next.end <- errors.New("another failure")
		time.Sleep(ttl / 2)
		a.stop() // in the pause
		if err := a.ended(t); err != nil {
			t.Error(err)
		}
	})
}

// Run returns nil when the work is done, and doesn't lead again.
func TestTheWorkIsDone(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		a := begin(t, s, "a", leader.Config{})
		r := a.reign(t)
		r.end <- nil
		if err := a.ended(t); err != nil {
			t.Error(err)
		}
		wantCause(t, r, leader.ErrResigned)
		wantLeader(t, s, "", 1)
		time.Sleep(ttl)
		a.idle(t)
	})
}

// A function that fails after the end of ctx has an error for Run's caller. An end by the context is none.
func TestErrorsAfterAStop(t *testing.T) {
	t.Parallel()
	mine := errors.New("can't close the books")
	for _, c := range []struct{ returns, want error }{
		{mine, mine}, {nil, nil}, {context.Canceled, nil},
	} {
		virtual(t, func(t *testing.T, s *storage.Store) {
			a := begin(t, s, "a", leader.Config{})
			r := a.reign(t)
			a.stop()
			<-r.ctx.Done()
			r.end <- c.returns
			if err := a.ended(t); !errors.Is(err, c.want) || err != nil && !strings.Contains(err.Error(), name) {
				t.Errorf("after %v Run returned %v, want %v", c.returns, err, c.want)
			}
			wantLeader(t, s, "", 1)
		})
	}
}

// A function that doesn't return after the end of its context is given up. Its term isn't handed over, but runs out.
func TestAFunctionThatHangs(t *testing.T) {
	t.Parallel()
	for _, by := range []string{"stop", "loss"} {
		t.Run(by, func(t *testing.T) {
			t.Parallel()
			virtual(t, func(t *testing.T, s *storage.Store) {
				a := begin(t, s, "a", leader.Config{DrainTimeout: ttl})
				r := a.reign(t)
				b := begin(t, s, "b", leader.Config{})
				time.Sleep(ttl + time.Second)
				if by == "loss" {
					a.link.Cut()
				} else {
					a.stop()
				}
				<-r.ctx.Done()
				ended := time.Now()
				if err := a.ended(t); !errors.Is(err, leader.ErrHung) || !strings.Contains(err.Error(), name) {
					t.Errorf("Run returned %v", err)
				}
				if took := time.Since(ended); took != ttl {
					t.Errorf("given up after %v, want %v", took, ttl)
				}
				next := b.reign(t)
				wantTerm(t, next, 2)
				if took := next.began.Sub(ended); by == "stop" && took < ttl*7/6 {
					t.Errorf("b leads %v after the end of a's context, and a's function still runs", took)
				}
				r.end <- nil
				b.quit(t, next)
			})
		})
	}
}

// A term that is lost ends the context, and the candidate stands again.
func TestALostTerm(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		a := begin(t, s, "a", leader.Config{})
		r := a.reign(t)
		a.link.Cut()
		<-r.ctx.Done()
		wantCause(t, r, lease.ErrLost)
		a.link.Restore()
		r.end <- errors.New("couldn't finish")
		next := a.reign(t)
		wantTerm(t, next, 2)
		a.quit(t, next)
	})
}

// A candidate that stops while it stands leaves nothing behind.
func TestAStopWhileStanding(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		a := begin(t, s, "a", leader.Config{})
		r := a.reign(t)
		b := begin(t, s, "b", leader.Config{})
		time.Sleep(ttl)
		b.quit(t, nil)
		a.quit(t, r)
		wantLeader(t, s, "", 1)
		ctx, stop := context.WithCancel(t.Context())
		stop()
		if err := leader.Run(ctx, s, name, leader.Config{}, func(context.Context, leader.Term) error { panic("called") }); err != nil {
			t.Errorf("Run under a context that has ended: %v", err)
		}
		wantLeader(t, s, "", 1)
	})
}

// A stop at any moment of a candidacy leaves a name that the next candidate leads soon.
func TestAStopInAnyCall(t *testing.T) {
	t.Parallel()
	for n := int64(1); n < 5; n++ {
		virtual(t, func(t *testing.T, s *storage.Store) {
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			mine := storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
				if op.Seq == n {
					stop()
				}
				return do()
			})
			if err := leader.Run(ctx, mine, name, leader.Config{TTL: ttl}, func(ctx context.Context, _ leader.Term) error {
				<-ctx.Done()
				return ctx.Err()
			}); err != nil {
				t.Errorf("stopped in call %d: %v", n, err)
			}
			stopped := time.Now()
			b := begin(t, s, "b", leader.Config{})
			r := b.reign(t)
			if took := time.Since(stopped); took > 2*ttl {
				t.Errorf("stopped in call %d: followed after %v", n, took)
			}
			b.quit(t, r)
		})
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		registry := prometheus.NewRegistry()
		cfg := leader.Config{Metrics: registry}
		count := func(want string) {
			t.Helper()
			want = "# HELP millrace_leader_leading 1 while this process leads, else 0.\n# TYPE millrace_leader_leading gauge\n" + want
			if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "millrace_leader_leading"); err != nil {
				t.Error(err)
			}
		}
		a := begin(t, s, "a", cfg)
		r := a.reign(t)
		b := begin(t, s, "b", cfg) // of the same process
		count("millrace_leader_leading{leader=\"reports\"} 1\n")
		a.stop()
		<-r.ctx.Done()
		time.Sleep(time.Second)
		count("millrace_leader_leading{leader=\"reports\"} 0\n") // though the function still drains
		r.end <- nil
		next := b.reign(t)
		count("millrace_leader_leading{leader=\"reports\"} 1\n")
		b.quit(t, next)
		if err := testutil.GatherAndCompare(registry, strings.NewReader(`# HELP millrace_leader_terms_total Terms that this process has led.
# TYPE millrace_leader_terms_total counter
millrace_leader_terms_total{leader="reports"} 2
`), "millrace_leader_terms_total"); err != nil {
			t.Error(err)
		}
		taken := prometheus.NewRegistry()
		taken.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "millrace_leader_leading", Help: "Mine."}))
		if err := leader.Run(t.Context(), s, name, leader.Config{Metrics: taken}, func(context.Context, leader.Term) error { return nil }); err == nil {
			t.Error("another's metric was taken")
		}
	})
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		idle := func(context.Context, leader.Term) error { return nil }
		for _, c := range []struct {
			name string
			cfg  leader.Config
			f    func(context.Context, leader.Term) error
			want []string
		}{
			{"", leader.Config{}, idle, []string{"key"}},
			{"a\nb", leader.Config{TTL: time.Second, DrainTimeout: -1}, idle, []string{"key", "TTL", "DrainTimeout"}},
			{strings.Repeat("x", storage.MaxKey-6), leader.Config{}, idle, []string{"249 bytes"}},
			{name, leader.Config{TTL: 25 * time.Hour}, idle, []string{"TTL"}},
			{name, leader.Config{TTL: ttl + 1}, idle, []string{"TTL"}},
			{name, leader.Config{}, nil, []string{"function"}},
			{name, leader.Config{Holder: "a\nb"}, idle, []string{"Holder"}},
		} {
			err := leader.Run(t.Context(), s, c.name, c.cfg, c.f)
			if !errors.Is(err, storage.ErrInvalid) {
				t.Errorf("%q, %+v: %v", c.name, c.cfg, err)
				continue
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q, %+v: %v; want a word about %s", c.name, c.cfg, err, w)
				}
			}
		}
		longest := strings.Repeat("x", storage.MaxKey-7)
		if err := leader.Run(t.Context(), s, longest, leader.Config{}, idle); err != nil {
			t.Errorf("the longest name: %v", err)
		}
	})
}

// A blob that somebody else wrote is an error at once, for candidates and watchers, and stays as it is.
func TestABlobThatIsNoLease(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		blobs := s.Blobs("leases")
		for _, body := range []string{"x", "{}", `{"id":"a","fence":-1,"ttl":5000}`} {
			tag, err := blobs.Put(t.Context(), "leader/"+name, []byte(body), storage.Condition{})
			if err != nil {
				t.Fatal(err)
			}
			if err := leader.Run(t.Context(), s, name, leader.Config{}, func(context.Context, leader.Term) error { return nil }); !errors.Is(err, storage.ErrInvalid) {
				t.Errorf("%s: Run returned %v", body, err)
			}
			if _, err := leader.Current(t.Context(), s, name); !errors.Is(err, storage.ErrInvalid) || !strings.Contains(err.Error(), name) {
				t.Errorf("%s: Current returned %v", body, err)
			}
			if b, err := blobs.Get(t.Context(), "leader/"+name, ""); err != nil || b.ETag != tag {
				t.Errorf("%s was written over: %s, %v", body, b.Body, err)
			}
		}
	})
}

// Several candidates of one process are candidates like any others.
func TestCandidatesOfOneProcess(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		var (
			all  sync.WaitGroup
			seen watch
		)
		for range 5 {
			all.Go(func() {
				if err := leader.Run(t.Context(), s, name, leader.Config{TTL: ttl}, func(ctx context.Context, term leader.Term) error {
					seen.see(t, &reign{ctx: ctx, term: term.Number})
					time.Sleep(ttl)
					return nil
				}); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if n := len(seen.seen); n != 5 || seen.seen[4].term != 5 {
			t.Errorf("%d terms, the last is %d; want 5", n, seen.seen[n-1].term)
		}
	})
}
