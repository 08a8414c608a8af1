package process_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/process"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/worker"
)

// Where each call of the store is a request, as on Azure, a step of a sequence costs eight at most. It has two
// messages, each with a send and a deletion, and two writes at most; the rest is its share of the start, the end, the
// alarm and the index. Receives are left out: each takes up to 32 messages, and where nothing waits they cost the same
// without steps.
func TestRequestsOfAStep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const instances, steps, most = 100, 10, 8
		var calls storagetest.Calls
		s := storagetest.Intercept(storagetest.Plain(worldtest.OpenStore(t, worldtest.Virtual)), calls.Hook)
		w := worldtest.NewBare(t, s, handlers.Config{}, process.Route("costs"))
		plan := func(p *process.Plan[order]) {
			for i := range steps {
				process.Do(p, fmt.Sprint("step ", i), func(context.Context, order) (string, error) { return "done", nil }, nil)
			}
		}
		if err := process.Register(w.Registry, "costs", process.Version(1, plan)); err != nil {
			t.Fatal(err)
		}
		stop := w.Start(worker.Config{})
		time.Sleep(time.Minute)
		before := calls.Count()
		orders := process.Open[order](w.Channels, "costs")
		for i := range instances {
			if err := orders.Start(t.Context(), fmt.Sprint("o", i), order{ID: fmt.Sprint("o", i)}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(30 * time.Second)
		spent, all := map[string]int{}, 0
		for _, op := range calls.Ops()[before:] {
			if !strings.HasPrefix(op.Name, "receive") {
				spent[op.Name]++
				all++
			}
		}
		for _, i := range []int{0, instances - 1} {
			if x, err := orders.Get(t.Context(), fmt.Sprint("o", i)); err != nil || x.Status != process.Completed {
				t.Errorf("got %+v, %v, want that it has ended", x, err)
			}
		}
		if a := float64(all) / (instances * steps); a > most {
			t.Errorf("a step costs %.2f requests, want %d at most", a, most)
		}
		for _, name := range slices.Sorted(maps.Keys(spent)) {
			t.Logf("%.2f %s for each step", float64(spent[name])/(instances*steps), name)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}
