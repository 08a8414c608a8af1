package cost_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/millrace-go/millrace/ops/cost"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/azure"
	"github.com/millrace-go/millrace/storage/driver"
	"github.com/millrace-go/millrace/storage/sqlite"
)

// counted is a store with its own tally.
type counted struct {
	driver.Store
	*driver.Tally
}

func (c counted) Requests() []storage.Requests { return c.Tally.Requests() }

func newCounted(t *testing.T) *storage.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "c.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	c := counted{s.Driver(), new(driver.Tally)}
	for range 20 {
		c.Add(storage.Request{Op: "send", Kind: "queue", Target: "jobs", Class: "queue write"}, false)
	}
	c.Add(storage.Request{Op: "receive", Kind: "queue", Target: "jobs", Class: "queue write"}, true)
	for range 10 {
		c.Add(storage.Request{Op: "put", Kind: "blob", Target: "capacity", Class: "blob write"}, false)
	}
	return storage.New(c)
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
  requests                 EUR                   class
        10            0.000500              blob write
             at least 0.000500                  in all
            at least 50.000000  for a million commands
There is no price for: queue write.
`
	if got := b.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	b.Reset()
	prices.Per10000["queue write"] = 0.1
	if err := cost.Summary(&b, newCounted(t), 1, "command handled", prices); err != nil || strings.Contains(b.String(), "at least") ||
		!strings.HasPrefix(b.String(), "31 storage requests for 1 command handled: 31.00 a command\n") || !strings.Contains(b.String(), "for a million commands\n") {
		t.Errorf("with all prices: %q, %v", b.String(), err)
	}
	b.Reset()
	if err := cost.Summary(&b, newCounted(t), 0, "command", nil); err != nil || !strings.HasPrefix(b.String(), "31 storage requests for 0 commands: none to share them\n") {
		t.Errorf("without work: %q, %v", b.String(), err)
	}
}

// If a store's engine bills nothing, its summary shows no money.
func TestSummaryWithoutABill(t *testing.T) {
	t.Parallel()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "c.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	prices := &cost.Prices{Currency: "EUR", Per10000: map[string]float64{"blob read": 1}}
	var b strings.Builder
	if err := cost.Summary(&b, s, 0, "command", prices); err != nil || b.String() != "" {
		t.Errorf("without requests: got %q, %v, want nothing", b.String(), err)
	}
	_, _ = s.Blobs("docs").Get(t.Context(), "k", "")
	b.Reset()
	if err := cost.Summary(&b, s, 1, "command", prices); err != nil || !strings.HasPrefix(b.String(), "1 storage request for 1 command: 1.00 a command\n") || strings.Contains(b.String(), "EUR") {
		t.Errorf("got %q, %v; want requests and no money", b.String(), err)
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
	for text, wants := range map[string][]string{
		"":                                    {"want JSON like"},
		"{}":                                  {"currency", "prices are missing"},
		`{"currency": "EUR", "per10000": {}}`: {"prices are missing"},
		`{"per10000": {"blob write": 1}}`:     {`"currency": "EUR"`},
		`{"curency": "EUR", "per10000": {"blob write": 1}}`:                    {`"curency"`},
		`{"currency": "EUR", "per1000": {"blob write": 1}}`:                    {`"per1000"`},
		`{"currency": "EUR", "per10000": {"blob write": -1}}`:                  {`"blob write": want a price of 0 or more`},
		`{"currency": "EUR", "per10000": {"blob write": null}}`:                {`"blob write": want a price of 0 or more`},
		`{"currency": "EUR", "per10000": {"blob wirte": 1, "blobs write": 2}}`: {`"blob wirte"`, `"blobs write"`, "queue read", "table batch"},
		`{"currency": "EUR", "per10000": {"blob write": 1}} {}`:                {"unexpected text after the prices"},
	} {
		p, err := cost.ReadPrices(strings.NewReader(text))
		for _, want := range wants {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, %v; want it to say %s", text, p, err, want)
			}
		}
	}
}

// The price file in the docs can be read, and has all classes and no other.
func TestPriceFileInTheDocs(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/operating.md")
	if err != nil {
		t.Fatal(err)
	}
	example := regexp.MustCompile("(?s)```json\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(example) != 1 {
		t.Fatalf("got %d examples in JSON, want the price file", len(example))
	}
	p, err := cost.ReadPrices(strings.NewReader(example[0][1]))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := slices.Sorted(maps.Keys(p.Per10000)), slices.Sorted(slices.Values(cost.Classes())); !slices.Equal(got, want) {
		t.Errorf("got prices for %q, want %q", got, want)
	}
}

// The driver bills each of its requests as a class that can have a price, and no other class can have one.
func TestClassesAreTheDrivers(t *testing.T) {
	t.Parallel()
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("x-ms-error-code", "InvalidInput") // refused, and so not repeated
		w.WriteHeader(http.StatusBadRequest)
	}))
	defer service.Close()
	ctx := t.Context()
	s, err := azure.Open(ctx, fmt.Sprintf("AccountName=a;AccountKey=a2V5;QueueEndpoint=%[1]s/a;BlobEndpoint=%[1]s/a;TableEndpoint=%[1]s/a", service.URL))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	q, b, table := s.Queue("jobs"), s.Blobs("docs"), s.Table("rows")
	_ = q.Send(ctx, []storage.Message{{}})
	_, _ = q.Receive(ctx, 1, time.Second)
	_, _ = q.Stats(ctx)
	_, _ = b.Get(ctx, "k", "")
	_, _ = b.Put(ctx, "k", nil, storage.Condition{})
	_ = b.Delete(ctx, "k", storage.Condition{})
	for range b.List(ctx, "") {
	}
	_, _ = table.Get(ctx, "p", "k")
	_, _ = table.Put(ctx, "p", "k", nil, storage.Condition{})
	_ = table.Delete(ctx, "p", "k", storage.Condition{})
	for range table.Query(ctx, "p", storage.RowRange{}) {
	}
	_ = table.PutRows(ctx, "p", []storage.RowPut{{Key: "k"}, {Key: "l"}})

	var got []string
	for _, r := range s.Requests() {
		got = append(got, r.Class)
	}
	slices.Sort(got)
	if got, want := slices.Compact(got), slices.Sorted(slices.Values(cost.Classes())); !slices.Equal(got, want) {
		t.Errorf("got classes %q, want %q", got, want)
	}
}

func TestMetricsOfTellings(t *testing.T) {
	t.Parallel()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "c.db")+"?wake=off")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	h, err := s.Subscribe(t.Context(), "signals", func(_ []byte, most int) int { return 2 })
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	for range 3 {
		if n, err := s.Publish(t.Context(), "signals", []byte("x"), false); n != 2 || err != nil {
			t.Errorf("heard by %d, %v", n, err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Publish(ended, "signals", nil, false); err == nil {
		t.Error("told under a context that has ended")
	}
	const want = `# HELP millrace_publications_total What was published to those that subscribe to a topic, in this process and in others.
# TYPE millrace_publications_total counter
millrace_publications_total{topic="signals",what="failed"} 0
millrace_publications_total{topic="signals",what="received"} 6
millrace_publications_total{topic="signals",what="taken"} 6
millrace_publications_total{topic="signals",what="published"} 3
`
	if err := testutil.CollectAndCompare(cost.Collector(s), strings.NewReader(want), "millrace_publications_total"); err != nil {
		t.Error(err)
	}
}
