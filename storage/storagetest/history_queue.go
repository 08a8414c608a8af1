package storagetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/millrace-go/millrace/storage"
)

// A queueCall is a call as seen by one message.
type queueCall struct {
	op      string // "send", "receive", "extend", "rewrite" or "delete"
	body    string // of a send or rewrite
	receipt storage.Receipt
	hidden  bool // an extend or rewrite that hides for longer than the play takes; otherwise it makes the message visible
}

type queueAnswer struct {
	kind       string // as player.call returns it
	body       string // of a receive; "" if it returned no message
	receipt    storage.Receipt
	deliveries int
}

type queueEvent = Answer[queueCall, queueAnswer]

// messageOf returns the message of a body: bodies are MESSAGE/REVISION.
func messageOf(body string) string {
	message, _, _ := strings.Cut(body, "/")
	return message
}

// A claimed is a message's receipt that a player got.
type claimed struct {
	message string
	receipt storage.Receipt
}

// claims are the receipts of all players, the newest last.
type claims struct {
	mu  sync.Mutex
	all []claimed // under mu
}

func (c *claims) add(message string, r storage.Receipt) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, claimed{message, r})
}

// choose returns up to n of the newest receipts, each of a different message.
func (c *claims) choose(p *player, n int) []claimed {
	c.mu.Lock()
	defer c.mu.Unlock()
	var chosen []claimed
	newest := c.all[max(0, len(c.all)-8):]
	for _, i := range p.Perm(len(newest)) {
		if len(chosen) < n && !slices.ContainsFunc(chosen, func(x claimed) bool { return x.message == newest[i].message }) {
			chosen = append(chosen, newest[i])
		}
	}
	return chosen
}

// queuePlayer is a player at a queue.
type queuePlayer struct {
	*player
	ctx    context.Context
	q      *storage.Queue
	h      *History[queueCall, queueAnswer]
	claims *claims
}

func playQueue(ctx context.Context, stores []*storage.Store, seed uint64, folder string) error {
	h, c := new(History[queueCall, queueAnswer]), new(claims)
	together(stores, seed, func(p *player) {
		x := queuePlayer{p, ctx, p.store.Queue("history"), h, c}
		for i := range turns {
			switch dice := p.IntN(20); {
			case dice < 5:
				if body := fmt.Sprintf("%d-%d/0", p.n, i); !x.send(body) {
					x.send(body) // like a real caller; the queue may then hold the message twice
				}
			case dice < 10:
				p.steady = i > turns/4 // a receive without an answer may have taken any message, and then a missing one proves nothing
				x.receive(1+p.IntN(3), false)
				p.steady = false
			case dice < 12:
				x.extend(true)
			case dice < 14:
				x.extend(false)
			case dice < 17:
				x.rewrite(i, dice == 14)
			default:
				x.delete(1 + p.IntN(2))
			}
		}
	})
	end := queuePlayer{&player{steady: true}, ctx, stores[0].Queue("history"), h, c}
	for range 2 * turns * len(stores) {
		if end.receive(10, true) {
			return CheckHistory(h, queueStep, folder)
		}
	}
	return errors.New("history of a queue: receiving brings messages without end")
}

// send reports whether the message is known to be sent.
func (x queuePlayer) send(body string) (sent bool) {
	x.h.Record(x.n, func() []queueEvent {
		kind := x.call(x.ctx, func(ctx context.Context) error { return x.q.Send(ctx, []storage.Message{{Body: []byte(body)}}) })
		sent = kind == "ok"
		return []queueEvent{{Key: messageOf(body), In: queueCall{op: "send", body: body}, Out: queueAnswer{kind: kind}, Unknown: kind == ""}}
	})
	return sent
}

// receive reports whether it returned no message. That proves that no message was ready only if no other player
// calls.
func (x queuePlayer) receive(most int, alone bool) (nothing bool) {
	x.h.Record(x.n, func() (events []queueEvent) {
		var ds []storage.Delivery
		kind := x.call(x.ctx, func(ctx context.Context) (err error) {
			ds, err = x.q.Receive(ctx, most, hold)
			return err
		})
		for _, d := range ds {
			x.claims.add(messageOf(string(d.Body)), d.Receipt)
			out := queueAnswer{kind, string(d.Body), d.Receipt, d.Deliveries}
			events = append(events, queueEvent{Key: messageOf(out.body), In: queueCall{op: "receive"}, Out: out})
		}
		nothing = kind == "ok" && len(ds) == 0
		if nothing && alone || kind != "ok" {
			events = append(events, queueEvent{In: queueCall{op: "receive"}, Out: queueAnswer{kind: kind}, Unknown: kind == ""})
		}
		return events
	})
	return nothing
}

func (x queuePlayer) extend(hidden bool) {
	for _, c := range x.claims.choose(x.player, 1) {
		in := queueCall{op: "extend", receipt: c.receipt, hidden: hidden}
		x.h.Record(x.n, func() []queueEvent {
			visibility := hold
			if !hidden {
				visibility = 0
			}
			var out queueAnswer
			out.kind = x.call(x.ctx, func(ctx context.Context) (err error) {
				out.receipt, err = x.q.Extend(ctx, c.receipt, visibility)
				return err
			})
			if out.kind == "ok" {
				x.claims.add(c.message, out.receipt)
			}
			return []queueEvent{{Key: c.message, In: in, Out: out, Unknown: out.kind == ""}}
		})
	}
}

func (x queuePlayer) rewrite(revision int, hidden bool) {
	for _, c := range x.claims.choose(x.player, 1) {
		in := queueCall{op: "rewrite", receipt: c.receipt, hidden: hidden, body: fmt.Sprintf("%s/%d-%d", c.message, x.n, revision)}
		x.h.Record(x.n, func() []queueEvent {
			delay := hold
			if !hidden {
				delay = 0
			}
			kind := x.call(x.ctx, func(ctx context.Context) error { return x.q.Rewrite(ctx, c.receipt, []byte(in.body), delay) })
			return []queueEvent{{Key: c.message, In: in, Out: queueAnswer{kind: kind}, Unknown: kind == ""}}
		})
	}
}

func (x queuePlayer) delete(most int) {
	chosen := x.claims.choose(x.player, most)
	x.h.Record(x.n, func() (events []queueEvent) {
		var receipts []storage.Receipt
		for _, c := range chosen {
			receipts = append(receipts, c.receipt)
		}
		var stale *storage.StaleError
		kind := x.call(x.ctx, func(ctx context.Context) error {
			err := x.q.Delete(ctx, receipts)
			errors.As(err, &stale)
			return err
		})
		for _, c := range chosen {
			out := queueAnswer{kind: kind}
			if stale != nil && !slices.Contains(stale.Receipts, c.receipt) {
				out.kind = "ok"
			}
			events = append(events, queueEvent{Key: c.message, In: queueCall{op: "delete", receipt: c.receipt}, Out: out, Unknown: kind == ""})
		}
		return events
	})
}

// A queueState is a message's copies, one for each send of it.
type queueState [2]queueCopy

type queueCopy struct {
	body       string // "" for no copy
	ready      bool
	receipt    storage.Receipt // the live receipt; "" for none
	deliveries int
}

// queueStep models a message. It is sent, and received by one player at a time. The newest receipt's holder owns
// it, and can delete it. Its visibility ends only if that player ends it.
func queueStep(s queueState, a queueEvent) (next []queueState) {
	in, out := a.In, a.Out
	with := func(i int, c queueCopy) {
		n := s
		n[i] = c
		next = append(next, n)
	}
	switch in.op {
	case "send":
		if i := slices.Index(s[:], queueCopy{}); i >= 0 {
			with(i, queueCopy{body: in.body, ready: true})
		}
	case "receive":
		if a.Unknown || out.kind == "ok" && out.body == "" && !s[0].ready && !s[1].ready {
			next = append(next, s)
		}
		for i, c := range s {
			if c.ready && (a.Unknown || out == queueAnswer{"ok", c.body, out.receipt, c.deliveries + 1} && out.receipt != "" && out.receipt != c.receipt) {
				with(i, queueCopy{c.body, false, out.receipt, c.deliveries + 1})
			}
		}
	default:
		i := slices.IndexFunc(s[:], func(c queueCopy) bool { return c.receipt == in.receipt })
		if i < 0 {
			if a.Unknown || out.kind == storage.ErrReceiptStale.Error() {
				next = append(next, s)
			}
			break
		}
		if !a.Unknown && (out.kind != "ok" || in.op == "extend" && (out.receipt == "" || out.receipt == in.receipt)) {
			break
		}
		switch c := s[i]; in.op {
		case "extend":
			with(i, queueCopy{c.body, !in.hidden, out.receipt, c.deliveries})
		case "rewrite":
			with(i, queueCopy{in.body, !in.hidden, "", c.deliveries})
		case "delete":
			with(i, queueCopy{})
		}
	}
	return next
}
