package doorbell

import (
	"context"
	"time"

	"github.com/millrace-go/millrace/storage/driver"
)

// queue is a queue whose calls ring for the messages that they make receivable, now or later. A failed call doesn't
// ring: if it took effect, a poll finds the message. The end of a visibility doesn't ring either: it means that a
// consumer has crashed, which is rare, and a poll finds that message, too.
type queue struct {
	driver.Queue
	name         string
	bells        *bells
	most         int // the most that one Receive returns
	rowMayBeGone func()
}

func (q *queue) Send(ctx context.Context, messages []driver.Message) error {
	if err := q.Queue.Send(ctx, messages); err != nil {
		return err
	}
	for _, m := range messages {
		q.bells.sent(q.name, m.Delay)
	}
	return nil
}

func (q *queue) Receive(ctx context.Context, max int, visibility time.Duration) ([]driver.Delivery, error) {
	began := q.bells.now()
	got, err := q.Queue.Receive(ctx, max, visibility)
	if q.bells.received(q.name, began, len(got), err) {
		q.rowMayBeGone()
	}
	if len(got) == max && len(got) > q.most/4 {
		q.bells.backlog(q.name)
	}
	return got, err
}

func (q *queue) Extend(ctx context.Context, receipt driver.Receipt, visibility time.Duration) (driver.Receipt, error) {
	next, err := q.Queue.Extend(ctx, receipt, visibility)
	if err == nil && visibility == 0 {
		q.bells.sent(q.name, 0)
	}
	return next, err
}

func (q *queue) Rewrite(ctx context.Context, receipt driver.Receipt, body []byte, delay time.Duration) error {
	if err := q.Queue.Rewrite(ctx, receipt, body, delay); err != nil {
		return err
	}
	q.bells.sent(q.name, delay)
	return nil
}

// committer rings for messages sent by an atomic commit. It is for a store like a database without notifications;
// no driver of this module is one.
type committer struct {
	driver.Committer
	bells *bells
}

func (c *committer) Commit(ctx context.Context, w driver.Work) (driver.Committed, error) {
	done, err := c.Committer.Commit(ctx, w)
	if err != nil {
		return done, err
	}
	for _, x := range w.Send {
		c.bells.sent(x.Queue, x.Message.Delay)
	}
	return done, nil
}
