package wire

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millrace-go/millrace/storage"
)

// historyRoom bytes stay free in a message, so that a failed attempt can always be written into it.
const historyRoom = 4 << 10

// An Outbox sends envelopes into the queues of a store. The bodies that don't fit a message go to blobs. Its errors
// begin with "channel:", because users get them from that package.
type Outbox struct {
	store  *storage.Store
	queues func(Kind) ([]string, error)

	// Watch is called when a reaction begins, and what it returns when the reaction has returned. Package millracetest
	// sets it before the handlers are registered. Defaults to none.
	Watch func(h *Handling, once bool) (done func(error))

	// Folded is called before a document is written, with its body and the messages that were folded into it, in order.
	// The write may still fail. Package millracetest sets it before the collections are used. Defaults to none.
	Folded func(container, key string, body []byte, messages []Folded)

	// Clock is the clock of folds that count from the present. Package millracetest sets it when it repeats folds.
	// Defaults to time.Now.
	Clock func() time.Time

	Source string // of the messages of a handler; package channel sets it
}

// Folded is a message that was folded into a document, as a replay record tells messages. The record need not have it.
type Folded struct {
	ID      [12]byte // digest of the ID, and of the group if there is one
	Content [6]byte  // digest of kind and body
	At      time.Time
}

// Now is the time of a fold that counts from the present.
func (o *Outbox) Now() time.Time {
	if o.Clock != nil {
		return o.Clock()
	}
	return time.Now()
}

// NewOutbox returns the outbox of a store. The function returns the queues that messages of a kind go to.
func NewOutbox(store *storage.Store, queues func(Kind) ([]string, error)) *Outbox {
	return &Outbox{store: store, queues: queues}
}

// QueueOf returns the queue that all envelopes go to, if it is one.
func (o *Outbox) QueueOf(envelopes []Envelope) (queue string, one bool) {
	for i := range envelopes {
		queues, err := o.queues(envelopes[i].Kind)
		if err != nil || len(queues) != 1 || i > 0 && queues[0] != queue {
			return "", false
		}
		queue = queues[0]
	}
	return queue, queue != ""
}

// QueuesOf returns all queues that envelopes go to, sorted.
func (o *Outbox) QueuesOf(envelopes []Envelope) ([]string, error) {
	var all []string
	for i := range envelopes {
		queues, err := o.queues(envelopes[i].Kind)
		if err != nil {
			return nil, err
		}
		all = append(all, queues...)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// Packed holds messages ready to be sent, and the claim-checked bodies that were written for them.
type Packed struct {
	Sends []storage.Send
	Rows  *storage.Rows // put beside them; set by whoever sends them
	refs  []string
}

// Pack encodes envelopes with their data for all queues that their kinds go to. It writes bodies that don't fit a
// message to blobs, one for each copy. After an error it deletes these blobs.
func (o *Outbox) Pack(ctx context.Context, envelopes ...Envelope) (Packed, error) {
	return o.PackBy(ctx, 1, envelopes)
}

// PackBy is Pack by at most the given number of goroutines.
func (o *Outbox) PackBy(ctx context.Context, goroutines int, envelopes []Envelope) (Packed, error) {
	queues := make([][]string, len(envelopes))
	for i := range envelopes {
		var err error
		if queues[i], err = o.queues(envelopes[i].Kind); err != nil {
			return Packed{}, err
		}
	}
	return o.pack(ctx, goroutines, envelopes, queues)
}

// PackFor encodes one envelope with its data for one queue, whatever the routes say.
func (o *Outbox) PackFor(ctx context.Context, queue string, e Envelope) (Packed, error) {
	return o.pack(ctx, 1, []Envelope{e}, [][]string{{queue}})
}

// checkInAtOnce is how many bodies are written together, because a distant store takes long for each.
const checkInAtOnce = 16

// pack encodes envelopes, each for its own list of queues.
func (o *Outbox) pack(ctx context.Context, goroutines int, envelopes []Envelope, queues [][]string) (p Packed, err error) {
	bodies, err := encode(goroutines, envelopes)
	if err != nil {
		return Packed{}, err
	}
	most := o.store.Props().MaxMessage - historyRoom
	p.Sends = make([]storage.Send, 0, len(envelopes))
	now := time.Now()
	var large []func(context.Context) error
	for i, body := range bodies {
		e := &envelopes[i]
		for _, q := range queues[i] {
			n := len(p.Sends)
			m := storage.Message{Body: body, Delay: e.delay(now)}
			if m.Delay > 0 {
				m.Key = e.ID // by which it can be cancelled
			}
			p.Sends = append(p.Sends, storage.Send{Queue: q, Message: m})
			if len(body) <= most {
				continue
			}
			key := newBodyKey(q)
			p.refs = append(p.refs, claims+"/"+key)
			large = append(large, func(ctx context.Context) (err error) {
				p.Sends[n].Message.Body, err = o.checkIn(ctx, e, key)
				return err
			})
		}
	}
	if len(large) == 0 { // without large bodies no context is needed
		return p, nil
	}
	g, together := errgroup.WithContext(ctx)
	g.SetLimit(checkInAtOnce)
	for _, checkIn := range large {
		g.Go(func() error { return checkIn(together) })
	}
	if err := g.Wait(); err != nil {
		o.Discard(ctx, p)
		return Packed{}, err
	}
	return p, nil
}

// encodeAtOnce is how many envelopes one goroutine encodes. That takes a hundred times as long as to start it.
const encodeAtOnce = 64

// encode encodes envelopes. It divides many of them among several goroutines.
func encode(goroutines int, envelopes []Envelope) ([][]byte, error) {
	bodies := make([][]byte, len(envelopes))
	some := func(first, end int) error {
		for i := first; i < end; i++ {
			var err error
			if bodies[i], err = envelopes[i].Encode(); err != nil {
				return fmt.Errorf("channel: %s: %w", envelopes[i].Kind, err)
			}
		}
		return nil
	}
	if goroutines == 1 || len(envelopes) <= encodeAtOnce {
		return bodies, some(0, len(envelopes))
	}
	var g errgroup.Group
	g.SetLimit(goroutines)
	for first := 0; first < len(envelopes); first += encodeAtOnce {
		g.Go(func() error { return some(first, min(first+encodeAtOnce, len(envelopes))) })
	}
	return bodies, g.Wait()
}

// Add adds the messages of another Packed, so that one call sends the messages of both.
func (p *Packed) Add(q Packed) {
	p.Sends, p.refs = append(p.Sends, q.Sends...), append(p.refs, q.refs...)
}

// SendPacked sends packed messages. The errors are those of [Outbox.SendWith].
func (o *Outbox) SendPacked(ctx context.Context, p Packed) error {
	_, err := o.SendWith(ctx, nil, p)
	return err
}

// SendWith writes a document, unless it is nil, and sends packed messages as one unit of work. After a lost race,
// [storage.ErrInvalid] or [storage.ErrTooLarge] nothing was sent, and SendWith has deleted the bodies. After any other
// error some messages may have been sent, so their bodies stay.
func (o *Outbox) SendWith(ctx context.Context, w *storage.Write, p Packed) (storage.ETag, error) {
	done, err := o.store.Commit(ctx, storage.Work{Rows: p.Rows, Write: w, Send: p.Sends})
	if err == nil {
		return done.ETag, nil
	}
	if storage.LostRace(err) || errors.Is(err, storage.ErrInvalid) || errors.Is(err, storage.ErrTooLarge) {
		o.Discard(ctx, p)
	}
	return done.ETag, fmt.Errorf("channel: send: %w", err)
}

// Discard deletes the claim-checked bodies of messages that were certainly not sent. A blob whose deletion fails stays
// as an orphan. Discard takes no longer than the context's deadline, but goes on after the caller has left.
func (o *Outbox) Discard(ctx context.Context, p Packed) {
	if len(p.refs) == 0 {
		return
	}
	end, bounded := ctx.Deadline()
	ctx = context.WithoutCancel(ctx)
	if bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, end)
		defer cancel()
	}
	for _, ref := range p.refs {
		_ = o.DeleteBody(ctx, ref)
	}
}
