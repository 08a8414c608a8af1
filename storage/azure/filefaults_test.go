package azure

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"

	"github.com/millrace-go/millrace/storage"
)

// fileActs are the operations on files. All are repeated, and their outcome is known in the end.
func fileActs() []act {
	const body = "0123456789"
	made := func(t *testing.T, s *opened) (filing, *storage.Files, storage.FileInfo) {
		w, f := filing{s, http.DefaultClient}, s.Store.Files("inbox")
		return w, f, w.file(t, f, "a", body)
	}
	holds := func(t *testing.T, f *storage.Files, info storage.FileInfo, err error) {
		t.Helper()
		noError(t, err)
		if got := readFile(t, f, "a", info, 0, info.Size); got != body {
			t.Errorf("the file holds %q", got)
		}
	}
	headless := func(*testing.T, *opened) {} // the answer to HEAD has no body in truth
	return []act{
		{name: "file stat", silent: headless, prepare: func(t *testing.T, s *opened) (func() error, func(*testing.T, error)) {
			_, f, _ := made(t, s)
			var info storage.FileInfo
			return func() (err error) { info, err = f.Stat(t.Context(), "a"); return err },
				func(t *testing.T, err error) { holds(t, f, info, err) }
		}},
		{name: "file parts", prepare: func(t *testing.T, s *opened) (func() error, func(*testing.T, error)) {
			_, f, _ := made(t, s)
			return func() error { _, err := f.Parts(t.Context(), "a"); return err }, noErrorAfter
		}},
		{name: "file commit", prepare: func(t *testing.T, s *opened) (func() error, func(*testing.T, error)) {
			w, f, _ := made(t, s)
			w.put(t, f, "a", 1, body)
			var info storage.FileInfo
			return func() (err error) { info, err = f.Commit(t.Context(), "a", []int64{10}); return err },
				func(t *testing.T, err error) { holds(t, f, info, err) }
		}},
		{name: "file read", prepare: func(t *testing.T, s *opened) (func() error, func(*testing.T, error)) {
			_, f, info := made(t, s)
			return func() error {
				r, err := f.Open(t.Context(), "a", info.ETag, 0, info.Size)
				if err != nil {
					return err
				}
				defer r.Close()
				got, err := io.ReadAll(r)
				if err == nil && string(got) != body {
					err = fmt.Errorf("read %q", got)
				}
				return err
			}, noErrorAfter
		}},
		{name: "file copy", silent: headless, prepare: func(t *testing.T, s *opened) (func() error, func(*testing.T, error)) {
			w, f, info := made(t, s)
			to := s.Store.Files("files")
			w.file(t, to, "a", "old")
			return func() (err error) { info, err = f.Copy(t.Context(), "a", info.ETag, to, "a"); return err },
				func(t *testing.T, err error) { holds(t, to, info, err) }
		}},
		{name: "file delete", prepare: func(t *testing.T, s *opened) (func() error, func(*testing.T, error)) {
			_, f, _ := made(t, s)
			return func() error { return f.Delete(t.Context(), "a") }, func(t *testing.T, err error) {
				noError(t, err)
				if _, err := f.Stat(t.Context(), "a"); !errors.Is(err, storage.ErrNotFound) {
					t.Errorf("after the deletion: %v", err)
				}
			}
		}},
	}
}

// Copies of several files to one place at once all succeed, and one of them is there as a whole.
func TestCopiesAtOnce(t *testing.T) {
	t.Parallel()
	s := filing{openStore(t, testURL(t)), http.DefaultClient}
	f, to := s.Store.Files("inbox"), s.Store.Files("files")
	bodies := map[string]bool{}
	var all sync.WaitGroup
	for i := range 4 {
		key, body := fmt.Sprint("key", i), strings.Repeat(fmt.Sprint(i), 1000+i)
		bodies[body] = true
		info := s.file(t, f, key, body)
		all.Go(func() {
			if _, err := f.Copy(t.Context(), key, info.ETag, to, "a"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	info := must[storage.FileInfo](t)(to.Stat(t.Context(), "a"))
	if got := readFile(t, to, "a", info, 0, info.Size); !bodies[got] {
		t.Errorf("the target holds %q", got)
	}
}

// Blocks of another program are no parts.
func TestForeignBlocks(t *testing.T) {
	t.Parallel()
	s := filing{openStore(t, testURL(t)), http.DefaultClient}
	f := s.Store.Files("inbox")
	s.put(t, f, "a", 1, "one")
	b := s.d.files.in("inbox")
	for _, id := range []string{partID(0), partID(10_001), partID(2)[:31] + "=", strings.Repeat("A", 32)} {
		if got := partNumber(id); got != 0 {
			t.Errorf("block %s is part %d", id, got)
		}
	}
	_, err := b.blob("a").StageBlock(t.Context(), strings.Repeat("QUFB", 8), streaming.NopCloser(bytes.NewReader([]byte("x"))), nil)
	noError(t, err)
	if got := must[[]storage.FilePart](t)(f.Parts(t.Context(), "a")); len(got) != 1 || got[0] != (storage.FilePart{Number: 1, Size: 3}) {
		t.Errorf("got parts %v", got)
	}
	for number := 1; number <= 10_000; number++ {
		if got := partNumber(partID(number)); got != number || len(partID(number)) != 32 {
			t.Fatalf("part %d is read as %d", number, got)
		}
	}
}

// BenchmarkUploads compares the blocks that a client puts by URLs with those that the SDK stages.
func BenchmarkUploads(b *testing.B) {
	server, err := azurite()
	if err != nil {
		b.Skip(err)
	}
	d, err := open(b.Context(), server.Account(b).ConnectionString(), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	body := bytes.Repeat([]byte("0123456789abcdef"), 8<<20/16)
	f := storage.New(d).Files("inbox")
	if _, err := f.Key(b.Context(), "a", storage.FileKey{Part: 1, For: 1e9}); err != nil {
		b.Fatal(err)
	}
	b.Run("url", func(b *testing.B) {
		b.SetBytes(int64(len(body)))
		for n := 0; b.Loop(); n++ {
			url, err := f.Key(b.Context(), "url", storage.FileKey{Part: n%100 + 1, For: 60e9})
			if err != nil {
				b.Fatal(err)
			}
			req, err := http.NewRequestWithContext(b.Context(), http.MethodPut, url, bytes.NewReader(body))
			if err != nil {
				b.Fatal(err)
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				b.Fatal(err)
			}
			if resp.Body.Close(); resp.StatusCode != http.StatusCreated {
				b.Fatal(resp.Status)
			}
		}
	})
	b.Run("sdk", func(b *testing.B) {
		b.SetBytes(int64(len(body)))
		one := d.files.in("inbox").blob("sdk")
		for n := 0; b.Loop(); n++ {
			if _, err := one.StageBlock(b.Context(), partID(n%100+1), streaming.NopCloser(bytes.NewReader(body)), nil); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("key", func(b *testing.B) {
		for b.Loop() {
			if _, err := f.Key(b.Context(), "url", storage.FileKey{Part: 1, For: 60e9}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
