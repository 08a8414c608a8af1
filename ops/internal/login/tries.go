package login

import (
	"errors"
	"log/slog"
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

// tries limits how often each address, and the log, is told that an attempt has failed. Nothing more needs a limit:
// nobody guesses 256 bits. An attempt with what lets in is no failure, however many have failed: one address may be
// that of a whole network.
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

// failed counts an attempt, and reports that it may be told.
func (t *tries) failed(from string, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.left(from, now)
	if n > mostTries-1 {
		return false
	}
	t.from.Add(network(from), spent{n + 1, now}, 1)
	return true
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

// failed logs and counts an attempt to come in, and reports that it may be told.
func (d *Door) failed(r *http.Request) bool {
	from := d.from(r)
	if !d.tries.failed(from, time.Now()) {
		return false
	}
	d.cfg.Logger.LogAttrs(r.Context(), slog.LevelWarn, "an attempt to log in to the pages of operators has failed", slog.String("from", from))
	return true
}

// wait answers an address that has tried too often.
func (d *Door) wait(w http.ResponseWriter, r *http.Request, base string) {
	w.Header().Set("Retry-After", "6")
	d.page(w, r, base, http.StatusTooManyRequests, "Too many attempts from your address have failed. Try again in a minute.")
}
