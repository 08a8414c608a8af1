package azure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"

	"github.com/millrace-go/millrace/storage/driver"
)

var errReaderClosed = errors.New("azure: the reader is closed")

// Open implements driver.Files.
func (f *files) Open(ctx context.Context, name, key string, tag driver.ETag, offset, size int64) (io.ReadCloser, error) {
	r := &reader{ctx: ctx, b: f.in(name), key: key, tag: tag, offset: offset, left: size}
	if size > 0 && isETag(tag) {
		if err := r.connect(); err != nil {
			return nil, err
		}
		return r, nil
	}
	info, err := f.Stat(ctx, name, key)
	switch {
	case err != nil:
		return nil, err
	case !isETag(tag) || info.ETag != tag:
		return nil, fmt.Errorf("%w: the file has another ETag", driver.ErrPrecondition)
	}
	return r, nil
}

// reader reads a part of a file. Where the connection breaks, or no byte comes for a while, it goes on at its place, of
// the file with the same ETag.
type reader struct {
	ctx          context.Context
	b            *box
	key          string
	tag          driver.ETag
	offset, left int64

	body   io.ReadCloser // nil between connections
	silent *time.Timer   // closes the body
	broken int           // connections without a byte, one after another
	err    error         // ends the reader
}

// connect asks for the bytes that are left.
func (r *reader) connect() error {
	c := r.b.call("open", always)
	c.size = int(min(r.left, driver.MaxPart)) // a reader that is slower goes on with another request
	return r.b.do(r.ctx, c, func(ctx context.Context) error {
		got, err := r.b.blob(r.key).DownloadStream(ctx, &blob.DownloadStreamOptions{
			Range:            blob.HTTPRange{Offset: r.offset, Count: r.left},
			AccessConditions: &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfMatch: etag(r.tag)}},
		})
		switch {
		case is(err, http.StatusPreconditionFailed):
			if _, there := r.b.stat(c.beside(ctx, "stat"), r.key); errors.Is(there, driver.ErrNotFound) {
				return there // Azurite answers 412 for a missing blob, too
			}
			return fmt.Errorf("%w: the file has another ETag", driver.ErrPrecondition)
		case err != nil:
			return spoiled(gone(err))
		case got.ContentLength == nil || *got.ContentLength != r.left || fromETag(got.ETag) != r.tag:
			got.Body.Close()
			return fmt.Errorf("%w: the answer has other bytes than those that were asked for", driver.ErrUnavailable)
		}
		r.body = got.Body
		r.silent = time.AfterFunc(r.b.s.timing.tryTime, func() { got.Body.Close() })
		r.silent.Stop() // till somebody reads
		return nil
	})
}

func (r *reader) Read(p []byte) (int, error) {
	for {
		switch {
		case r.err != nil:
			return 0, r.err
		case r.left == 0:
			return 0, io.EOF
		case r.ctx.Err() != nil:
			r.err = context.Cause(r.ctx)
			return 0, r.err
		case len(p) == 0:
			return 0, nil
		case r.body == nil:
			if r.err = r.connect(); r.err != nil {
				return 0, r.err
			}
		}
		r.silent.Reset(r.b.s.timing.tryTime)
		n, err := r.body.Read(p[:min(int64(len(p)), r.left)])
		r.silent.Stop()
		r.offset += int64(n)
		r.left -= int64(n)
		if err == nil || r.left == 0 {
			r.broken = 0
			return n, nil
		}
		r.drop()
		if n > 0 {
			r.broken = 0
			return n, nil
		}
		if r.broken++; r.broken == maxTries {
			r.err = r.b.call("open", always).explain(r.ctx, err)
		}
	}
}

func (r *reader) drop() {
	if r.body != nil {
		r.silent.Stop()
		r.body.Close()
		r.body = nil
	}
}

func (r *reader) Close() error {
	r.drop()
	r.err = errReaderClosed
	return nil
}
