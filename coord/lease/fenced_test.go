package lease_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/coord/lease"
	"github.com/millrace-go/millrace/internal/agreetest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

const key = "total"

// put writes a document under any condition.
func put(t *testing.T, d *lease.Documents, content string) error {
	t.Helper()
	_, err := d.Put(t.Context(), key, []byte(content), storage.Condition{})
	return err
}

// wantDocument checks what Read returns.
func wantDocument(t *testing.T, blobs *storage.Blobs, content string, fence int64) storage.ETag {
	t.Helper()
	d, err := lease.Read(t.Context(), blobs, key)
	if err != nil || string(d.Content) != content || d.Fence != fence || d.Lease != name {
		t.Errorf("the document is %q with fence %d of %q, %v; want %q with %d", d.Content, d.Fence, d.Lease, err, content, fence)
	}
	return d.ETag
}

// A holder whose lease has ended writes until the first write of the next holder, and never after it.
func TestTheStoreFencesOldHoldersOff(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		blobs := s.Blobs("docs")
		link := storagetest.NewLink(s)
		l := acquire(t, link.Store)
		old := l.Blobs(blobs)
		if err := put(t, old, "1"); err != nil {
			t.Error(err)
		}
		link.Cut()
		next := acquire(t, s)
		time.Sleep(time.Hour)
		if err := put(t, old, "1 late"); err != nil {
			t.Errorf("before a later holder's write: %v", err)
		}
		docs := next.Blobs(blobs)
		if err := put(t, docs, "2"); err != nil {
			t.Error(err)
		}
		if err := put(t, old, "1 again"); !errors.Is(err, lease.ErrFenced) || errors.Is(err, storage.ErrUnavailable) || !strings.Contains(err.Error(), key) {
			t.Errorf("an old holder's write: %v", err)
		}
		if err := old.Delete(t.Context(), key, storage.Condition{}); !errors.Is(err, lease.ErrFenced) {
			t.Errorf("an old holder's deletion: %v", err)
		}
		if _, err := old.Get(t.Context(), key); !errors.Is(err, lease.ErrFenced) {
			t.Errorf("an old holder's read: %v", err)
		}
		wantDocument(t, blobs, "2", 2)
		if err := docs.Delete(t.Context(), key, storage.Condition{}); err != nil {
			t.Error(err)
		}
		if err := put(t, old, "1 anew"); !errors.Is(err, lease.ErrFenced) {
			t.Errorf("an old holder's write of a document that was deleted: %v", err)
		}
		if _, err := lease.Read(t.Context(), blobs, key); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("a document that was deleted: %v", err)
		}
		release(t, next)
		if err := put(t, lease.Fenced(blobs, name, 2), "2 late"); err != nil { // nobody came after it
			t.Error(err)
		}
		wantDocument(t, blobs, "2 late", 2)
	})
}

func TestConditionsOfDocuments(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		blobs := s.Blobs("docs")
		d := lease.Fenced(blobs, name, 7)
		want := func(what string, err, kind error) {
			t.Helper()
			if !errors.Is(err, kind) {
				t.Errorf("%s: %v; want %v", what, err, kind)
			}
		}
		try := func(cond storage.Condition) (storage.ETag, error) { return d.Put(t.Context(), key, []byte("x"), cond) }
		_, err := d.Get(t.Context(), key)
		want("a read of nothing", err, storage.ErrNotFound)
		want("a deletion of nothing", d.Delete(t.Context(), key, storage.Condition{}), storage.ErrNotFound)
		_, err = try(storage.Condition{IfMatch: "x"})
		want("a change of nothing", err, storage.ErrPrecondition)
		first, err := try(storage.Condition{IfAbsent: true})
		want("a creation", err, nil)
		_, err = try(storage.Condition{IfAbsent: true})
		want("a second creation", err, storage.ErrExists)
		second, err := try(storage.Condition{IfMatch: first})
		want("a change", err, nil)
		if got := wantDocument(t, blobs, "x", 7); got != second {
			t.Errorf("the ETag is %q, and Put returned %q", got, second)
		}
		_, err = try(storage.Condition{IfMatch: first})
		want("a change of an old state", err, storage.ErrPrecondition)
		_, err = try(storage.Condition{IfMatch: first, IfAbsent: true})
		want("two conditions", err, storage.ErrInvalid)
		want("a deletion of an old state", d.Delete(t.Context(), key, storage.Condition{IfMatch: first}), storage.ErrPrecondition)
		want("a deletion with IfAbsent", d.Delete(t.Context(), key, storage.Condition{IfAbsent: true}), storage.ErrInvalid)
		want("a deletion", d.Delete(t.Context(), key, storage.Condition{IfMatch: second}), nil)
		_, err = try(storage.Condition{IfAbsent: true})
		want("a creation after a deletion", err, nil)
	})
}

func TestForeignDocuments(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		blobs := s.Blobs("docs")
		want := func(what string, err error, word string) {
			t.Helper()
			if !errors.Is(err, storage.ErrInvalid) || !strings.Contains(err.Error(), word) {
				t.Errorf("%s: %v; want a word about %q", what, err, word)
			}
		}
		d := lease.Fenced(blobs, name, 1)
		for _, body := range []string{
			"", "plain", "{}\n", `{"lease":"a","fence":0,"id":"x"}` + "\n", `{"lease":"a","fence":1,"id":"x"}`, "null\nx",
			`{"lease":"a","fence":1,"id":"x","shared":true}` + "\n", `{"lease":"","fence":1,"id":"x"}` + "\n", `{"lease":"a","fence":9e99,"id":"x"}` + "\n",
		} {
			tag, err := blobs.Put(t.Context(), key, []byte(body), storage.Condition{})
			if err != nil {
				t.Fatal(err)
			}
			_, err = lease.Read(t.Context(), blobs, key)
			want("a read of "+body, err, "lease")
			_, err = d.Get(t.Context(), key)
			want("a read under a lease of "+body, err, "lease")
			want("a write over "+body, put(t, d, "x"), "lease")
			if b, err := blobs.Get(t.Context(), key, tag); !errors.Is(err, storage.ErrNotModified) {
				t.Errorf("written over: %s, %v", b.Body, err)
			}
		}
		if err := blobs.Delete(t.Context(), key, storage.Condition{}); err != nil {
			t.Fatal(err)
		}
		if err := put(t, lease.Fenced(blobs, "other", 3), "x"); err != nil {
			t.Fatal(err)
		}
		want("a document of another lease", put(t, lease.Fenced(blobs, name, 9), "y"), `"other"`)
		want("a bad fence", put(t, lease.Fenced(blobs, name, 0), "y"), "fence")
		want("a bad name", put(t, lease.Fenced(blobs, "a\n", 1), "y"), "key")
		_, err := lease.Fenced(blobs, name, 1).Put(t.Context(), "", nil, storage.Condition{})
		want("a bad key", err, "key")
		if _, err := lease.Fenced(blobs, "other", 3).Put(t.Context(), key, make([]byte, s.Props().MaxBlob), storage.Condition{}); !errors.Is(err, storage.ErrTooLarge) {
			t.Errorf("too large: %v", err)
		}
		if err := put(t, lease.Fenced(blobs, "other", 3), "two\nlines\n"); err != nil {
			t.Error(err)
		}
		if d, err := lease.Read(t.Context(), blobs, key); err != nil || !bytes.Equal(d.Content, []byte("two\nlines\n")) {
			t.Errorf("%q, %v", d.Content, err)
		}
	})
}

func TestAnyCallOfAFencedWriteFails(t *testing.T) {
	t.Parallel()
	eachCallFails(t, 6, func(t *testing.T, failing, s *storage.Store) {
		d, blobs := lease.Fenced(failing.Blobs("docs"), name, 1), s.Blobs("docs")
		first, err := d.Put(t.Context(), key, []byte("a"), storage.Condition{IfAbsent: true})
		if err != nil {
			t.Fatal(err)
		}
		second, err := d.Put(t.Context(), key, []byte("b"), storage.Condition{IfMatch: first})
		if err != nil {
			t.Fatal(err)
		}
		if got := wantDocument(t, blobs, "b", 1); got != second {
			t.Errorf("Put returned %q, and the ETag is %q", second, got)
		}
		if err := d.Delete(t.Context(), key, storage.Condition{IfMatch: second}); err != nil {
			t.Error(err)
		}
		if _, err := lease.Read(t.Context(), blobs, key); !errors.Is(err, storage.ErrNotFound) {
			t.Error(err)
		}
	})
}

// A write is done without an answer, and a later holder writes before the repetition. The error says both.
func TestAFencedWriteOfUnknownOutcome(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		blobs := s.Blobs("docs")
		d := lease.Fenced(storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
			if op.Seq != 2 {
				return do()
			}
			_ = do()
			wantDocument(t, blobs, "1", 1)
			if err := put(t, lease.Fenced(blobs, name, 2), "2"); err != nil {
				t.Error(err)
			}
			return op.Fail(storage.ErrUnavailable)
		}).Blobs("docs"), name, 1)
		if err := put(t, d, "1"); !errors.Is(err, lease.ErrFenced) || !errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("the write ended with %v", err)
		}
		wantDocument(t, blobs, "2", 2)
		link := storagetest.NewLink(s)
		link.Cut()
		if err := put(t, lease.Fenced(link.Blobs("docs"), name, 3), "3"); !errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("without a store: %v", err)
		}
	})
}
