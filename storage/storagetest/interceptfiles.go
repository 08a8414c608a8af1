package storagetest

import (
	"context"
	"io"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/driver"
)

func (x *intercepted) Files() driver.Files {
	if f := x.Store.Files(); f != nil {
		return interceptedFiles{f, x}
	}
	return nil
}

// interceptedFiles passes Key and Origins on.
type interceptedFiles struct {
	driver.Files
	x *intercepted
}

func fileOp(name, container, key string) Op {
	return Op{Name: name, Resource: "file " + container + "/" + key}
}

func (f interceptedFiles) PutPart(ctx context.Context, container, key string, number int, size int64, body io.Reader) error {
	return f.x.call(ctx, fileOp("put part", container, key), func() error { return f.Files.PutPart(ctx, container, key, number, size, body) })
}

func (f interceptedFiles) Parts(ctx context.Context, container, key string) ([]driver.FilePart, error) {
	return around(f.x, ctx, fileOp("list parts", container, key), func() ([]driver.FilePart, error) { return f.Files.Parts(ctx, container, key) })
}

func (f interceptedFiles) Commit(ctx context.Context, container, key string, sizes []int64) (driver.FileInfo, error) {
	return around(f.x, ctx, fileOp("commit file", container, key), func() (driver.FileInfo, error) { return f.Files.Commit(ctx, container, key, sizes) })
}

func (f interceptedFiles) Stat(ctx context.Context, container, key string) (driver.FileInfo, error) {
	return around(f.x, ctx, fileOp("stat file", container, key), func() (driver.FileInfo, error) { return f.Files.Stat(ctx, container, key) })
}

// Open is the call up to its first byte: the reader isn't disturbed.
func (f interceptedFiles) Open(ctx context.Context, container, key string, etag storage.ETag, offset, size int64) (io.ReadCloser, error) {
	var last io.ReadCloser
	r, err := around(f.x, ctx, fileOp("open file", container, key), func() (io.ReadCloser, error) {
		if last != nil {
			_ = last.Close() // of a call that is made twice
		}
		r, err := f.Files.Open(ctx, container, key, etag, offset, size)
		last = r
		return r, err
	})
	if err != nil && last != nil {
		_ = last.Close() // its answer is lost
	}
	return r, err
}

func (f interceptedFiles) Copy(ctx context.Context, container, key string, etag storage.ETag, toContainer, to string) (driver.FileInfo, error) {
	return around(f.x, ctx, fileOp("copy file", toContainer, to), func() (driver.FileInfo, error) {
		return f.Files.Copy(ctx, container, key, etag, toContainer, to)
	})
}

func (f interceptedFiles) Delete(ctx context.Context, container, key string) error {
	return f.x.call(ctx, fileOp("delete file", container, key), func() error { return f.Files.Delete(ctx, container, key) })
}
