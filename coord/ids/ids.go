package ids

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/storage"
)

// A Sequence gives out numbers of one counter. Its methods may be called concurrently.
type Sequence struct {
	counter
	cfg     Config
	meters  meters
	closing chan struct{} // closed when Close begins

	span atomic.Pointer[span] // in use; written under mu, only when the one before is used up
	_    [64]byte             // callers read span all the time; the fields below change

	mu      sync.Mutex
	closed  bool
	fetch   *fetch      // under way, or nil
	ahead   *span       // fetched and not in use yet, or nil
	last    reservation // the newest that was answered with success
	known   int64       // see counter.reserve
	failed  error       // of the last fetch, or nil
	again   time.Time   // no fetch begins before this time
	pause   time.Duration
	closers sync.Mutex // held by Close
	given   bool       // Close has given back what can be given back; under closers
	stopped bool       // no number is given out any more
	from    int64      // the first number of span that was not given out; valid when stopped
}

// A span is a reserved range, whose numbers are taken one by one.
type span struct {
	first, size int64
	low         int64     // the next range is fetched when so many are left
	began       time.Time // when it came into use
	_           [64]byte  // taken has a cache line of its own, because each caller writes it

	taken atomic.Int64 // how often a caller has asked: more than size once the numbers are used up
	_     [64]byte
}

func newSpan(r reservation) *span {
	size := r.end - r.first
	return &span{first: r.first, size: size, low: size / 5}
}

func (r *span) left() int64 { return max(0, r.size-r.taken.Load()) }

// Open returns a Sequence of a counter. It makes no request: a counter that doesn't exist yet is made by the first
// Next. An error is about the store, the name (see storage.CheckKey) or cfg.
//
// Close it: a Sequence that isn't closed keeps its numbers, and stays in the metrics.
func Open(store *storage.Store, name string, cfg Config) (*Sequence, error) {
	cfg, err := cfg.withDefaults(store, name)
	var m meters
	if err == nil {
		m, err = newMeters(cfg.Metrics, name)
	}
	if err != nil {
		return nil, fmt.Errorf("ids: open %s: %w", storage.Quote(name), err)
	}
	s := &Sequence{counter: at(store, name, storecall.ProcessName()), cfg: cfg, meters: m, closing: make(chan struct{})}
	s.span.Store(&span{})
	m.left.add(s)
	return s, nil
}

// Next returns a number that nobody else gets, larger than those that it has returned before. It waits for the store
// only if no number is left, and ctx ends nothing but that wait.
func (s *Sequence) Next(ctx context.Context) (int64, error) {
	r := s.span.Load()
	i := r.taken.Add(1)
	left := r.size - i
	if left <= r.low {
		if left < 0 {
			return s.wait(ctx, r)
		}
		s.lower(r, left)
	}
	return r.first + i - 1, nil
}

// lower fetches ahead when the numbers of a span go down to its low mark. If that fails, it tries again after half of
// them, and so on.
func (s *Sequence) lower(r *span, left int64) {
	if left > r.low || left < r.low && left&(left-1) != 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.span.Load() == r && s.ahead == nil && s.fetch == nil && !s.closed && !time.Now().Before(s.again) {
		s.begin(r)
	}
}

// wait takes a number of the span that follows r, which is used up.
func (s *Sequence) wait(ctx context.Context, r *span) (int64, error) {
	for waited := false; ; {
		f, err := s.follow(r)
		if f != nil {
			if !waited {
				waited = true
				s.meters.waits.Inc()
			}
			select {
			case <-f.done:
				err = f.err
			case <-s.closing:
				err = ErrClosed
			case <-ctx.Done():
				err = context.Cause(ctx)
			}
		}
		if err != nil {
			return 0, fmt.Errorf("ids: next of %s: %w", storage.Quote(s.name), err)
		}
		r = s.span.Load()
		if i := r.taken.Add(1); i <= r.size {
			s.lower(r, r.size-i)
			return r.first + i - 1, nil
		}
	}
}

// follow puts the range that was fetched ahead in the place of r. If there is none, it returns the fetch to wait for,
// or the error of the last one if that was a moment ago.
func (s *Sequence) follow(r *span) (*fetch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, ErrClosed
	case s.span.Load() != r: // another caller has done it
		return nil, nil
	case s.ahead != nil:
		s.ahead.began = time.Now()
		s.span.Store(s.ahead)
		s.ahead = nil
		return nil, nil
	case s.fetch != nil:
		return s.fetch, nil
	case time.Now().Before(s.again):
		return nil, s.failed
	}
	s.begin(r)
	return s.fetch, nil
}

// left is how many numbers are in hand.
func (s *Sequence) left() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.span.Load().left()
	if s.ahead != nil {
		n += s.ahead.left()
	}
	return n
}
