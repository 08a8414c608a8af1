package azure

import (
	"sync"
	"testing"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/azure/azuretest"
	"github.com/millrace-go/millrace/storage/storagetest"
)

var azurite = sync.OnceValues(azuretest.Launch)

// testURL is what stands behind "azure:" for a place that nobody else uses.
func testURL(t *testing.T) string {
	t.Helper()
	return azuretest.Place(t, azurite, Wipe)
}

func openStore(t *testing.T, url string) *store {
	t.Helper()
	s := must[storage.Store](t)(Open(t.Context(), url))
	t.Cleanup(func() { s.Close() })
	return s.(*store)
}

func TestConformance(t *testing.T) {
	t.Parallel()
	cfg := storagetest.Driver(Open, testURL)
	cfg.BatchTable, cfg.Precision, cfg.Short, cfg.Parallel, cfg.Patience = true, time.Second, true, 8, 30*time.Second
	storagetest.Run(t, cfg)
}

// What is wiped after a test on a real account is the test's own, and all of it.
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
