package operator

import (
	"testing"

	"github.com/millrace-go/millrace/coord/signal"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/ops/acts"
)

// A signal reaches all that wait for it, or one of them, and it is told how many have taken it.
func TestSignals(t *testing.T) {
	t.Parallel()
	x := newStranger(t, worldtest.OpenStore(t, ""))
	contains(t, "nobody", x.want(t, 3, "", "signals", "send", "reload"), `no program waits for "reload"`)
	x.want(t, 1, "", "signals", "send", "no name")
	var all []*signal.Listener
	for range 2 {
		l, err := signal.Listen(t.Context(), x.Store, "reload.*")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		all = append(all, l)
	}
	contains(t, "all", x.want(t, 0, "", "signals", "send", "reload.prices", "-data", "now"), "Signal reload.prices was taken by 2 listeners.")
	if got := oneLine[acts.SignalSent](t, x.want(t, 0, "", "signals", "send", "reload.x", "-one", "-json")); got != (acts.SignalSent{Name: "reload.x", Taken: 1}) {
		t.Errorf("one: got %+v", got)
	}
	ones := 0
	for _, l := range all {
		if s, ok, err := l.Try(); !ok || err != nil || s.Name != "reload.prices" || string(s.Data) != "now" {
			t.Errorf("got %+v, %v, %v", s, ok, err)
		}
		if s, ok, _ := l.Try(); ok && s.Name == "reload.x" {
			ones++
		}
	}
	if ones != 1 {
		t.Errorf("%d listeners took the signal for one", ones)
	}
}
