package spool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/millrace-go/millrace/storage"
)

// A storeState is whether the store is known to be away, and since when.
type storeState struct {
	log  *slog.Logger
	away atomic.Pointer[time.Time] // nil if it is not
}

// isAway reports that an error says that the store is away, and nothing about a message.
func isAway(err error) bool {
	return errors.Is(err, storage.ErrUnavailable) || errors.Is(err, storage.ErrThrottled)
}

// noteAway notes that the store is away.
func (s *storeState) noteAway(ctx context.Context, cause error) {
	now := time.Now()
	if s.away.CompareAndSwap(nil, &now) {
		s.log.WarnContext(ctx, "the store is away: messages are kept in the spool until it is back", "error", cause)
	}
}

// noteBack notes that the store is there, while some messages wait.
func (s *storeState) noteBack(ctx context.Context, waiting int64) {
	since := s.away.Swap(nil)
	if since == nil {
		return
	}
	attrs := []any{"away", time.Since(*since).Round(time.Millisecond)}
	if waiting > 0 { // which came meanwhile, or are yet to be forwarded
		attrs = append(attrs, "messages", waiting)
	}
	s.log.InfoContext(ctx, "the store is back: the spool is forwarded", attrs...)
}

// forget forgets an absence of the store once nothing waits that would show its end.
func (s *storeState) forget(ctx context.Context) {
	if s.away.Swap(nil) != nil {
		s.log.InfoContext(ctx, "nothing waits in the spool any more: the next message tries the store again")
	}
}

// suspend forgets an absence while nothing can be forwarded, so that each Send finds out for itself.
func (s *storeState) suspend() { s.away.Store(nil) }

// since returns since when the store is away, or zero.
func (s *storeState) since() time.Time {
	if since := s.away.Load(); since != nil {
		return *since
	}
	return time.Time{}
}

// err returns an error while the store is known to be away.
func (s *storeState) err() error {
	since := s.away.Load()
	if since == nil {
		return nil
	}
	return fmt.Errorf("channel: send: %w: the store is away since %s", storage.ErrUnavailable, since.UTC().Format(time.RFC3339))
}
