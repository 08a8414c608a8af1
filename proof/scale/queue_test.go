package scale

import (
	"container/heap"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millrace-go/millrace/storage/driver"
)

// queueData is a queue: all its messages, the next one to become visible first.
type queueData struct {
	bucket *bucket
	byID   map[uint64]*message
	order  order
}

// A message is small, because a burst has ten million of them.
type message struct {
	id, pop       uint64
	body          []byte
	sent, visible int64 // UnixNano
	index         int32 // in order
	deliveries    int32
	held          bool // invisible because a worker has received it
}

// order is a heap of messages.
type order []*message

func (o order) Len() int { return len(o) }
func (o order) Less(i, j int) bool {
	return o[i].visible < o[j].visible || o[i].visible == o[j].visible && o[i].id < o[j].id
}
func (o order) Swap(i, j int) { o[i], o[j] = o[j], o[i]; o[i].index, o[j].index = int32(i), int32(j) }
func (o *order) Push(x any) {
	m := x.(*message)
	m.index = int32(len(*o))
	*o = append(*o, m)
}
func (o *order) Pop() any {
	last := len(*o) - 1
	m := (*o)[last]
	(*o)[last] = nil
	*o = (*o)[:last]
	return m
}

// queue implements driver.Queue.
type queue struct {
	c    *store
	name string
}

// data returns the queue's messages. The caller holds service.mu.
func (q *queue) data() *queueData {
	d := q.c.s.queues[q.name]
	if d == nil {
		d = &queueData{bucket: newBucket(q.c.s.limits.queue), byID: map[uint64]*message{}}
		q.c.s.queues[q.name] = d
	}
	return d
}

func (q *queue) request(op string, effect func(d *queueData) (float64, error)) request {
	return request{
		op: op, kind: "queue", target: q.name, latency: q.c.s.latency.queue,
		limit:  func() *bucket { return q.data().bucket },
		effect: func() (float64, error) { return effect(q.data()) },
	}
}

// wholeSeconds rounds a time as the service does.
func wholeSeconds(d time.Duration) time.Duration {
	return (d + time.Second - 1).Truncate(time.Second)
}

func (q *queue) Send(ctx context.Context, messages []driver.Message) error {
	return each(ctx, len(messages), func(ctx context.Context, i int) error {
		return q.c.do(ctx, q.request("send", func(d *queueData) (float64, error) {
			now := time.Now()
			m := &message{id: q.c.s.next(), body: slices.Clone(messages[i].Body), sent: now.UnixNano(), visible: now.Add(wholeSeconds(messages[i].Delay)).UnixNano()}
			d.byID[m.id] = m
			heap.Push(&d.order, m)
			return 1, nil
		}))
	})
}

func (q *queue) Receive(ctx context.Context, most int, visibility time.Duration) ([]driver.Delivery, error) {
	var got []driver.Delivery
	err := q.c.do(ctx, q.request("receive", func(d *queueData) (float64, error) {
		now := time.Now()
		for len(got) < most && len(d.order) > 0 && d.order[0].visible <= now.UnixNano() {
			m := d.order[0]
			m.deliveries++
			if m.deliveries > 1 {
				q.c.s.again++
			}
			q.hide(d, m, visibility)
			m.held = true
			got = append(got, driver.Delivery{Body: slices.Clone(m.body), Receipt: m.receipt(), Deliveries: int(m.deliveries), SentAt: time.Unix(0, m.sent)})
		}
		return max(1, float64(len(got))), nil
	}))
	if err != nil {
		return nil, err
	}
	return got, nil
}

// hide makes a message visible after some time, and its receipts stale.
func (q *queue) hide(d *queueData, m *message, visibility time.Duration) {
	m.pop, m.held = q.c.s.next(), visibility > 0
	m.visible = time.Now().Add(wholeSeconds(visibility)).UnixNano()
	heap.Fix(&d.order, int(m.index))
}

func (m *message) receipt() driver.Receipt {
	return driver.Receipt(strconv.FormatUint(m.id, 36) + " " + strconv.FormatUint(m.pop, 36))
}

func (d *queueData) find(r driver.Receipt) (*message, error) {
	first, second, _ := strings.Cut(string(r), " ")
	id, err1 := strconv.ParseUint(first, 36, 64)
	pop, err2 := strconv.ParseUint(second, 36, 64)
	m := d.byID[id]
	if err1 != nil || err2 != nil || m == nil || m.pop != pop {
		return nil, driver.ErrReceiptStale
	}
	return m, nil
}

func (q *queue) Extend(ctx context.Context, r driver.Receipt, visibility time.Duration) (driver.Receipt, error) {
	var next driver.Receipt
	x := q.request("extend", func(d *queueData) (float64, error) {
		m, err := d.find(r)
		if err != nil {
			return 1, err
		}
		q.hide(d, m, visibility)
		next = m.receipt()
		return 1, nil
	})
	x.once = true
	err := q.c.do(ctx, x)
	return next, err
}

func (q *queue) Rewrite(ctx context.Context, r driver.Receipt, body []byte, delay time.Duration) error {
	return q.c.do(ctx, q.request("rewrite", func(d *queueData) (float64, error) {
		m, err := d.find(r)
		if err != nil {
			return 1, err
		}
		m.body = slices.Clone(body)
		q.hide(d, m, delay)
		m.held = false
		return 1, nil
	}))
}

func (q *queue) Delete(ctx context.Context, receipts []driver.Receipt) error {
	dead := make([]bool, len(receipts))
	err := each(ctx, len(receipts), func(ctx context.Context, i int) error {
		err := q.c.do(ctx, q.request("delete", func(d *queueData) (float64, error) {
			m, err := d.find(receipts[i])
			if err != nil {
				return 1, err
			}
			heap.Remove(&d.order, int(m.index))
			delete(d.byID, m.id)
			return 1, nil
		}))
		if dead[i] = errors.Is(err, driver.ErrReceiptStale); dead[i] {
			return nil
		}
		return err
	})
	if err != nil || !slices.Contains(dead, true) {
		return err
	}
	stale := &driver.StaleError{Queue: q.name}
	for i, r := range receipts {
		if dead[i] {
			stale.Receipts = append(stale.Receipts, r)
		}
	}
	return stale
}

// Stats takes two requests, as the driver's.
func (q *queue) Stats(ctx context.Context) (driver.Stats, error) {
	var st driver.Stats
	if err := q.c.do(ctx, q.request("stats", func(*queueData) (float64, error) { return 0, nil })); err != nil {
		return st, err
	}
	err := q.c.do(ctx, q.request("peek", func(d *queueData) (float64, error) {
		now := time.Now()
		for _, m := range d.order {
			switch {
			case m.visible <= now.UnixNano():
				st.Ready++
				st.Oldest = max(st.Oldest, now.Sub(time.Unix(0, m.sent)))
			case m.held:
				st.InFlight++
			default:
				st.Delayed++
			}
		}
		return 1, nil
	}))
	return st, err
}
