package spool

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/millrace-go/millrace/internal/worldtest"
)

// The metrics are those of an open spool: a registry has them once at a time, and again when a program opens its spool
// again.
func TestMetricsEndWithTheSpool(t *testing.T) {
	t.Parallel()
	c, r := channelsOver(t, worldtest.OpenStore(t, worldtest.Virtual), routes(t)), prometheus.NewRegistry()
	dir := t.TempDir()
	count := func() int {
		t.Helper()
		n, err := testutil.GatherAndCount(r)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for range 2 {
		s, err := Open(t.Context(), filepath.Join(dir, "web.spool"), c, Config{Metrics: r})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Open(t.Context(), filepath.Join(dir, "other.spool"), c, Config{Metrics: r}); err == nil || !strings.Contains(err.Error(), "another spool") {
			t.Errorf("got %v, want that the registry has the metrics of another spool", err)
		}
		if got := count(); got != 8 {
			t.Errorf("%d metrics of an open spool, want 8", got)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if got := count(); got != 0 {
			t.Errorf("%d metrics of a closed spool, want none", got)
		}
	}
}
