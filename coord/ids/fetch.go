package ids

import (
	"context"
	"log/slog"
	"time"

	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/storage"
)

const (
	shortly   = 10 * time.Second      // a range that lasts less is followed by a larger one
	long      = time.Minute           // a range that lasts more is followed by a smaller one
	fetchTime = 30 * time.Second      // bounds a fetch
	tries     = 3                     // of a fetch, beside lost races
	minPause  = 50 * time.Millisecond // between tries, and after a fetch that failed
	maxPause  = time.Second
)

// A fetch reserves one range. Callers that have no number wait for it.
type fetch struct {
	cancel context.CancelFunc
	done   chan struct{} // closed at its end
	err    error         // valid when done is closed
}

// begin starts a fetch of the range that follows r. The caller holds mu.
func (s *Sequence) begin(r *span) {
	ctx, cancel := storecall.Limit(context.Background(), fetchTime)
	f := &fetch{cancel: cancel, done: make(chan struct{})}
	s.fetch = f
	go s.run(ctx, f, s.sizeAfter(r), s.known)
}

// sizeAfter is the size of the range that follows r, by how long r lasts as a whole if it goes on as so far.
func (s *Sequence) sizeAfter(r *span) int64 {
	size := r.size
	if used := min(r.size, r.taken.Load()); r.size > 0 {
		lasts := time.Duration(float64(time.Since(r.began)) * float64(r.size) / float64(max(1, used)))
		switch {
		case lasts < shortly:
			size *= 2
		case lasts > long:
			size /= 2
		}
	}
	return min(max(size, s.cfg.least), s.cfg.Most)
}

func (s *Sequence) run(ctx context.Context, f *fetch, size, known int64) {
	r, known, err := s.reserveRange(ctx, size, known)
	f.cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fetch, s.known = nil, known
	f.err = err
	defer close(f.done)
	if err == nil {
		s.ahead, s.last = newSpan(r), r
		if s.failed != nil {
			s.cfg.Logger.LogAttrs(ctx, slog.LevelInfo, "numbers can be reserved again")
		}
		s.failed, s.pause = nil, 0
		s.meters.reservations.Inc()
		return
	}
	if s.failed == nil && !s.closed {
		s.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "can't reserve numbers; trying again", slog.Any("error", err))
	}
	s.failed = err
	s.pause = min(max(2*s.pause, minPause), maxPause)
	s.again = time.Now().Add(s.pause)
}

// reserveRange reserves a range. It tries a few times when the store fails, and again and again when other processes
// come first.
func (s *Sequence) reserveRange(ctx context.Context, size, known int64) (reservation, int64, error) {
	for lost, failed := 0, 0; ; {
		began := time.Now()
		r, exists, err := s.reserve(ctx, size, s.cfg.First, known)
		took := time.Since(began)
		if exists {
			known = max(known, 1)
		}
		pause := minPause
		switch {
		case err == nil:
			return r, r.end, nil
		case ctx.Err() != nil:
			return r, known, context.Cause(ctx)
		case storage.LostRace(err):
			s.meters.lostRaces.Inc()
			lost++
			pause = storecall.Doubled(took, maxPause, lost+1)
		case permanent(err):
			return r, known, err
		default:
			if failed++; failed == tries {
				return r, known, err
			}
		}
		if !s.rest(ctx, storecall.Spread(pause)) {
			return r, known, err
		}
	}
}

// rest waits, unless Close begins or ctx ends.
func (s *Sequence) rest(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.closing:
	case <-ctx.Done():
	}
	return false
}
