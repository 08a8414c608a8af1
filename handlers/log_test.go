package handlers_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/storage"
)

// Failures are logged once, with what is needed to find the message, never with its body.
func TestLogsNeverHoldBodies(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3t"
	w := newWorld(t, handlers.Config{})
	var fail func()
	handlers.Decide(w.h, w.accounts, func(Add) string { return "one" }, func(a Account, m Add) (Account, []channel.Message, error) {
		fail()
		return a, nil, errors.New("not decided")
	})
	handlers.React(w.h, "audits", func(_ context.Context, m Added) error {
		fail()
		return errors.New("not reacted")
	})
	for _, test := range []struct {
		name, level string
		fail        func()
	}{
		{"error", "WARN", func() {}},
		{"panic", "ERROR", func() { panic("at the disco") }},
	} {
		for _, queue := range []string{"accounts", "audits"} {
			fail = test.fail
			w.log.Reset()
			id := channel.NewID()
			d, err := w.h.Resolve(queue, envelope(id, map[string]channel.Kind{"accounts": "test.add.v1", "audits": "test.added.v1"}[queue], `{"to":"`+secret+`"}`))
			if err != nil {
				t.Fatal(err)
			}
			d.Envelope.Attempts = 2
			g, _, err := d.Group()
			if err != nil {
				t.Fatal(err)
			}
			handlers.Handle(t.Context(), g, []*handlers.Delivery{d})
			log := w.log.String()
			for _, want := range []string{"level=" + test.level, "id=" + id, "attempt=3", "queue=" + queue, "kind=test.add", "handler="} {
				if !strings.Contains(log, want) {
					t.Errorf("%s in %s: want %q in the log %s", test.name, queue, want, log)
				}
			}
			if strings.Count(log, "handler failed") != 1 {
				t.Errorf("%s in %s: want one line in the log %s", test.name, queue, log)
			}
			if strings.Contains(log, secret) {
				t.Errorf("%s in %s: the body is in the log %s", test.name, queue, log)
			}
		}
	}
}

// A hand-back spends no attempt. One that goes on is a warning, more and more seldom.
func TestLogOfHandBacks(t *testing.T) {
	t.Parallel()
	w := newWorld(t, handlers.Config{})
	var result error
	handlers.React(w.h, "audits", func(context.Context, Added) error { return result })
	for before, level := range map[int]string{0: "INFO", 6: "INFO", 7: "WARN", 8: "INFO", 14: "INFO", 15: "WARN", 23: "INFO", 31: "WARN"} {
		if result = handlers.Later(time.Minute, "no paper"); before%2 == 0 {
			result = storage.ErrUnavailable
		}
		w.log.Reset()
		d, err := w.h.Resolve("audits", envelope(channel.NewID(), "test.added.v1", `{}`))
		if err != nil {
			t.Fatal(err)
		}
		d.Envelope.HandBacks = before
		handlers.Handle(t.Context(), handlers.Group{}, []*handlers.Delivery{d})
		if log, want := w.log.String(), fmt.Sprintf("hand_backs=%d", before+1); !strings.Contains(log, want) || !strings.Contains(log, "level="+level) || strings.Contains(log, "attempt") {
			t.Errorf("after %d: want %s, %s and no attempt in the log %s", before, level, want, log)
		}
	}
}

// A handler that is cut off by its worker has spent no attempt, and is no warning; one that is too slow has.
func TestLogOfCutOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t, handlers.Config{})
	stopping := errors.New("the worker stops")
	var result func(ctx context.Context) error
	handlers.React(w.h, "audits", func(ctx context.Context, _ Added) error { return result(ctx) })
	for name, test := range map[string]struct {
		cause  error
		result func(ctx context.Context) error
		want   string
	}{
		"its error":   {stopping, func(ctx context.Context) error { return ctx.Err() }, "level=INFO"},
		"its cause":   {stopping, context.Cause, "level=INFO"},
		"another":     {stopping, func(context.Context) error { return errors.New("out of paper") }, "level=WARN"},
		"not cut off": {nil, func(context.Context) error { return context.Canceled }, "level=WARN"},
		"wrapped":     {stopping, func(ctx context.Context) error { return fmt.Errorf("paper: %w", ctx.Err()) }, "level=INFO"},
		"out of time": {context.DeadlineExceeded, func(context.Context) error { return errors.New("out of paper") }, "level=WARN"},
	} {
		result = test.result
		w.log.Reset()
		d, err := w.h.Resolve("audits", envelope(channel.NewID(), "test.added.v1", `{}`))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		if test.cause != nil {
			cancel(test.cause)
		}
		handlers.Handle(ctx, handlers.Group{}, []*handlers.Delivery{d})
		cancel(nil)
		if log := w.log.String(); !strings.Contains(log, test.want) {
			t.Errorf("%s: want %s in the log %s", name, test.want, log)
		}
	}
}

// Neither success nor a verdict of poison, which is the worker's to log.
func TestWhatIsNotLogged(t *testing.T) {
	t.Parallel()
	w := newWorld(t, handlers.Config{})
	w.decide()
	handlers.React(w.h, "audits", func(context.Context, Added) error { return handlers.Poison("never", nil) })
	send(w, Add{To: "ada", Amount: 5})
	w.mustDrain("accounts")
	if errs := w.drain("audits"); len(errs) != 1 {
		t.Errorf("got errors %v, want the verdict", errs)
	}
	if w.log.Len() > 0 {
		t.Errorf("got log %s", w.log)
	}
}
