package worker_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/tracing/tracingtest"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/views"
	"github.com/millrace-go/millrace/worker"
)

// newTraced makes a world whose spans are recorded. A job has a reaction.
func newTraced(t testing.TB, s *storage.Store, cfg handlers.Config, react func(context.Context, job) error) (*world, *tracingtest.Recorder) {
	t.Helper()
	r := tracingtest.New(t)
	w := &world{World: worldtest.New(t, s, worldtest.Config{
		Handlers: cfg, Routes: []channel.Route{channel.Command[job]("jobs")},
		Channels: func(c *channel.Channels) *channel.Channels { return c.TraceWith(r.Provider) },
	}), decide: Account.Add}
	handlers.Decide(w.Registry, w.Accounts, Add.Subject,
		func(a Account, c Add) (Account, []channel.Message, error) { return w.decide(a, c) }, Added{}, worldtest.Refused{})
	views.Project(w.Registry, w.Totals, Added.Subject, Total.Add)
	handlers.React(w.Registry, worldtest.Audits, func(ctx context.Context, e Added) error {
		return channel.Send(ctx, job{Name: e.To})
	})
	handlers.React(w.Registry, worldtest.Audits, func(context.Context, worldtest.Refused) error { return nil })
	handlers.React(w.Registry, "jobs", react)
	return w, r
}

func doNothing(context.Context, job) error { return nil }

// work handles all messages, and checks that no span is left open.
func (w *world) work(t testing.TB, r *tracingtest.Recorder, cfg worker.Config) {
	t.Helper()
	stop := w.Start(cfg)
	w.empty(t, time.Second)
	if err := stop(); err != nil {
		t.Error(err)
	}
	worldtest.Want(t, "spans that have not ended", r.Open(), 0)
}

const wholeTrace = `send accounts
  process accounts
    commit accounts
    decide accounts
      process audits
        react audits
          send jobs
            process jobs
              react jobs
            wait jobs
      process totals
        commit totals
        project totals
      wait audits
      wait totals
  wait accounts
`

// All that a command brings about is one trace: the decision, the views, the reactions, and what they send.
func TestOneTraceOfACommand(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		w, r := newTraced(t, s, handlers.Config{}, doNothing)
		worldtest.Send(w.World, Add{To: "a", Amount: 1})
		w.work(t, r, worker.Config{})
		worldtest.Want(t, "the spans", r.Tree(), wholeTrace)
		for _, span := range r.Spans() {
			worldtest.Want(t, "trace of "+span.Name, span.SpanContext.TraceID(), r.One("send accounts").SpanContext.TraceID())
			if span.Status.Code == codes.Error {
				t.Errorf("%s failed: %+v", span.Name, span.Status)
			}
		}
	})
}

// Middleware stands between the span of the delivery and the fold. It sees that span in its context.
func TestMiddlewareWorksUnderTheSpanOfItsDelivery(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		sends := func(next handlers.Next) handlers.Next {
			return func(ctx context.Context, d *handlers.Delivery) error {
				if d.Queue == "accounts" {
					if err := channel.Send(ctx, job{Name: "from the middleware"}); err != nil {
						return err
					}
				}
				return next(ctx, d)
			}
		}
		w, r := newTraced(t, s, handlers.Config{Middleware: []handlers.Middleware{sends}}, doNothing)
		worldtest.Send(w.World, Add{To: "a", Amount: -1}) // refused
		w.work(t, r, worker.Config{})
		worldtest.Want(t, "the spans", r.Tree(), `send accounts
  process accounts
    commit accounts
    decide accounts
      process audits
        react audits
      wait audits
    send jobs
      process jobs
        react jobs
      wait jobs
  wait accounts
`)
	})
}

// Messages that are folded together keep their own spans and traces, and share the commit.
func TestOneSpanForTheCommitOfAFold(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		w, r := newTraced(t, s, handlers.Config{}, doNothing)
		const n = 20
		for range n {
			worldtest.Send(w.World, Add{To: "a", Amount: 1})
		}
		w.work(t, r, worker.Config{})
		traces := map[string]int{}
		for _, span := range append(r.Named("process accounts"), r.Named("decide accounts")...) {
			traces[span.SpanContext.TraceID().String()]++
		}
		worldtest.Want(t, "traces", len(traces), n)
		worldtest.Want(t, "traces of the reactions", len(r.Named("react jobs")), n)
		worldtest.Want(t, "messages of the commit", tracingtest.Attribute(r.One("commit accounts"), "messaging.batch.message_count"), fmt.Sprint(n))
		worldtest.Want(t, "links of the commit", len(r.One("commit accounts").Links), n-1)
	})
}

// A message that fails has a span for each delivery, which names the type of the error. No span tells more of it.
func TestSpansOfAMessageThatFails(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const secret = "the password"
		w, r := newTraced(t, worldtest.OpenStore(t, worldtest.Virtual), handlers.Config{}, func(context.Context, job) error {
			return fmt.Errorf("%s: %w", secret, &storage.Error{Err: errors.New(secret)})
		})
		worldtest.Send(w.World, job{Name: secret, Body: secret})
		w.work(t, r, worker.Config{MaxAttempts: 3})
		worldtest.Want(t, "the spans", r.Tree(), `send jobs
  process jobs
    react jobs
  process jobs
    react jobs
  process jobs
    react jobs
  wait jobs
`)
		for i, p := range r.Named("process jobs") {
			outcome, reason := "", ""
			if i == 2 {
				outcome, reason = "poison", handlers.ReasonAttempts
			}
			worldtest.Want(t, "status", p.Status.Code, codes.Error)
			worldtest.Want(t, "type", tracingtest.Attribute(p, "error.type"), "*driver.Error")
			worldtest.Want(t, "attempts before", tracingtest.Attribute(p, "millrace.delivery.failed"), fmt.Sprint(i))
			worldtest.Want(t, "outcome", tracingtest.Attribute(p, "millrace.outcome"), outcome)
			worldtest.Want(t, "reason", tracingtest.Attribute(p, "millrace.poison.reason"), reason)
		}
		if all := fmt.Sprintf("%+v", r.Spans()); strings.Contains(all, secret) {
			t.Errorf("a span tells the secret: %s", all)
		}
	})
}

// However a delivery ends, its spans end, and they tell how.
func TestSpansEndHoweverTheDeliveryEnds(t *testing.T) {
	t.Parallel()
	later := 0
	for name, c := range map[string]struct {
		decide func() error
		call   string // the type of the error of the call
		first  string // and of the first delivery
		last   string // outcome of the last
	}{
		"nil":     {func() error { return nil }, "", "", ""},
		"panic":   {func() error { panic("secret") }, "*handlers.PanicError", "*handlers.PanicError", "poison"},
		"goexit":  {func() error { runtime.Goexit(); return nil }, "*errors.errorString", "*handlers.PanicError", "poison"},
		"poison":  {func() error { return handlers.Poison("broken", nil) }, "*handlers.PoisonError", "*handlers.PoisonError", "poison"},
		"a retry": {func() error { return handlers.Retry(time.Second, errors.New("no")) }, "*handlers.RetryError", "*handlers.RetryError", "poison"},
		"later": {func() error {
			if later++; later > 1 {
				return nil
			}
			return handlers.Later(time.Second, "not yet")
		}, "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				w, r := newTraced(t, worldtest.OpenStore(t, worldtest.Virtual), handlers.Config{}, doNothing)
				w.decide = func(a Account, m Add) (Account, []channel.Message, error) { return a, nil, c.decide() }
				worldtest.Send(w.World, Add{To: "a"})
				w.work(t, r, worker.Config{MaxAttempts: 2})
				calls, deliveries := r.Named("decide accounts"), r.Named("process accounts")
				worldtest.Want(t, "type of the call's error", tracingtest.Attribute(calls[0], "error.type"), c.call)
				worldtest.Want(t, "type of the first delivery's error", tracingtest.Attribute(deliveries[0], "error.type"), c.first)
				worldtest.Want(t, "outcome of the last delivery", tracingtest.Attribute(deliveries[len(deliveries)-1], "millrace.outcome"), c.last)
				if name == "later" {
					worldtest.Want(t, "outcome of the first delivery", tracingtest.Attribute(deliveries[0], "millrace.outcome"), "handed back")
				}
				for _, s := range append(calls, deliveries...) {
					worldtest.Want(t, "failed", s.Status.Code == codes.Error, tracingtest.Attribute(s, "error.type") != "")
				}
			})
		})
	}
}

// A message that goes to the poison queue before any handler gets it has a span that says so.
func TestSpansOfMessagesThatNoHandlerGets(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w, r := newTraced(t, worldtest.OpenStore(t, worldtest.Virtual), handlers.Config{}, doNothing)
		for _, body := range []string{"{", raw("1", "test.job.v1", 17)} {
			if err := w.Store.Queue("jobs").Send(t.Context(), []storage.Message{{Body: []byte(body)}}); err != nil {
				t.Fatal(err)
			}
		}
		w.work(t, r, worker.Config{})
		for id, p := range map[string]tracetest.SpanStub{"": r.Spans()[0], "1": r.Spans()[1]} {
			if id != tracingtest.Attribute(p, "messaging.message.id") {
				p = r.Spans()[len(id)^1]
			}
			worldtest.Want(t, "ID", tracingtest.Attribute(p, "messaging.message.id"), id)
			worldtest.Want(t, "reason", tracingtest.Attribute(p, "millrace.poison.reason"), handlers.ReasonUndecodable)
		}
		worldtest.Want(t, "the spans", r.Tree(), "process jobs\nprocess jobs\n")
	})
}

// Spans decide nothing: a copy of a message that has another trace is the same message.
func TestACopyWithAnotherTraceIsTheSameMessage(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		w, r := newTraced(t, s, handlers.Config{}, doNothing)
		for range 3 {
			worldtest.Send(w.World, Add{Key: "once", To: "a", Amount: 5})
			w.work(t, r, worker.Config{})
		}
		worldtest.Want(t, "balance", w.Balance("a"), 5)
		worldtest.Want(t, "total", w.Total("a"), Total{Sum: 5, Count: 1})
		worldtest.Want(t, "decisions", len(r.Named("decide accounts")), 1)
		worldtest.Want(t, "deliveries", len(r.Named("process accounts")), 3)
		worldtest.Want(t, "poisoned", len(w.Poisoned("accounts")), 0)
	})
}

// Where the write is done and the sends fail, a replay sends the emissions. They have the trace of the decision.
func TestAReplayKeepsTheTraceOfTheDecision(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		failed := false
		s := storagetest.Intercept(storagetest.Plain(worldtest.OpenStore(t, worldtest.Virtual)), func(_ context.Context, op storagetest.Op, do func() error) error {
			if op.Name == "send" && op.Resource == "queue totals" && !failed {
				failed = true
				return op.Fail(storage.ErrUnavailable)
			}
			return do()
		})
		w, r := newTraced(t, s, handlers.Config{}, doNothing)
		worldtest.Send(w.World, Add{To: "a", Amount: 1})
		w.work(t, r, worker.Config{})
		worldtest.Want(t, "decisions", len(r.Named("decide accounts")), 1)
		worldtest.Want(t, "deliveries", len(r.Named("process accounts")), 2)
		worldtest.Want(t, "parent of the view's delivery", r.One("process totals").Parent.SpanID(), r.One("decide accounts").SpanContext.SpanID())
	})
}

// A compensation belongs to the delivery that failed last.
func TestACompensationBelongsToItsDelivery(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		w, r := newTraced(t, s, handlers.Config{}, func(context.Context, job) error { return handlers.Poison("declined", nil) })
		handlers.OnPoison(w.Registry, func(j job, _ handlers.Poisoned) []channel.Message {
			return []channel.Message{worldtest.Refused{To: j.Name}}
		}, worldtest.Refused{})
		worldtest.Send(w.World, job{Name: "a"})
		w.work(t, r, worker.Config{})
		worldtest.Want(t, "the spans", r.Tree(), `send jobs
  process jobs
    process audits
      react audits
    react jobs
    wait audits
  wait jobs
`)
	})
}

// A commit that loses a race is done again, so its span has not failed.
func TestALostRaceIsNoFailure(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		lost := false
		raced := storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
			if (op.Name == "commit" || op.Name == "put blob") && strings.HasPrefix(op.Resource, "blob accounts/") && !lost {
				lost = true
				return op.Fail(storage.ErrPrecondition)
			}
			return do()
		})
		w, r := newTraced(t, raced, handlers.Config{}, doNothing)
		worldtest.Send(w.World, Add{To: "a", Amount: 1})
		w.work(t, r, worker.Config{})
		var outcomes []string
		for _, c := range r.Named("commit accounts") {
			worldtest.Want(t, "status", c.Status.Code, codes.Unset)
			outcomes = append(outcomes, tracingtest.Attribute(c, "millrace.outcome"))
		}
		worldtest.Want(t, "outcomes", fmt.Sprintf("%q", outcomes), `["lost race" ""]`)
	})
}
