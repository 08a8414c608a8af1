package operator

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/catalog"
	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/post"
	"github.com/millrace-go/millrace/internal/worldtest"
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
		want  string // of the findings
	}{
		{known: []catalog.Description{laned}},
		{known: []catalog.Description{laned, plain}, want: "2 messages wait in lanes that queue orders no longer has"},
	} {
		x := &call{known: knowledge{published: c.known}}
		var err error
		if x.store, err = channel.WithLanes(post.Inside{}, store, x.known.lanes()); err != nil {
			t.Fatal(err)
		}
		st, err := x.statsOf(t.Context(), []string{"orders"})
		if err != nil || st[0].Ready != 3 {
			t.Errorf("got %+v, %v; want 3 messages", st, err)
		}
		found, err := examination{x}.laneFindings(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var text []string
		for _, f := range found {
			text = append(text, f.Text)
		}
		if got := strings.Join(text, "; "); got != c.want {
			t.Errorf("found %q, want %q", got, c.want)
		}
	}
}
