package ids

import (
	"context"
	"fmt"
	"time"

	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/storage"
)

// closeTime bounds Close.
const closeTime = 5 * time.Second

// Close ends the Sequence and gives back the numbers that it has in hand, if no other process has reserved since:
// Next then returns [ErrClosed]. It ignores the end of ctx, because ctx has often ended with the work, and takes at
// most five seconds. After an error the numbers may be lost; another call of Close tries again. Closing twice is
// harmless.
func (s *Sequence) Close(ctx context.Context) error {
	ctx, cancel := storecall.Limit(context.WithoutCancel(ctx), closeTime)
	defer cancel()
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.closing)
	}
	f := s.fetch
	s.mu.Unlock()
	s.closers.Lock()
	defer s.closers.Unlock()
	if s.given {
		return nil
	}
	s.meters.left.remove(s)
	if f != nil {
		f.await()
	}
	next, last := s.unused()
	for try := 1; next < last.end; try++ {
		_, err := s.giveBack(ctx, next, last.etag)
		if err == nil {
			break
		}
		if permanent(err) || try == tries || storecall.Sleep(ctx, minPause) != nil {
			return fmt.Errorf("ids: close %s: %w", storage.Quote(s.name), err)
		}
	}
	s.given = true
	return nil
}

// await waits for a fetch, so that its range can be given back. It leaves time for that. A fetch that takes longer is
// cancelled, and its range is lost.
func (f *fetch) await() {
	for range 2 {
		patience := time.NewTimer(closeTime / 4)
		select {
		case <-f.done:
		case <-patience.C:
		}
		patience.Stop()
		f.cancel()
	}
}

// unused takes all numbers that are left, so that nobody else can. It returns the first of those that nobody has
// reserved behind, and the newest reservation. The caller holds closers.
func (s *Sequence) unused() (next int64, last reservation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.span.Load()
	if !s.stopped {
		s.stopped = true
		s.from = r.first + min(r.size, r.taken.Swap(r.size))
	}
	end := r.first + r.size
	switch {
	case s.ahead == nil && end == s.last.end, s.ahead != nil && end == s.ahead.first:
		return s.from, s.last
	case s.ahead != nil:
		return s.ahead.first, s.last
	}
	return s.last.end, s.last
}
