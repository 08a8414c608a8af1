package doctor

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/catalog"
	"github.com/millrace-go/millrace/ops/internal/known"
	"github.com/millrace-go/millrace/ops/internal/look"
	"github.com/millrace-go/millrace/storage"
)

// A queue with lanes is counted as one, also by a binary that knows of the lanes only what programs have published.
// Messages in lanes that no version looks into any more are found.
func TestLanesAreCountedTogether(t *testing.T) {
	t.Parallel()
	store := worldtest.OpenAt(t, filepath.Join(t.TempDir(), "test.db"))
	for _, name := range []string{"orders", "orders-lane-3", "orders-slow"} {
		if err := store.Queue(name).Send(t.Context(), []storage.Message{{Body: []byte("m")}}); err != nil {
			t.Fatal(err)
		}
	}
	laned, plain := described("shop", "v1", time.Hour, "a", "a"), described("shop", "v2", 0, "a", "a")
	laned.Queues[0].Lanes = 8
	for _, c := range []struct {
		known []catalog.Description
		more  string // a queue that a program has
		ready int64
		want  string // of the findings
		fix   string
	}{
		{known: []catalog.Description{laned}, ready: 3},
		{known: []catalog.Description{laned, plain}, ready: 3, want: "2 messages wait in lanes that queue orders no longer has", fix: `channel.Lanes("orders", 1)`},
		{known: []catalog.Description{plain}, ready: 1, want: "2 messages wait in lanes that queue orders no longer has", fix: `channel.Lanes("orders", 1)`}, // it has the version of the one before
		{known: []catalog.Description{plain}, more: "orders-slow", ready: 1, want: "1 message waits in lanes that queue orders no longer has", fix: `channel.Lanes("orders", 1)`},
	} {
		desk := &act.Desk{Known: &known.Programs{Published: c.known, Queues: map[string]bool{"orders": true}}}
		if c.more != "" {
			desk.Known.Queues[c.more] = true
		}
		var err error
		if desk.Store, err = wire.WithLanes(store, desk.Known.Lanes()); err != nil {
			t.Fatal(err)
		}
		st, err := look.Stats(t.Context(), desk, []string{"orders"})
		if err != nil || st[0].Ready != c.ready {
			t.Errorf("got %+v, %v; want %d messages", st, err, c.ready)
		}
		found, err := laneFindings(t.Context(), desk)
		if err != nil {
			t.Fatal(err)
		}
		var text []string
		for _, f := range found {
			text = append(text, f.Text)
			if !strings.Contains(f.Fix, c.fix) {
				t.Errorf("got %q, want %s", f.Fix, c.fix)
			}
		}
		if got := strings.Join(text, "; "); got != c.want {
			t.Errorf("found %q, want %q", got, c.want)
		}
	}
}
