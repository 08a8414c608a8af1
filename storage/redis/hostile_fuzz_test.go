package redis

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/redis/redistest"
)

// A keeper is a store whose server may hold nothing but the store's own keys. Once all is deleted, the store's own hash
// and its set of processes are the only keys.
type keeper struct{ *storage.Store }

func newKeeper(tb testing.TB) keeper {
	tb.Helper()
	server, prefix := redistest.Start(tb, redistest.Config{}), redistest.Fresh()
	s, err := Open(context.WithoutCancel(tb.Context()), server.URL(prefix)+"&wake=off")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
		server.Do(tb, "DEL", "{"+prefix+"}:P")
		if got, want := server.Do(tb, "KEYS", "*"), "{"+prefix+"}"; got != want {
			tb.Errorf("the server has the keys %q; want %q", got, want)
		}
	})
	return keeper{s}
}

// checkKey writes, finds and deletes a blob, a row and a message of a key. The names may be invalid.
func (k keeper) checkKey(t *testing.T, name, key, from, to string) {
	t.Helper()
	ctx := t.Context()
	blobs, table := k.Blobs(name), k.Table(name)
	_, blobErr := blobs.Put(ctx, key, []byte("1"), storage.Condition{})
	_, rowErr := table.Put(ctx, key, key, []byte("1"), storage.Condition{})
	_, commitErr := k.Commit(ctx, storage.Work{Write: &storage.Write{Container: name, Key: key, Body: []byte("1")}})
	if bad := errors.Join(storage.CheckName(name), storage.CheckKey(key)); bad != nil {
		for what, err := range map[string]error{"blob": blobErr, "row": rowErr, "work": commitErr} {
			if !errors.Is(err, storage.ErrInvalid) {
				t.Errorf("%s %q in %q: got %v, want %v", what, key, name, err, storage.ErrInvalid)
			}
		}
		return
	}
	if err := errors.Join(blobErr, rowErr, commitErr); err != nil {
		t.Fatalf("%q in %q: %v", key, name, err)
	}
	b, err := blobs.Get(ctx, key, "")
	r, rErr := table.Get(ctx, key, key)
	if err != nil || rErr != nil || string(b.Body) != "1" || r.Key != key {
		t.Errorf("%q in %q: got %q (%v) and %+v (%v)", key, name, b.Body, err, r, rErr)
	}
	for _, prefix := range []string{"", from, key, key[:len(key)/2]} {
		var listed []string
		for info, err := range blobs.List(ctx, prefix) {
			if err != nil {
				t.Errorf("list %q: %v", prefix, err)
			}
			listed = append(listed, info.Key)
		}
		if slices.Contains(listed, key) != strings.HasPrefix(key, prefix) || len(listed) > 1 {
			t.Errorf("blobs that begin with %q: got %q with %q there", prefix, listed, key)
		}
	}
	for _, x := range []storage.RowRange{{}, {From: from}, {To: to}, {From: from, To: to}, {From: key, To: key + "\x00"}} {
		var found []string
		for row, err := range table.Query(ctx, key, x) {
			if err != nil {
				t.Errorf("query %+v: %v", x, err)
			}
			found = append(found, row.Key)
		}
		if want := x.From <= key && (x.To == "" || key < x.To); slices.Contains(found, key) != want || len(found) > 1 {
			t.Errorf("rows from %q to %q: got %q, want %q there: %v", x.From, x.To, found, key, want)
		}
	}
	if err := errors.Join(blobs.Delete(ctx, key, storage.Condition{}), table.Delete(ctx, key, key, storage.Condition{})); err != nil {
		t.Errorf("%q in %q: %v", key, name, err)
	}
}

var hostileKeys = [][4]string{
	{"docs", "a", "", ""}, {"docs", "../../etc/passwd", "..", "/"}, {"../docs", "a", "", ""}, {"docs", "*?[a-z]", "*", "["}, {"docs", "}", "{", "}"}, {"docs", "{a}", "", ""},
	{"docs", "a\x00b", "\x00", "\xff"}, {"docs", "\xff", "\xff", ""}, {"docs", "ü/😀", "ü", "ü\xff"}, {"docs", strings.Repeat("k", 257), "", ""}, {"do", "", "b", "a"}, {"docs\x00", "a\u0085", "", ""},
	{"docs", "\U0010ffff", "\U0010ffff", "\xf4\x90"}, {"docs", " ", " ", "!"}, {"docs", "+", "-", "+"}, {"docs", "(a", "[a", "(b"}, {"docs", "' .. redis.call('FLUSHALL') .. '", "'", ""}, {"docs", ":q:mails:r", ":", ""},
}

// A key means nothing but itself: not to a script, not to a range, not to a pattern. A deletion leaves nothing.
func TestHostileKeys(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	for _, x := range hostileKeys {
		k.checkKey(t, x[0], x[1], x[2], x[3])
	}
}

func FuzzKey(f *testing.F) {
	for _, x := range hostileKeys {
		f.Add(x[0], x[1], x[2], x[3])
	}
	f.Fuzz(newKeeper(f).checkKey)
}

// checkSecret reads a URL with a secret somewhere in it. Neither the error nor the name of the store may tell it.
func checkSecret(t *testing.T, before, after string) {
	t.Helper()
	const secret = "Zm9y/YmlkZGVu"
	if strings.Contains(before, "@") || !strings.Contains(after, "@") {
		return // it isn't where a user and a password stand
	}
	for _, typed := range []string{secret, url.QueryEscape(secret)} {
		p, err := parse(before + typed + after)
		text := p.place()
		if err != nil {
			text = err.Error()
		} else if p.server.Password == "" {
			continue // what was typed isn't in the place of a password
		}
		if strings.Contains(text, secret) || strings.Contains(text, url.QueryEscape(secret)) || strings.ContainsAny(text, "\x00\r\n\x1b\x7f") {
			t.Errorf("%q: it is told as %q", before+typed+after, text)
		}
	}
}

var secretPlaces = [][2]string{
	{"redis://u:", "@h/?prefix=a"}, {"redis://u:", "@h:1/?prefix=a"}, {"redis://:", "@h/?prefix=a"}, {"redis://u:", "@/?prefix=a"}, {"redis://u:", "@h/b?prefix=a"}, {"redis://u:x", "%zz@h/?prefix=a"},
	{"redis://u:?", "@h/?prefix=a"}, {"redis://u:", "@h"}, {"", "@h/?prefix=a"}, {"u:", "://@h/?prefix=a"}, {"rediss://u:", "@h/?prefix=a&ca=/none"},
	{"redis+unix://u:", "@/run/x?prefix=a"}, {"redis+sentinel://u:", "@h,g/m?prefix=a"}, {"redis+sentinel://u:", "@h,,/m?prefix=a"}, {"redis://u:", "\n@h/?prefix=a"}, {"redis://u:", "@h:\x1b/?prefix=a"},
}

// No error tells a secret of a store's URL, and neither does the store's name.
func TestSecretsOfURLs(t *testing.T) {
	t.Parallel()
	for _, s := range secretPlaces {
		checkSecret(t, s[0], s[1])
	}
}

func FuzzSecret(f *testing.F) {
	for _, s := range secretPlaces {
		f.Add(s[0], s[1])
	}
	f.Fuzz(checkSecret)
}
