package azure

import (
	"errors"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/azure/azuretest"
	"github.com/millrace-go/millrace/storage/storagetest"
)

var azurite = sync.OnceValues(azuretest.Launch)

// testURL returns a place, without its "azure:", that no other test uses.
func testURL(t *testing.T) string {
	t.Helper()
	return azuretest.Place(t, azurite, Wipe)
}

// opened is a store and the driver beneath it.
type opened struct {
	*storage.Store
	d *store
}

func openStore(t *testing.T, url string) *opened {
	t.Helper()
	return openBy(t, url, nil)
}

func openBy(t *testing.T, url string, wrap func(policy.Transporter) policy.Transporter) *opened {
	t.Helper()
	d := must[*store](t)(open(t.Context(), url, wrap))
	t.Cleanup(func() { d.Close() })
	return &opened{storage.New(d), d}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	cfg := storagetest.Driver(Open, func(t *testing.T) string { return azuretest.WithPrefix(testURL(t)) })
	cfg.Precision, cfg.Short, cfg.Repeats, cfg.Parallel, cfg.Patience = time.Second, true, true, 8, 30*time.Second
	cfg.Peeks, cfg.Files = true, true
	storagetest.Run(t, cfg)
}

// TestSweep tests nothing: it removes the remains of killed tests from a real account. scripts/test-azure.sh calls
// it last.
func TestSweep(t *testing.T) {
	account, run := os.Getenv(azuretest.EnvAccount), os.Getenv(azuretest.EnvRun)
	if account == "" || len(run) != 5 {
		return // not a run on a real account; CI takes a skipped test for a missing tool
	}
	noError(t, openStore(t, account).d.wipe(t.Context(), run))
}

// An error of Wipe tells no secret, and says what to check.
func TestWipeFails(t *testing.T) {
	t.Parallel()
	err := Wipe(t.Context(), "BlobEndpoint=http://127.0.0.1:1/b;QueueEndpoint=http://127.0.0.1:1/q;TableEndpoint=http://127.0.0.1:1/t;SharedAccessSignature=sv=1&sig=SECRET?prefix=shop")
	if !errors.Is(err, storage.ErrUnavailable) || !strings.Contains(err.Error(), "nothing listens there") || strings.Contains(err.Error(), "SECRET") || strings.Contains(err.Error(), "http:") {
		t.Errorf("got %v; want that nothing listens there, and no address", err)
	}
}

// Wipe's requests are repeated like any others, and a deletion whose answer was lost counts as done.
func TestDisturbedWipe(t *testing.T) {
	t.Parallel()
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		s, f := disturbedAt(t, azuretest.Shared(t, azurite).Account(t).ConnectionString()+"?prefix=shop")
		received(t, s)
		for _, kind := range []string{"blob", "row"} {
			must[storage.ETag](t)(docsOf(s)[kind].put(t, "x", storage.Condition{}))
		}
		hit := map[string]bool{}
		f.arm(aimed{fault: named("answer lost"), always: true, choose: func(req *http.Request) bool { // the first of each service
			first := req.Method == method && !hit[req.URL.Host]
			hit[req.URL.Host] = hit[req.URL.Host] || first
			return first
		}})
		noError(t, s.d.wipe(t.Context(), "shop"))
		if log, _ := f.made(); len(log) != 9 || len(hit) != 3 {
			t.Errorf("%s: %q; want two requests for each service, and one more", method, log)
		}
		for _, kind := range []string{"blob", "row"} {
			if got, _, err := docsOf(s)[kind].get(t); !errors.Is(err, storage.ErrNotFound) {
				t.Errorf("%s: the %s holds %q, %v", method, kind, got, err)
			}
		}
	}
}

// A test on a real account wipes exactly its own queues, containers and tables.
func TestWipe(t *testing.T) {
	t.Parallel()
	account := azuretest.Shared(t, azurite).Account(t).ConnectionString()
	for _, prefix := range []string{"onez", "onezb"} {
		s := openStore(t, account+"?prefix="+prefix)
		received(t, s)
		for _, kind := range []string{"blob", "row"} {
			must[storage.ETag](t)(docsOf(s)[kind].put(t, prefix, storage.Condition{}))
		}
	}
	if err := Wipe(t.Context(), account); err == nil {
		t.Error("all of an account is wiped")
	}
	noError(t, Wipe(t.Context(), account+"?prefix=onez"))
	for prefix, want := range map[string]bool{"onez": false, "onezb": true} {
		s := openStore(t, account+"?prefix="+prefix)
		_, _, err := docsOf(s)["row"].get(t)
		_, _, err2 := docsOf(s)["blob"].get(t)
		st, err3 := s.Queue("jobs").Stats(t.Context())
		if (err == nil) != want || (err2 == nil) != want || err3 != nil || (st.InFlight != 0) != want {
			t.Errorf("prefix %s: %v, %v, %+v, %v; want it left: %v", prefix, err, err2, st, err3, want)
		}
	}
}

// Without a prefix, nobody can tell which queues of an account belong to the place.
func TestQueuesWithoutAPrefix(t *testing.T) {
	s := openStore(t, "DefaultEndpointsProtocol=https;AccountName=none;AccountKey=bm9uZQ==;BlobEndpoint=http://127.0.0.1:1/b;QueueEndpoint=http://127.0.0.1:1/q;TableEndpoint=http://127.0.0.1:1/t")
	for name, err := range s.Queues(t.Context()) {
		if !errors.Is(err, storage.ErrUnsupported) {
			t.Errorf("got %q, %v; want %v", name, err, storage.ErrUnsupported)
		}
	}
}
