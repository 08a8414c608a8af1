package azure

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	"golang.org/x/sync/errgroup"

	"github.com/millrace-go/millrace/storage/driver"
)

// atOnce bounds the concurrent requests of one call.
const atOnce = 32

// queue implements driver.Queue.
type queue struct {
	part
	c *azqueue.QueueClient
}

func (s *store) Queue(name string) driver.Queue { return s.queue(name) }

func (s *store) queue(name string) *queue {
	return &queue{part{s, "queue", name}, s.queues.NewQueueClient(plainName(s.prefix, name))}
}

// seconds is a time as the service takes it.
func seconds(d time.Duration) *int32 {
	return to.Ptr(int32((d + time.Second - 1) / time.Second))
}

func (q *queue) Send(ctx context.Context, messages []driver.Message) error {
	return q.do(ctx, q.call("send", always), func(ctx context.Context) error {
		return each(ctx, messages, q.send)
	})
}

// each calls f for each item, some concurrently, and stops at the first failure.
func each[T any](ctx context.Context, items []T, f func(ctx context.Context, item T) error) error {
	if len(items) == 1 {
		return f(ctx, items[0])
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for _, item := range items {
		g.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err() // another has failed
			}
			return f(ctx, item)
		})
	}
	return g.Wait()
}

func (q *queue) send(ctx context.Context, m driver.Message) error {
	c := q.call("send", always) // each request counts its own tries
	put := func() error {
		_, err := q.c.EnqueueMessage(c.options(ctx), encodeBody(m.Body), &azqueue.EnqueueMessageOptions{
			TimeToLive:        to.Ptr(int32(-1)), // by default the service drops a message after seven days
			VisibilityTimeout: seconds(m.Delay),
		})
		return err
	}
	return creating(put(), "QueueNotFound", func() error {
		_, err := q.c.Create(c.beside(ctx, "create"), nil)
		return err
	}, put)
}

func encodeBody(body []byte) string { return base64.StdEncoding.EncodeToString(body) }

func (q *queue) Receive(ctx context.Context, max int, visibility time.Duration) ([]driver.Delivery, error) {
	var got []driver.Delivery
	err := q.do(ctx, q.call("receive", always), func(ctx context.Context) error {
		r, err := q.c.DequeueMessages(ctx, &azqueue.DequeueMessagesOptions{
			NumberOfMessages:  to.Ptr(int32(max)),
			VisibilityTimeout: seconds(visibility),
		})
		if is(err, http.StatusNotFound, "QueueNotFound") {
			return nil
		}
		if err != nil {
			return err
		}
		for _, m := range r.Messages {
			d, err := read(m)
			if err != nil {
				return err
			}
			got = append(got, d)
		}
		return nil
	})
	return got, err
}

// read reads a message.
func read(m *azqueue.DequeuedMessage) (driver.Delivery, error) {
	if m.MessageID == nil || m.PopReceipt == nil || m.DequeueCount == nil {
		return driver.Delivery{}, fmt.Errorf("%w: the service's answer has a message without an ID or a receipt", driver.ErrUnavailable)
	}
	d := driver.Delivery{Receipt: receipt(*m.MessageID, *m.PopReceipt), Deliveries: int(*m.DequeueCount)}
	if m.InsertionTime != nil {
		d.SentAt = *m.InsertionTime
	}
	if m.MessageText != nil {
		d.Body = decodeBody(*m.MessageText)
	}
	return d, nil
}

// decodeBody returns a message's body. A text that is not base64 comes from another program, and is taken as it is.
func decodeBody(text string) []byte {
	body, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return []byte(text)
	}
	return body
}

// A receipt is the message's ID and its pop receipt.
func receipt(id, pop string) driver.Receipt { return driver.Receipt(id + " " + pop) }

func splitReceipt(r driver.Receipt) (id, pop string, err error) {
	id, pop, ok := strings.Cut(string(r), " ")
	// IDs are UUIDs. No other text may get into an address.
	bad := !ok || len(id) != 36 || pop == "" || len(pop) > 256
	for i := 0; i < len(id) && !bad; i++ {
		c := id[i]
		bad = !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F' || c == '-')
	}
	if bad {
		return "", "", driver.ErrReceiptStale
	}
	return id, pop, nil
}

// staled turns the answers that mean a dead receipt into ErrReceiptStale. The service answers 404 whether the
// message is there or not; Azurite answers 400 while it is.
func staled(err error) error {
	if is(err, http.StatusNotFound, "MessageNotFound", "QueueNotFound") || is(err, http.StatusBadRequest, "PopReceiptMismatch") ||
		// No service has made such a pop receipt.
		is(err, http.StatusBadRequest, "InvalidQueryParameterValue", "OutOfRangeInput", "InvalidInput") {
		e, _ := answer(err)
		return fmt.Errorf("%w: %w", driver.ErrReceiptStale, e)
	}
	return err
}

func (q *queue) Extend(ctx context.Context, r driver.Receipt, visibility time.Duration) (driver.Receipt, error) {
	var next driver.Receipt
	err := q.do(ctx, q.call("extend", neverTry), func(ctx context.Context) (err error) {
		next, err = q.update(ctx, r, "", visibility)
		return err
	})
	return next, err
}

func (q *queue) Rewrite(ctx context.Context, r driver.Receipt, body []byte, delay time.Duration) error {
	return q.do(ctx, q.call("rewrite", undone), func(ctx context.Context) error {
		_, err := q.update(ctx, r, encodeBody(body), delay)
		return err
	})
}

func (q *queue) update(ctx context.Context, r driver.Receipt, text string, visibility time.Duration) (driver.Receipt, error) {
	id, pop, err := splitReceipt(r)
	if err != nil {
		return "", err
	}
	u, err := q.c.UpdateMessage(ctx, id, pop, text, &azqueue.UpdateMessageOptions{VisibilityTimeout: seconds(visibility)})
	if err != nil {
		return "", staled(err)
	}
	if u.PopReceipt == nil {
		return "", fmt.Errorf("%w: the service's answer has no receipt", driver.ErrUnavailable)
	}
	return receipt(id, *u.PopReceipt), nil
}

func (q *queue) Delete(ctx context.Context, receipts []driver.Receipt) error {
	stale := make([]bool, len(receipts))
	err := q.do(ctx, q.call("delete", always), func(ctx context.Context) error {
		index := make([]int, len(receipts))
		for i := range index {
			index[i] = i
		}
		return each(ctx, index, func(ctx context.Context, i int) error {
			err := q.delete(ctx, receipts[i])
			stale[i] = errors.Is(err, driver.ErrReceiptStale)
			if stale[i] {
				return nil
			}
			return err
		})
	})
	if err == nil && slices.Contains(stale, true) {
		e := &driver.StaleError{Queue: q.name}
		for i, r := range receipts {
			if stale[i] {
				e.Receipts = append(e.Receipts, r)
			}
		}
		return e
	}
	return err
}

func (q *queue) delete(ctx context.Context, r driver.Receipt) error {
	id, pop, err := splitReceipt(r)
	if err != nil {
		return err
	}
	_, err = q.c.DeleteMessage(q.call("delete", always).options(ctx), id, pop, nil)
	return staled(err)
}

// Stats takes two requests.
func (q *queue) Stats(ctx context.Context) (driver.Stats, error) {
	var st driver.Stats
	c := q.call("stats", always)
	err := q.do(ctx, c, func(ctx context.Context) error {
		p, err := q.c.GetProperties(ctx, nil)
		if is(err, http.StatusNotFound, "QueueNotFound") {
			return nil
		}
		if err != nil {
			return err
		}
		peek, err := q.c.PeekMessages(c.beside(ctx, "peek"), &azqueue.PeekMessagesOptions{NumberOfMessages: to.Ptr(int32(maxReceive))})
		if err != nil {
			return err
		}
		st = count(p.ApproximateMessagesCount, peek.Messages, time.Now())
		return nil
	})
	return st, err
}

// count estimates the counts. The service tells the number of all messages, and shows the first ready ones, at most
// maxReceive. If it shows fewer, exactly those are ready. If not, all messages are counted as ready, which is too
// many by the hidden ones. Messages in flight and delayed ones can't be told apart.
func count(all *int64, ready []*azqueue.PeekedMessage, now time.Time) driver.Stats {
	st := driver.Stats{Ready: int64(len(ready)), InFlight: -1, Delayed: -1}
	if len(ready) == maxReceive && all != nil {
		st.Ready = max(st.Ready, *all)
	}
	if all != nil && *all <= int64(len(ready)) {
		st.InFlight, st.Delayed = 0, 0
	}
	for _, m := range ready {
		if m.InsertionTime != nil {
			st.Oldest = max(st.Oldest, now.Sub(*m.InsertionTime))
		}
	}
	return st
}
