package azure

import (
	"context"
	"iter"
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/millrace-go/millrace/storage/driver"
)

// peekMost is how many messages the service shows of a queue.
const peekMost = 32

// Peek implements driver.Peeker. The service shows the first ready messages alone, in one request.
func (s *store) Peek(ctx context.Context, queue string) iter.Seq2[driver.Peeked, error] {
	return func(yield func(driver.Peeked, error) bool) {
		all, err := s.queue(queue).peek(ctx)
		if err != nil {
			yield(driver.Peeked{}, err)
			return
		}
		for _, m := range all {
			if !yield(m, nil) {
				return
			}
		}
	}
}

func (q *queue) peek(ctx context.Context) ([]driver.Peeked, error) {
	var all []driver.Peeked
	err := q.do(ctx, q.call("peek", always), func(ctx context.Context) error {
		all = nil
		r, err := q.c.PeekMessages(ctx, &azqueue.PeekMessagesOptions{NumberOfMessages: to.Ptr(int32(peekMost))})
		if is(err, http.StatusNotFound, "QueueNotFound") {
			return nil
		}
		if err != nil {
			return err
		}
		for _, m := range r.Messages {
			var p driver.Peeked
			if m.DequeueCount != nil {
				p.Deliveries = int(*m.DequeueCount)
			}
			if m.InsertionTime != nil {
				p.SentAt = *m.InsertionTime
			}
			if m.MessageText != nil {
				p.Body = decodeBody(*m.MessageText)
			}
			all = append(all, p)
		}
		return nil
	})
	return all, err
}
