package guard_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/millrace-go/millrace/guard"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/worker"
)

// A guard counts its calls by their ends, and those that it refuses by why. Two consumers show the metrics once.
func TestMetrics(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := prometheus.NewPedanticRegistry()
		s := worldtest.OpenStore(t, worldtest.Virtual)
		g := once(guard.New("smtp", guard.Config{Logger: quietLogger(), Metrics: r}))
		var limiters []worker.Limiter
		for range 2 {
			limiter, err := g.Limiter(t.Context(), worker.Consumer{Store: s, Metrics: r})
			if err != nil {
				t.Fatal(err)
			}
			limiters = append(limiters, limiter)
		}
		_ = g.Do(handling(t, id(1), 1), ends(nil))
		trip(t, g) // by 19 calls, for half of 20 are enough
		_ = g.Do(handling(t, id(1), 1), ends(nil))
		want := `
# HELP millrace_guard_alone 1 while the breaker is open by this process's own calls, and not for the others; else 0.
# TYPE millrace_guard_alone gauge
millrace_guard_alone{guard="smtp"} 1
# HELP millrace_guard_calls_total Calls of the service, by the kind of their end.
# TYPE millrace_guard_calls_total counter
millrace_guard_calls_total{guard="smtp",kind="done"} 1
millrace_guard_calls_total{guard="smtp",kind="mine"} 0
millrace_guard_calls_total{guard="smtp",kind="permanent"} 0
millrace_guard_calls_total{guard="smtp",kind="throttled"} 0
millrace_guard_calls_total{guard="smtp",kind="transient"} 19
millrace_guard_calls_total{guard="smtp",kind="unknown"} 0
# HELP millrace_guard_open 1 while the breaker lets no call through, or only a probe; else 0.
# TYPE millrace_guard_open gauge
millrace_guard_open{guard="smtp"} 1
# HELP millrace_guard_opened_total Outages: how often the breaker has opened after it was closed.
# TYPE millrace_guard_opened_total counter
millrace_guard_opened_total{guard="smtp"} 1
# HELP millrace_guard_refused_total Calls that were not made, by why: breaker, rate, slots or adaptive.
# TYPE millrace_guard_refused_total counter
millrace_guard_refused_total{guard="smtp",why="adaptive"} 0
millrace_guard_refused_total{guard="smtp",why="breaker"} 2
millrace_guard_refused_total{guard="smtp",why="rate"} 0
millrace_guard_refused_total{guard="smtp",why="slots"} 0
`
		if err := testutil.GatherAndCompare(r, strings.NewReader(want)); err != nil {
			t.Error(err)
		}
		if c := g.Counts(); c.Failed != 19 || c.Opened != 1 || c.Alone.IsZero() {
			t.Errorf("got %+v, want 19 failures, and one outage that the others don't know of", c)
		}
		for _, limiter := range limiters {
			if err := limiter.Leave(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}
