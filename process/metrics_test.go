package process_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/millracetest"
	"github.com/millrace-go/millrace/process"
)

// gathered are the metrics that are not 0, in words.
func gathered(t *testing.T, r *prometheus.Registry) string {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := strings.TrimPrefix(f.GetName(), "millrace_process_")
			for _, l := range m.GetLabel() {
				if l.GetName() != "plan" {
					name += " " + l.GetValue()
				}
			}
			if v := m.GetCounter().GetValue() + m.GetGauge().GetValue(); v != 0 {
				all[name] = v
			}
		}
	}
	var words []string
	for _, k := range slices.Sorted(maps.Keys(all)) {
		words = append(words, fmt.Sprintf("%s: %v", k, all[k]))
	}
	return strings.Join(words, ", ")
}

// Each run of an agent counts, and each instance that has ended counts once. A sweep counts those that have not.
func TestMetrics(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	program := millracetest.Program{
		Routes: func() (*channel.Routes, error) {
			return channel.NewRoutes(process.Route("tour"), process.Route("trip"))
		},
		Register: func(h *handlers.Registry) error {
			build := func(p *process.Plan[tour]) {
				process.Do(p, "book", func(ctx context.Context, s tour) (int, error) {
					switch {
					case s.Fail == "never":
						return 0, handlers.Poison("no", errors.New("no"))
					case s.Fail == "refused":
						return 0, process.Refuse(errors.New("no"))
					case process.Attempt(ctx) == 1:
						return 0, errors.New("busy")
					}
					return 1, nil
				}, nil).Undo(func(context.Context, tour, int) error { return nil })
				process.Wait[tour, ready](p, "end", nil)
			}
			return errors.Join(process.Register(h, "tour", process.Metrics(registry), process.Version(1, build)), process.Register(h, "trip", process.Version(1, build), process.Metrics(registry)))
		},
	}
	millracetest.Run(t, program, func(t *testing.T, app *millracetest.App) {
		l, err := process.Look(app.Store(), "tour", "/test")
		if err != nil {
			t.Fatal(err)
		}
		b := &booklet{t, app, l, process.Open[tour](app.Channels(), "tour")}
		b.signal("t1") // early, and one of the two is never heard
		b.signal("t1")
		b.start(tour{ID: "t1"})
		b.start(tour{ID: "t2", Fail: "never"})
		b.start(tour{ID: "t3", Fail: "refused"})
		b.start(tour{ID: "t4"})
		b.start(tour{ID: "t5"})
		app.Advance(10 * time.Second)
		if err := b.tours.Cancel(t.Context(), "t4", "ada", ""); err != nil {
			t.Fatal(err)
		}
		app.Drain()
		const counted = "attempts failed: 3, attempts never: 1, attempts ok: 3, attempts refused: 1, attempts undone: 1, ended aborted: 2, ended canceled: 1, ended completed: 1, surprises unheard: 1"
		want := strings.ReplaceAll(counted, "attempts ", "attempts_total ")
		want = strings.ReplaceAll(want, "ended ", "ended_total ")
		want = strings.ReplaceAll(want, "surprises ", "surprises_total ")
		if got := gathered(t, registry); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		app.Advance(12 * time.Minute)
		if got := gathered(t, registry); got != strings.Replace(want, "surprises", "open inprocess: 1, surprises", 1) {
			t.Errorf("after a sweep: got  %s\nwant %s, and open inprocess: 1", got, want)
		}
		app.Stop()
		pause(t.Context(), 20*time.Minute)
		if got := gathered(t, registry); got != want {
			t.Errorf("long after a sweep: got  %s\nwant %s", got, want)
		}
	})
}

// Names that somebody else has registered are a fault.
func TestMetricsOfSomebodyElse(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "millrace_process_ended_total", Help: "mine"}))
	h := worldtest.NewBare(t, worldtest.OpenStore(t, ""), handlers.Config{}, process.Route("tour")).Registry
	err := process.Register(h, "tour", process.Metrics(registry), process.Version(1, func(p *process.Plan[tour]) { process.Sleep(p, "rest", time.Hour) }))
	if err == nil || !strings.Contains(err.Error(), "millrace_process_ended_total") {
		t.Errorf("got error %v", err)
	}
}
