package catalog_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/ops/catalog"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// The past adds up to what the workers have done, whether it is read at once or bit by bit. A row is counted once, and
// the store is asked once in ten seconds at most.
func TestHistoryAddsUp(t *testing.T) {
	virtual(t, func(t *testing.T, s *storage.Store) {
		var queries atomic.Int64
		s = storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
			if strings.Contains(fmt.Sprint(op), "pulse") {
				queries.Add(1)
			}
			return do()
		})
		w := newWorld(t, s)
		stop := w.work(t, s, catalog.ReporterConfig{})
		var bits catalog.History
		out := func(h *catalog.History) (sum float64) {
			spans, since, err := h.Read(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range spans {
				if x.Begin.Before(since) {
					t.Errorf("%v is before %v", x.Begin, since)
				}
				sum += x.Queues["jobs"].Out
			}
			return sum
		}
		for i := range 100 {
			worldtest.Send(w.World, job{Name: fmt.Sprint("job", i)})
			time.Sleep(2 * time.Minute)
			out(&bits)
		}
		stop()
		time.Sleep(3 * time.Minute)
		for name, h := range map[string]*catalog.History{"bit by bit": &bits, "at once": {}} {
			if got := out(h); math.Abs(got-100) > 0.01 {
				t.Errorf("%s: got %v messages, want 100", name, got)
			}
		}
		before := queries.Load()
		out(&bits)
		worldtest.Want(t, "queries within ten seconds", queries.Load()-before, 0)
		time.Sleep(25 * time.Hour)
		if got := out(&bits); got != 0 {
			t.Errorf("got %v messages a day later, want 0", got)
		}
	})
}
