package redis

import (
	"context"
	"encoding/binary"
	"strconv"
	"strings"
	"time"

	"github.com/millrace-go/millrace/storage/driver"
	"github.com/millrace-go/millrace/storage/redis/internal/client"
	"github.com/millrace-go/millrace/storage/redis/internal/engine"
)

// queue implements driver.Queue.
type queue struct {
	s    *store
	name string
}

// Send implements driver.Queue.
func (q *queue) Send(ctx context.Context, messages []driver.Message) error {
	q.s.tally.count("send", "queue", q.name)
	u := new(engine.Unit)
	for _, m := range messages {
		q.s.send(u, q.name, m)
	}
	if err := q.s.e.Do(ctx, u); err != nil {
		return err
	}
	for _, m := range messages {
		q.s.rang(q.name, m.Delay)
	}
	return nil
}

// headSize is the length of what stands before a message's body: its ID, and the time of its sending.
const headSize = 16 + 8

func (s *store) send(u *engine.Unit, queue string, m driver.Message) {
	var b strings.Builder
	b.Grow(headSize + len(m.Body))
	b.WriteString(s.e.NewID())
	b.WriteString(stamp(s.e.Now()))
	b.Write(m.Body)
	u.Send(queue, b.String(), m.Key, m.Delay)
}

// stamp writes a time of the store in 8 bytes.
func stamp(at int64) string {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(at))
	return string(b[:])
}

func readStamp(s string) time.Time { return engine.Time(int64(binary.BigEndian.Uint64([]byte(s)))) }

// whole splits what is stored of a message.
func whole(text string) (id string, d driver.Delivery) {
	return text[:16], driver.Delivery{Body: []byte(text[headSize:]), SentAt: readStamp(text[16:headSize])}
}

// Receive implements driver.Queue.
func (q *queue) Receive(ctx context.Context, max int, visibility time.Duration) ([]driver.Delivery, error) {
	q.s.tally.count("receive", "queue", q.name)
	for {
		nonce := engine.NewNonce()
		reply, err := q.s.e.Ask(ctx, engine.Claim, q.name, strconv.Itoa(max), strconv.FormatInt(visibility.Microseconds(), 10), nonce)
		if err != nil {
			return nil, err
		}
		got := claimed(reply, nonce)
		if len(got) > 0 {
			q.s.rings.At(q.name, time.Now().Add(visibility))
			return got, nil
		}
		// Either all in front were deleted while they waited, more than one call looks at, or what is there is hidden.
		next, now := reply.At(3).Int(), reply.At(0).Int()
		if next == 0 {
			return got, nil
		}
		if next > now {
			q.s.rings.At(q.name, time.Now().Add(time.Duration(next-now)*time.Microsecond))
			return got, nil
		}
	}
}

func claimed(reply client.List, nonce string) []driver.Delivery {
	messages, counts := reply.At(4).List(), reply.At(5).List()
	got := make([]driver.Delivery, len(messages))
	for i := range messages {
		id, d := whole(messages.At(i).Text())
		d.Receipt, d.Deliveries = engine.Receipt{ID: id, Nonce: nonce}.Text(), 1
		if n := counts.At(i).Int(); n > 0 {
			d.Deliveries = int(n)
		}
		got[i] = d
	}
	return got
}

// receipt reads a receipt. One that is malformed is stale.
func (s *store) receipt(text driver.Receipt) (engine.Receipt, error) {
	if err := s.e.Closed(); err != nil {
		return engine.Receipt{}, err
	}
	r, ok := engine.ParseReceipt(text)
	if !ok {
		return r, driver.ErrReceiptStale
	}
	return r, nil
}

// Extend implements driver.Queue.
func (q *queue) Extend(ctx context.Context, receipt driver.Receipt, visibility time.Duration) (driver.Receipt, error) {
	q.s.tally.count("extend", "queue", q.name)
	r, err := q.s.receipt(receipt)
	if err != nil {
		return "", err
	}
	u, next := new(engine.Unit), engine.Receipt{ID: r.ID, Nonce: engine.NewNonce()}
	u.Extend(q.name, r, next.Nonce, visibility)
	if err := q.s.one(ctx, u); err != nil {
		return "", err
	}
	if visibility > 0 {
		q.s.rings.At(q.name, time.Now().Add(visibility))
	} else {
		q.s.rang(q.name, 0)
	}
	return next.Text(), nil
}

// Rewrite implements driver.Queue.
func (q *queue) Rewrite(ctx context.Context, receipt driver.Receipt, body []byte, delay time.Duration) error {
	q.s.tally.count("rewrite", "queue", q.name)
	r, err := q.s.receipt(receipt)
	if err != nil {
		return err
	}
	u := new(engine.Unit)
	u.Rewrite(q.name, r, engine.NewNonce(), string(body), delay)
	if err := q.s.one(ctx, u); err != nil {
		return err
	}
	q.s.rang(q.name, delay)
	return nil
}

// one does a unit of one step.
func (s *store) one(ctx context.Context, u *engine.Unit) error {
	if err := s.e.Do(ctx, u); err != nil {
		return err
	}
	if len(u.Failures) > 0 {
		return u.Failures[0].Err
	}
	return nil
}

// Delete implements driver.Queue.
func (q *queue) Delete(ctx context.Context, receipts []driver.Receipt) error {
	q.s.tally.count("delete", "queue", q.name)
	var stale []driver.Receipt
	var steps []driver.Receipt
	u := new(engine.Unit)
	for _, text := range receipts {
		r, ok := engine.ParseReceipt(text)
		if !ok {
			stale = append(stale, text)
			continue
		}
		u.Delete(q.name, r)
		steps = append(steps, text)
	}
	if err := q.s.e.Do(ctx, u); err != nil {
		return err
	}
	for _, f := range u.Failures {
		stale = append(stale, steps[f.Step])
	}
	if len(stale) > 0 {
		return &driver.StaleError{Queue: q.name, Receipts: stale}
	}
	return nil
}

// Stats implements driver.Queue. Oldest is of the first and the last 32 ready messages.
func (q *queue) Stats(ctx context.Context) (driver.Stats, error) {
	q.s.tally.count("stats", "queue", q.name)
	reply, err := q.s.e.Ask(ctx, engine.Stats, q.name)
	if err != nil {
		return driver.Stats{}, err
	}
	st := driver.Stats{Ready: reply.At(3).Int(), InFlight: reply.At(4).Int(), Delayed: reply.At(5).Int()}
	if sent := reply.At(6).Int(); st.Ready > 0 && sent > 0 {
		st.Oldest = max(0, time.Duration(reply.At(0).Int()-sent)*time.Microsecond)
	}
	return st, nil
}
