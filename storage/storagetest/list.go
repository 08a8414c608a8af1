package storagetest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/millrace-go/millrace/storage"
)

// A shelf is a resource with a listing: a container of blobs, or a partition of a table.
type shelf struct {
	put    func(ctx context.Context, key string) error
	remove func(ctx context.Context, key string) error
	list   func(ctx context.Context, prefix string) iter.Seq2[string, error] // keys
}

func blobShelf(t *check) shelf {
	b := t.s.Blobs(t.name("container"))
	return shelf{
		put: func(ctx context.Context, key string) error {
			_, err := b.Put(ctx, key, []byte(key), storage.Condition{})
			return err
		},
		remove: func(ctx context.Context, key string) error { return b.Delete(ctx, key, storage.Condition{}) },
		list: func(ctx context.Context, prefix string) iter.Seq2[string, error] {
			return func(yield func(string, error) bool) {
				for info, err := range b.List(ctx, prefix) {
					if !yield(info.Key, err) {
						return
					}
				}
			}
		},
	}
}

func rowShelf(t *check) shelf {
	tab := t.s.Table(t.name("table"))
	return shelf{
		put: func(ctx context.Context, key string) error {
			_, err := tab.Put(ctx, "partition", key, []byte(key), storage.Condition{})
			return err
		},
		remove: func(ctx context.Context, key string) error {
			return tab.Delete(ctx, "partition", key, storage.Condition{})
		},
		list: func(ctx context.Context, prefix string) iter.Seq2[string, error] {
			var r storage.RowRange
			if prefix != "" {
				r = storage.RowRange{From: prefix, To: prefix + "\U0010ffff"}
			}
			return func(yield func(string, error) bool) {
				for row, err := range tab.Query(ctx, "partition", r) {
					if !yield(row.Key, err) {
						return
					}
				}
			}
		},
	}
}

// fill puts keys, several concurrently.
func (x shelf) fill(t *check, keys ...string) {
	t.Helper()
	work := make(chan string, len(keys))
	for _, k := range keys {
		work <- k
	}
	close(work)
	crowd(16, func(int) {
		for k := range work {
			if err := x.put(t.ctx, k); err != nil {
				t.Errorf("put %s: %v", storage.Quote(k), err)
			}
		}
	})
}

func (x shelf) keys(t *check, prefix string) []string {
	t.Helper()
	keys, err := collect(t, x.list(t.ctx, prefix))
	t.ok(err)
	return keys
}

// listTests tests the laws of a listing, for blobs and for rows.
func listTests() []test {
	var all []test
	for _, kind := range []struct {
		name string
		open func(*check) shelf
	}{{"blobs ", blobShelf}, {"rows ", rowShelf}} {
		with := func(f func(t *check, x shelf)) func(t *check) {
			return func(t *check) { f(t, kind.open(t)) }
		}
		all = append(all,
			test{kind.name + "empty", with(listEmpty)},
			test{kind.name + "in byte order", with(listOrder)},
			test{kind.name + "by prefix", with(listPrefix)},
			test{kind.name + "over many pages", with(listPages)},
			test{kind.name + "broken off early", with(listBreak)},
			test{kind.name + "cancelled in the middle", with(listCancelled)},
			test{kind.name + "with calls within the loop", with(listReentrant)},
			test{kind.name + "with changes all around", with(listConcurrent)},
		)
	}
	return append(all, test{"blobs after a key", listAfter}, test{"blobs tell etag and size and time", listInfo}, test{"blobs by a prefix that looks like a pattern", listPattern})
}

func listEmpty(t *check, x shelf) {
	t.equal("never written to", x.keys(t, ""), nil)
	t.equal("never written to", x.keys(t, "pre"), nil)
	x.fill(t, "a")
	t.equal("no match", x.keys(t, "b"), nil)
	t.ok(x.remove(t.ctx, "a"))
	t.equal("all deleted", x.keys(t, ""), nil)
}

func listOrder(t *check, x shelf) {
	// Keys are sorted by bytes: upper before lower case, and a key before longer keys that begin with it. The last but
	// one comes before the last, unlike in UTF-16.
	want := []string{
		" ", "!", "%", "'", "-", "/", "0", "00", "1", "10", "2", "A", "B", "Z", "[", "_", "a", "a ", "a!", "a-", "a.", "a/", "a/b", "a0", "aA", "aa", "ab", "b",
		"z", "~", "é", "ü", "א", "漢", "\ufb01", "\uffee", "\U00010000", "😀",
	}
	if !slices.IsSorted(want) {
		t.Fatal("the test's keys are not in byte order")
	}
	shuffled := slices.Clone(want)
	for i := range shuffled {
		j := i * 7919 % len(shuffled)
		shuffled[i], shuffled[j] = shuffled[j], shuffled[i]
	}
	x.fill(t, shuffled...)
	t.equal("keys", x.keys(t, ""), want)
}

func listPrefix(t *check, x shelf) {
	all := []string{"a", "ab", "ab/", "ab/1", "ab/2", "abc", "b", "ba", "é", "éa"}
	x.fill(t, all...)
	for _, p := range []string{"", "a", "ab", "ab/", "ab/1", "ab/11", "abc", "b", "c", "é", "A"} {
		var want []string
		for _, k := range all {
			if strings.HasPrefix(k, p) {
				want = append(want, k)
			}
		}
		t.equal("prefix "+p, x.keys(t, p), want)
	}
}

func manyKeys(t *check) []string {
	keys := make([]string, t.many(1200))
	for i := range keys {
		keys[i] = fmt.Sprintf("key-%05d", i)
	}
	return keys
}

func listAfter(t *check) {
	b := t.s.Blobs(t.name("container"))
	x := shelf{put: func(ctx context.Context, key string) error {
		_, err := b.Put(ctx, key, []byte(key), storage.Condition{})
		return err
	}}
	all := append([]string{"#", "a", "a#b", "ab", "ab/", "ab/1", "abc", "b", "é", "éa", "\U0001f600"}, manyKeys(t)...)
	slices.Sort(all)
	x.fill(t, all...)
	for _, p := range []string{"", "a", "ab", "key-0000", "é"} {
		for _, after := range []string{"", "#", "a", "a#", "ab/", "ab/0", "abc", "key-00003", "key-00600", "\U0001f600", "é\x01", "\xff"} {
			var got, want []string
			for info, err := range b.ListAfter(t.ctx, p, after) {
				t.ok(err)
				got = append(got, info.Key)
			}
			for _, k := range all {
				if strings.HasPrefix(k, p) && k > after {
					want = append(want, k)
				}
			}
			t.equal(fmt.Sprintf("prefix %q after %q", p, after), got, want)
		}
	}
}

func listPages(t *check, x shelf) {
	keys := manyKeys(t)
	x.fill(t, keys...)
	t.equal("all", x.keys(t, ""), keys)
	var want []string
	for _, k := range keys {
		if strings.HasPrefix(k, "key-0000") {
			want = append(want, k)
		}
	}
	t.equal("prefix", x.keys(t, "key-0000"), want)
}

func listBreak(t *check, x shelf) {
	keys := manyKeys(t)[:t.many(120)]
	x.fill(t, keys...)
	for i := range 40 { // often enough to exhaust the resources of loops that aren't closed
		var got []string
		for k, err := range x.list(t.ctx, "") {
			t.ok(err)
			if got = append(got, k); len(got) > i%4 {
				break
			}
		}
		t.equal("the first keys", got, keys[:i%4+1])
	}
	t.ok(x.put(t.ctx, "zz"))
	t.equal("all", x.keys(t, ""), append(keys, "zz"))
}

func listCancelled(t *check, x shelf) {
	keys := manyKeys(t)
	x.fill(t, keys...)
	for _, at := range []int{0, 1, 7} {
		cause := errors.New("had enough")
		ctx, cancel := context.WithCancelCause(t.ctx)
		if at == 0 {
			cancel(cause)
		}
		var got, failed int
		for k, err := range x.list(ctx, "") {
			if failed > 0 {
				t.Fatalf("the listing goes on after its error with (%q, %v)", k, err)
			}
			if err != nil {
				failed++
				if !errors.Is(err, cause) {
					t.Errorf("got error %v; want one that matches context.Cause", err)
				}
				continue
			}
			if got++; got == at {
				cancel(cause)
			}
		}
		cancel(nil)
		if failed != 1 {
			t.Errorf("cancelled at item %d, the listing of %d ended after %d without an error: it looks complete", at, len(keys), got)
		}
	}
}

func listReentrant(t *check, x shelf) {
	keys := manyKeys(t)[:t.many(300)]
	x.fill(t, keys...)
	t.within("calls within the loop over a listing", func() {
		var got []string
		for k, err := range x.list(t.ctx, "") {
			if err == nil && len(got)%50 == 0 {
				_, err = collect(t, x.list(t.ctx, k))
			}
			if err == nil {
				err = x.remove(t.ctx, k)
			}
			if err != nil {
				t.Errorf("at %q: %v", k, err)
				return
			}
			got = append(got, k)
		}
		if !slices.Equal(got, keys) {
			t.Errorf("listed %d while deleting; want %d", len(got), len(keys))
		}
	})
	t.equal("left", x.keys(t, ""), nil)
}

func listConcurrent(t *check, x shelf) {
	// Keys that stay are listed exactly once, whatever other keys come and go.
	var stay []string
	for i := range t.many(300) {
		stay = append(stay, fmt.Sprintf("%04d-stay", i))
	}
	x.fill(t, stay...)
	crowd(6, func(i int) {
		if i < 3 {
			for j := i; j < t.many(300); j += 3 {
				k := fmt.Sprintf("%04d-go", j)
				err := x.put(t.ctx, k)
				if err == nil {
					err = x.remove(t.ctx, k)
				}
				if err != nil {
					t.Errorf("%s: %v", k, err)
				}
			}
			return
		}
		for range 3 {
			var got []string
			last := ""
			for k, err := range x.list(t.ctx, "") {
				if err != nil {
					t.Errorf("list: %v", err)
					return
				}
				if k <= last {
					t.Errorf("%q listed after %q", k, last)
				}
				if last = k; strings.HasSuffix(k, "stay") {
					got = append(got, k)
				}
			}
			if !slices.Equal(got, stay) {
				t.Errorf("listed %d of %d keys that were there all the time", len(got), len(stay))
			}
		}
	})
}

func listInfo(t *check) {
	b := t.s.Blobs(t.name("container"))
	want := map[string]storage.ETag{}
	for i := range 5 {
		key := fmt.Sprint("key", i)
		etag, err := b.Put(t.ctx, key, make([]byte, i*10), storage.Condition{})
		t.ok(err)
		want[key] = etag
	}
	infos, err := collect(t, b.List(t.ctx, ""))
	t.ok(err)
	for i, in := range infos {
		if in.Key != fmt.Sprint("key", i) || in.ETag != want[in.Key] || in.Size != int64(i*10) || time.Since(in.Modified).Abs() > 15*time.Minute {
			t.Errorf("item %d is %+v; want ETag %q, size %d and about now", i, in, want[in.Key], i*10)
		}
		if _, err := b.Get(t.ctx, in.Key, in.ETag); !errors.Is(err, storage.ErrNotModified) {
			t.Errorf("Get with the listed ETag: %v; want ErrNotModified", err)
		}
		_, err := b.Put(t.ctx, in.Key, nil, storage.Condition{IfMatch: in.ETag})
		t.ok(err)
	}
	if len(infos) != len(want) {
		t.Errorf("%d items; want %d", len(infos), len(want))
	}
}

func listPattern(t *check) {
	x := blobShelf(t)
	all := []string{"%", "%a", "*", "*a", "?", "A%", "[a]", "_", "_a", "a", "a%", "a%b", "a*", "a_", "aa", "ab", "á"}
	x.fill(t, all...)
	for _, p := range append(all, "^", ".", ".*", "[", "a?", "a%%", `\`, `a\`, "'", "''") {
		var want []string
		for _, k := range all {
			if strings.HasPrefix(k, p) {
				want = append(want, k)
			}
		}
		slices.Sort(want)
		t.equal("prefix "+p, x.keys(t, p), want)
	}
}
