package operator

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/millrace-go/millrace/internal/parttest"
	"github.com/millrace-go/millrace/ops/acts"
	"github.com/millrace-go/millrace/ops/audit"
)

// aBulkAct is the ID of an act.
const aBulkAct = "0198a5d0-0000-7000-8000-000000000001"

// A retry of all is an act that outlives its process: where that is killed, bulk resume does the rest, and where it is
// stopped, the act is paused. The list, and the audit log, tell how it ended.
func TestLawABulkActOutlivesItsProcess(t *testing.T) {
	parttest.InTurn(t)
	t.Parallel()
	const n = 1500
	w := newWorld(t, "")
	sent := w.poison(t, n, closed)
	w.want(t, 0, "bulk", "list")
	p := w.begin(t, "poison", "retry", "-all")
	w.sentBack(t, 200)
	p.Signal(t, syscall.SIGKILL)
	p.Wait(t)
	all := jsonLines[acts.Bulk](t, w.want(t, 0, "bulk", "list", "-json"))
	if len(all) != 1 || all[0].State != "running" || all[0].Messages != n || all[0].Settled == 0 || all[0].By != author() || all[0].Ended != nil {
		t.Fatalf("got %+v, want one that goes on", all)
	}
	id := all[0].ID

	q := w.begin(t, "bulk", "resume", id) // once the killed one counts as dead
	w.sentBack(t, 800)
	q.Signal(t, syscall.SIGINT)
	if code := q.Wait(t); code != 1 || !strings.Contains(q.Output(), "bulk resume "+id+" goes on") {
		t.Errorf("got exit code %d and %s", code, q.Output())
	}
	if r := w.want(t, 0, "bulk", "list"); !strings.Contains(r.out, "paused") || !strings.Contains(r.out, "poison retry --all") {
		t.Errorf("got %s, want it paused", r.out)
	}
	if r := w.want(t, 0, "bulk", "resume", id, "-why", "go on"); !strings.Contains(r.out, fmt.Sprintf("Sent back %d of %d messages.", n, n)) {
		t.Errorf("got %s", r.out)
	}
	for _, verb := range []string{"pause", "resume", "cancel"} {
		if r := w.run(t, "bulk", verb, id); r.code != 1 || !strings.Contains(r.err, "has ended") {
			t.Errorf("%s: got exit code %d and %q", verb, r.code, r.err)
		}
	}
	w.want(t, 3, "bulk", "show", aBulkAct)
	w.want(t, 1, "bulk", "show", "no-id")
	if st, err := w.store.Queue("reservations").Stats(t.Context()); err != nil || st.Ready != n {
		t.Errorf("got %+v, %v, want %d sent back", st, err, n)
	}
	w.work(t, nil)
	w.drained(t)
	w.audit(t, sent)
	for _, e := range jsonLines[audit.Entry](t, w.want(t, 0, "audit", "list", "-json")) {
		if e.ID == id && (!e.Done() || e.Failed || e.Result != fmt.Sprintf("Sent back %d of %d messages.", n, n)) {
			t.Errorf("the audit log has %+v", e)
		}
	}
}
