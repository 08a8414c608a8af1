package storage_test

import (
	"strings"
	"testing"
	"unicode"

	"github.com/millrace-go/millrace/storage"
)

// FuzzQuote checks that a text quoted for an error or a log line is one short line, in which nothing moves the
// cursor. An error about the text is also one line.
func FuzzQuote(f *testing.F) {
	for _, s := range []string{"", "a", "a\nb", "\x1b[31m", "\u202e", "\u009b", "\xff", "\"", strings.Repeat("ü", 100), strings.Repeat("\x00", 1000)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := storage.Quote(s)
		if strings.ContainsFunc(got, func(r rune) bool { return !unicode.IsPrint(r) }) || len(got) > 1000 || !strings.HasPrefix(got, `"`) {
			t.Errorf("%q is quoted as %q", s, got)
		}
		err := &storage.Error{Op: "put blob", Resource: "blob " + s, Err: storage.ErrInvalid}
		if strings.ContainsFunc(err.Error(), func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%q makes the error %q", s, err)
		}
	})
}

// FuzzWork checks that a unit of work with an impossible name or key is refused whole, in one line.
func FuzzWork(f *testing.F) {
	f.Add("docs", "key", "queue", []byte("body"), int64(0))
	f.Add("Docs", "\n", "../queue", []byte(nil), int64(-1))
	f.Add("docs", "\xff", "queue\x00", []byte("12345678901234567890"), int64(1<<62))
	f.Fuzz(func(t *testing.T, container, key, queue string, body []byte, etag int64) {
		d := &script{}
		store := storage.New(d)
		p := store.Props()
		w := storage.Work{Write: &storage.Write{Container: container, Key: key, Body: body, If: storage.Condition{IfAbsent: etag < 0}},
			Send: []storage.Send{{Queue: queue, Message: storage.Message{Body: body}}}, Delete: []storage.Claim{{Queue: queue}}}
		_, err := store.Commit(t.Context(), w)
		good := storage.CheckName(container) == nil && storage.CheckKey(key) == nil && storage.CheckName(queue) == nil && len(body) <= p.MaxMessage
		if asked := d.calls(); (err == nil) != good || (len(asked) > 0) != good {
			t.Errorf("%q/%q and %q with %d bytes: got %v, the driver was asked %q", container, key, queue, len(body), err, asked)
		}
		if err != nil && strings.ContainsFunc(err.Error(), func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("the error is %q", err)
		}
		rows := []storage.RowPut{{Key: key, Data: body}, {Key: container}}
		if err := store.Table("rows").PutBatch(t.Context(), queue, rows); err != nil && strings.ContainsFunc(err.Error(), func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("the error is %q", err)
		}
	})
}
