package worker_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/values"
	"github.com/millrace-go/millrace/views"
	"github.com/millrace-go/millrace/worker"
)

// flip is a command that turns a switch; its events take each other back.
type flip struct {
	Switch string `json:"switch"`
}

func (flip) Kind() channel.Kind { return "test.flip.v1" }

type flipped struct {
	Switch string `json:"switch"`
	On     bool   `json:"on"`
}

func (flipped) Kind() channel.Kind { return "test.flipped.v1" }

// Events of one source that arrive in any order, and more than once, leave the view at the newest.
func TestLatestBearsAnyOrder(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		w := newBare(t, s, channel.Command[flip]("flips"), channel.Event[flipped]("lamps"))
		switches := values.New(w.Channels, "switches", values.Config[bool]{})
		lamps := views.New(w.Channels, "lamps", views.Config[bool]{})
		handlers.Decide(w.Registry, switches, func(c flip) string { return c.Switch }, func(on bool, c flip) (bool, []channel.Message, error) {
			return !on, []channel.Message{flipped{c.Switch, !on}}, nil
		}, flipped{})
		views.Latest(w.Registry, lamps, func(e flipped) string { return e.Switch }, func(_ bool, e flipped) bool { return e.On })

		for seed := range uint64(6) {
			r := rand.New(rand.NewPCG(seed, 1))
			for range 5 + seed%2 {
				worldtest.Send(w.World, flip{"a"})
			}
			decide := w.Start(worker.Config{Consume: []string{"flips"}})
			for st := stats(t, s, "flips"); st.Ready+st.InFlight > 0; st = stats(t, s, "flips") {
				time.Sleep(100 * time.Millisecond)
			}
			if err := decide(); err != nil {
				t.Fatal(err)
			}
			shuffle(t, s.Queue("lamps"), r)
			project := w.Start(worker.Config{Consume: []string{"lamps"}, Concurrency: 1 + r.IntN(4)})
			w.empty(t, 100*time.Millisecond)
			if err := project(); err != nil {
				t.Fatal(err)
			}
			want, err := switches.Get(t.Context(), "a", "")
			if err != nil {
				t.Fatal(err)
			}
			if got, _, err := lamps.GetFresh(t.Context(), "a"); err != nil || got != want.Value {
				t.Errorf("seed %d: lamp: got %v, %v; want %v", seed, got, err, want.Value)
			}
		}
	})
}

// shuffle takes all messages out of a queue and sends them again in another order, some twice.
func shuffle(t *testing.T, q *storage.Queue, r *rand.Rand) {
	t.Helper()
	var all []storage.Message
	ctx := context.Background()
	ds, err := q.Receive(ctx, 500, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range ds {
		for range 1 + r.IntN(2) {
			all = append(all, storage.Message{Body: d.Body, Delay: time.Duration(r.IntN(3)) * time.Second})
		}
		if err := q.Delete(ctx, []storage.Receipt{d.Receipt}); err != nil {
			t.Fatal(err)
		}
	}
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	if err := q.Send(ctx, all); err != nil {
		t.Fatal(err)
	}
}
