package guard_test

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/guard"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/worker"
)

// Law 1: calls whose code panics because an answer is missing open the breaker, and no message is given up.
func TestLaw1AnOutageInWhichCallsPanic(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := &service{took: 10 * time.Millisecond}
		g := guard.New("crm", guard.Config{Logger: quietLogger()})
		client := &http.Client{Transport: g.Transport(tripper(func(r *http.Request) (*http.Response, error) {
			if err := s.call(r.Context()); err != nil {
				return nil, err
			}
			return &http.Response{StatusCode: http.StatusOK, Request: r, Body: http.NoBody}, nil
		}))}
		w := worldtest.NewBare(t, worldtest.OpenStore(t, worldtest.Virtual), handlers.Config{Logger: quietLogger()}, channel.Command[job]("jobs"))
		handlers.React(w.Registry, "jobs", guard.Around(g, func(ctx context.Context, _ job) error {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://crm.example", nil)
			if err != nil {
				return err
			}
			var answer *http.Response
			if answer, err = client.Do(request); answer.StatusCode != http.StatusOK { // the error isn't looked at
				return err
			}
			defer answer.Body.Close()
			return guard.CheckStatus(answer)
		}))
		s.set(&exchangeRefused{})
		for i := range 100 {
			worldtest.Send(w, job{i})
		}
		stop := w.Start(worker.Config{Logger: quietLogger(), Queues: map[string]worker.QueueConfig{"jobs": {Limiter: g.Limiter}}})
		time.Sleep(time.Hour)
		calls, _, _ := s.counted()
		if !g.Open() || calls > 200 {
			t.Errorf("%d calls in an outage of an hour, and a breaker of status %+v", calls, g.Status())
		}
		s.set(nil)
		time.Sleep(5 * time.Minute)
		worldtest.Want(t, "poisoned jobs", len(w.Poisoned("jobs")), 0)
		after, _, _ := s.counted()
		worldtest.Want(t, "jobs that are done", after-calls, 100)
		worldtest.WantErr(t, stop(), nil)
	})
}

// exchangeRefused is an error of a connection that wasn't made.
type exchangeRefused struct{}

func (*exchangeRefused) Error() string { return "refused" }
func (*exchangeRefused) Unwrap() error { return errDown }

// Law 1: a probe that panics or ends its goroutine has failed, so the next one comes later. Likewise after a probe that
// has told nothing.
func TestLaw1AProbeThatDoesNotReturn(t *testing.T) {
	for name, misdeed := range map[string]func(context.Context, context.CancelFunc) error{
		"panics":             func(context.Context, context.CancelFunc) error { panic("in the call") },
		"ends its goroutine": func(context.Context, context.CancelFunc) error { runtime.Goexit(); return nil },
		"is cancelled":       func(ctx context.Context, cancel context.CancelFunc) error { cancel(); return ctx.Err() },
		"is cut short": func(ctx context.Context, _ context.CancelFunc) error {
			<-ctx.Done()
			return ctx.Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				g := quiet()
				trip(t, g)
				probes := 0
				for began := time.Now(); time.Since(began) < 10*time.Second; time.Sleep(time.Millisecond) {
					ended := make(chan struct{})
					go func() {
						defer close(ended)
						ctx, cancel := context.WithTimeout(handling(t, id(probes), 1), 10*time.Millisecond)
						defer cancel()
						_ = g.Do(ctx, func(ctx context.Context) error { probes++; return misdeed(ctx, cancel) })
					}()
					<-ended
				}
				if probes < 1 || probes > 10 {
					t.Errorf("%d probes in ten seconds", probes)
				}
			})
		})
	}
}

// Outside of a handler a panic goes on to the caller, and counts as a failure all the same.
func TestAPanicOutsideOfAHandler(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := quiet()
		panics := 0
		for range 100 {
			func() {
				defer func() {
					if recover() != nil {
						panics++
					}
				}()
				_ = g.Do(t.Context(), func(context.Context) error { panic("in the call") })
			}()
		}
		worldtest.Want(t, "panics until the breaker opened", panics, 20)
		wantOpen(t, g, true)
	})
}

// All wait for as long as a service asks for, although the answer comes after the call's place was given up.
func TestAnAnswerAfterThePlaceEnded(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := quiet()
		trip(t, g)
		untilDue(t, g)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = g.Do(handling(t, id(1), 1), func(context.Context) error {
				<-time.After(5 * time.Minute) // whatever its context says
				return &guard.StatusError{Code: http.StatusTooManyRequests, After: 30 * time.Minute}
			})
		}()
		<-ended
		time.Sleep(29 * time.Minute)
		wantOpen(t, g, true)
		untilDue(t, g)
	})
}

// Law 3: a caller's own short deadline says nothing of the service, whether its code returns an error or panics. A
// deadline that leaves a call a fair part of Timeout does, and so does all the time that a handler has.
func TestLaw3ACallersOwnDeadline(t *testing.T) {
	waits := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	panics := func(ctx context.Context) error { <-ctx.Done(); panic("no answer") }
	for name, c := range map[string]struct {
		cfg      guard.Config
		handler  time.Duration // that a run of the handler may take; 0: there is no handler
		deadline time.Duration // of the caller; 0: none
		call     func(context.Context) error
		open     bool
	}{
		"short":                       {deadline: 10 * time.Millisecond, call: waits},
		"short, and panics":           {deadline: 10 * time.Millisecond, call: panics},
		"short in a handler":          {handler: time.Minute, deadline: 10 * time.Millisecond, call: waits},
		"short, in a short one":       {handler: 5 * time.Second, deadline: 100 * time.Millisecond, call: waits},
		"a fair part":                 {deadline: 20 * time.Second, call: waits, open: true},
		"a fair part of a short time": {cfg: guard.Config{Timeout: 400 * time.Millisecond}, deadline: 150 * time.Millisecond, call: waits, open: true},
		"all that a handler has":      {handler: 5 * time.Second, call: waits, open: true},
		"its own, and fails at once":  {deadline: 10 * time.Millisecond, call: ends(errDown), open: true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				c.cfg.Logger, c.cfg.Repeatable = quietLogger(), true
				g := guard.New("smtp", c.cfg)
				for i := range 40 {
					func() {
						defer func() { _ = recover() }()
						ctx := t.Context()
						if c.handler > 0 {
							limited, cancel := context.WithTimeout(ctx, c.handler)
							defer cancel()
							ctx = handlingUnder(limited, worldtest.IDAt(time.Now(), i), 1)
						}
						if c.deadline > 0 {
							short, cancel := context.WithTimeout(ctx, c.deadline)
							defer cancel()
							ctx = short
						}
						_ = g.Do(ctx, c.call)
					}()
				}
				wantOpen(t, g, c.open)
			})
		})
	}
}

// Where the program's own judgement of an error doesn't return, the default judges. The call itself has returned.
func TestAFaultThatDoesNotReturnIsTheDefaults(t *testing.T) {
	for name, fault := range map[string]func(error) guard.Fault{
		"panics":             func(error) guard.Fault { panic("no idea") },
		"ends its goroutine": func(error) guard.Fault { runtime.Goexit(); return guard.Fault{} },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				for where, ctx := range map[string]context.Context{"in a handler": handling(t, id(1), 1), "elsewhere": t.Context()} {
					for status, want := range map[int]guard.Kind{http.StatusBadRequest: guard.Permanent, http.StatusTooManyRequests: guard.Throttled} {
						g := once(guard.New("crm", guard.Config{Fault: fault, Logger: quietLogger()}))
						answered := &guard.StatusError{Code: status}
						err := error(nil)
						ended := make(chan bool)
						go func() {
							defer close(ended)
							err = g.Do(ctx, ends(answered))
							ended <- true
						}()
						returned := <-ended
						var failed *guard.Error
						if !returned || !errors.As(err, &failed) || failed.Fault.Kind != want || !errors.Is(err, answered) {
							t.Errorf("%s: %d: got %v, returned %v, want the kind %v", where, status, err, returned, want)
						}
					}
				}
			})
		})
	}
}
