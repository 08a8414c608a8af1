package unsend

import (
	"context"
	"errors"
	"time"

	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/storage"
)

// batch is how many messages are claimed together, and hold for how long.
const (
	batch = 32
	hold  = time.Minute
)

// A Purge deletes the messages that wait in a queue.
type Purge struct {
	Waiting int64 // messages that it deletes, at most. A caller may lower it before Run
	InHands int64 // messages that workers hold, and that stay; -1 if the store doesn't tell
	Delayed int64 // messages that stay because the store can't find them; -1 if the store doesn't tell

	store   *storage.Store
	queue   string
	lanes   []string
	late    int64 // delayed messages that the store finds
	outbox  *wire.Outbox
	bar     act.Progress
	deleted int64
}

// NewPurge counts what waits now. It deletes nothing yet.
func NewPurge(ctx context.Context, desk *act.Desk, queue string) (*Purge, error) {
	st, err := desk.Store.Queue(queue).Stats(ctx)
	if err != nil {
		return nil, err
	}
	p := &Purge{Waiting: st.Ready, InHands: st.InFlight, Delayed: st.Delayed, store: desk.Store, queue: queue, lanes: []string{queue}}
	if desk.Store.Finds() { // such a store shows delayed messages with receipts
		p.late, p.Delayed = st.Delayed, 0
		p.Waiting += max(0, st.Delayed)
	}
	if divided, ok := desk.Known.Lanes()[queue]; ok {
		p.lanes = divided.Names(queue)
	}
	p.outbox, err = outbox(desk)
	return p, err
}

// Run deletes the messages, and returns how many it has deleted, also if it fails.
func (p *Purge) Run(ctx context.Context, bar act.Progress) (deleted int64, err error) {
	p.bar = bar
	if p.store.Finds() {
		err = p.delayed(ctx)
	}
	for _, lane := range p.lanes {
		if err == nil {
			err = p.ready(ctx, lane)
		}
	}
	return p.deleted, err
}

// ready claims and deletes the ready messages of a lane, as many as there are now: messages that come meanwhile are not
// meant.
func (p *Purge) ready(ctx context.Context, lane string) error {
	q := p.store.Queue(lane)
	st, err := q.Stats(ctx)
	if err != nil {
		return err
	}
	for done := int64(0); ; {
		most := min(batch, st.Ready-done, p.Waiting-p.deleted)
		if most <= 0 {
			return nil
		}
		got, err := q.Receive(ctx, int(most), hold)
		if err != nil || len(got) == 0 {
			return err
		}
		done += int64(len(got))
		for _, d := range got {
			if err := p.delete(ctx, q, d); err != nil {
				return err
			}
		}
	}
}

// delayed deletes delayed messages as they are shown, at most as many as there were.
func (p *Purge) delayed(ctx context.Context) error {
	q := p.store.Queue(p.queue)
	for m, err := range q.Peek(ctx) {
		if err != nil || p.deleted == min(p.late, p.Waiting) {
			return err
		}
		if m.ReadyAt.IsZero() || m.Receipt == "" {
			continue
		}
		if err := p.delete(ctx, q, storage.Delivery{Body: m.Body, Receipt: m.Receipt}); err != nil {
			return err
		}
	}
	return nil
}

// delete deletes a message and its body. A message that somebody else has taken meanwhile stays.
func (p *Purge) delete(ctx context.Context, q *storage.Queue, d storage.Delivery) error {
	switch err := q.Delete(ctx, []storage.Receipt{d.Receipt}); {
	case errors.Is(err, storage.ErrReceiptStale):
		return nil
	case err != nil:
		return err
	}
	p.deleted++
	p.bar.Add(1)
	if e, err := wire.Decode(d.Body); err == nil {
		return deleteBody(ctx, p.outbox, p.queue, &e)
	}
	return nil
}
