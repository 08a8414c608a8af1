package storagetest

import (
	"slices"
	"strings"

	"github.com/millrace-go/millrace/storage"
)

func keyTests() []test {
	return []test{
		{"good names", goodNames},
		{"bad names are refused by every method", badNames},
		{"nasty keys in blobs", nastyBlobs},
		{"nasty keys in rows", nastyRows},
		{"nasty partitions", nastyPartitions},
		{"bad keys are refused by every method", badKeys},
	}
}

// nastyKeys returns allowed keys that some stores confuse, clean, decode or reject. All are distinct.
func nastyKeys() []string {
	return []string{
		// blanks and dots
		" ", "  ", " a", "a ", "a  b", "a b", "\u00a0", "\u2003", "a\u00a0", ".", "..", "...", "a.", "a..", ".a", "a.b", "a/.", "a/..", "a/../b", "./a", "../a", "a./b", "~", "~a",
		// slashes
		"/", "//", "///", "/a", "a/", "a//", "a/b", "a//b", "/a/b/", `\`, `\\`, `a\`, `\a`, `a\b`, `a\\b`, `a\/b`, "C:", `C:\x`,
		// signs with a meaning in URLs, queries, files, formats
		"%", "%%", "%2", "%2F", "%2f", "%252F", "%00", "%20", "+", "a+b", "?", "a?b=c", "#", "a#b", "&", "&amp;", "=", ";", ":", "@", "!", "$", "*", "**", "(", ")", "[", "]", "[a]", "{", "}",
		"{0}", "|", "<", ">", "<a/>", ",", "^", "`", "-", "--", "---", "_", "__", "~2f", "~2F", "~~", "=2F", "_2F", "$metadata", "$batch", "NUL", "con", "aux.txt", "null", "NULL", "nil", "true", "0", "00", "-1", "1e3",
		// quotes and fragments of languages
		"'", "''", "'''", `"`, `""`, "o'brien", "o''brien", `"quoted"`, "' OR '1'='1", "'; DROP TABLE blobs; --", "a' or PartitionKey ne '", "RowKey eq 'a'", "x) union select 1--", "/* */", "${x}", "$(x)", "{{x}}", "\\x00", "\\u0000", "\\n",
		// letters: case, composed and decomposed, look-alikes, ligatures, direction, beyond the first plane
		"a", "A", "abc", "ABC", "Abc", "\u00e9", "e\u0301", "E\u0301", "\u00c9", "\u0065", "\u212b", "\u00c5", "A\u030a", "\u017f", "s", "S", "ß", "ss", "SS", "i", "I", "ı", "İ", "ﬁ", "fi", "Ω", "Ω",
		"א", "\u202eabc", "\u200b", "a\u200b", "a\u200d", "\u200e", "\ufeff", "\ufeffa", "漢字", "한", "\u1112\u1161\u11ab", "😀", "👩‍👩‍👧", "👩", "\U0001f1e6", "\ufffd", "\ufffe", "\uffff", "\U0010ffff", "\u2028", "\u2029", "\ue000",
		// long
		strings.Repeat("a", storage.MaxKey), strings.Repeat("a", storage.MaxKey-1), strings.Repeat("A", storage.MaxKey), strings.Repeat("/", storage.MaxKey), strings.Repeat("é", storage.MaxKey/2),
		strings.Repeat("😀", storage.MaxKey/4), strings.Repeat("%", storage.MaxKey), strings.Repeat(" ", storage.MaxKey), strings.Repeat("a", storage.MaxKey-1) + "b", strings.Repeat("a/", storage.MaxKey/2),
	}
}

// distinct sorts keys and drops the few that occur twice above (U+0065 is "e", for example).
func distinct(keys []string) []string {
	slices.Sort(keys)
	return slices.Compact(keys)
}

func goodNames(t *check) {
	s := t.own() // other tests may use these names
	for _, name := range []string{
		"abc", "a1b", "a-b", "a-1-b-2", "z99", strings.Repeat("a", 50), "a" + strings.Repeat("-b", 24),
		"tables", "table", "select", "messages", "blobs", "queues", "root", "logs", "web", "sqlite", "sqlite-master", "con", "nul", "default", "xn-abc",
	} {
		t.ok(storage.CheckName(name))
		q := t.queueIn(s, name)
		q.send(name)
		q.remove(q.one(hold))
		docSet(t, blobDocs{s.Blobs(name), name, "key"}, name, storage.Condition{IfAbsent: true})
		docSet(t, rowDocs{s.Table(name), name, "p", "key"}, name, storage.Condition{IfAbsent: true})
	}
}

func badNames(t *check) {
	for _, name := range []string{
		"", "a", "ab", "Abc", "abC", "ABC", "a_b", "a.b", "a/b", `a\b`, "a b", " abc", "abc ", "1abc", "-abc", "abc-", "a--b", "äbc", "abcé", "abc\x00", "abc\n", "abc\xff", "../abc", "abc?x", "abc#", "abc'", `abc"`, "$logs",
		strings.Repeat("a", 51), strings.Repeat("a", 1000),
	} {
		at := t.target()
		at.queue, at.container, at.table = name, name, name
		for _, c := range calls(t.s, at) {
			if err := c.do(t.ctx); err == nil {
				t.Errorf("%s took the name %s", c.name, storage.Quote(name))
			} else {
				t.fails(err, storage.ErrInvalid, "")
			}
		}
	}
}

func nastyBlobs(t *check) {
	b := t.s.Blobs(t.name("container"))
	keys := distinct(nastyKeys())
	etags := make([]storage.ETag, len(keys))
	crowd(16, func(worker int) {
		for i := worker; i < len(keys); i += 16 {
			var err error
			if etags[i], err = b.Put(t.ctx, keys[i], []byte(keys[i]), storage.Condition{IfAbsent: true}); err != nil {
				t.Errorf("put %s: %v", storage.Quote(keys[i]), err)
			}
		}
	})
	for i, k := range keys {
		got, err := b.Get(t.ctx, k, "")
		if err != nil {
			t.Fatalf("get %s: %v", storage.Quote(k), err)
		}
		t.bytesEqual("body", got.Body, []byte(k))
		if got.ETag != etags[i] {
			t.Errorf("%s: ETag %q; want %q", storage.Quote(k), got.ETag, etags[i])
		}
	}
	infos, err := collect(t, b.List(t.ctx, ""))
	t.ok(err)
	var listed []string
	for _, in := range infos {
		listed = append(listed, in.Key)
	}
	t.equal("listed", listed, keys)
	for i, k := range keys {
		if i%2 == 0 {
			if err := b.Delete(t.ctx, k, storage.Condition{IfMatch: etags[i]}); err != nil {
				t.Fatalf("delete %s: %v", storage.Quote(k), err)
			}
		}
	}
	for i, k := range keys {
		if _, err := b.Get(t.ctx, k, ""); (err == nil) != (i%2 == 1) {
			t.Errorf("after deleting every second key: get %s: %v", storage.Quote(k), err)
		}
	}
}

func nastyRows(t *check) {
	tab := t.s.Table(t.name("table"))
	keys := distinct(nastyKeys())
	crowd(16, func(worker int) {
		for i := worker; i < len(keys); i += 16 {
			if _, err := tab.Put(t.ctx, "p", keys[i], []byte(keys[i]), storage.Condition{IfAbsent: true}); err != nil {
				t.Errorf("put %s: %v", storage.Quote(keys[i]), err)
			}
		}
	})
	for _, k := range keys {
		got, err := tab.Get(t.ctx, "p", k)
		if err != nil {
			t.Fatalf("get %s: %v", storage.Quote(k), err)
		}
		t.equal("row", []string{got.Key, string(got.Data)}, []string{k, k})
	}
	t.equal("listed", rowKeys(t, tab, "p", storage.RowRange{}), keys)
	for i := 0; i < len(keys); i += 11 { // the bounds of ranges are as nasty
		t.equal("from", rowKeys(t, tab, "p", storage.RowRange{From: keys[i], Limit: 5}), keys[i:min(i+5, len(keys))])
		t.equal("after", rowKeys(t, tab, "p", storage.RowRange{From: keys[i] + "\x00", Limit: 5}), keys[min(i+1, len(keys)):min(i+6, len(keys))])
		t.equal("to", rowKeys(t, tab, "p", storage.RowRange{To: keys[i]}), keys[:i])
	}
	other := t.s.Table(t.name("table"))
	var rows []storage.RowPut
	for _, k := range keys {
		rows = append(rows, storage.RowPut{Key: k, Data: []byte(k)})
	}
	t.ok(other.PutRows(t.ctx, "p", rows))
	t.equal("listed after batches", rowKeys(t, other, "p", storage.RowRange{}), keys)
	t.ok(other.DeleteRows(t.ctx, "p", keys[1:]))
	t.equal("left after batches", rowKeys(t, other, "p", storage.RowRange{}), keys[:1])
}

func nastyPartitions(t *check) {
	tab := t.s.Table(t.name("table"))
	keys := distinct(nastyKeys())
	crowd(16, func(worker int) {
		for i := worker; i < len(keys); i += 16 {
			if _, err := tab.Put(t.ctx, keys[i], "row", []byte(keys[i]), storage.Condition{IfAbsent: true}); err != nil {
				t.Errorf("put in %s: %v", storage.Quote(keys[i]), err)
			}
		}
	})
	for _, k := range keys {
		rows, err := collect(t, tab.Query(t.ctx, k, storage.RowRange{}))
		t.ok(err)
		if len(rows) != 1 || rows[0].Key != "row" || string(rows[0].Data) != k {
			t.Errorf("partition %s has %d rows: %q", storage.Quote(k), len(rows), rows)
		}
	}
}

func badKeys(t *check) {
	bad := []string{
		"", strings.Repeat("a", storage.MaxKey+1), strings.Repeat("é", storage.MaxKey/2) + "a", strings.Repeat("a", 100_000), "\xff", "a\xff", "a\xc3", "\xed\xa0\x80", "\xc0\x80",
		"\x00", "a\x00", "a\x00b", "\n", "a\nb", "a\r", "\t", "\x1b[0m", "\x1f", "\x7f", "\u0080", "\u0085", "\u009f",
	}
	at := t.target()
	for _, key := range bad {
		for _, part := range []string{"key", "partition"} {
			x := at
			if part == "key" {
				x.key = key
			} else {
				x.partition = key
			}
			for _, c := range calls(t.s, x) {
				ofTable := c.where(x) == x.table
				if c.name == "query" && part == "partition" || c.keyed && (part == "key" || ofTable) {
					if err := c.do(t.ctx); err == nil {
						t.Errorf("%s took the %s %s", c.name, part, storage.Quote(key))
					} else {
						t.fails(err, storage.ErrInvalid, c.where(x))
					}
				}
			}
		}
	}
	t.untouched(t.s, at)
}
