package values

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/storage"
)

// settlePending decides, before a write, which pending emissions the write leaves out. It leaves out those that this
// process has sent, and those so old that their writer must be dead, which it sends first.
func (u *unit[V]) settlePending() error {
	d := u.doc
	var keep []pending
	var orphaned []channel.Envelope
	for _, p := range d.pending {
		switch {
		case d.sent[p.Message]:
			u.dropped = append(u.dropped, p)
		case u.now.Sub(p.At) > u.c.cfg.PendingAfter:
			if err := u.c.repack(u.ctx, p, &orphaned); err != nil {
				return err
			}
			u.dropped = append(u.dropped, p)
		default:
			keep = append(keep, p)
		}
	}
	if len(orphaned) > 0 {
		if err := u.c.send(u, orphaned); err != nil {
			return err
		}
	}
	d.pending = keep
	return nil
}

// stow makes the new emissions pending. It writes the bodies of large ones beside the document, so it is the last step
// before the unit of work.
func (u *unit[V]) stow() error {
	emits := u.emits
	for _, p := range u.noted {
		for i := range p.Events {
			raw, err := u.c.channels.Outbox().Stow(u.ctx, emits[0])
			if err != nil {
				return err
			}
			p.Events[i], emits = raw, emits[1:]
		}
	}
	u.doc.pending = append(u.doc.pending, u.noted...)
	return nil
}

// dropStowed deletes the bodies that stow has written, when the document was certainly not written.
func (u *unit[V]) dropStowed() {
	for _, p := range u.noted {
		for _, raw := range p.Events {
			u.c.channels.Outbox().DropStowed(u.ctx, raw)
		}
	}
}

func (c *Collection[V]) send(u *unit[V], emits []channel.Envelope) error {
	packed, err := c.channels.Outbox().Pack(u.ctx, emits...)
	if err != nil {
		return u.fault(err)
	}
	if _, err := c.channels.Store().Commit(u.ctx, storage.Work{Send: packed.Sends}); err != nil {
		return u.fault(err)
	}
	return nil
}

// repack adds the emissions of a pending entry to those to be sent. Of a delay they wait for what is left.
func (c *Collection[V]) repack(ctx context.Context, p pending, to *[]channel.Envelope) error {
	for _, raw := range p.Events {
		e, err := c.channels.Outbox().Unstow(ctx, raw)
		if errors.Is(err, wire.ErrDataLost) {
			// Another process has sent it and deleted its body since this document was read. The message's own body isn't lost.
			return fmt.Errorf("values: %s: pending emission: %v", c.name, err)
		}
		if err != nil {
			return fmt.Errorf("values: %s: pending emission: %w", c.name, err)
		}
		*to = append(*to, e)
	}
	return nil
}

// committed notes, after a write, whose emissions this process has sent. It deletes the bodies of those that the write
// left out.
func (u *unit[V]) committed() {
	d := u.doc
	for _, p := range append(u.noted, u.resend...) {
		if d.sent == nil {
			d.sent = map[messageDigest]bool{}
		}
		d.sent[p.Message] = true
	}
	for _, p := range u.dropped {
		delete(d.sent, p.Message)
		for _, raw := range p.Events {
			u.c.channels.Outbox().DropStowed(u.ctx, raw)
		}
	}
	if len(d.sent) > len(d.pending) { // another process has left some out
		maps.DeleteFunc(d.sent, func(id messageDigest, _ bool) bool {
			return !slices.ContainsFunc(d.pending, func(p pending) bool { return p.Message == id })
		})
	}
}
