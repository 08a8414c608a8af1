package storagetest_test

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/millrace-go/millrace/storage"
)

type modelQueue struct {
	m    *model
	name string
}

// add adds one message of a send. mu is held.
func (p *place) add(queue string, x storage.Message) {
	if p.has("loses delays") {
		x.Delay = 0
	}
	if p.has("delay in whole seconds") {
		x.Delay = x.Delay.Truncate(time.Second)
	}
	body := p.copied(x.Body, "keeps what is sent")
	switch p.bug {
	case "cuts bodies at NUL":
		body, _, _ = bytes.Cut(body, []byte{0})
	case "repairs UTF-8":
		body = bytes.ToValidUTF8(body, []byte("\ufffd"))
	case "trims bodies":
		body = bytes.TrimSpace(body)
	}
	now := time.Now()
	x1 := &message{body: body, sent: now, from: p.at(x.Delay), delayed: x.Delay > 0, key: x.Key}
	if p.has("forgets keys") {
		x1.key = ""
	}
	if p.has("no send time") {
		x1.sent = time.Time{}
	}
	p.queues[queue] = append(p.queues[queue], x1)
	if p.claimFor(queue, x1, x.Delay) {
		return
	}
	p.ring(queue, x1.from)
}

func (q modelQueue) Send(ctx context.Context, messages []storage.Message) error {
	p := q.m.place
	if p.has("sends a batch bit by bit") {
		for _, x := range messages {
			if err := q.send(ctx, []storage.Message{x}); err != nil {
				return err
			}
			p.awaitCalls()
		}
		return nil
	}
	return q.send(ctx, messages)
}

func (q modelQueue) send(ctx context.Context, messages []storage.Message) error {
	return q.m.do(ctx, "send", func() error {
		if q.m.has("overwrites its arguments") {
			slices.SortFunc(messages, func(a, b storage.Message) int { return bytes.Compare(a.Body, b.Body) })
		}
		for _, x := range messages {
			if len(x.Body) == q.m.Props().MaxMessage && q.m.has("size limit off by one") {
				return storage.ErrTooLarge
			}
		}
		if q.m.has("uses a body after a cancelled call") && ctx.Done() != nil {
			messages = slices.Clone(messages)
			time.AfterFunc(time.Millisecond/2, func() {
				q.m.mu.Lock()
				defer q.m.mu.Unlock()
				for _, x := range messages {
					q.m.add(q.name, x)
				}
			})
			return nil
		}
		q.m.sends++
		for _, x := range messages {
			q.m.add(q.name, x)
		}
		return nil
	})
}

func (q modelQueue) Receive(ctx context.Context, most int, visibility time.Duration) ([]storage.Delivery, error) {
	var got []storage.Delivery
	p := q.m.place
	err := q.m.do(ctx, "receive", func() error {
		var shared []byte
		for _, x := range p.queues[q.name] {
			if len(got) == most && !p.has("more than max") {
				break
			}
			if time.Now().Before(x.from) || p.has("never delivers again") && x.deliveries > 0 {
				continue
			}
			if p.has("delivers twice") {
				p.letIn()
			}
			x.deliveries++
			if p.has("does not count deliveries") {
				x.deliveries = 1
			}
			if !p.has("keeps the receipt over deliveries", "a delivery keeps what was found") || x.receipt == "" {
				x.receipt = storage.Receipt(fmt.Sprintf("r-%012s", p.next()))
			}
			x.from, x.delayed, x.received = p.at(visibility), false, true
			if p.has("ignores visibility") {
				x.from = time.Now()
			}
			if p.has("visibility in whole seconds") {
				x.from = time.Now().Add(visibility.Truncate(time.Second))
			}
			p.ring(q.name, x.from)
			body := p.copied(x.body, "hands out what it keeps")
			if p.has("bodies share memory") {
				shared = append(slices.Grow(shared, 1000-len(shared)), body...)
				body = shared[len(shared)-len(body):]
			}
			got = append(got, storage.Delivery{Body: body, Receipt: x.receipt, Deliveries: x.deliveries, SentAt: x.sent})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return got, nil
}

// held returns the index of a receipt's message. mu is held.
func (p *place) held(queue string, r storage.Receipt) (int, bool) {
	if p.has("panics on garbage") {
		_ = r[:2]
	}
	for i, x := range p.queues[queue] {
		if r == "" || x.receipt == "" {
			continue
		}
		if x.receipt == r || p.has("trims receipts") && strings.TrimSpace(string(r)) == string(x.receipt) ||
			p.has("any receipt will do") && strings.HasPrefix(string(r), "r-") {
			if p.has("receipts die with the visibility") && !time.Now().Before(x.from) {
				return 0, false
			}
			return i, true
		}
	}
	return 0, false
}

func (q modelQueue) Extend(ctx context.Context, r storage.Receipt, visibility time.Duration) (storage.Receipt, error) {
	p := q.m.place
	var newer storage.Receipt
	err := q.m.do(ctx, "extend", func() error {
		i, ok := p.held(q.name, r)
		if ok && !p.queues[q.name][i].received && !p.has("extends what is found") {
			ok = false
		}
		if !ok {
			if p.has("tells receipts in errors") {
				return fmt.Errorf("%w: %.40s", storage.ErrReceiptStale, r)
			}
			return storage.ErrReceiptStale
		}
		x := p.queues[q.name][i]
		newer = storage.Receipt(fmt.Sprintf("r-%012s", p.next()))
		switch p.bug {
		case "extend keeps the receipt":
			newer = r
		case "extend keeps the old receipt alive":
			twin := *x
			twin.from = time.Now().Add(time.Hour)
			p.queues[q.name] = append(p.queues[q.name], &twin)
		case "extend erases the body":
			x.body = nil
		}
		x.receipt = newer
		switch {
		case p.has("extend does not extend"), p.has("extend never hands back") && visibility == 0:
		case p.has("extend only lengthens") && x.from.After(p.at(visibility)) && visibility > 0:
		default:
			x.from = p.at(visibility)
		}
		p.ring(q.name, x.from)
		return nil
	})
	return newer, err
}

func (q modelQueue) Rewrite(ctx context.Context, r storage.Receipt, body []byte, delay time.Duration) error {
	p := q.m.place
	return q.m.do(ctx, "rewrite", func() error {
		i, ok := p.held(q.name, r)
		if ok && !p.queues[q.name][i].received && !p.has("extends what is found") {
			ok = false
		}
		if !ok {
			return storage.ErrReceiptStale
		}
		x := p.queues[q.name][i]
		if !p.has("rewrite keeps the body") && !(p.has("rewrite ignores an empty body") && len(body) == 0) {
			x.body = p.copied(body, "keeps what is rewritten")
		}
		if p.has("rewrite loses the delay") {
			delay = 0
		}
		if p.has("rewrite counts from nothing") {
			x.deliveries = 0
		}
		if p.has("rewrite sends again") {
			x.sent = time.Now()
		}
		if !p.has("rewrite keeps the receipt") {
			x.receipt = ""
		}
		x.from, x.delayed, x.received = p.at(delay), delay > 0, p.has("rewrite hides from the finder")
		p.ring(q.name, x.from)
		return nil
	})
}

// remove deletes messages and returns the dead receipts. mu is held.
func (p *place) remove(queue string, rs []storage.Receipt) (dead []storage.Receipt) {
	for _, r := range rs {
		i, ok := p.held(queue, r)
		switch {
		case ok:
			p.queues[queue] = slices.Delete(slices.Clone(p.queues[queue]), i, i+1)
		case p.has("delete on a dead receipt") && len(p.queues[queue]) > 0:
			p.queues[queue] = p.queues[queue][1:]
			dead = append(dead, r)
		default:
			dead = append(dead, r)
			if p.has("delete stops at a dead receipt") {
				return dead
			}
		}
	}
	return dead
}

func (q modelQueue) Delete(ctx context.Context, rs []storage.Receipt) error {
	return q.m.do(ctx, "delete", func() error {
		dead := q.m.remove(q.name, rs)
		switch {
		case len(dead) == 0 || q.m.has("delete tells of no dead receipt"):
			return nil
		case q.m.has("delete names all receipts"):
			dead = rs
		}
		return &storage.StaleError{Queue: q.name, Receipts: dead}
	})
}

// Find implements driver.Finder.
func (m *model) Find(ctx context.Context, queue, key string) (got []storage.Delivery, err error) {
	p := m.place
	err = m.do(ctx, "find", func() error {
		for _, x := range p.queues[queue] {
			if x.key != key && !p.has("finds whatever the key") && !(p.has("finds without case") && strings.EqualFold(x.key, key)) {
				continue
			}
			d := storage.Delivery{Body: p.copied(x.body, "shares what it finds"), Deliveries: x.deliveries, SentAt: x.sent}
			switch {
			case !x.received && x.receipt == "":
				x.receipt = storage.Receipt(fmt.Sprintf("r-%012s", p.next()))
				d.Receipt = x.receipt
			case !x.received, p.has("finds receipts of others"):
				d.Receipt = x.receipt
			}
			if p.has("finding delivers") {
				x.deliveries++
			}
			got = append(got, d)
		}
		return nil
	})
	return got, err
}

// peek copies the messages that wait. mu is held.
func (p *place) peek(queue string) []storage.Peeked {
	var ready, delayed []storage.Peeked
	now := time.Now()
	for _, x := range p.queues[queue] {
		if !x.received && x.receipt == "" {
			x.receipt = storage.Receipt(fmt.Sprintf("r-%012s", p.next()))
		}
		m := storage.Peeked{Body: p.copied(x.body, "shares what it shows"), Deliveries: x.deliveries, SentAt: x.sent}
		if !x.received && !p.has("shows no receipts") {
			m.Receipt = x.receipt
		}
		if p.has("shows receipts that delete nothing") {
			m.Receipt = "r-nothing"
		}
		if p.has("looking delivers") {
			x.deliveries++
		}
		switch {
		case !now.Before(x.from):
			ready = append(ready, m)
		case x.delayed || p.has("shows what is held"):
			m.ReadyAt = x.from
			delayed = append(delayed, m)
		}
	}
	if p.has("shows one page") && len(ready) > 32 {
		ready = ready[:32]
	}
	if p.has("shows delayed messages first") {
		return append(delayed, ready...)
	}
	slices.SortStableFunc(delayed, func(a, b storage.Peeked) int { return a.ReadyAt.Compare(b.ReadyAt) })
	return append(ready, delayed...)
}

// Peek implements driver.Peeker.
func (m *model) Peek(ctx context.Context, queue string) iter.Seq2[storage.Peeked, error] {
	return func(yield func(storage.Peeked, error) bool) {
		var all []storage.Peeked
		p := m.place
		err := m.do(ctx, "peek", func() error {
			all = p.peek(queue)
			return nil
		})
		if err != nil {
			yield(storage.Peeked{}, err)
			return
		}
		for _, x := range all {
			if !yield(x, nil) {
				return
			}
		}
	}
}

func (m *model) Queues(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		var all []string
		err := m.do(ctx, "list queues", func() error {
			for name, messages := range m.queues {
				if len(messages) > 0 && !m.has("lists no queue") {
					all = append(all, name)
				}
			}
			return nil
		})
		if err != nil {
			yield("", err)
			return
		}
		for _, name := range all {
			if !yield(name, nil) {
				return
			}
		}
	}
}

func (q modelQueue) Stats(ctx context.Context) (st storage.Stats, err error) {
	err = q.m.do(ctx, "stats", func() error {
		for _, x := range q.m.queues[q.name] {
			switch now := time.Now(); {
			case !now.Before(x.from) || q.m.has("stats count all as ready"):
				st.Ready++
				st.Oldest = max(st.Oldest, now.Sub(x.sent))
				if q.m.has("age since ready") {
					st.Oldest = now.Sub(x.from)
				}
			case x.delayed:
				st.Delayed++
			default:
				st.InFlight++
			}
		}
		return nil
	})
	return st, err
}
