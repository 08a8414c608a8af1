package sqlite

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/millrace-go/millrace/storage/driver"
	"github.com/millrace-go/millrace/storage/sqlite/internal/engine"
	"github.com/millrace-go/millrace/storage/sqlite/internal/peers"
)

// queue implements driver.Queue.
type queue struct {
	s    *store
	name string
}

func (q *queue) Send(ctx context.Context, messages []driver.Message) error {
	q.s.count("send", "queue", q.name)
	size := 0
	sends := make([]driver.Send, len(messages))
	for i, m := range messages {
		size += messageSize(m)
		sends[i] = driver.Send{Queue: q.name, Message: m}
	}
	return q.s.write(&engine.Op{Ctx: ctx, Size: size}, func(w *tx) error { return w.send(sends) })
}

func messageSize(m driver.Message) int { return len(m.Body) + len(m.Key) + 100 }

// send adds messages.
func (w *tx) send(sends []driver.Send) error {
	for _, x := range sends {
		id, err := w.names.need(kindQueue, x.Queue)
		if err != nil {
			return err
		}
		if x.Message.Delay == 0 {
			done, err := w.handOver(x.Queue, id, x.Message)
			if err != nil {
				return err
			}
			if done {
				continue
			}
		}
		d := entry{visible: w.after(x.Message.Delay), sent: micros(w.now)}
		if x.Message.Key != "" {
			d.gen = peers.AnonymousGeneration() // its place and gen are a receipt before it is received
		}
		if _, err := w.inserts.insert(id, x.Message, d); err != nil {
			return err
		}
		w.announce(x.Queue, w.now.Add(x.Message.Delay), true)
	}
	return nil
}

// An entry is what changes about a message: a row of due.
type entry struct {
	visible, id      int64 // its place in its queue
	held, gen        int64
	sent, deliveries int64
}

// inserts are the messages that a transaction has inserted, without their places yet.
type inserts struct {
	c    *engine.Conn
	list []placed
}

// insert writes a message and returns its id.
func (x *inserts) insert(queueID int64, m driver.Message, d entry) (id int64, err error) {
	if m.Key == "" {
		err = x.c.Stmt(`INSERT INTO messages (queue, sent, body) VALUES (?1, ?2, ?3)`).Int(1, queueID).Int(2, d.sent).Blob(3, m.Body).Run()
	} else {
		err = x.c.Stmt(`INSERT INTO messages (queue, sent, body, key, hidden) VALUES (?1, ?2, ?3, ?4, ?5)`).
			Int(1, queueID).Int(2, d.sent).Blob(3, m.Body).Text(4, m.Key).Int(5, d.visible).Run()
	}
	if err != nil {
		return 0, err
	}
	d.id = x.c.LastID()
	if m.Key != "" {
		if err := x.keep(queueID, d.id, m.Key); err != nil {
			return 0, err
		}
	}
	x.enter(queueID, d)
	return d.id, nil
}

// placed are messages that a transaction has inserted one after another, and whose places differ by their ids alone.
type placed struct {
	queue int64
	first entry
	n     int64
}

// enter gives a message that was just inserted its place when the transaction ends. Nothing in the same transaction
// looks for it, since claims come first.
func (x *inserts) enter(queueID int64, d entry) {
	if i := len(x.list) - 1; i >= 0 {
		next := x.list[i].first
		next.id += x.list[i].n
		if x.list[i].queue == queueID && next == d {
			x.list[i].n++
			return
		}
	}
	x.list = append(x.list, placed{queueID, d, 1})
}

// place writes the places of all inserted messages. One statement writes neighbours, which takes a third of the time.
func (x *inserts) place() error {
	for _, p := range x.list {
		d := p.first
		if p.n == 1 {
			err := x.c.Stmt(`INSERT INTO due VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)`).
				Int(1, p.queue).Int(2, d.visible).Int(3, d.id).Int(4, d.held).Int(5, d.gen).Int(6, d.sent).Int(7, d.deliveries).Run()
			if err != nil {
				return err
			}
			continue
		}
		err := x.c.Stmt(`INSERT INTO due SELECT ?1, ?2, id, ?4, ?5, ?6, ?7 FROM messages WHERE id BETWEEN ?3 AND ?8`).
			Int(1, p.queue).Int(2, d.visible).Int(3, d.id).Int(4, d.held).Int(5, d.gen).Int(6, d.sent).Int(7, d.deliveries).Int(8, d.id+p.n-1).Run()
		if err != nil {
			return err
		}
	}
	return nil
}

func (q *queue) Receive(ctx context.Context, max int, visibility time.Duration) ([]driver.Delivery, error) {
	q.s.count("receive", "queue", q.name)
	q.s.peers.ReleaseClaimsOfDead(ctx)
	o := &engine.Op{Ctx: ctx, Size: max * 1024, Relaxed: true, Early: true}
	x := &want{by: o, max: max, visibility: visibility}
	err := q.s.write(o, func(w *tx) (err error) {
		if x.got, err = w.claim(q.name, max, visibility); err == nil && len(x.got) < max {
			w.wants.add(q.name, x)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return x.got, nil
}

// claim gives the caller messages. It reads them, gives all of them new places, and then takes them out of the old
// ones. That takes two thirds of the time of an UPDATE.
func (w *tx) claim(queue string, max int, visibility time.Duration) ([]driver.Delivery, error) {
	id, err := w.names.find(kindQueue, queue)
	if err != nil || id == 0 {
		return nil, err
	}
	var (
		got  []driver.Delivery
		d    = entry{visible: w.after(visibility)} // after now: no new place is among the old ones
		last entry
	)
	s := w.c.Stmt(`SELECT visible, due.id, due.sent, deliveries, body FROM due CROSS JOIN messages USING (id)
		WHERE due.queue = ?1 AND visible <= ?2 ORDER BY visible, due.id LIMIT ?3`).
		Int(1, id).Int(2, w.at).Int(3, int64(max))
	for {
		row, err := s.Step()
		if err != nil {
			return nil, err
		}
		if !row {
			break
		}
		if len(got) == 0 {
			d.gen = w.s.peers.Generation()
		}
		last = entry{visible: s.ColInt(0), id: s.ColInt(1)}
		d.id = last.id
		got = append(got, driver.Delivery{
			Body:       s.ColBytes(4),
			Receipt:    d.receipt(),
			Deliveries: int(s.ColInt(3)) + 1,
			SentAt:     time.UnixMicro(s.ColInt(2)),
		})
	}
	if len(got) > 0 {
		err := w.c.Stmt(`INSERT INTO due SELECT queue, ?4, id, 1, ?5, sent, deliveries + 1 FROM due WHERE queue = ?1 AND (visible, id) <= (?2, ?3)`).
			Int(1, id).Int(2, last.visible).Int(3, last.id).Int(4, d.visible).Int(5, d.gen).Run()
		if err != nil {
			return nil, err
		}
		err = w.c.Stmt(`DELETE FROM due WHERE queue = ?1 AND (visible, id) <= (?2, ?3)`).Int(1, id).Int(2, last.visible).Int(3, last.id).Run()
		if err != nil {
			return nil, err
		}
		if err := w.noteTime(); err != nil {
			return nil, err
		}
		w.announce(queue, w.now.Add(visibility), false)
	}
	if len(got) < max && w.s.rings.Watches(queue) {
		return got, w.announceNext(queue, id)
	}
	return got, nil
}

// announceNext sets the timer for the queue's next message, once all that are due have been claimed.
func (w *tx) announceNext(queue string, id int64) error {
	s := w.c.Stmt(`SELECT visible FROM due WHERE queue = ?1 AND visible > ?2 ORDER BY visible LIMIT 1`).Int(1, id).Int(2, w.at)
	row, err := s.Step()
	if !row {
		return err
	}
	w.announce(queue, w.now.Add(time.Duration(s.ColInt(0)-w.at)*time.Microsecond), false)
	s.Reset()
	return nil
}

func (q *queue) Extend(ctx context.Context, receipt driver.Receipt, visibility time.Duration) (driver.Receipt, error) {
	q.s.count("extend", "queue", q.name)
	var next driver.Receipt
	err := q.s.write(&engine.Op{Ctx: ctx, Size: 100, Relaxed: true}, func(w *tx) (err error) {
		next, err = w.extend(q.name, receipt, visibility)
		return err
	})
	if err != nil {
		return "", err
	}
	return next, nil
}

func (w *tx) extend(queue string, receipt driver.Receipt, visibility time.Duration) (driver.Receipt, error) {
	d, ok := parseReceipt(receipt)
	queueID, err := w.names.find(kindQueue, queue)
	if err != nil {
		return "", err
	}
	if !ok || queueID == 0 {
		return "", driver.ErrReceiptStale
	}
	visible, next := w.after(visibility), w.s.peers.NextGeneration(d.gen)
	err = w.c.Stmt(`UPDATE due SET visible = ?5, held = 1, gen = ?6 WHERE queue = ?1 AND visible = ?2 AND id = ?3 AND gen = ?4 AND held`).
		Int(1, queueID).Int(2, d.visible).Int(3, d.id).Int(4, d.gen).Int(5, visible).Int(6, next).Run()
	if err != nil {
		return "", err
	}
	if w.c.Changes() == 0 {
		return "", driver.ErrReceiptStale
	}
	w.announce(queue, w.now.Add(visibility), visibility == 0)
	d.visible, d.gen = visible, next
	return d.receipt(), nil
}

func (q *queue) Rewrite(ctx context.Context, receipt driver.Receipt, body []byte, delay time.Duration) error {
	q.s.count("rewrite", "queue", q.name)
	m := driver.Message{Body: body, Delay: delay}
	return q.s.write(&engine.Op{Ctx: ctx, Size: messageSize(m)}, func(w *tx) error {
		return w.rewrite(q.name, receipt, m)
	})
}

func (w *tx) rewrite(queue string, receipt driver.Receipt, m driver.Message) error {
	d, ok := parseReceipt(receipt)
	queueID, err := w.names.find(kindQueue, queue)
	if err != nil {
		return err
	}
	if !ok || queueID == 0 {
		return driver.ErrReceiptStale
	}
	visible := w.after(m.Delay)
	err = w.c.Stmt(`UPDATE due SET visible = ?5, held = 0, gen = gen + 1 WHERE queue = ?1 AND visible = ?2 AND id = ?3 AND gen = ?4 AND held`).
		Int(1, queueID).Int(2, d.visible).Int(3, d.id).Int(4, d.gen).Int(5, visible).Run()
	if err != nil {
		return err
	}
	if w.c.Changes() == 0 {
		return driver.ErrReceiptStale
	}
	err = w.c.Stmt(`UPDATE messages SET body = ?2, hidden = iif(key IS NULL, NULL, ?3) WHERE id = ?1`).Int(1, d.id).Blob(2, m.Body).Int(3, visible).Run()
	if err != nil {
		return err
	}
	w.announce(queue, w.now.Add(m.Delay), true)
	return nil
}

func (q *queue) Delete(ctx context.Context, receipts []driver.Receipt) error {
	q.s.count("delete", "queue", q.name)
	gone := make([]bool, len(receipts))
	err := q.s.write(deletion(ctx, len(receipts)), func(w *tx) error {
		for i, r := range receipts {
			if err := w.delete(q.name, r, &gone[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	var stale []driver.Receipt
	for i, r := range receipts {
		if !gone[i] {
			stale = append(stale, r)
		}
	}
	if len(stale) > 0 {
		return &driver.StaleError{Queue: q.name, Receipts: stale}
	}
	return nil
}

// deletion returns an op for n deletions. It is late: when a power failure brings a message back before its caller was
// answered, its delivery is a repeat like any other.
func deletion(ctx context.Context, n int) *engine.Op {
	return &engine.Op{Ctx: ctx, Size: 100 * n, Late: true}
}

// A receipt is a message's id, generation and time of visibility in base 36.
func (d entry) receipt() driver.Receipt {
	b := make([]byte, 0, 48)
	b = strconv.AppendInt(b, d.id, 36)
	b = append(b, '.')
	b = strconv.AppendInt(b, d.gen, 36)
	b = append(b, '.')
	b = strconv.AppendInt(b, d.visible, 36)
	return driver.Receipt(b)
}

func parseReceipt(r driver.Receipt) (d entry, ok bool) {
	rest := string(r)
	for _, to := range []*int64{&d.id, &d.gen, &d.visible} {
		field, more, _ := strings.Cut(rest, ".")
		// Only what receipt makes: no signs, no leading zeros. A message that nobody has received may have generation 0.
		if field == "" || field[0] < '1' && (field != "0" || to != &d.gen) || field != strings.ToLower(field) {
			return entry{}, false
		}
		n, err := strconv.ParseInt(field, 36, 64)
		if err != nil {
			return entry{}, false
		}
		*to, rest = n, more
	}
	return d, strings.Count(string(r), ".") == 2
}
