package spool

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/storage"
)

const storeTime = 2 * time.Second // how long Send tries the store before it keeps the messages

var errNoAnswer = fmt.Errorf("%w: no answer within %v", storage.ErrUnavailable, storeTime) // the cause of a try that was given up

// Send implements wire.Spool. While the spool takes nothing, Send does as without a spool.
func (s *Spool) Send(ctx context.Context, envelopes []wire.Envelope, try func(ctx context.Context) error) (kept bool, err error) {
	tried := s.Waiting() == 0
	if tried {
		err = attempt(ctx, try)
		if err == nil || ctx.Err() != nil || !isAway(err) {
			return false, err
		}
	}
	full := s.keep(ctx, envelopes)
	switch {
	case full == nil:
		if tried {
			s.store.noteAway(ctx, err)
		}
		s.wake.ring()
		return true, nil
	case !isAway(full), ctx.Err() != nil:
		return false, full
	case !tried:
		err = attempt(ctx, try)
	}
	if err != nil && isAway(err) {
		err = fmt.Errorf("%w; and the spool takes nothing: %w", err, full)
	}
	return false, err
}

// attempt tries the store for a while.
func attempt(ctx context.Context, try func(ctx context.Context) error) error {
	most := storeTime
	if end, ok := ctx.Deadline(); ok {
		most = min(most, time.Until(end)/2) // the rest is for the file
	}
	ctx, cancel := context.WithTimeoutCause(ctx, most, errNoAnswer)
	defer cancel()
	return try(ctx)
}

// keep writes envelopes to the file. On nil they are durable there.
func (s *Spool) keep(ctx context.Context, envelopes []wire.Envelope) error {
	queues, err := s.outbox.QueuesOf(envelopes)
	if err != nil {
		return err
	}
	body, err := encode(envelopes)
	if err != nil {
		return err
	}
	if most := s.file.mostBytes(); len(body) > most {
		return fmt.Errorf("%w: messages of %d bytes in one Send; the spool takes %d at most", storage.ErrUnavailable, len(body), most)
	}
	if err := s.health.hold(ctx, len(body)); err != nil {
		return err
	}
	e := &entry{lane: laneOf(queues), messages: int64(len(envelopes)), size: int64(len(body)), at: time.Now()}
	switch err := s.index.reserve(e); {
	case errors.Is(err, errDoubts):
		return s.health.fails(ctx, err, len(body))
	case err != nil:
		return err
	}
	switch err := s.index.write(ctx, e, body); {
	case err == nil:
		s.kept.Add(e.messages)
		s.health.mended(ctx)
		return nil
	case ctx.Err() != nil: // the caller has left
		return fmt.Errorf("spool: %w", err)
	default:
		return s.health.fails(ctx, err, len(body))
	}
}
