package agree

import (
	"context"
	"errors"
	"time"

	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/storage"
)

// A Document is a blob that several processes read and replace.
type Document[D any] struct {
	Blobs *storage.Blobs
	Key   string
	Limit time.Duration // of one call of the store

	// Decode reads the blob. Its error is a damaged document, and says how to mend it.
	Decode func(body []byte) (D, error)

	// Encode writes a document that Decode can read.
	Encode func(D) ([]byte, error)
}

// A Sighting is a state of a document that this process has seen. The zero Sighting is a document that isn't there.
type Sighting[D any] struct {
	Doc   D            // zero if the document is absent or damaged
	ETag  storage.ETag // empty: there is no blob
	Since time.Time    // the document has been so since then, by this process's clock, or for longer
	Fault error        // the document is damaged
}

// Read brings a sighting up to date. The error is the sighting's Fault if the document is damaged. After any other
// error the sighting stays as it was.
func (d Document[D]) Read(ctx context.Context, seen *Sighting[D]) error {
	ctx, cancel := storecall.Limit(ctx, d.Limit)
	defer cancel()
	blob, err := d.Blobs.Get(ctx, d.Key, seen.ETag)
	switch {
	case errors.Is(err, storage.ErrNotModified):
		return seen.Fault
	case errors.Is(err, storage.ErrNotFound):
		if seen.ETag != "" || seen.Since.IsZero() {
			*seen = Sighting[D]{Since: time.Now()}
		}
		return nil
	case err != nil:
		return err
	}
	doc, err := d.Decode(blob.Body)
	*seen = Sighting[D]{Doc: doc, ETag: blob.ETag, Since: time.Now(), Fault: err} // after the read, so not before the blob was written
	return err
}

// Write replaces what was seen, if the document is still so, and brings the sighting up to date. After an error the
// sighting stays as it was.
func (d Document[D]) Write(ctx context.Context, seen *Sighting[D], doc D) error {
	body, err := d.Encode(doc)
	if err != nil {
		return err
	}
	ctx, cancel := storecall.Limit(ctx, d.Limit)
	defer cancel()
	etag, err := d.Blobs.Put(ctx, d.Key, body, storage.Condition{IfMatch: seen.ETag, IfAbsent: seen.ETag == ""})
	if err == nil {
		*seen = Sighting[D]{Doc: doc, ETag: etag, Since: time.Now()}
	}
	return err
}
