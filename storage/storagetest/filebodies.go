package storagetest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/millrace-go/millrace/storage"
)

func filesShort(t *check) {
	f := t.files().through()
	f.put("key", 1, "whole")
	for _, body := range []string{"", "a", "nearl"} {
		for number := range 2 {
			err := f.PutPart(t.ctx, "key", number+1, 6, strings.NewReader(body))
			t.fails(err, io.ErrUnexpectedEOF, f.name)
		}
	}
	long := string(filled(200_000, 1))
	err := f.PutPart(t.ctx, "key", 2, 200_001, strings.NewReader(long))
	t.fails(err, io.ErrUnexpectedEOF, f.name)
	f.has("key", 5)
	f.commit("key", "whole")
}

func filesFailing(t *check) {
	f := t.files().through()
	f.put("key", 1, "whole")
	broken := errors.New("the body is broken")
	for _, n := range []int{0, 1, 100_000} {
		for number := range 2 {
			body := io.MultiReader(bytes.NewReader(filled(n, 1)), failing{broken})
			err := f.PutPart(t.ctx, "key", number+1, 200_000, body)
			t.fails(err, broken, f.name)
		}
	}
	f.has("key", 5)
	f.commit("key", "whole")
}

// failing is a body that fails.
type failing struct{ err error }

func (b failing) Read([]byte) (int, error) { return 0, b.err }

// filesCancelled ends the context of bodies that wait for its end, and of bodies that never end.
func filesCancelled(t *check) {
	f := t.files().through()
	f.put("key", 1, "whole")
	for _, waits := range []bool{true, false} {
		ctx, cancel := context.WithCancelCause(t.ctx)
		body := &cancelling{ctx: ctx, cancel: func() { cancel(errCause) }, waits: waits}
		t.within("a part whose context has ended", func() {
			if err := f.PutPart(ctx, "key", 2, storage.MaxPart, body); !errors.Is(err, errCause) {
				t.Errorf("got error %v; want one that matches context.Cause", err)
			}
		})
		cancel(nil)
		if body.n > 10_000 {
			t.Errorf("a body was read %d times after its context had ended", body.n)
		}
	}
	f.has("key", 5)
	info := f.commit("key", "whole")
	ctx, cancel := context.WithCancelCause(t.ctx)
	r, err := f.Open(ctx, "key", info.ETag, 0, 5)
	t.ok(err)
	cancel(errCause)
	if _, err := io.ReadAll(r); err != nil && !errors.Is(err, errCause) {
		t.Errorf("read: got error %v; want one that matches context.Cause, or none", err)
	}
	t.ok(r.Close())
}

// cancelling is a body that ends the context of its call.
type cancelling struct {
	ctx    context.Context
	cancel func()
	waits  bool // and then it fails as a connection does
	n      int
}

func (b *cancelling) Read(p []byte) (int, error) {
	if b.n++; b.n == 3 {
		b.cancel()
	}
	if b.n >= 3 && b.waits {
		<-b.ctx.Done()
		return 0, b.ctx.Err()
	}
	return len(p), nil
}

// filesSlow holds bodies open while others commit, read and copy.
func filesSlow(t *check) {
	f, to := t.files().through(), t.files()
	old := f.make("key", "one", "two")
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- f.PutPart(t.ctx, "key", 1, 8, r) }()
	step := func(text string) {
		_, err := io.WriteString(w, text)
		t.ok(err)
	}
	step("sl")
	f.has("key", 3, 3)
	f.is("key", old, "onetwo")
	f.commit("key", "one", "two")
	step("ow")
	f.put("key", 2, "zwei")
	info := f.commit("key", "one", "zwei")
	copied, err := f.Copy(t.ctx, "key", info.ETag, to.Files, "key")
	t.ok(err)
	step("body")
	t.ok(<-done)
	f.is("key", info, "onezwei")
	to.is("key", copied, "onezwei")
	f.has("key", 8, 4)
	f.commit("key", "slowbody", "zwei")
	to.is("key", copied, "onezwei")
}

func filesCancelledBefore(t *check) {
	f := t.files()
	info := f.make("key", "body")
	for _, c := range fileCalls(t.s, f.name, "key") {
		if err := c.do(t.cancelled()); !errors.Is(err, errCause) {
			t.Errorf("%s: got error %v; want one that matches context.Cause", c.name, err)
		}
	}
	f.has("key", 4)
	f.is("key", info, "body")
}

func filesBad(t *check) {
	f := t.files()
	for _, key := range []string{"", "a\x00", "\xff", "a\nb", strings.Repeat("a", storage.MaxKey+1)} {
		for _, c := range fileCalls(t.s, f.name, key) {
			t.fails(c.do(t.ctx), storage.ErrInvalid, f.name)
		}
	}
	for _, name := range []string{"", "..", "a/b", "Abc"} {
		for _, c := range fileCalls(t.s, name, "key") {
			t.fails(c.do(t.ctx), storage.ErrInvalid, "")
		}
	}
	for _, number := range []int{-1, 0, storage.MaxParts + 1} {
		t.fails(f.PutPart(t.ctx, "key", number, 1, strings.NewReader("x")), storage.ErrInvalid, f.name)
	}
	t.fails(f.PutPart(t.ctx, "key", 1, -1, strings.NewReader("x")), storage.ErrInvalid, f.name)
	t.fails(f.PutPart(t.ctx, "key", 1, storage.MaxPart+1, strings.NewReader("x")), storage.ErrTooLarge, f.name)
	for _, sizes := range [][]int64{nil, {-1}, {1, 0}, make([]int64, storage.MaxParts+1)} {
		_, err := f.Commit(t.ctx, "key", sizes)
		t.fails(err, storage.ErrInvalid, f.name)
	}
	f.none("key")
}

// withURLs returns an unused container of a store that has URLs, or leaves the test out.
func (t *check) withURLs() *files {
	t.Helper()
	f := t.files()
	_, err := f.Key(t.ctx, "key", storage.FileKey{For: time.Minute})
	if errors.Is(err, storage.ErrUnsupported) {
		_, err := t.s.Files("origins").Origins(t.ctx, nil)
		t.fails(err, storage.ErrUnsupported, "files")
		t.leaveOut("the store has no URLs for strangers")
	}
	t.ok(err)
	return f
}

// url returns a URL of Key.
func (f *files) url(key string, k storage.FileKey) string {
	f.t.Helper()
	k.For = 5 * time.Minute
	url, err := f.Key(f.t.ctx, key, k)
	f.t.ok(err)
	return url
}

// refused fails the test if the engine does what a URL doesn't allow. It returns without an answer's text, which may
// show the URL.
func (t *check) refused(what, method, url, body string) {
	t.Helper()
	status, _, _, err := t.ask(t.ctx, method, url, body)
	t.ok(err)
	if status < 400 {
		t.Errorf("%s: status %d; want that it is refused", what, status)
	}
}

// moved is a URL with the path of another one, and without some parameters.
func (t *check) moved(text, to string, without ...string) string {
	t.Helper()
	u, err := url.Parse(text)
	t.ok(err)
	other, err := url.Parse(to)
	t.ok(err)
	u.Path, u.RawPath = other.Path, other.RawPath
	query := u.Query()
	for _, name := range without {
		query.Del(name)
	}
	u.RawQuery = query.Encode()
	return u.String()
}

func fileKeyReads(t *check) {
	f := t.withURLs()
	info := f.make("a/first file", "one", "two")
	f.make("second", "another")
	k := storage.FileKey{Type: "text/x-test", Disposition: `attachment; filename="a file.txt"`}
	read := f.url("a/first file", k)
	status, header, body, err := t.ask(t.ctx, "GET", read, "")
	t.ok(err)
	got := []string{header.Get("Content-Type"), header.Get("Content-Disposition"), body}
	if status != 200 {
		t.Fatalf("status %d; want 200", status)
	}
	t.equal("type, disposition and content", got, []string{k.Type, k.Disposition, "onetwo"})
	t.refused("a part by a URL to read", "PUT", read, "body")
	t.refused("deleting by a URL to read", "DELETE", read, "")
	t.refused("another key by a URL to read", "GET", t.moved(read, f.url("second", k)), "")
	f.is("a/first file", info, "onetwo")
}

func fileKeyPuts(t *check) {
	f := t.withURLs()
	info := f.make("first", "one")
	f.make("second", "another")
	put := f.url("first", storage.FileKey{Part: 2})
	for _, body := range []string{"2", "two"} {
		status, _, _, err := t.ask(t.ctx, "PUT", put, body)
		t.ok(err)
		if status/100 != 2 {
			t.Fatalf("status %d; want that the part is taken", status)
		}
	}
	f.is("first", info, "one")
	block := []string{"comp", "blockid"} // where the engine is Azure, a URL without these means the file itself
	t.refused("reading by a URL of a part", "GET", put, "")
	t.refused("reading by a URL of a part", "GET", t.moved(put, put, block...), "")
	t.refused("deleting by a URL of a part", "DELETE", t.moved(put, put, block...), "")
	other := f.url("second", storage.FileKey{Part: 2})
	t.refused("another key by a URL of a part", "PUT", t.moved(put, other), "two")
	f.commit("first", "one", "two")
	f.has("second", 7)
}
