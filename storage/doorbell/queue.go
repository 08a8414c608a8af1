package doorbell

import (
	"context"
	"errors"
	"time"

	"github.com/millrace-go/millrace/storage"
)

// queue is a queue whose calls tell the bells what they have made receivable, now or later. A call that fails tells
// nothing: if it took effect nonetheless, a poll finds out.
type queue struct {
	storage.Queue
	name  string
	bells *bells
	most  int    // that one Receive brings
	doubt func() // says that the row may be gone
}

func (q *queue) Send(ctx context.Context, messages []storage.Message) error {
	if err := q.Queue.Send(ctx, messages); err != nil {
		return err
	}
	for _, m := range messages {
		q.bells.sent(q.name, m.Delay)
	}
	return nil
}

func (q *queue) Receive(ctx context.Context, max int, visibility time.Duration) ([]storage.Delivery, error) {
	began := q.bells.now()
	got, err := q.Queue.Receive(ctx, max, visibility)
	if q.bells.received(q.name, began, len(got), err) {
		q.doubt()
	}
	for _, d := range got {
		q.bells.hold(q.name, d.Receipt, visibility)
	}
	if len(got) == min(max, q.most) && len(got) > q.most/4 {
		q.bells.backlog(q.name)
	}
	return got, err
}

func (q *queue) Extend(ctx context.Context, receipt storage.Receipt, visibility time.Duration) (storage.Receipt, error) {
	next, err := q.Queue.Extend(ctx, receipt, visibility)
	if err == nil || errors.Is(err, storage.ErrReceiptStale) {
		q.bells.release(q.name, receipt)
	}
	switch {
	case err != nil:
	case visibility == 0:
		q.bells.sent(q.name, 0)
	default:
		q.bells.hold(q.name, next, visibility)
	}
	return next, err
}

func (q *queue) Rewrite(ctx context.Context, receipt storage.Receipt, body []byte, delay time.Duration) error {
	err := q.Queue.Rewrite(ctx, receipt, body, delay)
	if err == nil || errors.Is(err, storage.ErrReceiptStale) {
		q.bells.release(q.name, receipt)
	}
	if err == nil {
		q.bells.sent(q.name, delay)
	}
	return err
}

func (q *queue) Delete(ctx context.Context, receipts []storage.Receipt) error {
	err := q.Queue.Delete(ctx, receipts)
	if err == nil || errors.Is(err, storage.ErrReceiptStale) {
		q.bells.release(q.name, receipts...)
	}
	return err
}

// committing is a store over one that commits atomically and doesn't ring, as a database without notifications would be: what
// it sends must ring, too. Without this [storage.As] would find the Commit beneath, past the bells. No driver of this module
// is such a one.
type committing struct {
	*store
	inner storage.Committer
}

// Commit implements storage.Committer.
func (s *committing) Commit(ctx context.Context, w storage.Work) (storage.Committed, error) {
	done, err := s.inner.Commit(ctx, w)
	if err != nil {
		return done, err
	}
	for _, x := range w.Send {
		s.bells.sent(x.Queue, x.Message.Delay)
	}
	for _, x := range w.Delete {
		s.bells.release(x.Queue, x.Receipt)
	}
	return done, nil
}
