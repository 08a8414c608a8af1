package wire

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/millrace-go/millrace/storage"
)

// claims is the container of claim-checked bodies. A reference is claims/QUEUE/UUID.
const claims = "claims"

// StowedQueue stands for a queue's name in the references to the bodies of stowed envelopes. So no queue may have it:
// its messages could name these bodies.
const StowedQueue = "stowed"

// newBodyKey returns the key of a new body for a message of a queue.
func newBodyKey(queue string) string { return queue + "/" + uuid.Must(uuid.NewV7()).String() }

// checkIn writes the body to a blob and encodes the envelope that refers to it. After an error the blob may exist.
func (o *Outbox) checkIn(ctx context.Context, e *Envelope, key string) ([]byte, error) {
	if _, err := o.store.Blobs(claims).Put(ctx, key, e.Data, storage.Condition{IfAbsent: true}); err != nil {
		return nil, fmt.Errorf("channel: %s: claim check: %w", e.Kind, err)
	}
	slim := *e
	slim.Data, slim.DataRef = nil, claims+"/"+key
	body, err := slim.Encode()
	if err == nil && len(body) > o.store.Props().MaxMessage-historyRoom {
		err = fmt.Errorf("%w: attributes of %d bytes", storage.ErrTooLarge, len(body))
	}
	if err != nil {
		return nil, fmt.Errorf("channel: %s: %w", e.Kind, err)
	}
	return body, nil
}

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

// FetchBody reads a claim-checked body into the envelope. The error matches [ErrDataLost] when the body is gone.
func (o *Outbox) FetchBody(ctx context.Context, e *Envelope) error {
	if e.DataRef == "" || e.Data != nil {
		return nil
	}
	key, err := parseDataRef(e.DataRef)
	if err != nil {
		return fmt.Errorf("%w: dataref: %w", ErrAttribute, err)
	}
	blob, err := o.store.Blobs(claims).Get(ctx, key, "")
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return fmt.Errorf("%w: %s", ErrDataLost, storage.Quote(e.DataRef))
	case err != nil:
		return fmt.Errorf("channel: fetch claim-checked body: %w", err)
	case len(blob.Body) > MaxData:
		return fmt.Errorf("%w: a claim-checked body of %d bytes; at most %d", storage.ErrTooLarge, len(blob.Body), MaxData)
	}
	e.Data = blob.Body
	return nil
}

// CheckDataRef refuses a message whose dataref names the body of a message in another queue.
func (e *Envelope) CheckDataRef(queue string) error {
	if e.DataRef == "" || strings.HasPrefix(e.DataRef, claims+"/"+queue+"/") {
		return nil
	}
	return fmt.Errorf("%w: dataref: %s is not a body of queue %s", ErrAttribute, storage.Quote(e.DataRef), queue)
}

// DeleteBody deletes a claim-checked body, after its message has been deleted. A body that is gone already is no error.
func (o *Outbox) DeleteBody(ctx context.Context, dataRef string) error {
	key, err := parseDataRef(dataRef)
	if err != nil {
		return fmt.Errorf("%w: dataref: %w", ErrAttribute, err)
	}
	if err := o.store.Blobs(claims).Delete(ctx, key, storage.Condition{}); err != nil && !errors.Is(err, storage.ErrNotFound) {
		return fmt.Errorf("channel: delete claim-checked body: %w", err)
	}
	return nil
}

// parseDataRef returns the blob's key. A reference comes from a message, so parseDataRef accepts only the form that
// this package writes, which can name no blob outside of the container of bodies.
func parseDataRef(ref string) (key string, err error) {
	key, ok := strings.CutPrefix(ref, claims+"/")
	queue, id, ok2 := strings.Cut(key, "/")
	if !ok || !ok2 || storage.CheckName(queue) != nil || len(id) != 36 || uuid.Validate(id) != nil {
		return "", fmt.Errorf("%s: want %s/QUEUE/UUID", storage.Quote(ref), claims)
	}
	return key, nil
}
