package storage_test

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/millrace-go/millrace/storage"
)

func TestOpenNamesTheSchemeOnly(t *testing.T) {
	t.Parallel()
	drivers := storage.Drivers{
		{Scheme: "good", Open: func(context.Context, string, storage.OpenConfig) (*storage.Store, error) {
			return storage.New(&script{}), nil
		}},
		{Scheme: "bad", Open: func(context.Context, string, storage.OpenConfig) (*storage.Store, error) {
			return nil, fs.ErrPermission
		}},
	}
	if _, err := drivers.Open(t.Context(), "good:anything", storage.OpenConfig{}); err != nil {
		t.Errorf("good: got %v, want nil", err)
	}
	_, err := drivers.Open(t.Context(), "bad:AccountKey=secret", storage.OpenConfig{})
	var e *storage.Error
	if !errors.As(err, &e) || e.Op != "open" || !errors.Is(err, fs.ErrPermission) {
		t.Errorf("bad: got %v, want a *storage.Error that wraps the cause", err)
	}
	for _, url := range []string{"bad:AccountKey=secret", "secret", "secret:x", "", ":secret", `"bad:AccountKey=secret"`, `'secret`} {
		if _, err := drivers.Open(t.Context(), url, storage.OpenConfig{}); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: got %v, want an error without the URL's text", url, err)
		}
	}
	if _, err := drivers.Open(t.Context(), "other:x", storage.OpenConfig{}); !errors.Is(err, storage.ErrInvalid) || !strings.Contains(err.Error(), "bad:…, good:…") {
		t.Errorf("unknown scheme: got %v, want the known ones named", err)
	}
	for url, want := range map[string]string{"azure://acct": "azure", "redis://host": "redis", "rediss://host": "redis", "rediss+sentinel://host/m": "redis", "redis+unix:///s": "redis"} {
		if _, err := drivers.Open(t.Context(), url, storage.OpenConfig{}); !errors.Is(err, storage.ErrInvalid) || !strings.Contains(err.Error(), "Add storage/"+want+".Driver") {
			t.Errorf("%s, whose driver the program doesn't link: got %v, want the line that adds it", url, err)
		}
	}
	for _, url := range []string{`"good:x"`, `'good:x'`, `"`} { // as some readers of files of variables leave it
		if _, err := drivers.Open(t.Context(), url, storage.OpenConfig{}); !errors.Is(err, storage.ErrInvalid) || !strings.Contains(err.Error(), "the URL is in quotes") {
			t.Errorf("%s: got %v, want the quotes named", url, err)
		}
	}
}

// A URL of another form is handed over whole, because the form says how the server is reached.
func TestFormsOfAURL(t *testing.T) {
	t.Parallel()
	var got string
	refused := errors.New("refused")
	d := storage.Drivers{{Scheme: "kv", Forms: []string{"kvs", "kv+unix"}, Open: func(_ context.Context, rest string, _ storage.OpenConfig) (*storage.Store, error) {
		got = rest
		return nil, refused
	}}}
	for url, want := range map[string]string{"kv://host": "//host", "kvs://host": "kvs://host", "kv+unix:///s": "kv+unix:///s", "KV://Host": "//Host", "KvS://Host": "kvs://Host"} {
		if _, err := d.Open(t.Context(), url, storage.OpenConfig{}); !errors.Is(err, refused) || got != want {
			t.Errorf("%s: Open got %q (%v), want %q", url, got, err, want)
		}
	}
}

func TestDriversAreChecked(t *testing.T) {
	t.Parallel()
	open := func(context.Context, string, storage.OpenConfig) (*storage.Store, error) { return nil, nil }
	for want, d := range map[string]storage.Drivers{
		"a driver's scheme is \"\"":       {{Open: open}},
		"a driver's scheme is \"My:\"":    {{Scheme: "My:", Open: open}},
		"the driver of x: has no Open":    {{Scheme: "x"}},
		"two drivers have the scheme ab":  {{Scheme: "a", Forms: []string{"ab"}, Open: open}, {Scheme: "ab", Open: open}},
		"two drivers have the scheme a+b": {{Scheme: "a", Forms: []string{"a+b", "a+b"}, Open: open}},
		"of the driver of a: is \"a-b\"":  {{Scheme: "a", Forms: []string{"a-b"}, Open: open}},
		"two drivers have the scheme two": {{Scheme: "two", Open: open}, {Scheme: "one", Open: open}, {Scheme: "two", Open: open}},
	} {
		if err := d.Check(); !errors.Is(err, storage.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
		if _, err := d.Open(t.Context(), "x:y", storage.OpenConfig{}); !errors.Is(err, storage.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("opening: got %v, want %q", err, want)
		}
	}
}

func TestCheckName(t *testing.T) {
	t.Parallel()
	for name, ok := range map[string]bool{
		"abc": true, "a-b": true, "a1-2-3": true, strings.Repeat("a", 50): true,
		"": false, "ab": false, "Abc": false, "1ab": false, "-ab": false, "ab-": false, "a--b": false, "a_b": false, "a.b": false, "a/b": false,
		"äbc": false, "ab\x00": false, strings.Repeat("a", 51): false,
	} {
		if got := storage.CheckName(name) == nil; got != ok {
			t.Errorf("CheckName(%q): got %v, want %v", name, got, ok)
		}
	}
}

func TestCheckKey(t *testing.T) {
	t.Parallel()
	for key, ok := range map[string]bool{
		"a": true, "2026-12-24": true, "a/../b": true, "'; DROP TABLE": true, "é": true, "名前": true, " ": true, strings.Repeat("k", 256): true,
		"": false, "a\nb": false, "\x00": false, "\x7f": false, "a\u0085": false, "\xff": false, strings.Repeat("k", 257): false,
	} {
		err := storage.CheckKey(key)
		if got := err == nil; got != ok {
			t.Errorf("CheckKey(%q): got %v, want %v", key, err, ok)
		}
		if err != nil && !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("CheckKey(%q): got %v, want ErrInvalid", key, err)
		}
	}
}

func TestStaleErrorMatches(t *testing.T) {
	t.Parallel()
	err := error(&storage.StaleError{Queue: "mails", Receipts: []storage.Receipt{"secret"}})
	if !errors.Is(err, storage.ErrReceiptStale) {
		t.Error("a StaleError doesn't match ErrReceiptStale")
	}
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("got %q, want no receipt in it", err)
	}
}

func FuzzCheckKey(f *testing.F) {
	for _, s := range []string{"", "a", "a/b", "\x00", "é", "\xff\xfe", strings.Repeat("x", 257), "\u0085"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, key string) {
		err := storage.CheckKey(key)
		if err == nil && (key == "" || len(key) > storage.MaxKey || !utf8.ValidString(key) || strings.ContainsAny(key, "\x00\n\r\t\x7f")) {
			t.Errorf("%q passed", key)
		}
		if err != nil && strings.ContainsAny(err.Error(), "\x00\n\r") {
			t.Errorf("the error carries control characters: %q", err)
		}
		if storage.CheckName(key) == nil && err != nil {
			t.Errorf("%q is a name but not a key: %v", key, err)
		}
	})
}

// Whatever a driver's Open does, the error names the driver, and nobody gets half a store.
func TestAnOpenThatGivesNoStore(t *testing.T) {
	t.Parallel()
	for want, open := range map[string]func() (*storage.Store, error){
		"no store and no error":  func() (*storage.Store, error) { return nil, nil },
		"no store and no  error": func() (*storage.Store, error) { return new(storage.Store), nil },
		"panic: a bad driver":    func() (*storage.Store, error) { panic("a bad driver") },
		"a nil driver.Store":     func() (*storage.Store, error) { return storage.New(nil), nil },
	} {
		d := storage.Driver{Scheme: "mine", Open: func(context.Context, string, storage.OpenConfig) (*storage.Store, error) { return open() }}
		s, err := storage.Drivers{d}.Open(t.Context(), "mine:here", storage.OpenConfig{})
		if s != nil || err == nil || !strings.Contains(err.Error(), strings.ReplaceAll(want, "  ", " ")) || !strings.Contains(err.Error(), "open mine store") {
			t.Errorf("got %v, %v; want %s", s, err, want)
		}
	}
}

func FuzzOpen(f *testing.F) {
	drivers := storage.Drivers{{Scheme: "good", Open: func(context.Context, string, storage.OpenConfig) (*storage.Store, error) {
		return nil, errors.New("refused")
	}}}
	for _, s := range []string{"good:x", "good", ":", "", "GOOD:x", "good:\x00", "a b:c"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, url string) {
		_, err := drivers.Open(t.Context(), url, storage.OpenConfig{})
		var e *storage.Error
		if !errors.As(err, &e) {
			t.Errorf("%q: got %v, want a *storage.Error", url, err)
		}
		if (err.Error() == `storage: open good store: refused`) != strings.HasPrefix(strings.ToLower(url), "good:") {
			t.Errorf("%q: got %v", url, err)
		}
	})
}
