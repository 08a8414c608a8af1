package azure

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/millrace-go/millrace/storage"
)

func keySamples() []string {
	keys := []string{"2026-12-24", "a/b", "a/", "a/ ", "a/!", "a//b", "/", "//", "a/../b", "..", ".", "a.", "o'brien", "100%", "a\\b", "a#b?c", "é", "日本語", "~", "|x", "}", "a b", " ", "  a ", "ÿ", "<a>&\"b\""}
	for c := rune(0x20); c < 0x180; c++ {
		if c < 0x7f || c >= 0xa0 {
			keys = append(keys, string(c), "a"+string(c), string(c)+"a", "a"+string(c)+"b", "a/"+string(c))
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

func TestKeysKeepTheirOrder(t *testing.T) {
	t.Parallel()
	keys := keySamples()
	for _, write := range []func(string) string{blobKey, rowKey} {
		for i := range keys {
			for j := range keys {
				if got, want := cmp.Compare(write(keys[i]), write(keys[j])), cmp.Compare(keys[i], keys[j]); got != want {
					t.Fatalf("%q and %q compare %d, but %q and %q compare %d", keys[i], keys[j], want, write(keys[i]), write(keys[j]), got)
				}
				if got, want := strings.HasPrefix(blobKey(keys[j]), encodeKey(keys[i])), strings.HasPrefix(keys[j], keys[i]); got != want {
					t.Fatalf("%q begins with %q: %v, but as names %v", keys[j], keys[i], want, got)
				}
			}
		}
	}
}

func TestRangesMeanTheSame(t *testing.T) {
	t.Parallel()
	keys := keySamples()
	bounds := slices.Clone(keys)
	for _, k := range keys {
		bounds = append(bounds, k+"\x00", k+"\x1f", k+"\x7f", k+"\xff")
	}
	for _, b := range bounds {
		for _, k := range keys {
			if got, want := rowKey(k) < rowBound(b), k < b; got != want {
				t.Fatalf("%q < %q: %v, but %q < %q: %v", k, b, want, rowKey(k), rowBound(b), got)
			}
		}
	}
}

// These are the characters that the service refuses or changes in names and keys, by its documentation and by
// experience.
func TestNamesAreHarmless(t *testing.T) {
	t.Parallel()
	for _, k := range keySamples() {
		for _, name := range []string{blobKey(k), rowKey(k)} {
			for _, c := range []byte(name) {
				if c <= ' ' || c >= 0x7f || strings.IndexByte(`\#?'%`, c) >= 0 {
					t.Errorf("%q becomes %q, which holds %q", k, name, c)
				}
			}
		}
		if strings.Contains(rowKey(k), "/") {
			t.Errorf("row key %q becomes %q", k, rowKey(k))
		}
		for _, segment := range strings.Split(blobKey(k), "/") {
			if strings.HasSuffix(segment, ".") {
				t.Errorf("blob key %q becomes %q with a segment that ends with a dot", k, blobKey(k))
			}
		}
		if strings.HasSuffix(blobKey(k), "/") {
			t.Errorf("blob key %q becomes %q", k, blobKey(k))
		}
	}
}

func FuzzKeys(f *testing.F) {
	for i, k := range keySamples() { // all samples take longer than the fuzzing
		if i%50 == 0 {
			f.Add(k, "a")
		}
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		for _, k := range []string{a, b} {
			if storage.CheckKey(k) != nil {
				return
			}
			if got, err := decodeBlobKey(blobKey(k)); err != nil || got != k {
				t.Errorf("%q becomes %q becomes %q, %v", k, blobKey(k), got, err)
			}
			if got, err := decode(rowKey(k)); err != nil || got != k {
				t.Errorf("%q becomes %q becomes %q, %v", k, rowKey(k), got, err)
			}
			if len(rowKey(k)) > 2*len(k) || !utf8.ValidString(rowKey(k)) {
				t.Errorf("%q becomes %q", k, rowKey(k))
			}
		}
		if cmp.Compare(rowKey(a), rowKey(b)) != cmp.Compare(a, b) || cmp.Compare(blobKey(a), blobKey(b)) != cmp.Compare(a, b) {
			t.Errorf("%q and %q change their order", a, b)
		}
	})
}

func TestForeignNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a.", "a.2", "~", "~_", "~z", "[x", "!2"} {
		if got, err := decodeBlobKey(name); err == nil {
			t.Errorf("%q is read as %q", name, got)
		}
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	long := "a-" + strings.Repeat("z-", 23) + "z9"
	for _, c := range []struct{ prefix, name, plain, table string }{
		{"", "mails", "mails", "mails"},
		{"shop", "mails", "shop-mails", "shopzxmails"},
		{"", "zoo-x", "zoo-x", "zzoozxx"},
		{"", "zzoo", "zzoo", "zzzzoo"},
		{"", "tables", "tables", "tableszh"},
	} {
		if got := plainName(c.prefix, c.name); got != c.plain {
			t.Errorf("%s, %s: %q; want %q", c.prefix, c.name, got, c.plain)
		}
		if got := tableName(c.prefix, c.name); got != c.table {
			t.Errorf("%s, %s: table %q; want %q", c.prefix, c.name, got, c.table)
		}
	}
	other := long[:len(long)-1] + "8"
	a, b := tableName("abcdefghijkl", long), tableName("abcdefghijkl", other)
	if a == b || len(a) != maxServiceName {
		t.Errorf("%s and %s have the tables %s and %s", long, other, a, b)
	}
	for _, bad := range []string{"A", "1a", "a-b", strings.Repeat("a", 13), "é"} {
		if err := checkPrefix(bad); err == nil {
			t.Errorf("the prefix %q passes", bad)
		}
	}
}
