package storage

import (
	"context"
	"fmt"
	"iter"

	"github.com/millrace-go/millrace/storage/driver"
)

// Blobs is a container of documents under keys (see [CheckKey]).
type Blobs struct {
	place
	d     driver.Blobs
	limit int // bytes of a body
}

// Get reads a blob. With ifNoneMatch set to the present ETag it returns [ErrNotModified] and no body. Without a blob
// it returns [ErrNotFound].
func (b *Blobs) Get(ctx context.Context, key string, ifNoneMatch ETag) (Blob, error) {
	err := b.ready(ctx, CheckKey(key))
	var blob Blob
	if err == nil {
		blob, err = b.d.Get(ctx, key, ifNoneMatch)
	}
	if err != nil {
		return Blob{}, b.failAt("get", "blob", err, key)
	}
	return blob, nil
}

// Put writes a blob, guarded by a condition, and returns the new ETag. Of concurrent Puts under the same IfMatch, or
// with IfAbsent, exactly one succeeds.
func (b *Blobs) Put(ctx context.Context, key string, body []byte, cond Condition) (ETag, error) {
	err := b.ready(ctx, checkPut(CheckKey(key), len(body), b.limit, cond))
	var etag ETag
	if err == nil {
		etag, err = b.d.Put(ctx, key, body, cond)
	}
	if err != nil {
		return "", b.failAt("put", "blob", err, key)
	}
	return etag, nil
}

// Delete removes a blob, guarded by IfMatch (IfAbsent makes no sense: [ErrInvalid]). Without a blob it returns
// [ErrNotFound], whatever IfMatch is.
func (b *Blobs) Delete(ctx context.Context, key string, cond Condition) error {
	err := b.ready(ctx, checkDelete(CheckKey(key), cond))
	if err == nil {
		err = b.d.Delete(ctx, key, cond)
	}
	if err != nil {
		return b.failAt("delete", "blob", err, key)
	}
	return nil
}

// List yields the blobs whose keys begin with prefix, in byte order. It reads in pages as the loop goes on, so it is no
// snapshot; an error is yielded last and once.
func (b *Blobs) List(ctx context.Context, prefix string) iter.Seq2[BlobInfo, error] {
	return b.ListAfter(ctx, prefix, "")
}

// ListAfter is List from the first key that is above another, as from the last one of the page before. SQLite goes
// there at once. Azure Storage is asked for all keys before it, too, 5,000 for each request.
func (b *Blobs) ListAfter(ctx context.Context, prefix, after string) iter.Seq2[BlobInfo, error] {
	return func(yield func(BlobInfo, error) bool) {
		if err := b.ready(ctx, nil); err != nil {
			yield(BlobInfo{}, b.fail("list", err))
			return
		}
		for info, err := range b.d.List(ctx, prefix, after) {
			if err != nil {
				yield(BlobInfo{}, b.fail("list", err))
				return
			}
			if !yield(info, nil) {
				return
			}
		}
	}
}

// checkPut returns what is wrong with a write of one document or row.
func checkPut(key error, size, limit int, cond Condition) error {
	switch {
	case key != nil:
		return key
	case size > limit:
		return fmt.Errorf("%w: %d bytes; at most %d", ErrTooLarge, size, limit)
	case cond.IfAbsent && cond.IfMatch != "":
		return fmt.Errorf("%w: a condition with both IfAbsent and IfMatch", ErrInvalid)
	}
	return nil
}

// checkDelete returns what is wrong with a deletion.
func checkDelete(key error, cond Condition) error {
	if key == nil && cond.IfAbsent {
		return fmt.Errorf("%w: a deletion with IfAbsent", ErrInvalid)
	}
	return key
}
