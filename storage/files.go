package storage

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/millrace-go/millrace/storage/driver"
)

// MaxParts and MaxPart bound the parts of a file, and the bytes of a part.
const (
	MaxParts = driver.MaxParts
	MaxPart  = driver.MaxPart
)

// FilePart is a part of a file. It is a struct:
//
//	Number int
//	Size   int64
type FilePart = driver.FilePart

// FileInfo tells about a file. It is a struct:
//
//	Size int64
//	ETag ETag // changes whenever the bytes may have changed
type FileInfo = driver.FileInfo

// FileKey says what the URL of [Files.Key] allows. It is a struct:
//
//	Part int           // the part that may be put; 0: the file may be read
//	For  time.Duration // how long, at least; at most an hour. It begins at once, also where the engine's clock is behind
//
//	// The fields of the answer to a reader. Defaults to the engine's own.
//	Type, Disposition string
type FileKey = driver.FileKey

// maxKeyTime bounds how long a URL of Key is good.
const maxKeyTime = time.Hour

// Files is a container of large files, which come in parts. Parts come in any order, from several processes at once,
// and each again and again. [Files.Commit] makes a file of them. Where a store keeps no files, each error matches
// [ErrUnsupported].
type Files struct {
	place
	d driver.Files
}

// Files returns the files of a container. A container of files has nothing in common with the container of
// [Store.Blobs] that has the same name; on Azure Storage it is the same one, so a program names them apart.
func (s *Store) Files(container string) *Files {
	return &Files{place{kind: "files", name: container, fault: CheckName(container)}, s.d.Files()}
}

// Kept reports whether the store keeps files at all. [Files.Takes] tells whether new ones can come.
func (f *Files) Kept() bool { return f.d != nil }

// Takes returns nil if bytes of parts can come to the store, by [Files.PutPart] or by [Files.Key]. Else the error
// matches [ErrUnsupported], and says to an operator what to change. It makes no request.
func (f *Files) Takes() error {
	err := f.fault
	switch {
	case err != nil:
	case f.d == nil:
		err = fmt.Errorf("%w: the store keeps no files; Redis keeps them in a folder that its URL names, as files=FOLDER", ErrUnsupported)
	default:
		err = f.d.Takes()
	}
	if err != nil {
		return f.fail("put parts into", err)
	}
	return nil
}

// begin returns what is wrong before a call begins.
func (f *Files) begin(ctx context.Context, wrong error) error {
	if err := f.ready(ctx, wrong); err != nil {
		return err
	}
	if f.d == nil {
		return fmt.Errorf("%w: the store keeps no files", ErrUnsupported)
	}
	return nil
}

// PutPart keeps a part, 1 to [MaxParts], of size bytes from body, at most [MaxPart]. It takes the place of the same
// part that came before. A body that ends early is an error that matches io.ErrUnexpectedEOF, and an error of the body
// comes back; then nothing is kept. Where bytes can't go through the program, the error matches [ErrUnsupported]; see
// [Files.Key].
func (f *Files) PutPart(ctx context.Context, key string, number int, size int64, body io.Reader) error {
	err := CheckKey(key)
	switch {
	case err != nil:
	case number < 1 || number > MaxParts:
		err = fmt.Errorf("%w: part %d; want 1 to %d", ErrInvalid, number, MaxParts)
	case size < 0:
		err = fmt.Errorf("%w: a part of %d bytes", ErrInvalid, size)
	case size > MaxPart:
		err = fmt.Errorf("%w: a part of %d bytes; at most %d", ErrTooLarge, size, MaxPart)
	case body == nil:
		err = fmt.Errorf("%w: a nil body", ErrInvalid)
	}
	if err = f.begin(ctx, err); err == nil {
		err = f.d.PutPart(ctx, f.name, key, number, size, body)
	}
	return f.end("put part", key, err)
}

// Parts lists the parts that Commit would take, by number: those that have come since the last Commit, and else those
// of the file.
func (f *Files) Parts(ctx context.Context, key string) (parts []FilePart, err error) {
	if err = f.begin(ctx, CheckKey(key)); err == nil {
		parts, err = f.d.Parts(ctx, f.name, key)
	}
	return parts, f.end("list parts", key, err)
}

// Commit makes the file of the parts 1 to len(sizes). A part that is missing, or has another size, is an error that
// matches [ErrPrecondition], and changes nothing. A Commit that comes again, without new parts between, changes nothing
// but perhaps the ETag.
func (f *Files) Commit(ctx context.Context, key string, sizes []int64) (info FileInfo, err error) {
	err = CheckKey(key)
	if err == nil && (len(sizes) == 0 || len(sizes) > MaxParts) {
		err = fmt.Errorf("%w: a file of %d parts; want 1 to %d", ErrInvalid, len(sizes), MaxParts)
	}
	for i, size := range sizes {
		if err == nil && (size < 0 || size > MaxPart || size == 0 && len(sizes) > 1) {
			err = fmt.Errorf("%w: part %d of %d bytes; want 1 to %d, or one part of 0", ErrInvalid, i+1, size, MaxPart)
		}
	}
	if err = f.begin(ctx, err); err == nil {
		info, err = f.d.Commit(ctx, f.name, key, sizes)
	}
	return info, f.end("commit", key, err)
}

// Stat tells about a file. Without one it returns [ErrNotFound].
func (f *Files) Stat(ctx context.Context, key string) (info FileInfo, err error) {
	if err = f.begin(ctx, CheckKey(key)); err == nil {
		info, err = f.d.Stat(ctx, f.name, key)
	}
	return info, f.end("stat", key, err)
}

// Open reads size bytes of a file from an offset on; both lie within the file. If the file's ETag is another one, the
// error matches [ErrPrecondition]; without a file it matches [ErrNotFound]. The caller closes the reader.
func (f *Files) Open(ctx context.Context, key string, etag ETag, offset, size int64) (r io.ReadCloser, err error) {
	err = CheckKey(key)
	if err == nil && (etag == "" || offset < 0 || size < 0) {
		err = fmt.Errorf("%w: want an ETag, and an offset and a size that aren't negative", ErrInvalid)
	}
	if err = f.begin(ctx, err); err == nil {
		r, err = f.d.Open(ctx, f.name, key, etag, offset, size)
	}
	return r, f.end("open", key, err)
}

// Copy makes the file of a key in another container of the same store from the one with the ETag; else the error
// matches [ErrPrecondition]. It takes the place of a file that is there. Nobody sees half of it. Bytes don't go through
// the program.
func (f *Files) Copy(ctx context.Context, key string, etag ETag, to *Files, toKey string) (info FileInfo, err error) {
	err = CheckKey(key)
	switch {
	case err != nil:
	case CheckKey(toKey) != nil:
		err = CheckKey(toKey)
	case etag == "":
		err = fmt.Errorf("%w: want an ETag", ErrInvalid)
	case to.fault != nil:
		err = to.fault
	case to.name == f.name:
		err = fmt.Errorf("%w: a copy within one container", ErrInvalid)
	}
	if err = f.begin(ctx, err); err == nil {
		info, err = f.d.Copy(ctx, f.name, key, etag, to.name, toKey)
	}
	return info, f.end("copy", key, err)
}

// Delete removes a file and all its parts. Where there is nothing, it does nothing.
func (f *Files) Delete(ctx context.Context, key string) (err error) {
	if err = f.begin(ctx, CheckKey(key)); err == nil {
		err = f.d.Delete(ctx, f.name, key)
	}
	return f.end("delete", key, err)
}

// Key returns a URL with which anybody can do one thing, for some time, by plain HTTPS: GET the file, or PUT a part.
// The URL is a secret. Where the engine has no such URLs, the error matches [ErrUnsupported].
func (f *Files) Key(ctx context.Context, key string, k FileKey) (url string, err error) {
	err = CheckKey(key)
	switch {
	case err != nil:
	case k.Part < 0 || k.Part > MaxParts:
		err = fmt.Errorf("%w: part %d; want 1 to %d, or 0 to read the file", ErrInvalid, k.Part, MaxParts)
	case k.For <= 0 || k.For > maxKeyTime:
		err = fmt.Errorf("%w: a key for %v; want at most %v", ErrInvalid, k.For, maxKeyTime)
	case strings.ContainsAny(k.Type+k.Disposition, "\r\n"):
		err = fmt.Errorf("%w: a field with a line break", ErrInvalid)
	}
	if err = f.begin(ctx, err); err == nil {
		url, err = f.d.Key(ctx, f.name, key, k)
	}
	return url, f.end("make a key of", key, err)
}

func (f *Files) end(op, key string, err error) error {
	if err == nil {
		return nil
	}
	return f.failAt(op, "file", err, key)
}

// Origins are, for all containers of the store, the origins of the web pages whose scripts may use the URLs of
// [Files.Key]. With a list it sets them first. An origin is like "https://example.org". Where there are no such URLs,
// the error matches [ErrUnsupported].
func (f *Files) Origins(ctx context.Context, set []string) (now []string, err error) {
	for _, origin := range set {
		u, e := url.Parse(origin)
		if err == nil && (e != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || origin != u.Scheme+"://"+u.Host) {
			err = fmt.Errorf("%w: origin %s; want one like https://example.org", ErrInvalid, Quote(origin))
		}
	}
	if err = f.begin(ctx, err); err == nil {
		now, err = f.d.Origins(ctx, set)
	}
	if err != nil {
		return nil, f.fail("set the origins of", err)
	}
	return now, nil
}
