package wire

import (
	"context"
	"errors"
	"fmt"

	"github.com/millrace-go/millrace/storage"
)

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
