package operator

import (
	"strings"
	"testing"

	"github.com/millrace-go/millrace/ops/acts"
	"github.com/millrace-go/millrace/sample/reservations"
	"github.com/millrace-go/millrace/storage/azure"
	"github.com/millrace-go/millrace/storage/azure/azuretest"
)

// The same verbs work on Azurite.
func TestOnAzurite(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "azure:"+azuretest.Place(t, azuretest.Launch, azure.Wipe))
	sent := w.poison(t, 12, closed)
	queue := map[string]acts.Queue{}
	for _, q := range jsonLines[acts.Queue](t, w.want(t, 0, "queues", "-json")) {
		queue[q.Queue] = q
	}
	if q := queue["reservations"]; q.Poison != 12 || *q.Ready != 0 || len(queue) != 8 {
		t.Errorf("queues: got %d, and %+v", len(queue), q)
	}
	id := reservations.Key(sent[0].ID)
	if r := w.want(t, 0, "poison", "show", id, "-reveal", "-why", "x"); !strings.Contains(r.out, sent[0].Email) {
		t.Errorf("show: got %s", r.out)
	}
	if got := len(jsonLines[acts.Poisoned](t, w.want(t, 0, "poison", "list", "-json"))); got != 12 {
		t.Errorf("list: got %d, want 12", got)
	}
	w.want(t, 0, "poison", "retry", "-id", id)
	w.want(t, 0, "poison", "retry", "-all")
	stop := w.work(t, nil)
	w.drained(t)
	w.audit(t, sent)
	stop()
	line := jsonLines[acts.Document](t, w.want(t, 0, "values", "show", "capacity", sent[0].Date, "-json"))
	if len(line) != 1 || line[0].Version < 1 || line[0].Remembered != int(line[0].Version) || len(line[0].Pending) == 0 || line[0].Pending[0].Events != 1 {
		t.Errorf("values show: got %+v; want its events pending: this engine is not atomic", line)
	}
	w.want(t, 0, "views", "rebuild", "months", "-clear")
	w.want(t, 3, "poison", "show", id)
}
