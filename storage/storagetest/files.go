package storagetest

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/millrace-go/millrace/storage"
)

func fileTests() []test {
	return []test{
		{"parts in any order", filesAnyOrder},
		{"parts at once", filesAtOnce},
		{"a part again", filesAgain},
		{"large parts", filesLarge},
		{"an empty file", filesEmpty},
		{"commit wants its parts", filesWant},
		{"commit leaves out further parts", filesFurther},
		{"commit again", filesCommitAgain},
		{"commits at once", filesCommitsAtOnce},
		{"a late part waits for a commit", filesLate},
		{"etags", filesETags},
		{"ranges over the borders of parts", filesRanges},
		{"a reader of a file that is replaced", filesReplaced},
		{"delete", filesDelete},
		{"parts beside delete", filesBesideDelete},
		{"nasty keys", filesNastyKeys},
		{"many containers", filesContainers},
		{"copy", filesCopy},
		{"copy under a condition", filesCopyCondition},
		{"copy into the place of another", filesCopyOver},
		{"copy again, and at once", filesCopyAgain},
		{"a short body", filesShort},
		{"a body that fails", filesFailing},
		{"a body while the context ends", filesCancelled},
		{"a slow body changes nothing", filesSlow},
		{"cancelled before the call", filesCancelledBefore},
		{"bad arguments are refused", filesBad},
		{"a second store sees all", filesByAnother},
		{"two stores at once", filesByTwo},
		{"durable", filesDurable},
		{"close ends every later call", filesClosed},
		{"takes bytes, or says why not", filesTakes},
		{"a URL to read", fileKeyReads},
		{"a URL to put a part", fileKeyPuts},
	}
}

func filesTakes(t *check) {
	f := t.files()
	put := f.PutPart(t.ctx, "key", 1, 4, strings.NewReader("body"))
	_, key := f.Key(t.ctx, "key", storage.FileKey{Part: 1, For: time.Minute})
	if err := f.Takes(); err != nil {
		for _, err := range []error{err, put, key} {
			t.fails(err, storage.ErrUnsupported, f.name)
		}
	} else if put != nil && key != nil {
		t.Fatalf("the store says that it takes bytes, but a part can't come: %v; %v", put, key)
	}
	t.fails(t.s.Files("A/").Takes(), storage.ErrInvalid, "A/")
}

func filesAnyOrder(t *check) {
	f := t.files()
	f.none("key")
	f.put("key", 3, "three")
	f.put("key", 1, "one")
	f.has("key", 3, -1, 5)
	f.put("key", 2, "\x00\xff")
	f.has("key", 3, 2, 5)
	_, err := f.Stat(t.ctx, "key")
	t.fails(err, storage.ErrNotFound, f.name)
	f.commit("key", "one", "\x00\xff", "three")
	f.has("key", 3, 2, 5)
	f.none("other")
}

func filesAtOnce(t *check) {
	f := t.files()
	parts := make([]string, t.many(40))
	for i := range parts {
		parts[i] = string(filled(1000+i, byte(i)))
	}
	crowd(len(parts), func(i int) {
		if err := f.tryPut(t.ctx, "key", len(parts)-i, parts[len(parts)-i-1]); err != nil {
			t.Errorf("put part %d: %v", i, err)
		}
	})
	f.has("key", sizes(parts...)...)
	f.commit("key", parts...)
}

func filesAgain(t *check) {
	f := t.files()
	for _, body := range []string{"the first", "2nd", "two", "the last one"} {
		f.put("key", 1, body)
		f.has("key", int64(len(body)))
	}
	_, err := f.Commit(t.ctx, "key", sizes("the first"))
	t.fails(err, storage.ErrPrecondition, f.name)
	f.commit("key", "the last one")
	for i := range 3 {
		f.put("key", 1, fmt.Sprint("again ", i))
	}
	f.commit("key", "again 2")
}

func filesLarge(t *check) {
	f := t.files()
	var parts []string
	for i := range 3 {
		parts = append(parts, string(filled(1<<20+i*77_777, byte(i))))
	}
	info := f.make("key", parts...)
	whole := strings.Join(parts, "")
	from, size := int64(1<<20-100_000), int64(1<<20+300_000)
	t.bytesEqual("range", f.read("key", info.ETag, from, size), []byte(whole[from:from+size]))
}

func filesEmpty(t *check) {
	f := t.files()
	f.put("key", 1, "")
	f.has("key", 0)
	info := f.commit("key", "")
	t.bytesEqual("content", f.read("key", info.ETag, 0, 0), nil)
	full := f.make("key", "full")
	t.bytesEqual("nothing of it", f.read("key", full.ETag, 4, 0), nil)
}

func filesWant(t *check) {
	f := t.files()
	f.put("key", 1, "one")
	f.put("key", 3, "three")
	wrong := func(sizes ...int64) {
		t.Helper()
		_, err := f.Commit(t.ctx, "key", sizes)
		t.fails(err, storage.ErrPrecondition, f.name)
	}
	_, err := f.Commit(t.ctx, "missing", []int64{1})
	t.fails(err, storage.ErrPrecondition, f.name)
	wrong(3, 3, 5)
	wrong(4)
	wrong(2)
	_, err = f.Stat(t.ctx, "key")
	t.fails(err, storage.ErrNotFound, f.name)
	f.put("key", 2, "two")
	info := f.commit("key", "one", "two", "three")
	wrong(3, 3, 5, 1)
	wrong(3, 3, 4)
	f.is("key", info, "onetwothree")
}

func filesFurther(t *check) {
	f := t.files()
	for n, body := range []string{"one", "two", "three", "four"} {
		f.put("key", n+1, body)
	}
	f.commit("key", "one", "two")
	f.has("key", 3, 3)
	_, err := f.Commit(t.ctx, "key", sizes("one", "two", "three"))
	t.fails(err, storage.ErrPrecondition, f.name)
	f.commit("key", "one")
	f.has("key", 3)
}

func filesCommitAgain(t *check) {
	f := t.files()
	parts := []string{"one", "two"}
	f.make("key", parts...)
	for range 3 {
		f.commit("key", parts...)
		f.has("key", 3, 3)
	}
}

func filesCommitsAtOnce(t *check) {
	f := t.files()
	parts := []string{"one", "two", "three"}
	for i, body := range parts {
		f.put("key", i+1, body)
	}
	crowd(8, func(int) {
		if _, err := f.Commit(t.ctx, "key", sizes(parts...)); err != nil {
			t.Errorf("commit: %v", err)
		}
	})
	info, err := f.Stat(t.ctx, "key")
	t.ok(err)
	f.is("key", info, "onetwothree")
}

func filesLate(t *check) {
	f := t.files()
	old := f.make("key", "one", "two", "three")
	f.put("key", 2, "late")
	f.is("key", old, "onetwothree")
	f.has("key", 3, 4, 5)
	_, err := f.Commit(t.ctx, "key", []int64{3, 3, 5}) // it would bring an older part back
	t.fails(err, storage.ErrPrecondition, f.name)
	f.is("key", old, "onetwothree")
	info := f.commit("key", "one", "late", "three")
	if info.ETag == old.ETag {
		t.Errorf("the ETag is %q before and after another part", info.ETag)
	}
	_, err = f.Open(t.ctx, "key", old.ETag, 0, 1)
	t.fails(err, storage.ErrPrecondition, f.name)
}

func filesETags(t *check) {
	f := t.files()
	_, err := f.Open(t.ctx, "key", "etag", 0, 0)
	t.fails(err, storage.ErrNotFound, f.name)
	seen := map[storage.ETag]bool{}
	for range 4 {
		info := f.make("key", "the same")
		if seen[info.ETag] {
			t.Errorf("ETag %q for two files", info.ETag)
		}
		seen[info.ETag] = true
		for etag := range seen {
			if r, err := f.Open(t.ctx, "key", etag, 0, 8); etag == info.ETag {
				t.ok(err)
				t.ok(r.Close())
			} else {
				t.fails(err, storage.ErrPrecondition, f.name)
			}
		}
		t.ok(f.Delete(t.ctx, "key"))
		_, err := f.Open(t.ctx, "key", info.ETag, 0, 8)
		t.fails(err, storage.ErrNotFound, f.name)
	}
}

func filesRanges(t *check) {
	f := t.files()
	const whole = "abcdefghijklmnop"
	info := f.make("key", whole[:5], whole[5:6], whole[6:13], whole[13:])
	step := 1
	if t.cfg.Short {
		step = 5
	}
	n := 0
	for from := range len(whole) + 1 {
		for to := from; to <= len(whole); to++ {
			if n++; n%step == 0 {
				got := f.read("key", info.ETag, int64(from), int64(to-from))
				t.bytesEqual(fmt.Sprintf("bytes %d to %d", from, to), got, []byte(whole[from:to]))
			}
		}
	}
}

// filesReplaced lets a reader read on after its file was replaced: it gets its own file's bytes, or an error.
func filesReplaced(t *check) {
	f := t.files()
	old := []string{string(filled(200_000, 1)), string(filled(200_000, 2)), string(filled(200_000, 3))}
	info := f.make("key", old...)
	r, err := f.Open(t.ctx, "key", info.ETag, 0, info.Size)
	t.ok(err)
	begin := make([]byte, 1000)
	_, err = io.ReadFull(r, begin)
	t.ok(err)
	f.make("key", string(filled(200_000, 4)), string(filled(200_000, 5)), string(filled(200_000, 6)))
	rest, err := io.ReadAll(r)
	whole := strings.Join(old, "")
	if got := string(begin) + string(rest); got != whole[:len(got)] {
		t.Error("the reader gave bytes of another file")
	} else if err == nil && got != whole {
		t.Errorf("the reader ended after %d of %d bytes, without an error", len(got), len(whole))
	}
	t.ok(r.Close())
}

func filesDelete(t *check) {
	f := t.files()
	t.ok(f.Delete(t.ctx, "key"))
	f.put("key", 2, "alone")
	t.ok(f.Delete(t.ctx, "key"))
	f.none("key")
	kept := f.make("other", "stays")
	for range 2 {
		f.make("key", "one", "two")
		f.put("key", 1, "late")
		t.ok(f.Delete(t.ctx, "key"))
		f.none("key")
		t.ok(f.Delete(t.ctx, "key"))
	}
	_, err := f.Commit(t.ctx, "key", sizes("one", "two"))
	t.fails(err, storage.ErrPrecondition, f.name)
	f.is("other", kept, "stays")
}

// filesBesideDelete asks of parts beside a Delete that each is there as a whole, or isn't there.
func filesBesideDelete(t *check) {
	f := t.files()
	body := string(filled(3000, 9))
	crowd(8, func(i int) {
		for range t.many(20) {
			var err error
			if i%2 == 0 {
				err = f.tryPut(t.ctx, "key", i+1, body)
			} else {
				err = f.Delete(t.ctx, "key")
			}
			if err != nil {
				t.Errorf("beside others: %v", err)
			}
		}
	})
	parts, err := f.Parts(t.ctx, "key")
	t.ok(err)
	for _, p := range parts {
		if p.Size != int64(len(body)) {
			t.Errorf("a part of %d bytes; want %d", p.Size, len(body))
		}
	}
	f.make("key", "it", "goes", "on")
	t.ok(f.Delete(t.ctx, "key"))
	f.none("key")
}

func filesNastyKeys(t *check) {
	f := t.files()
	keys := distinct(nastyKeys())
	if t.cfg.Short {
		for i := range len(keys) / 4 {
			keys[i] = keys[4*i]
		}
		keys = keys[:len(keys)/4]
	}
	infos := make([]storage.FileInfo, len(keys))
	crowd(16, func(worker int) {
		for i := worker; i < len(keys); i += 16 {
			err := f.tryPut(t.ctx, keys[i], 1, keys[i])
			if err == nil {
				infos[i], err = f.Commit(t.ctx, keys[i], sizes(keys[i]))
			}
			if err != nil {
				t.Errorf("file %s: %v", storage.Quote(keys[i]), err)
			}
		}
	})
	for i, k := range keys {
		f.is(k, infos[i], k)
		if i%2 == 0 {
			t.ok(f.Delete(t.ctx, k))
		}
	}
	for i, k := range keys {
		if _, err := f.Stat(t.ctx, k); (err == nil) != (i%2 == 1) {
			t.Errorf("after deleting every second key: stat %s: %v", storage.Quote(k), err)
		}
	}
}

func filesContainers(t *check) {
	t.files()
	all := make([]*files, t.many(20))
	infos := make([]storage.FileInfo, len(all))
	for i := range all {
		all[i] = t.filesIn(t.s, t.name("files"))
		infos[i] = all[i].make("key", all[i].name, "!")
	}
	t.ok(all[0].Delete(t.ctx, "key"))
	all[0].none("key")
	for i, f := range all[1:] {
		f.is("key", infos[i+1], f.name+"!")
	}
}

func filesByAnother(t *check) {
	t.files()
	a, b := t.pair()
	for range 2 {
		f, g := t.filesIn(a, "files"), t.filesIn(b, "files")
		f.put("key", 1, "one")
		g.put("key", 2, "two")
		f.has("key", 3, 3)
		info := g.commit("key", "one", "two")
		f.is("key", info, "onetwo")
		copied, err := f.Copy(t.ctx, "key", info.ETag, a.Files("others"), "key")
		t.ok(err)
		t.filesIn(b, "others").is("key", copied, "onetwo")
		t.ok(g.Delete(t.ctx, "key"))
		f.none("key")
		a, b = b, a
	}
}

// filesByTwo lets two stores change one key at once. Each file that is seen is one that somebody committed.
func filesByTwo(t *check) {
	t.files()
	a, b := t.pair()
	crowd(6, func(i int) {
		f, g := t.filesIn([]*storage.Store{a, b}[i%2], "files"), t.filesIn([]*storage.Store{a, b}[i%2], "others")
		body := strings.Repeat(string(rune('a'+i)), 500)
		for range t.many(20) {
			err := f.tryPut(t.ctx, "key", 1, body)
			info, failed := f.Commit(t.ctx, "key", sizes(body))
			if err = errors.Join(err, failed); err == nil {
				_, err = f.Copy(t.ctx, "key", info.ETag, g.Files, "key")
			}
			if err != nil && !errors.Is(err, storage.ErrPrecondition) {
				t.Errorf("two stores: %v", err)
			}
		}
	})
	for _, name := range []string{"files", "others"} {
		f := t.filesIn(b, name)
		info, err := f.Stat(t.ctx, "key")
		t.ok(err)
		got := string(f.read("key", info.ETag, 0, info.Size))
		if len(got) != 500 || strings.Trim(got, got[:1]) != "" {
			t.Errorf("%s: the file is a mix of several", name)
		}
	}
}

func filesDurable(t *check) {
	t.files()
	s := t.own()
	f := t.filesIn(s, "files")
	info := f.make("key", "one", "two")
	f.put("parts", 2, "two")
	copied, err := f.Copy(t.ctx, "key", info.ETag, s.Files("others"), "key")
	t.ok(err)
	f.make("deleted", "one")
	t.ok(f.Delete(t.ctx, "deleted"))
	s = t.after(s)
	f = t.filesIn(s, "files")
	f.is("key", info, "onetwo")
	f.has("parts", -1, 3)
	t.filesIn(s, "others").is("key", copied, "onetwo")
	f.none("deleted")
}

func filesClosed(t *check) {
	t.files()
	s := t.own()
	t.filesIn(s, "files").make("key", "body")
	list := fileCalls(s, "files", "key")
	t.ok(s.Close())
	for _, c := range append(list, fileCalls(s, "files", "key")...) {
		t.within(c.name+" after Close", func() {
			if err := c.do(t.ctx); !errors.Is(err, storage.ErrUnavailable) && !errors.Is(err, storage.ErrUnsupported) {
				t.Errorf("%s after Close: got error %v; want %v", c.name, err, storage.ErrUnavailable)
			}
		})
	}
}
