package settings_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/settings"
	"github.com/millrace-go/millrace/storage"
)

const hidden = "hunter2-hunter2"

// Law: a secret's value is neither stored nor printed.
func TestASecretIsNeitherStoredNorPrinted(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "key")
	must(t, os.WriteFile(path, []byte(hidden+"\n"), 0o600))
	cache := filepath.Join(t.TempDir(), "cache")
	virtual(t, func(t *testing.T, s *storage.Store) {
		var log bytes.Buffer
		a := node(t, s, settings.Config{Name: "a", Cache: cache, Logger: slog.New(slog.NewJSONHandler(&log, nil))})
		_, err := a.Propose(t.Context(), ada, func(s *shop) { s.Key = settings.SecretAt("file:" + path) })
		must(t, err)
		now := a.Now()
		if now.Key.Value() != hidden {
			t.Errorf("got value %q", now.Key.Value())
		}
		var out bytes.Buffer
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			fmt.Fprintf(&out, verb+" "+verb+" "+verb+"\n", now.Key, *now, now)
		}
		for _, l := range []*slog.Logger{slog.New(slog.NewJSONHandler(&out, nil)), slog.New(slog.NewTextHandler(&out, nil))} {
			l.Info("settings", "key", now.Key, "all", *now, "pointer", now)
		}
		must(t, json.NewEncoder(&out).Encode(now))
		for info, err := range s.Blobs("settings").List(t.Context(), "") {
			must(t, err)
			b, err := s.Blobs("settings").Get(t.Context(), info.Key, "")
			must(t, err)
			out.Write(b.Body)
		}
		for row, err := range s.Table("settings").Query(t.Context(), name, storage.RowRange{}) {
			must(t, err)
			out.Write(row.Data)
		}
		kept, err := os.ReadFile(cache)
		must(t, err)
		out.Write(kept)
		out.Write(log.Bytes())
		if text := out.String(); strings.Contains(text, hidden) || !strings.Contains(text, "file:"+path) || strings.Contains(text, fmt.Sprintf("%x", hidden)) {
			t.Errorf("the value is there, or the reference isn't:\n%s", text)
		}
	})
}

// The line break that echo and editors put behind a secret is no part of it, in a variable as little as in a file.
func TestASecretHasNoLineBreakAtItsEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	must(t, os.WriteFile(path, []byte(hidden+"\r\n"), 0o600))
	t.Setenv("A_SECRET", hidden+"\n")
	virtual(t, func(t *testing.T, s *storage.Store) {
		a := node(t, s, settings.Config{Name: "a"})
		for _, ref := range []string{"file:" + path, "env:A_SECRET"} {
			_, err := a.Propose(t.Context(), ada, func(s *shop) { s.Key = settings.SecretAt(ref) })
			must(t, err)
			if got := a.Now().Key.Value(); got != hidden {
				t.Errorf("%s: got %q, want %q", ref, got, hidden)
			}
		}
	})
}

// A text that is no reference may be a secret by mistake: it is refused before it is stored, and not repeated.
func TestASecretInPlaceOfItsReferenceIsRefused(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		a, l := node(t, s, settings.Config{Name: "a"}), ledger(t, s)
		for _, text := range []string{hidden, "smtps://u:" + hidden + "@host", "env:", "file:", "env:A=" + hidden, "vault:" + hidden} {
			_, err := a.Propose(t.Context(), ada, func(s *shop) { s.Key = settings.SecretAt(text) })
			if err == nil || strings.Contains(err.Error(), hidden) {
				t.Errorf("%q: got error %v", text, err)
			}
			_, err = l.Set(t.Context(), ada, settings.Patch{Set: map[string]jsonText{"key": encode(t, text)}})
			wantErr(t, err, storage.ErrInvalid, "key: ", "a secret is set by a reference")
			if strings.Contains(err.Error(), hidden) {
				t.Errorf("got error %v", err)
			}
		}
		for want, ref := range map[string]string{"has no such environment variable": "env:MILLRACE_NO_SUCH_NAME", "no such file": "file:/no/such/file"} {
			_, err := l.Set(t.Context(), ada, settings.Patch{Set: map[string]jsonText{"key": encode(t, ref)}})
			wantErr(t, err, settings.ErrRefused, want, ref)
		}
		if now := a.Now(); now.Key.Value() != "" || now.Key.String() != "" {
			t.Errorf("got %v", now.Key)
		}
	})
}

// A reference in force stays a reference where no node runs that knows which settings are secrets. To find its value is
// the nodes' matter: one that starts says which secret it can't find.
func TestAReferenceStaysOneWhereNobodyChecks(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		l := ledger(t, s)
		set := func(path string, value any) error {
			_, err := l.Set(t.Context(), ada, settings.Patch{Set: map[string]jsonText{path: encode(t, value)}, Force: true})
			return err
		}
		must(t, set("key", "file:/not/there"))
		must(t, set("in", map[string]any{"list": []string{"env:A"}, "text": "plain"}))
		for _, bad := range []any{"evn:SMTP_URL", hidden, 4711, []string{hidden}} {
			for path, value := range map[string]any{"key": bad, "in": map[string]any{"list": []any{bad}}, "in.list": []any{bad}} {
				err := set(path, value)
				wantErr(t, err, storage.ErrInvalid, "a secret is set by a reference", "settings set --default ")
				if strings.Contains(err.Error(), hidden) {
					t.Errorf("got error %v", err)
				}
			}
		}
		must(t, set("in.text", "evn:plain"))
		must(t, set("in.list", []string{"file:/run/a", "file:/run/b"}))
		_, err := l.Set(t.Context(), ada, settings.Patch{Unset: []string{"in"}, Force: true})
		must(t, err)
		must(t, set("in.list", []string{"plain"}))
		_, err = l.Set(t.Context(), ada, settings.Patch{Unset: []string{"in"}, Force: true})
		must(t, err)
		_, err = settings.Open(t.Context(), s, name, defaults(), settings.Config{})
		wantErr(t, err, os.ErrNotExist, "is in force, and this program can't run it", "key: secret file:/not/there")
	})
}

func encode(t *testing.T, v any) jsonText {
	t.Helper()
	data, err := json.Marshal(v)
	must(t, err)
	return data
}

// A secret within lists, maps and pointers is found.
func TestASecretIsFoundAnywhere(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "key")
	must(t, os.WriteFile(path, []byte(hidden), 0o600))
	type deeper struct {
		Key settings.Secret `json:"key"`
	}
	type deep struct {
		List []settings.Secret          `json:"list"`
		Map  map[string]settings.Secret `json:"map"`
		Ptr  *settings.Secret           `json:"ptr"`
		Bare *settings.Secret           `json:"bare"` // nil
		In   map[string][]deeper        `json:"in"`
	}
	virtual(t, func(t *testing.T, s *storage.Store) {
		ref := settings.SecretAt("file:" + path)
		a, err := settings.Open(t.Context(), s, name, deep{List: []settings.Secret{ref}, Map: map[string]settings.Secret{"a": ref}, Ptr: &ref}, settings.Config{})
		must(t, err)
		defer func() { must(t, a.Close(t.Context())) }()
		now := a.Now()
		for _, got := range []settings.Secret{now.List[0], now.Map["a"], *now.Ptr} {
			if got.Value() != hidden {
				t.Errorf("got %q", got.Value())
			}
		}
		_, err = ledger(t, s).Set(t.Context(), ada, settings.Patch{Set: map[string]jsonText{"map": jsonText(`{"a":"` + hidden + `"}`)}})
		wantErr(t, err, storage.ErrInvalid, "map.a: ")
		for path, value := range map[string]any{"map.b": hidden, "map": map[string]string{"b.c": hidden}, "list": []string{"file:" + path, hidden}, "ptr": hidden, "bare": hidden, "in.x.0.key": hidden} {
			_, err = ledger(t, s).Set(t.Context(), ada, settings.Patch{Set: map[string]jsonText{path: encode(t, value)}, Force: true})
			wantErr(t, err, storage.ErrInvalid, "a secret is set by a reference")
		}
		time.Sleep(poll)
		if a.State().Version != 0 {
			t.Errorf("got %+v", a.State())
		}
	})
}
