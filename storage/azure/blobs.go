package azure

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/millrace-go/millrace/storage/driver"
)

// opName is the metadata key that holds the operation ID of a blob's last write. The service may change its case.
const opName = "op"

// blobs implements driver.Blobs.
type blobs struct {
	part
	c *container.Client
}

func (s *store) Blobs(name string) driver.Blobs {
	return &blobs{part{s, "blob", name}, s.blobs.NewContainerClient(plainName(s.prefix, name))}
}

func (b *blobs) call(op string, size int) *call {
	c := b.part.call(op, always)
	c.size = size
	return c
}

// newOp makes an operation ID.
func newOp() string { return rand.Text() }

// etag is an ETag as the SDK takes it.
func etag(e driver.ETag) *azcore.ETag {
	if e == "" {
		return nil
	}
	return to.Ptr(azcore.ETag(e))
}

// isETag reports whether an ETag may be one of the service's. Any other never matches. It is never sent, because
// the service takes "*" to match everything.
func isETag(e driver.ETag) bool {
	inner := strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(string(e), "W/"), `"`), `"`)
	if len(e)-len(inner) < 2 || inner == "" {
		return false
	}
	for _, c := range []byte(inner) {
		if c < '!' || c > '~' || c == '"' || c == '*' {
			return false
		}
	}
	return true
}

// never is the error of a guarded write whose ETag can't exist.
func never() error {
	return fmt.Errorf("%w: the ETag is none of the service's", driver.ErrPrecondition)
}

// fromETag reads an ETag. Listings show it without its quotes.
func fromETag(e *azcore.ETag) driver.ETag {
	if e == nil || *e == "" {
		return ""
	}
	if s := string(*e); s[len(s)-1] != '"' {
		return driver.ETag(`"` + s + `"`)
	}
	return driver.ETag(*e)
}

func (b *blobs) Get(ctx context.Context, key string, ifNoneMatch driver.ETag) (driver.Blob, error) {
	var got driver.Blob
	err := b.do(ctx, b.call("get", maxBlob), func(ctx context.Context) error {
		o := &blob.DownloadStreamOptions{}
		if isETag(ifNoneMatch) {
			o.AccessConditions = &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfNoneMatch: etag(ifNoneMatch)}}
		}
		one := b.c.NewBlobClient(blobKey(key))
		for try := 1; ; try++ {
			r, err := one.DownloadStream(ctx, o)
			switch {
			case is(err, http.StatusNotModified):
				return driver.ErrNotModified
			case err != nil:
				return gone(err)
			case r.ErrorCode != nil || r.Body == nil: // the SDK reports a 304 like this
				return driver.ErrNotModified
			}
			w := watch(r.Body, b.s.timing.tryTime)
			body, err := readAll(w, r.ContentLength)
			w.timer.Stop()
			r.Body.Close()
			if err == nil {
				got = driver.Blob{Body: body, ETag: fromETag(r.ETag)}
				return nil
			}
			if ctx.Err() != nil || try == maxTries { // the SDK repeats only failures before the body
				return err
			}
		}
	})
	return got, err
}

// readAll reads a body whose length is usually known.
func readAll(r io.Reader, size *int64) ([]byte, error) {
	if size == nil || *size < 0 || *size > maxBlob {
		return io.ReadAll(r)
	}
	body := make([]byte, *size)
	_, err := io.ReadFull(r, body)
	return body, err
}

// watched is a body that is abandoned when no byte arrives for a while. The time for the whole body depends on its
// size.
type watched struct {
	io.ReadCloser
	timer *time.Timer
	wait  time.Duration
}

func watch(body io.ReadCloser, wait time.Duration) watched {
	return watched{body, time.AfterFunc(wait, func() { body.Close() }), wait}
}

func (w watched) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	w.timer.Reset(w.wait)
	return n, err
}

// gone turns the answers that mean "nothing there" into ErrNotFound.
func gone(err error) error {
	if isMissing(err) {
		e, _ := answer(err)
		return fmt.Errorf("%w: %w", driver.ErrNotFound, e)
	}
	return err
}

func (b *blobs) Put(ctx context.Context, key string, body []byte, cond driver.Condition) (driver.ETag, error) {
	var tag driver.ETag
	c := b.call("put", len(body))
	err := b.do(ctx, c, func(ctx context.Context) error {
		one := b.c.NewBlockBlobClient(blobKey(key))
		op := newOp()
		o := &blockblob.UploadOptions{Metadata: map[string]*string{opName: &op}}
		switch {
		case cond.IfAbsent:
			o.AccessConditions = &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfNoneMatch: to.Ptr(azcore.ETagAny)}}
		case cond.IfMatch != "" && !isETag(cond.IfMatch):
			return never()
		case cond.IfMatch != "":
			o.AccessConditions = &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfMatch: etag(cond.IfMatch)}}
		}
		put := func() error {
			r, err := one.Upload(ctx, streaming.NopCloser(bytes.NewReader(body)), o)
			tag = fromETag(r.ETag)
			return err
		}
		err := creating(put(), "ContainerNotFound", func() error {
			_, err := b.c.Create(c.beside(ctx, "create"), nil)
			return err
		}, put)
		if !isLeased(err) && !is(err, http.StatusConflict, "BlobAlreadyExists") && !is(err, http.StatusPreconditionFailed, "ConditionNotMet") &&
			!(cond.IfMatch != "" && is(err, http.StatusNotFound, "BlobNotFound")) {
			return err
		}
		if c.doubtful {
			// An earlier try may have written.
			tag, err = b.own(c.beside(ctx, "get"), one.BlobClient(), op, err)
			return err
		}
		if isLeased(err) {
			return err
		}
		return lost(err, cond)
	})
	return tag, err
}

// lost is the error of a guarded write that another write preceded.
func lost(err error, cond driver.Condition) error {
	e, _ := answer(err)
	if cond.IfAbsent {
		return fmt.Errorf("%w: %w", driver.ErrExists, e)
	}
	return fmt.Errorf("%w: %w", driver.ErrPrecondition, e)
}

// own finds out whether a repeated write took effect: the stored blob then carries its operation ID.
func (b *blobs) own(ctx context.Context, one *blob.Client, op string, failed error) (driver.ETag, error) {
	p, err := one.GetProperties(ctx, nil)
	if err != nil && !isMissing(err) {
		return "", unknown(err)
	}
	for name, value := range p.Metadata {
		if strings.EqualFold(name, opName) && value != nil && *value == op {
			return fromETag(p.ETag), nil
		}
	}
	return "", unknown(failed)
}

func (b *blobs) Delete(ctx context.Context, key string, cond driver.Condition) error {
	c := b.call("delete", 0)
	return b.do(ctx, c, func(ctx context.Context) error {
		o := &blob.DeleteOptions{}
		if cond.IfMatch != "" {
			o.AccessConditions = &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfMatch: etag(cond.IfMatch)}}
		}
		one := b.c.NewBlobClient(blobKey(key))
		if cond.IfMatch != "" && !isETag(cond.IfMatch) {
			if _, err := one.GetProperties(c.beside(ctx, "get"), nil); err != nil {
				return gone(err)
			}
			return never()
		}
		_, err := one.Delete(ctx, o)
		switch {
		case err == nil, isMissing(err) && c.doubtful:
			return nil // an earlier try has deleted it, or another caller
		case !is(err, http.StatusPreconditionFailed):
			return gone(err)
		}
		// Azurite answers 412 for a missing blob, too.
		_, there := one.GetProperties(c.beside(ctx, "get"), nil)
		switch {
		case isMissing(there) && c.doubtful:
			return nil
		case c.doubtful:
			return unknown(cmp.Or(there, err))
		case there != nil:
			return gone(there)
		case isLeased(err):
			return err
		}
		return lost(err, cond)
	})
}

func (b *blobs) List(ctx context.Context, prefix, after string) iter.Seq2[driver.BlobInfo, error] {
	return func(yield func(driver.BlobInfo, error) bool) {
		p := b.c.NewListBlobsFlatPager(&container.ListBlobsFlatOptions{Prefix: to.Ptr(encodeKey(prefix))})
		for p.More() {
			var page container.ListBlobsFlatResponse
			err := b.do(ctx, b.call("list", 0), func(ctx context.Context) (err error) {
				page, err = p.NextPage(ctx)
				return err
			})
			if is(err, http.StatusNotFound, "ContainerNotFound") {
				return
			}
			if err != nil {
				yield(driver.BlobInfo{}, err)
				return
			}
			if page.Segment == nil {
				continue
			}
			for _, item := range page.Segment.BlobItems {
				info, err := readItem(item)
				if err != nil {
					yield(driver.BlobInfo{}, err)
					return
				}
				if ctx.Err() != nil {
					yield(driver.BlobInfo{}, context.Cause(ctx))
					return
				}
				if info.Key <= after { // a listing can begin at a marker of the service only, and a key is none
					continue
				}
				if !yield(info, nil) {
					return
				}
			}
		}
	}
}

func readItem(item *container.BlobItem) (driver.BlobInfo, error) {
	if item.Name == nil || item.Properties == nil {
		return driver.BlobInfo{}, fmt.Errorf("%w: the service's answer has a blob without a name or properties", driver.ErrUnavailable)
	}
	key, err := decodeBlobKey(*item.Name)
	if err != nil {
		return driver.BlobInfo{}, fmt.Errorf("%w: %w", driver.ErrUnsupported, err)
	}
	info := driver.BlobInfo{Key: key, ETag: fromETag(item.Properties.ETag)}
	if item.Properties.ContentLength != nil {
		info.Size = *item.Properties.ContentLength
	}
	if item.Properties.LastModified != nil {
		info.Modified = *item.Properties.LastModified
	}
	return info, nil
}
