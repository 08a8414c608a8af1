package wire

import "context"

// Stow encodes an envelope that a document keeps until it is sent. A large body goes to a blob of its own. The copies
// that are sent later have other blobs.
func (o *Outbox) Stow(ctx context.Context, e Envelope) ([]byte, error) {
	raw, err := e.Encode()
	if err == nil && len(raw) > o.store.Props().MaxMessage-historyRoom {
		key := newBodyKey(StowedQueue)
		if raw, err = o.checkIn(ctx, &e, key); err != nil {
			o.Discard(ctx, Packed{refs: []string{claims + "/" + key}})
		}
	}
	return raw, err
}

// Unstow returns a stowed envelope, with its data.
func (o *Outbox) Unstow(ctx context.Context, raw []byte) (Envelope, error) {
	e, err := Decode(raw)
	if err != nil {
		return e, err
	}
	err = o.FetchBody(ctx, &e)
	e.DataRef = ""
	return e, err
}

// DropStowed deletes the body that a stowed envelope keeps in a blob. Call it once the envelope has been sent and no
// document keeps it any more, or when certainly no document keeps it. A failed deletion leaves an orphan.
func (o *Outbox) DropStowed(ctx context.Context, raw []byte) {
	if e, err := Decode(raw); err == nil && e.DataRef != "" {
		_ = o.DeleteBody(context.WithoutCancel(ctx), e.DataRef)
	}
}
