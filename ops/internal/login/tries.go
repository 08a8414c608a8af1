package login

import (
	"errors"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/millrace-go/millrace/internal/lru"
)

const (
	mostTries = 10              // that fail in a row
	tryAgain  = 6 * time.Second // after that, one each
	mostFrom  = 10_000          // addresses that are remembered
)

var errTries = errors.New("too many attempts have failed")

// tries limits the attempts of each address that fail. So a stranger keeps nobody else out.
type tries struct {
	mu   sync.Mutex
	from *lru.Cache[spent]
}

// spent is how many attempts of an address have failed, less what time has given back.
type spent struct {
	n  float64
	at time.Time
}

func newTries() *tries { return &tries{from: lru.New[spent](mostFrom, 0)} }

// may reports that an address may try.
func (t *tries) may(from string, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.left(from, now) <= mostTries-1
}

// failed counts an attempt.
func (t *tries) failed(from string, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.from.Add(network(from), spent{t.left(from, now) + 1, now}, 1)
}

// left is what an address has spent. mu is held.
func (t *tries) left(from string, now time.Time) float64 {
	s, _ := t.from.Get(network(from))
	return max(0, s.n-max(0, float64(now.Sub(s.at))/float64(tryAgain)))
}

// network is the part of an address that one customer of a network has: a person has very many addresses of IPv6.
func network(from string) string {
	at, err := netip.ParseAddr(from)
	if err != nil || at.Unmap().Is4() {
		return from
	}
	p, err := at.Prefix(64)
	if err != nil {
		return from
	}
	return p.String()
}

// wait answers an address that has tried too often.
func (d *Door) wait(w http.ResponseWriter, r *http.Request, base string) {
	w.Header().Set("Retry-After", "6")
	d.page(w, r, base, http.StatusTooManyRequests, "Too many attempts from your address have failed. Try again in a minute.")
}
