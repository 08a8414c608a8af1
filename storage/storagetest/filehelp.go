package storagetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/millrace-go/millrace/storage"
)

// files is a container of files under test.
type files struct {
	*storage.Files
	t    *check
	name string
}

// files returns an unused container of a store that keeps files, or leaves the test out.
func (t *check) files() *files {
	t.Helper()
	f := t.filesIn(t.s, t.name("files"))
	if t.s.Files("kept").Kept() {
		return f
	}
	if t.cfg.Files {
		t.Fatal("Config.Files is set, but the store keeps no files")
	}
	_, err := f.Stat(t.ctx, "key")
	t.fails(err, storage.ErrUnsupported, f.name)
	t.fails(f.Takes(), storage.ErrUnsupported, f.name)
	t.leaveOut("the store keeps no files")
	return nil
}

func (t *check) filesIn(s *storage.Store, name string) *files { return &files{s.Files(name), t, name} }

// put puts a part, by its URL where bytes can't go through the program.
func (f *files) put(key string, number int, body string) {
	f.t.Helper()
	f.t.ok(f.tryPut(f.t.ctx, key, number, body))
}

func (f *files) tryPut(ctx context.Context, key string, number int, body string) error {
	err := f.PutPart(ctx, key, number, int64(len(body)), strings.NewReader(body))
	if !errors.Is(err, storage.ErrUnsupported) {
		return err
	}
	url, err := f.Key(ctx, key, storage.FileKey{Part: number, For: time.Minute})
	if err != nil {
		return err
	}
	status, _, _, err := f.t.ask(ctx, http.MethodPut, url, body)
	if err == nil && status/100 != 2 {
		err = fmt.Errorf("part %d was answered with status %d", number, status)
	}
	return err
}

// ask makes a request with a URL of Key, as a stranger does. No error shows the URL.
func (t *check) ask(ctx context.Context, method, url, body string) (status int, header http.Header, answer string, err error) {
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return 0, nil, "", errors.New("the URL can't be read")
	}
	client := t.cfg.Client
	if client == nil {
		client = http.DefaultClient
	}
	a, err := client.Do(r)
	if err != nil {
		return 0, nil, "", err
	}
	got, err := io.ReadAll(a.Body)
	return a.StatusCode, a.Header, string(got), errors.Join(err, a.Body.Close())
}

// through leaves the test out where bytes can't go through the program.
func (f *files) through() *files {
	f.t.Helper()
	err := f.PutPart(f.t.ctx, "through", 1, 0, strings.NewReader(""))
	if errors.Is(err, storage.ErrUnsupported) {
		f.t.leaveOut("bytes of parts don't go through the program")
	}
	f.t.ok(err)
	f.t.ok(f.Delete(f.t.ctx, "through"))
	return f
}

// make makes a file of parts.
func (f *files) make(key string, parts ...string) storage.FileInfo {
	f.t.Helper()
	for i, body := range parts {
		f.put(key, i+1, body)
	}
	return f.commit(key, parts...)
}

// commit makes a file of the parts, which are there, and looks whether this is so.
func (f *files) commit(key string, parts ...string) storage.FileInfo {
	f.t.Helper()
	info, err := f.Commit(f.t.ctx, key, sizes(parts...))
	f.t.ok(err)
	f.is(key, info, strings.Join(parts, ""))
	return info
}

func sizes(parts ...string) []int64 {
	list := make([]int64, len(parts))
	for i, body := range parts {
		list[i] = int64(len(body))
	}
	return list
}

// is fails the test unless the file has an ETag and a content.
func (f *files) is(key string, info storage.FileInfo, want string) {
	f.t.Helper()
	now, err := f.Stat(f.t.ctx, key)
	f.t.ok(err)
	if now != info || info.ETag == "" || info.Size != int64(len(want)) {
		f.t.Fatalf("file %s is %+v; want %+v, with an ETag and %d bytes", storage.Quote(key), now, info, len(want))
	}
	f.t.bytesEqual("content", f.read(key, info.ETag, 0, info.Size), []byte(want))
}

// read reads a part of a file.
func (f *files) read(key string, etag storage.ETag, offset, size int64) []byte {
	f.t.Helper()
	r, err := f.Open(f.t.ctx, key, etag, offset, size)
	f.t.ok(err)
	got, err := io.ReadAll(r)
	f.t.ok(errors.Join(err, r.Close()))
	return got
}

// none fails the test if there is a file, or a part.
func (f *files) none(key string) {
	f.t.Helper()
	_, err := f.Stat(f.t.ctx, key)
	f.t.fails(err, storage.ErrNotFound, f.name)
	f.has(key)
}

// has fails the test unless a Commit would find parts of these sizes. Those without a part are -1.
func (f *files) has(key string, sizes ...int64) {
	f.t.Helper()
	var want []storage.FilePart
	for i, size := range sizes {
		if size >= 0 {
			want = append(want, storage.FilePart{Number: i + 1, Size: size})
		}
	}
	got, err := f.Parts(f.t.ctx, key)
	f.t.ok(err)
	if !slices.Equal(got, want) {
		f.t.Fatalf("parts of %s: %+v; want %+v", storage.Quote(key), got, want)
	}
}

// fileCalls lists the calls of files.
func fileCalls(s *storage.Store, container, key string) []call {
	f, other := s.Files(container), s.Files(container+"-too")
	where := func(target) string { return container }
	return []call{
		{"put part", where, true, func(ctx context.Context) error {
			return f.PutPart(ctx, key, 1, int64(len(secret)), strings.NewReader(secret))
		}},
		{"parts", where, true, func(ctx context.Context) error { _, err := f.Parts(ctx, key); return err }},
		{"commit", where, true, func(ctx context.Context) error { _, err := f.Commit(ctx, key, []int64{1}); return err }},
		{"stat", where, true, func(ctx context.Context) error { _, err := f.Stat(ctx, key); return err }},
		{"open", where, true, func(ctx context.Context) error {
			r, err := f.Open(ctx, key, "etag", 0, 1)
			if err == nil {
				return r.Close()
			}
			return err
		}},
		{"copy", where, true, func(ctx context.Context) error { _, err := f.Copy(ctx, key, "etag", other, key); return err }},
		{"delete", where, true, func(ctx context.Context) error { return f.Delete(ctx, key) }},
		{"key", where, true, func(ctx context.Context) error {
			_, err := f.Key(ctx, key, storage.FileKey{For: time.Minute})
			return err
		}},
	}
}
