package lease

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/storage"
)

// ErrFenced is in the error of a write that was refused because a later holder of the lease has written the document.
var ErrFenced = errors.New("a later holder has written it")

// A Document is a document that was written under a lease.
type Document struct {
	Content []byte
	Lease   string // its name
	Fence   int64  // of the holder that wrote the document
	ETag    storage.ETag
}

// Documents reads and writes documents under a lease. The first line of such a blob is JSON with the lease's name, the
// fence and a random ID of the write; the content follows. A document belongs to one lease for ever. All methods may
// be called concurrently.
//
// A write reads the first line, compares, and is guarded by the ETag that it read, so that the check and the write are
// one: a document's fence never falls. The fence alone decides, and no clock. It doesn't matter whether the writer's
// lease has ended: its writes of a document succeed until the first write of that document by a later holder.
// [Documents.Claim] is such a write, and changes no content. Use the lease's context for ctx, so that most such writes
// don't begin.
type Documents struct {
	blobs   *storage.Blobs
	name    string
	fence   int64
	refusal func() // counts refused writes; may be nil
}

// Blobs returns access to documents under this lease.
func (l *Lease) Blobs(blobs *storage.Blobs) *Documents {
	d := Fenced(blobs, l.key, l.fence)
	d.refusal = l.cfg.meters.refusal
	return d
}

// Fenced returns access to documents under the lease of that name, for work that got its fence in a message from the
// holder.
func Fenced(blobs *storage.Blobs, name string, fence int64) *Documents {
	return &Documents{blobs: blobs, name: name, fence: fence}
}

// Read reads a document without a lease. A blob that was written in another way is storage.ErrInvalid.
func Read(ctx context.Context, blobs *storage.Blobs, key string) (Document, error) {
	f, err := readForm(ctx, blobs, key)
	if err == nil && f.absent() {
		err = storage.ErrNotFound
	}
	if err != nil {
		return Document{}, fmt.Errorf("lease: read document %s: %w", storage.Quote(key), err)
	}
	return Document{Content: f.content, Lease: f.Lease, Fence: f.Fence, ETag: f.etag}, nil
}

// Get reads a document. If a later holder has written it, the error is [ErrFenced].
func (d *Documents) Get(ctx context.Context, key string) (Document, error) {
	f, err := readForm(ctx, d.blobs, key)
	if err == nil {
		err = d.check(f)
	}
	if err == nil && f.absent() {
		err = storage.ErrNotFound
	}
	if err != nil {
		return Document{}, d.fail("read", key, err)
	}
	return Document{Content: f.content, Lease: f.Lease, Fence: f.Fence, ETag: f.etag}, nil
}

// Put writes a document, as storage.Blobs.Put does under cond, and returns its ETag. The error is [ErrFenced] if a
// later holder has written the document, and storage.ErrInvalid if the document is another lease's, or none. A call
// of unknown outcome is repeated twice. After an error that is also storage.ErrUnavailable, the document may have been
// written.
//
// Without a condition, the repeat may write the content a second time over a write that came in between with the same
// fence: readers see A, B, A. With IfMatch they don't.
func (d *Documents) Put(ctx context.Context, key string, content []byte, cond storage.Condition) (storage.ETag, error) {
	etag, err := d.put(ctx, key, form{content: content}, cond)
	if err != nil {
		return "", d.fail("write", key, err)
	}
	return etag, nil
}

// Delete deletes a document as Put writes one. The blob's first line stays, and so does the fence.
func (d *Documents) Delete(ctx context.Context, key string, cond storage.Condition) error {
	if cond.IfAbsent {
		return d.fail("delete", key, fmt.Errorf("%w: a deletion with IfAbsent", storage.ErrInvalid))
	}
	missing := false
	_, err := d.write(ctx, key, cond, func(there form) (form, bool) {
		missing = there.absent()
		return form{header: header{Deleted: true}}, !missing
	})
	if err == nil && missing {
		err = storage.ErrNotFound
	}
	if err != nil {
		return d.fail("delete", key, err)
	}
	return nil
}

// Claim shuts earlier holders out of documents: from then on their writes of these documents are [ErrFenced], and what
// Get returns stays as it is until a holder with this fence or a later one writes. Claim what this holder is going to
// read and to decide by, also documents that aren't there yet, before it reads them. Content and absence stay as they
// are, and the ETags change. A claimed document costs a read, and a write unless it has this fence already; they are
// claimed one after another. After an error some may be claimed.
func (d *Documents) Claim(ctx context.Context, keys ...string) error {
	for _, key := range keys {
		_, err := d.write(ctx, key, storage.Condition{}, func(there form) (form, bool) {
			return form{header: header{Deleted: there.absent()}, content: there.content}, there.Fence < d.fence
		})
		if err != nil {
			return d.fail("claim", key, err)
		}
	}
	return nil
}

func (d *Documents) fail(op, key string, err error) error {
	return fmt.Errorf("lease: %s document %s under %s, fence %d: %w", op, storage.Quote(key), storage.Quote(d.name), d.fence, err)
}

// check tells whether this lease may write a document.
func (d *Documents) check(there form) error {
	switch {
	case d.fence < 1:
		return fmt.Errorf("%w: fence %d; want at least 1", storage.ErrInvalid, d.fence)
	case there.etag == "":
		return nil
	case there.Lease != d.name:
		return fmt.Errorf("%w: it belongs to the lease %s", storage.ErrInvalid, storage.Quote(there.Lease))
	case there.Fence > d.fence:
		if d.refusal != nil {
			d.refusal()
		}
		return fmt.Errorf("%w, with fence %d", ErrFenced, there.Fence)
	}
	return nil
}

func (d *Documents) put(ctx context.Context, key string, f form, cond storage.Condition) (storage.ETag, error) {
	return d.write(ctx, key, cond, func(form) (form, bool) { return f, true })
}

// write writes what next makes of the document that is there, if next wants that.
func (d *Documents) write(ctx context.Context, key string, cond storage.Condition, next func(there form) (form, bool)) (storage.ETag, error) {
	if err := errors.Join(storage.CheckKey(d.name), storage.CheckKey(key)); err != nil {
		return "", err
	}
	id := rand.Text()
	var doubt error // of a write that may have been done
	for tries := 1; ; tries++ {
		there, err := readForm(ctx, d.blobs, key)
		if err == nil {
			if there.ID == id {
				return there.etag, nil // an earlier try was done
			}
			f, wanted := next(there)
			f.Lease, f.Fence, f.ID = d.name, d.fence, id
			body, bad := f.encode()
			if err := errors.Join(d.check(there), holds(cond, there), bad); err != nil {
				return "", errors.Join(err, doubt)
			}
			if !wanted {
				return there.etag, nil
			}
			var etag storage.ETag
			etag, err = d.blobs.Put(ctx, key, body, storage.Condition{IfMatch: there.etag, IfAbsent: there.etag == ""})
			switch {
			case err == nil:
				return etag, nil
			case storage.LostRace(err):
				tries-- // somebody else got on: read what is there now
				continue
			case !storecall.Permanent(err):
				doubt = err
			}
		}
		if ctx.Err() != nil || storecall.Permanent(err) || tries >= 3 {
			return "", errors.Join(err, doubt)
		}
		if storecall.Sleep(ctx, time.Duration(tries)*50*time.Millisecond) != nil {
			return "", errors.Join(err, doubt)
		}
	}
}

// holds reports what a caller's condition has against the present state.
func holds(cond storage.Condition, there form) error {
	switch {
	case cond.IfAbsent && cond.IfMatch != "":
		return fmt.Errorf("%w: a condition with both IfAbsent and IfMatch", storage.ErrInvalid)
	case cond.IfAbsent && !there.absent():
		return storage.ErrExists
	case cond.IfMatch != "" && (cond.IfMatch != there.etag || there.absent()):
		return storage.ErrPrecondition
	}
	return nil
}

// A form is a blob in the form of documents under a lease.
type form struct {
	header
	content []byte
	etag    storage.ETag // empty: there is no blob
}

// A header is a blob's first line, as JSON.
type header struct {
	Lease   string `json:"lease"`
	Fence   int64  `json:"fence"`
	ID      string `json:"id"` // of the write
	Deleted bool   `json:"deleted,omitempty"`
}

func (f form) absent() bool { return f.etag == "" || f.Deleted }

func (f form) encode() ([]byte, error) {
	line, err := json.Marshal(f.header)
	if err != nil {
		return nil, err
	}
	return append(append(line, '\n'), f.content...), nil
}

// readForm reads a blob. No blob is no error.
func readForm(ctx context.Context, blobs *storage.Blobs, key string) (form, error) {
	blob, err := blobs.Get(ctx, key, "")
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return form{}, nil
	case err != nil:
		return form{}, err
	}
	f := form{etag: blob.ETag}
	line, content, ok := bytes.Cut(blob.Body, []byte("\n"))
	if !ok || decode(line, &f.header) != nil || f.Fence < 1 || f.ID == "" || storage.CheckKey(f.Lease) != nil {
		return form{}, fmt.Errorf("%w: it wasn't written under a lease (or by a newer version)", storage.ErrInvalid)
	}
	f.content = content
	return f, nil
}
