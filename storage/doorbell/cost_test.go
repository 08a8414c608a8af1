package doorbell

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/millrace-go/millrace/storage/storagetest"
)

// TestRequests counts the storage requests of a listener and of a sender.
func TestRequests(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	var listening, sending storagetest.Calls
	slow := usualPace()
	slow.settle = 300 * time.Millisecond
	a := put(t, storagetest.Intercept(plain(t, path), listening.Hook), loopback(), slow)
	b := put(t, storagetest.Intercept(plain(t, path), sending.Hook), loopback(), usualPace())
	other := put(t, plain(t, path), loopback(), usualPace())
	defer a.Listen("first").Close()
	ring := watch(t, a, other, "second")
	for range 20 {
		send(t, b, "second")
		wantRing(t, ring, "a send")
	}
	until(t, "the listener's tidying", func() bool { return listening.Count() >= 2 })
	if rows, reads, all := listening.Count("put row"), listening.Count("query"), listening.Count(); rows != 1 || reads != 1 || all != 2 {
		t.Errorf("a listener for two queues wrote %d rows and read %d times, in %d requests; want one of each", rows, reads, all)
	}
	if reads, all := sending.Count("query"), sending.Count(); reads != 1 || all != 21 {
		t.Errorf("a sender read the table %d times in %d requests; want once, and a request for each send", reads, all)
	}
	a.Listen("third").Close()
	watch(t, a, other, "fourth")
	if rows := listening.Count("put row"); rows > 3 {
		t.Errorf("%d rows written for two more queues", rows)
	}
}
