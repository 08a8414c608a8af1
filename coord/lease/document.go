package lease

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/storage"
)

// container holds the blobs of all leases.
const container = "leases"

// maxText is the most bytes of a holder's name, and of each text of a note.
const maxText = 256

// A document is the blob's content, as JSON.
type document struct {
	Holder string    `json:"holder"`
	ID     string    `json:"id"` // of the acquisition; empty: released
	Fence  int64     `json:"fence"`
	TTL    int64     `json:"ttl"` // milliseconds
	Beat   int64     `json:"beat"`
	Since  time.Time `json:"since,omitzero"`   // by the holder's clock, for people
	Next   string    `json:"next,omitempty"`   // of a released lease: the only holder who may take it before 7/6 of the TTL
	Broken *Broken   `json:"broken,omitempty"` // the last break
}

// broken reports that the lease has been broken under its present holder.
func (d *document) broken() bool { return d.Broken != nil && d.Broken.Fence == d.Fence }

// parse reads a document. It refuses fields that it doesn't know: one of them may say that the lease is held.
func parse(body []byte) (document, error) {
	wrong := func(why string) (document, error) {
		return document{}, fmt.Errorf("%w: the blob of that name in container %s is not a lease: %s", storage.ErrInvalid, container, why)
	}
	var d document
	if err := decode(body, &d); err != nil {
		return wrong("it is not JSON with the fields of a lease; if a newer version wrote it, update this program")
	}
	switch {
	case d.Fence < 1:
		return wrong("it has no fence")
	case d.Fence == math.MaxInt64:
		return wrong("its fence can't grow any more")
	case (d.ID != "" || d.Next != "") && (d.TTL < 1 || d.TTL > maxTTL.Milliseconds()):
		return wrong(fmt.Sprintf("its TTL is %d ms; want 1 to %d", d.TTL, maxTTL.Milliseconds()))
	}
	return d, nil
}

// decode reads one JSON value without unknown fields.
func decode(data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more than one value")
	}
	return nil
}

// A leaseBlob is the blob of a lease. Its calls end after a quarter of the TTL, so that there is time for another.
type leaseBlob struct {
	store *storage.Store
	blobs *storage.Blobs
	key   string
	ttl   time.Duration
}

func blobOf(store *storage.Store, name string, ttl time.Duration) leaseBlob {
	return leaseBlob{store: store, blobs: store.Blobs(container), key: name, ttl: ttl}
}

func (b leaseBlob) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	return storecall.Limit(ctx, b.ttl/4)
}

func (b leaseBlob) get(ctx context.Context, ifNoneMatch storage.ETag) (document, storage.ETag, error) {
	ctx, cancel := b.limit(ctx)
	defer cancel()
	blob, err := b.blobs.Get(ctx, b.key, ifNoneMatch)
	if err != nil {
		return document{}, "", err
	}
	d, err := parse(blob.Body)
	return d, blob.ETag, err
}

func (b leaseBlob) put(ctx context.Context, d document, cond storage.Condition) (storage.ETag, error) {
	ctx, cancel := b.limit(ctx)
	defer cancel()
	body, err := json.Marshal(d)
	if err != nil {
		return "", err
	}
	return b.blobs.Put(ctx, b.key, body, cond)
}
