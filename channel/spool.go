package channel

import (
	"context"
	"sync/atomic"

	"github.com/millrace-go/millrace/internal/wire"
)

// SpoolTo returns the same channels with a spool: what Send can't send because the store is away is kept there.
// nil is none. A program calls the method Channels of package spool in its place.
//
// Not kept are messages that are sent with a document (SendWith), since the document can't be kept, and messages that a
// handler sends, since the handled message comes again. These sends fail while the store is away, as they do without a
// spool; SendWith does so at once.
func (c *Channels) SpoolTo(s wire.Spool) *Channels {
	spooled := *c
	spooled.spool = s
	return &spooled
}

// Spools reports whether the channels have a spool.
func (c *Channels) Spools() bool { return c.spool != nil }

// sendOrSpool sends envelopes, or keeps them in the spool.
func (c *Channels) sendOrSpool(ctx context.Context, envelopes []Envelope, try func(context.Context) error) error {
	kept, err := c.spool.Send(ctx, envelopes, try)
	if kept {
		if n, ok := ctx.Value(spooledKey{}).(*atomic.Int64); ok {
			n.Add(int64(len(envelopes)))
		}
	}
	return err
}

type spooledKey struct{}

// NoteSpooled returns a context for sends, and a function that tells how many of their messages are in the spool rather
// than in the store. Such a message is as durable as this machine's disk until the store is back.
//
//	ctx, spooled := channel.NoteSpooled(ctx)
//	err := makes.Send(ctx, m)
//	if err == nil && spooled() > 0 {
//		// say that it will be handled when the service is back
//	}
func NoteSpooled(ctx context.Context) (noting context.Context, spooled func() int64) {
	n := new(atomic.Int64)
	return context.WithValue(ctx, spooledKey{}, n), n.Load
}
