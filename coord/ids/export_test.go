package ids

import (
	"context"

	"github.com/millrace-go/millrace/storage"
)

// AtLeast returns a configuration whose ranges have at least n numbers.
func (c Config) AtLeast(n int64) Config {
	c.least = n
	return c
}

// A Doc makes the single calls on a counter's document, for the test of their histories.
type Doc struct{ c counter }

// NewDoc returns the Doc of a counter.
func NewDoc(store *storage.Store, name string) Doc { return Doc{at(store, name, "test")} }

// Read returns the next free number, 0 if there is no document.
func (d Doc) Read(ctx context.Context) (int64, error) {
	doc, _, err := d.c.read(ctx)
	return doc.Next, err
}

// Reserve reserves size numbers from first.
func (d Doc) Reserve(ctx context.Context, size int64) (first int64, etag storage.ETag, err error) {
	r, _, err := d.c.reserve(ctx, size, 1, 0)
	return r.first, r.etag, err
}

// GiveBack gives back the numbers from next.
func (d Doc) GiveBack(ctx context.Context, next int64, last storage.ETag) (bool, error) {
	return d.c.giveBack(ctx, next, last)
}
