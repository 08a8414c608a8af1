package cost_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/millrace-go/millrace/cost"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/sqlite"
)

// counted is a store with a meter of its own.
type counted struct {
	storage.Store
	storage.Tally
}

func newCounted(t *testing.T) *counted {
	t.Helper()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "c.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	c := &counted{Store: s}
	for range 20 {
		c.Add(storage.Request{Op: "send", Kind: "queue", Target: "jobs", Class: "queue write"}, false)
	}
	c.Add(storage.Request{Op: "receive", Kind: "queue", Target: "jobs", Class: "queue write"}, true)
	for range 10 {
		c.Add(storage.Request{Op: "put", Kind: "blob", Target: "capacity", Class: "blob write"}, false)
	}
	return c
}

func TestSummary(t *testing.T) {
	t.Parallel()
	prices, err := cost.ReadPrices(strings.NewReader(`{"currency": "EUR", "per10000": {"blob write": 0.5}}`))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := cost.Summary(&b, newCounted(t), 10, "command", prices); err != nil {
		t.Fatal(err)
	}
	const want = `31 storage requests for 10 commands: 3.10 a command
  requests  for each command       what             of
        20              2.00       send     queue jobs
        10              1.00        put  blob capacity
         1              0.10    receive     queue jobs
         1              0.10  throttled               
  requests        EUR                   class
        10   0.000500              blob write
             0.000500                  in all
            50.000000  for a million commands
No price is known for: queue write.
`
	if got := b.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	b.Reset()
	if err := cost.Summary(&b, newCounted(t), 0, "command", nil); err != nil || !strings.HasPrefix(b.String(), "31 storage requests for 0 commands: none to share them\n") {
		t.Errorf("without work: %q, %v", b.String(), err)
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	const want = `# HELP millrace_storage_requests_total Requests to the store's engine.
# TYPE millrace_storage_requests_total counter
millrace_storage_requests_total{class="blob write",kind="blob",op="put",target="capacity"} 10
millrace_storage_requests_total{class="queue write",kind="queue",op="receive",target="jobs"} 1
millrace_storage_requests_total{class="queue write",kind="queue",op="send",target="jobs"} 20
`
	if err := testutil.CollectAndCompare(cost.Collector(newCounted(t)), strings.NewReader(want), "millrace_storage_requests_total"); err != nil {
		t.Error(err)
	}
}

func TestPriceFilesThatAreWrong(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "{}", `{"per10000": {}}`, `{"per10000": {"blob write": -1}}`, `{"per1000": {"blob write": 1}}`, `{"per10000": {"blob write": 1}} {}`} {
		if p, err := cost.ReadPrices(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), "per10000") {
			t.Errorf("%s: got %v, %v", text, p, err)
		}
	}
}
