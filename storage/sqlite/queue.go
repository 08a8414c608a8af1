package sqlite

import (
	"context"
	"strconv"
	"strings"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/millrace-go/millrace/storage/driver"
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
	return kinded(q.s.write(&op{ctx: ctx, size: size, run: func(w *writer) error { return w.send(sends) }}))
}

func messageSize(m driver.Message) int { return len(m.Body) + 100 }

// send adds messages.
func (w *writer) send(sends []driver.Send) error {
	for len(sends) > 0 {
		x := sends[0]
		id, err := w.need(kindQueue, x.Queue)
		if err != nil {
			return err
		}
		if x.Message.Delay == 0 {
			done, err := w.handOver(x.Queue, id, x.Message)
			if err != nil {
				return err
			}
			if done {
				sends = sends[1:]
				continue
			}
		}
		n := 1 // messages for the same place
		for n < len(sends) && sends[n].Queue == x.Queue && sends[n].Message.Delay == x.Message.Delay {
			n++
		}
		if err := w.insertAll(id, sends[:n], entry{visible: w.after(x.Message.Delay), sent: micros(w.now)}); err != nil {
			return err
		}
		w.announce(x.Queue, w.now.Add(x.Message.Delay), true)
		sends = sends[n:]
	}
	return nil
}

// An entry is what changes about a message: a row of due.
type entry struct {
	visible, id      int64 // its place in its queue
	held, gen        int64
	sent, deliveries int64
}

// insert writes a message and returns its id.
func (w *writer) insert(queueID int64, body []byte, d entry) (id int64, err error) {
	err = w.c.stmt(`INSERT INTO messages (queue, sent, body) VALUES (?1, ?2, ?3)`).int(1, queueID).int(2, d.sent).blob(3, body).run()
	if err != nil {
		return 0, err
	}
	d.id = w.c.lastID()
	w.enter(queueID, d, 1)
	return d.id, nil
}

// insertRows is how many messages one statement writes. Batches of hundreds are a tenth faster so than one by one.
const insertRows = 8

var insertSome = "INSERT INTO messages (queue, sent, body) VALUES (?1, ?2, ?3)" + func() (rest string) {
	for i := range insertRows - 1 {
		rest += ", (?1, ?2, ?" + strconv.Itoa(i+4) + ")"
	}
	return rest
}()

// insertAll writes messages that have the same place but for their ids.
func (w *writer) insertAll(queueID int64, sends []driver.Send, d entry) error {
	for ; len(sends) >= insertRows; sends = sends[insertRows:] {
		s := w.c.stmt(insertSome).int(1, queueID).int(2, d.sent)
		for i, x := range sends[:insertRows] {
			s.blob(i+3, x.Message.Body)
		}
		if err := s.run(); err != nil {
			return err
		}
		d.id = w.c.lastID() - insertRows + 1 // ids follow each other
		w.enter(queueID, d, insertRows)
	}
	for _, x := range sends {
		if _, err := w.insert(queueID, x.Message.Body, d); err != nil {
			return err
		}
	}
	return nil
}

// placed are messages that a transaction has inserted one after another, and whose places differ by their ids alone.
type placed struct {
	queue int64
	first entry
	n     int64
}

// enter gives n messages that were just inserted, the first of them d, their places when the transaction ends.
// Nothing in the same transaction looks for them, since claims come first.
func (w *writer) enter(queueID int64, d entry, n int64) {
	if i := len(w.placed) - 1; i >= 0 {
		next := w.placed[i].first
		next.id += w.placed[i].n
		if w.placed[i].queue == queueID && next == d {
			w.placed[i].n += n
			return
		}
	}
	w.placed = append(w.placed, placed{queueID, d, n})
}

// place writes the places of all inserted messages. One statement writes neighbours, which takes a third of the time.
func (w *writer) place() error {
	if len(w.placed) > 0 {
		if err := w.noteTime(); err != nil {
			return err
		}
	}
	for _, p := range w.placed {
		d := p.first
		if p.n == 1 {
			err := w.c.stmt(`INSERT INTO due VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)`).
				int(1, p.queue).int(2, d.visible).int(3, d.id).int(4, d.held).int(5, d.gen).int(6, d.sent).int(7, d.deliveries).run()
			if err != nil {
				return err
			}
			continue
		}
		err := w.c.stmt(`INSERT INTO due SELECT ?1, ?2, id, ?4, ?5, ?6, ?7 FROM messages WHERE id BETWEEN ?3 AND ?8`).
			int(1, p.queue).int(2, d.visible).int(3, d.id).int(4, d.held).int(5, d.gen).int(6, d.sent).int(7, d.deliveries).int(8, d.id+p.n-1).run()
		if err != nil {
			return err
		}
		if int64(w.c.changes()) != p.n { // ids that don't follow each other: a file that was tampered with
			return &Error{Code: sqlite3.SQLITE_CORRUPT, Message: "messages were not written where they were expected"}
		}
	}
	return nil
}

func (q *queue) Receive(ctx context.Context, max int, visibility time.Duration) ([]driver.Delivery, error) {
	q.s.count("receive", "queue", q.name)
	q.s.peers.ReleaseClaimsOfDead(ctx)
	o := &op{ctx: ctx, size: max * 1024, relaxed: true, early: true}
	x := &want{by: o, max: max, visibility: visibility}
	o.run = func(w *writer) (err error) {
		if x.got, err = w.claim(q.name, max, visibility); err == nil && len(x.got) < max {
			w.want(q.name, x)
		}
		return err
	}
	if err := q.s.write(o); err != nil {
		return nil, kinded(err)
	}
	return x.got, nil
}

// claim gives the caller messages. It reads them, gives all of them new places, and then takes them out of the old
// ones. That takes two thirds of the time of an UPDATE.
func (w *writer) claim(queue string, max int, visibility time.Duration) ([]driver.Delivery, error) {
	id, err := w.find(kindQueue, queue)
	if err != nil || id == 0 {
		return nil, err
	}
	var (
		got  []driver.Delivery
		d    = entry{visible: w.after(visibility)} // after now: no new place is among the old ones
		last entry
	)
	s := w.c.stmt(`SELECT visible, due.id, due.sent, deliveries, body FROM due CROSS JOIN messages USING (id)
		WHERE due.queue = ?1 AND visible <= ?2 ORDER BY visible, due.id LIMIT ?3`).
		int(1, id).int(2, w.at).int(3, int64(max))
	for {
		row, err := s.step()
		if err != nil {
			return nil, err
		}
		if !row {
			break
		}
		if len(got) == 0 {
			d.gen = w.s.peers.Generation()
		}
		last = entry{visible: s.colInt(0), id: s.colInt(1)}
		d.id = last.id
		got = append(got, driver.Delivery{
			Body:       s.colBytes(4),
			Receipt:    d.receipt(),
			Deliveries: int(s.colInt(3)) + 1,
			SentAt:     time.UnixMicro(s.colInt(2)),
		})
	}
	if len(got) > 0 {
		err := w.c.stmt(`INSERT INTO due SELECT queue, ?4, id, 1, ?5, sent, deliveries + 1 FROM due WHERE queue = ?1 AND (visible, id) <= (?2, ?3)`).
			int(1, id).int(2, last.visible).int(3, last.id).int(4, d.visible).int(5, d.gen).run()
		if err != nil {
			return nil, err
		}
		err = w.c.stmt(`DELETE FROM due WHERE queue = ?1 AND (visible, id) <= (?2, ?3)`).int(1, id).int(2, last.visible).int(3, last.id).run()
		if err != nil {
			return nil, err
		}
		if err := w.noteTime(); err != nil {
			return nil, err
		}
		w.announce(queue, w.now.Add(visibility), false)
	}
	if len(got) < max && w.s.wakes.watches(queue) {
		return got, w.announceNext(queue, id)
	}
	return got, nil
}

// announceNext sets the timer for the queue's next message, once all that are due have been claimed.
func (w *writer) announceNext(queue string, id int64) error {
	s := w.c.stmt(`SELECT visible FROM due WHERE queue = ?1 AND visible > ?2 ORDER BY visible LIMIT 1`).int(1, id).int(2, w.at)
	row, err := s.step()
	if !row {
		return err
	}
	w.announce(queue, w.now.Add(time.Duration(s.colInt(0)-w.at)*time.Microsecond), false)
	s.reset()
	return nil
}

func (q *queue) Extend(ctx context.Context, receipt driver.Receipt, visibility time.Duration) (driver.Receipt, error) {
	q.s.count("extend", "queue", q.name)
	var next driver.Receipt
	err := q.s.write(&op{ctx: ctx, size: 100, relaxed: true, run: func(w *writer) (err error) {
		next, err = w.extend(q.name, receipt, visibility)
		return err
	}})
	if err != nil {
		return "", kinded(err)
	}
	return next, nil
}

func (w *writer) extend(queue string, receipt driver.Receipt, visibility time.Duration) (driver.Receipt, error) {
	d, ok := parseReceipt(receipt)
	queueID, err := w.find(kindQueue, queue)
	if err != nil {
		return "", err
	}
	if !ok || queueID == 0 {
		return "", driver.ErrReceiptStale
	}
	visible, next := w.after(visibility), w.s.peers.NextGeneration(d.gen)
	err = w.c.stmt(`UPDATE due SET visible = ?5, held = 1, gen = ?6 WHERE queue = ?1 AND visible = ?2 AND id = ?3 AND gen = ?4`).
		int(1, queueID).int(2, d.visible).int(3, d.id).int(4, d.gen).int(5, visible).int(6, next).run()
	if err != nil {
		return "", err
	}
	if w.c.changes() == 0 {
		return "", driver.ErrReceiptStale
	}
	w.announce(queue, w.now.Add(visibility), visibility == 0)
	d.visible, d.gen = visible, next
	return d.receipt(), nil
}

func (q *queue) Rewrite(ctx context.Context, receipt driver.Receipt, body []byte, delay time.Duration) error {
	q.s.count("rewrite", "queue", q.name)
	m := driver.Message{Body: body, Delay: delay}
	return kinded(q.s.write(&op{ctx: ctx, size: messageSize(m), run: func(w *writer) error {
		return w.rewrite(q.name, receipt, m)
	}}))
}

func (w *writer) rewrite(queue string, receipt driver.Receipt, m driver.Message) error {
	d, ok := parseReceipt(receipt)
	queueID, err := w.find(kindQueue, queue)
	if err != nil {
		return err
	}
	if !ok || queueID == 0 {
		return driver.ErrReceiptStale
	}
	err = w.c.stmt(`UPDATE due SET visible = ?5, held = 0, gen = gen + 1 WHERE queue = ?1 AND visible = ?2 AND id = ?3 AND gen = ?4`).
		int(1, queueID).int(2, d.visible).int(3, d.id).int(4, d.gen).int(5, w.after(m.Delay)).run()
	if err != nil {
		return err
	}
	if w.c.changes() == 0 {
		return driver.ErrReceiptStale
	}
	if err := w.c.stmt(`UPDATE messages SET body = ?2 WHERE id = ?1`).int(1, d.id).blob(2, m.Body).run(); err != nil {
		return err
	}
	w.announce(queue, w.now.Add(m.Delay), true)
	return nil
}

func (q *queue) Delete(ctx context.Context, receipts []driver.Receipt) error {
	q.s.count("delete", "queue", q.name)
	gone := make([]bool, len(receipts))
	err := q.s.write(&op{ctx: ctx, size: 100 * len(receipts), aside: true, late: true, run: func(w *writer) error {
		for i, r := range receipts {
			if err := w.delete(q.name, r, &gone[i]); err != nil {
				return err
			}
		}
		return nil
	}})
	if err != nil {
		return kinded(err)
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
		// Only what receipt makes: no signs, no leading zeros.
		if field == "" || field[0] < '1' || field != strings.ToLower(field) {
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
