package values

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/jsonform"
	"github.com/millrace-go/millrace/storage"
)

const defaultRetention = 30 * 24 * time.Hour

// Applied reports whether a document has applied a message, or another one with its ID. group is the subscriber group
// of handlers.On, and empty for other handlers. It is for tools that don't know the types. It doesn't know the messages
// that leave no record: those of Config.Idempotent and of [ErrUnchanged]. The error matches [ErrTooOld] if nothing
// tells so and the message is older than the default of Config.Retention.
func Applied(ctx context.Context, store *storage.Store, collection, key, group string, e *channel.Envelope) (bool, error) {
	blob, err := store.Blobs(collection).Get(ctx, key, "")
	if errors.Is(err, storage.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	var s stored
	if err := json.Unmarshal(blob.Body, &s); err != nil {
		return false, fmt.Errorf("values: %s %s: document: %w", collection, storage.Quote(key), jsonform.RedactError[stored](err))
	}
	r := record{packed: s.Applied, watermark: s.Watermark, left: s.Left}
	if err := r.check(); err != nil {
		return false, fmt.Errorf("values: %s %s: document: %w", collection, storage.Quote(key), err)
	}
	now := time.Now()
	x := entryIn(group, e, now)
	if _, found := r.find(x); found || !r.mayHaveLeft(x) {
		return found, nil
	}
	_, found, err := x.findRow(ctx, store.Table(collection+rowsSuffix), key)
	if err == nil && !found && x.before(now.Add(-defaultRetention)) {
		err = ErrTooOld
	}
	return found, err
}

// Peek returns the value of a document as it is stored in its blob. It is for tools that read documents beside a
// collection.
func Peek[V any](body []byte) (v V, err error) {
	var s stored
	if err := json.Unmarshal(body, &s); err != nil {
		return v, fmt.Errorf("values: document: %w", jsonform.RedactError[stored](err))
	}
	return decodeValue[V](s.Value)
}
