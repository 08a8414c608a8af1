package guard_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/guard"
	"github.com/millrace-go/millrace/internal/handling/verdict"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/worker"
)

func quietLogger() *slog.Logger { return slog.New(slog.DiscardHandler) }

// All faults are reported at once. A guard that has some lets no worker start, and makes no call.
func TestFaultsOfAConfig(t *testing.T) {
	t.Parallel()
	g := guard.New("", guard.Config{
		Timeout: -2, Break: guard.Break{Rate: -1, Of: -1, Distinct: 1, Window: 1}, Probe: guard.Probe{First: -1, Most: 2 * time.Hour}, MaxAge: -1,
	})
	for _, want := range []string{"the name", "Timeout", "Break.Rate", "Break.Of", "Break.Distinct", "Break.Window", "Probe", "MaxAge"} {
		if err := g.Err(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want something about %s", err, want)
		}
	}
	if _, err := g.Limiter(t.Context(), worker.Consumer{}); err == nil {
		t.Error("a worker got a limiter")
	}
	err := g.Do(t.Context(), func(context.Context) error { t.Error("a call was made"); return nil })
	wantAction(t, "a call", err, verdict.HandBack)
	if err := guard.New("smtp", guard.Config{}).Err(); err != nil {
		t.Errorf("the zero Config: %v", err)
	}
	if err := guard.New("smtp\n", guard.Config{}).Err(); err == nil || !strings.Contains(err.Error(), "control characters") {
		t.Errorf("a name with a control character: %v", err)
	}
	if guard.Around[job](g, nil) != nil {
		t.Error("a reaction that is nil is not reported")
	}
}

// A handler that has any time leaves its calls their time.
func TestCallsOfAHandlerWithoutAnEnd(t *testing.T) {
	t.Parallel()
	g := guard.New("smtp", guard.Config{})
	for _, d := range []time.Duration{time.Hour, 50 * 365 * 24 * time.Hour, 290 * 365 * 24 * time.Hour} {
		ctx, cancel := context.WithTimeout(t.Context(), d)
		err := g.Do(ctx, func(ctx context.Context) error {
			if end, ok := ctx.Deadline(); !ok || time.Until(end) < 30*time.Second {
				t.Errorf("a handler of %v: its call has until %v", d, end)
			}
			return nil
		})
		if cancel(); err != nil {
			t.Errorf("a handler of %v: %v", d, err)
		}
	}
}

// A first probe that comes later than the last ones is a fault, in code as in live settings. A Most that nobody has set
// follows First.
func TestTheFirstProbeIsTheShortest(t *testing.T) {
	t.Parallel()
	for probe, want := range map[guard.Probe]string{
		{}:                                       "",
		{First: time.Minute}:                     "",
		{First: time.Minute, Most: time.Minute}:  "",
		{First: time.Hour, Most: time.Second}:    "Probe.First is 1h0m0s and Probe.Most 1s; want First to be the shorter one",
		{Most: 500 * time.Millisecond}:           "Probe.First is 1s and Probe.Most 500ms",
		{First: time.Minute, Most: -time.Second}: "Probe.Most -1s",
	} {
		g := guard.New("smtp", guard.Config{Probe: probe})
		if err := g.Err(); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%+v: got %v, want %q", probe, err, want)
		}
	}
	g := guard.New("smtp", guard.Config{Probe: guard.Probe{First: time.Minute}})
	worldtest.Want(t, "Most", g.Limits().Probe.Most, time.Minute)
}

// A queue whose messages are fetched and refused again and again, because it has no limiter of the guard, is told once.
func TestAQueueWithoutTheTurnIsTold(t *testing.T) {
	for name, limiter := range map[string]bool{"without": false, "with": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				log := worldtest.NewLog()
				g := guard.New("smtp", guard.Config{Logger: slog.New(log)})
				ctx := handling(t, id(1), 1)
				if limiter {
					queue, _ := wire.HandlingUnder(ctx)
					if _, err := g.Limiter(ctx, worker.Consumer{Queue: queue.Queue}); err != nil {
						t.Fatal(err)
					}
				}
				for range 3 {
					_ = g.Do(ctx, asks(60))
				}
				want := 1
				if limiter {
					want = 0
				}
				worldtest.Want(t, "lines that tell of it", log.Count("WARN messages are fetched", "guard=smtp"), want)
			})
		})
	}
}
