package operator

import (
	"testing"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/ops/catalog"
	"github.com/millrace-go/millrace/values"
)

// A plan and a collection of one name have the same documents. No registry has both, but two programs may.
func TestDoctorFindsAPlanWithTheNameOfACollection(t *testing.T) {
	t.Parallel()
	x := newTraveller(t, worldtest.OpenStore(t, ""))
	contains(t, "a plan", x.want(t, 0, "", "doctor"), "Nothing is wrong.")
	w := worldtest.NewBare(t, x.Store, handlers.Config{}, channel.Command[wish]("wishes"))
	trips := values.New(w.Channels, "trip", values.Config[int]{})
	handlers.Decide(w.Registry, trips, func(w wish) string { return w.For }, func(n int, _ wish) (int, []channel.Message, error) { return n + 1, nil, nil })
	if err := catalog.Publish(t.Context(), w.Registry, catalog.Program{Name: "counter", Version: "v1"}); err != nil {
		t.Fatal(err)
	}
	contains(t, "a collection, too", x.want(t, exitWrong, "", "doctor"), "WRONG trip is a collection of counter v1 and a plan of traveller v1: both write into the same documents", "1 thing is wrong.")
}
