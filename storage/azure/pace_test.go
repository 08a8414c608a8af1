package azure

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/millrace-go/millrace/storage"
)

// busy is a service that answers a limited number of requests a second, and refuses others.
type busy struct {
	mu          sync.Mutex
	rate, left  float64
	last        time.Time
	ok, refused int
}

func (b *busy) Do(req *http.Request) (*http.Response, error) {
	time.Sleep(5 * time.Millisecond)
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b.left, b.last = min(b.rate, b.left+now.Sub(b.last).Seconds()*b.rate), now
	if b.left < 1 {
		b.refused++
		return respond(req, http.StatusServiceUnavailable, "ServerBusy"), nil
	}
	b.left--
	b.ok++
	return respond(req, http.StatusNotFound, "BlobNotFound"), nil
}

// Many callers together nearly use a busy service's limit, and few of their requests are refused. After any
// refusals a sender still asks soon. An extension, which can't wait, asks at once.
func TestBusyService(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &busy{rate: 100, left: 100, last: time.Now()}
		d := must[*store](t)(open(t.Context(), "AccountName=acct;AccountKey=a2V5", func(policy.Transporter) policy.Transporter { return b }))
		defer d.Close()
		s := storage.New(d)
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range 64 {
			all.Go(func() {
				for ctx.Err() == nil {
					_, err := s.Blobs("docs").Get(ctx, "key", "")
					if ctx.Err() == nil && !errors.Is(err, storage.ErrNotFound) && !errors.Is(err, storage.ErrThrottled) {
						t.Errorf("a reader met %v", err)
					}
				}
			})
		}
		time.Sleep(20 * time.Second)
		b.mu.Lock()
		b.ok, b.refused = 0, 0
		b.mu.Unlock()
		time.Sleep(30 * time.Second)
		stop()
		all.Wait()
		t.Logf("%d a second, %d refused", b.ok/30, b.refused)
		if b.ok/30 < 50 || b.refused > b.ok/3 {
			t.Errorf("%d a second of 100, %d of %d refused; want most, and few", b.ok/30, b.refused, b.ok+b.refused)
		}

		b.rate, b.left = 0, 0
		const senders = 100
		q, before, began := s.Queue("queue"), b.refused, time.Now()
		for range senders {
			all.Go(func() {
				if err := q.Send(t.Context(), []storage.Message{{Body: []byte("body")}}); !errors.Is(err, storage.ErrThrottled) {
					t.Errorf("a sender met %v", err)
				}
			})
		}
		all.Wait()
		if asked, d := b.refused-before, time.Since(began); asked < senders || d > 5*time.Second {
			t.Errorf("%d senders were %d requests, and told after %v; want each to ask, and soon", senders, asked, d)
		}
		before, began = b.refused, time.Now()
		if _, err := q.Extend(t.Context(), someReceipt, time.Minute); !errors.Is(err, storage.ErrThrottled) {
			t.Errorf("an extension met %v", err)
		}
		if d := time.Since(began); b.refused == before || d > time.Second {
			t.Errorf("an extension was %d requests, and took %v; want one at once", b.refused-before, d)
		}
	})
}
