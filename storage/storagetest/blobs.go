package storagetest

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/millrace-go/millrace/storage"
)

func blobTests() []test {
	return append(documentTests(func(t *check, s *storage.Store) documents {
		c := t.name("container")
		return blobDocs{s.Blobs(c), c, t.name("blob")}
	}),
		test{"not modified", notModified},
		test{"containers are apart", containersApart},
		test{"a queue and a container and a table of one name", oneNameForAll},
	)
}

// documents is the common part of Blobs and Table, so that both are held to the same conditions.
type documents interface {
	get(t *check) (body []byte, etag storage.ETag, err error)
	put(t *check, body []byte, cond storage.Condition) (storage.ETag, error)
	remove(t *check, cond storage.Condition) error
	limit(t *check) int
	where() string // Error.Resource must contain this
}

type blobDocs struct {
	*storage.Blobs
	container, key string
}

func (d blobDocs) get(t *check) ([]byte, storage.ETag, error) {
	b, err := d.Get(t.ctx, d.key, "")
	return b.Body, b.ETag, err
}
func (d blobDocs) put(t *check, body []byte, cond storage.Condition) (storage.ETag, error) {
	return d.Put(t.ctx, d.key, body, cond)
}
func (d blobDocs) remove(t *check, cond storage.Condition) error { return d.Delete(t.ctx, d.key, cond) }
func (d blobDocs) limit(t *check) int                            { return t.s.Props().MaxBlob }
func (d blobDocs) where() string                                 { return d.container }

// documentTests tests the laws of one document, whether blob or row.
func documentTests(open func(t *check, s *storage.Store) documents) []test {
	with := func(f func(t *check, d documents)) func(t *check) {
		return func(t *check) { f(t, open(t, t.s)) }
	}
	return []test{
		{"missing", with(docMissing)},
		{"put then get then delete", with(docPutGet)},
		{"bodies come back byte for byte", with(docBodies)},
		{"if absent", with(docIfAbsent)},
		{"if match", with(docIfMatch)},
		{"both conditions are refused", with(docBoth)},
		{"delete with conditions", with(docDelete)},
		{"no wildcards among etags", with(docWildcards)},
		{"every write has its own etag", with(docETags)},
		{"etags are not used again after a deletion", with(docETagsAfterDelete)},
		{"32 writers under one etag have one winner", with(docRaceMatch)},
		{"32 creators have one winner", with(docRaceAbsent)},
		{"32 deleters under one etag have one winner", with(docRaceDelete)},
		{"counting under contention loses nothing", with(docCount)},
		{"size limit", with(docLimit)},
	}
}

// docIs fails the test unless the document is in the given state.
func docIs(t *check, d documents, body string, etag storage.ETag) {
	t.Helper()
	got, e, err := d.get(t)
	t.ok(err)
	t.bytesEqual("body", got, []byte(body))
	if e != etag || e == "" {
		t.Fatalf("Get has ETag %q; want %q as Put returned", e, etag)
	}
}

// docSet puts a document, and fails the test on an error.
func docSet(t *check, d documents, body string, cond storage.Condition) storage.ETag {
	t.Helper()
	etag, err := d.put(t, []byte(body), cond)
	t.ok(err)
	if etag == "" {
		t.Fatal("Put returned an empty ETag")
	}
	docIs(t, d, body, etag)
	return etag
}

func docMissing(t *check, d documents) {
	body, etag, err := d.get(t)
	t.fails(err, storage.ErrNotFound, d.where())
	if len(body) != 0 || etag != "" {
		t.Errorf("Get of nothing returned %q, %q", body, etag)
	}
	t.fails(d.remove(t, storage.Condition{}), storage.ErrNotFound, d.where())
	t.fails(d.remove(t, storage.Condition{IfMatch: "x"}), storage.ErrNotFound, d.where())
	docSet(t, d, "body", storage.Condition{})
	t.ok(d.remove(t, storage.Condition{}))
	_, _, err = d.get(t)
	t.fails(err, storage.ErrNotFound, d.where())
	t.fails(d.remove(t, storage.Condition{}), storage.ErrNotFound, d.where())
}

func docPutGet(t *check, d documents) {
	docSet(t, d, "one", storage.Condition{})
	docSet(t, d, "two, longer", storage.Condition{})
	etag := docSet(t, d, "", storage.Condition{})
	docIs(t, d, "", etag) // a read changes nothing
	t.ok(d.remove(t, storage.Condition{}))
	_, _, err := d.get(t)
	t.fails(err, storage.ErrNotFound, d.where())
}

func docBodies(t *check, d documents) {
	var all strings.Builder
	for i := range 256 {
		all.WriteByte(byte(i))
	}
	for _, b := range []string{"", "\x00", "a\x00b", "\xff", all.String(), "\r\n", " x ", "\ufeffx", "🎉", string(filled(5000, 1))} {
		docSet(t, d, b, storage.Condition{})
	}
}

func docIfAbsent(t *check, d documents) {
	etag := docSet(t, d, "first", storage.Condition{IfAbsent: true})
	_, err := d.put(t, []byte(secret), storage.Condition{IfAbsent: true})
	t.fails(err, storage.ErrExists, d.where())
	if !storage.LostRace(err) {
		t.Error("not a lost race")
	}
	docIs(t, d, "first", etag)
	t.ok(d.remove(t, storage.Condition{}))
	docSet(t, d, "again", storage.Condition{IfAbsent: true})
}

func docIfMatch(t *check, d documents) {
	_, err := d.put(t, []byte(secret), storage.Condition{IfMatch: "x"})
	t.fails(err, storage.ErrPrecondition, d.where())
	_, _, err = d.get(t)
	t.fails(err, storage.ErrNotFound, d.where())

	first := docSet(t, d, "first", storage.Condition{})
	second := docSet(t, d, "second", storage.Condition{IfMatch: first})
	_, err = d.put(t, []byte(secret), storage.Condition{IfMatch: first})
	t.fails(err, storage.ErrPrecondition, d.where())
	if !storage.LostRace(err) {
		t.Error("not a lost race")
	}
	docIs(t, d, "second", second)
	third := docSet(t, d, "third", storage.Condition{IfMatch: second})
	t.ok(d.remove(t, storage.Condition{}))
	_, err = d.put(t, []byte(secret), storage.Condition{IfMatch: third})
	t.fails(err, storage.ErrPrecondition, d.where())
	_, _, err = d.get(t)
	t.fails(err, storage.ErrNotFound, d.where())
}

func docBoth(t *check, d documents) {
	_, err := d.put(t, []byte(secret), storage.Condition{IfAbsent: true, IfMatch: "x"})
	t.fails(err, storage.ErrInvalid, d.where())
	_, _, err = d.get(t)
	t.fails(err, storage.ErrNotFound, d.where())
	etag := docSet(t, d, "body", storage.Condition{})
	both := storage.Condition{IfAbsent: true, IfMatch: etag}
	_, err = d.put(t, []byte(secret), both)
	t.fails(err, storage.ErrInvalid, d.where())
	t.fails(d.remove(t, both), storage.ErrInvalid, d.where())
	docIs(t, d, "body", etag)
}

func docDelete(t *check, d documents) {
	first := docSet(t, d, "first", storage.Condition{})
	second := docSet(t, d, "second", storage.Condition{})
	t.fails(d.remove(t, storage.Condition{IfMatch: first}), storage.ErrPrecondition, d.where())
	docIs(t, d, "second", second)
	if err := d.remove(t, storage.Condition{IfAbsent: true}); err == nil {
		t.Error("deleted under IfAbsent what is there")
	}
	docIs(t, d, "second", second)
	t.ok(d.remove(t, storage.Condition{IfMatch: second}))
	t.fails(d.remove(t, storage.Condition{IfMatch: second}), storage.ErrNotFound, d.where())
}

func docWildcards(t *check, d documents) {
	etag := docSet(t, d, "body", storage.Condition{})
	strange := []storage.ETag{
		"*", `"*"`, "%", "_", "0", "1", "-1", `""`, `W/"x"`, "x\x00", "\xff", "'; --", "x\r\ny: z", "🎉", " " + etag, etag + " ", etag + etag,
		storage.ETag(strings.Repeat("9", 300)),
	}
	for _, e := range strange {
		if e == etag {
			continue
		}
		_, err := d.put(t, []byte(secret), storage.Condition{IfMatch: e})
		t.fails(err, storage.ErrPrecondition, d.where())
		t.fails(d.remove(t, storage.Condition{IfMatch: e}), storage.ErrPrecondition, d.where())
	}
	docIs(t, d, "body", etag)
}

func docETags(t *check, d documents) {
	seen := map[storage.ETag]bool{}
	last := storage.Condition{}
	for i := range 20 {
		etag := docSet(t, d, "the same", last)
		if seen[etag] {
			t.Fatalf("write %d has an ETag used before: %q", i+1, etag)
		}
		seen[etag] = true
		if last = (storage.Condition{}); i%2 == 0 {
			last.IfMatch = etag
		}
	}
}

func docETagsAfterDelete(t *check, d documents) {
	seen := map[storage.ETag]bool{}
	for range 5 {
		for _, cond := range []storage.Condition{{IfAbsent: true}, {}} {
			etag := docSet(t, d, "the same", cond)
			if seen[etag] {
				t.Fatalf("ETag %q was used before the deletion", etag)
			}
			for old := range seen {
				_, err := d.put(t, []byte("other"), storage.Condition{IfMatch: old})
				t.fails(err, storage.ErrPrecondition, d.where())
			}
			seen[etag] = true
		}
		t.ok(d.remove(t, storage.Condition{}))
	}
}

// docRace lets n calls compete. It fails the test unless one wins and the others report a lost race.
func docRace(t *check, n int, f func(i int) error) {
	t.Helper()
	var won atomic.Int64
	crowd(n, func(i int) {
		switch err := f(i); {
		case err == nil:
			won.Add(1)
		case !storage.LostRace(err):
			t.Errorf("got error %v; want a lost race", err)
		}
	})
	if got := won.Load(); got != 1 {
		t.Fatalf("%d winners; want 1", got)
	}
}

func docRaceMatch(t *check, d documents) {
	etag := docSet(t, d, "start", storage.Condition{})
	var winner atomic.Value
	docRace(t, 32, func(i int) error {
		body := fmt.Sprint("writer ", i)
		_, err := d.put(t, []byte(body), storage.Condition{IfMatch: etag})
		if err == nil {
			winner.Store(body)
		}
		return err
	})
	got, _, err := d.get(t)
	t.ok(err)
	t.bytesEqual("body", got, []byte(winner.Load().(string)))
}

func docRaceAbsent(t *check, d documents) {
	var winner atomic.Value
	docRace(t, 32, func(i int) error {
		body := fmt.Sprint("creator ", i)
		_, err := d.put(t, []byte(body), storage.Condition{IfAbsent: true})
		if err == nil {
			winner.Store(body)
		}
		return err
	})
	got, _, err := d.get(t)
	t.ok(err)
	t.bytesEqual("body", got, []byte(winner.Load().(string)))
}

func docRaceDelete(t *check, d documents) {
	etag := docSet(t, d, "start", storage.Condition{})
	var won atomic.Int64
	crowd(32, func(i int) {
		switch err := d.remove(t, storage.Condition{IfMatch: etag}); {
		case err == nil:
			won.Add(1)
		case !errors.Is(err, storage.ErrNotFound):
			t.Errorf("got error %v; want %v", err, storage.ErrNotFound)
		}
	})
	if got := won.Load(); got != 1 {
		t.Errorf("%d winners; want 1", got)
	}
}

func docCount(t *check, d documents) {
	docSet(t, d, "", storage.Condition{})
	const writers, each = 8, 5
	crowd(writers, func(int) {
		for won := 0; won < each; {
			body, etag, err := d.get(t)
			if err == nil {
				_, err = d.put(t, append(body, 'x'), storage.Condition{IfMatch: etag})
			}
			switch {
			case err == nil:
				won++
			case !storage.LostRace(err):
				t.Errorf("put: %v", err)
				return
			}
		}
	})
	body, _, err := d.get(t)
	t.ok(err)
	if len(body) != writers*each {
		t.Errorf("counted %d; want %d", len(body), writers*each)
	}
}

func docLimit(t *check, d documents) {
	limit := d.limit(t)
	most := 64 << 20
	if t.cfg.Short {
		most = 4 << 20
	}
	var etag storage.ETag
	if limit <= most {
		etag = docSet(t, d, string(filled(limit, 5)), storage.Condition{})
	}
	if limit <= 1<<30 {
		_, err := d.put(t, make([]byte, limit+1), storage.Condition{})
		t.fails(err, storage.ErrTooLarge, d.where())
	}
	if got, e, err := d.get(t); etag != "" {
		t.ok(err)
		if len(got) != limit || e != etag {
			t.Errorf("the refused write left %d bytes, ETag %q; want %d, %q", len(got), e, limit, etag)
		}
	} else {
		t.fails(err, storage.ErrNotFound, d.where())
	}
}

func notModified(t *check) {
	b, key := t.s.Blobs(t.name("container")), "key"
	_, err := b.Get(t.ctx, key, "x")
	t.fails(err, storage.ErrNotFound, "")
	first, err := b.Put(t.ctx, key, []byte("first"), storage.Condition{})
	t.ok(err)
	got, err := b.Get(t.ctx, key, first)
	t.fails(err, storage.ErrNotModified, "")
	if len(got.Body) != 0 {
		t.Errorf("a body came with ErrNotModified: %q", got.Body)
	}
	second, err := b.Put(t.ctx, key, []byte("second"), storage.Condition{})
	t.ok(err)
	for _, stale := range []storage.ETag{first, "*", "x", `"x"`, " " + second} {
		got, err = b.Get(t.ctx, key, stale)
		t.ok(err)
		t.bytesEqual("body", got.Body, []byte("second"))
		if got.ETag != second {
			t.Errorf("ETag = %q; want %q", got.ETag, second)
		}
	}
	t.ok(b.Delete(t.ctx, key, storage.Condition{}))
	_, err = b.Get(t.ctx, key, second)
	t.fails(err, storage.ErrNotFound, "")
}

func containersApart(t *check) {
	a, b := t.s.Blobs(t.name("container")), t.s.Blobs(t.name("container"))
	etag, err := a.Put(t.ctx, "key", []byte("a"), storage.Condition{})
	t.ok(err)
	_, err = b.Get(t.ctx, "key", "")
	t.fails(err, storage.ErrNotFound, "")
	_, err = b.Put(t.ctx, "key", []byte("b"), storage.Condition{IfAbsent: true})
	t.ok(err)
	t.ok(b.Delete(t.ctx, "key", storage.Condition{}))
	got, err := a.Get(t.ctx, "key", "")
	t.ok(err)
	if got.ETag != etag {
		t.Errorf("ETag = %q; want %q", got.ETag, etag)
	}
}

func oneNameForAll(t *check) {
	name := t.name("shared")
	q, b, tab := t.queueIn(t.s, name), t.s.Blobs(name), t.s.Table(name)
	q.send("message")
	_, err := b.Put(t.ctx, "key", []byte("blob"), storage.Condition{IfAbsent: true})
	t.ok(err)
	_, err = tab.Put(t.ctx, "key", "key", []byte("row"), storage.Condition{IfAbsent: true})
	t.ok(err)
	blob, err := b.Get(t.ctx, "key", "")
	t.ok(err)
	row, err := tab.Get(t.ctx, "key", "key")
	t.ok(err)
	t.equal("contents", []string{string(q.one(hold).Body), string(blob.Body), string(row.Data)}, []string{"message", "blob", "row"})
}
