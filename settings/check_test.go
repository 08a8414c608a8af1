package settings_test

import (
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/settings"
	"github.com/millrace-go/millrace/storage"
)

// All that is wrong with a call of Open is reported at once, with advice.
func TestBadOpen(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		_, err := settings.Open(t.Context(), s, "A", 7, settings.Config{Name: "a\nb", Poll: time.Millisecond, Patience: time.Hour})
		wantErr(t, err, storage.ErrInvalid, "want 3 to 50 lower-case letters", `Name is "a\nb"`, "Poll is 1ms; want 1s to 10m0s", "Patience is 1h0m0s; want at most 1m", "type int; want a struct")
		_, err = settings.Open(t.Context(), nil, name, defaults(), settings.Config{})
		wantErr(t, err, storage.ErrInvalid, "there is no store")
		_, err = settings.At(nil, name)
		wantErr(t, err, storage.ErrInvalid, "there is no store")
		_, err = settings.Open(t.Context(), s, name, struct {
			F func() `json:"f"`
		}{}, settings.Config{})
		wantErr(t, err, storage.ErrInvalid, "JSON can't hold")
		_, err = settings.Open(t.Context(), s, name, struct {
			N int `json:"n" settings:"restrat"`
		}{}, settings.Config{})
		wantErr(t, err, storage.ErrInvalid, `want settings:"restart"`)
		_, err = settings.Open(t.Context(), s, name, shop{Seats: -1}, settings.Config{})
		if err == nil || !strings.Contains(err.Error(), "the defaults: this program: seats is negative") {
			t.Errorf("got error %v", err)
		}
		_, err = settings.Open(t.Context(), s, name, shop{Seats: 666}, settings.Config{})
		if err == nil || !strings.Contains(err.Error(), "panic: the number of the beast") {
			t.Errorf("got error %v", err)
		}
		a := node(t, s, settings.Config{})
		_, err = a.Propose(t.Context(), settings.By(strings.Repeat("x", 101), "a\x1bb"), seats(60))
		wantErr(t, err, storage.ErrInvalid, "By is ", "Why is ")
		_, err = ledger(t, s).Set(t.Context(), ada, settings.Patch{Set: map[string]jsonText{"seats": jsonText("{")}})
		wantErr(t, err, storage.ErrInvalid, "seats: ", "not one JSON value")
		_, err = ledger(t, s).Set(t.Context(), ada, settings.Patch{Set: map[string]jsonText{"mail..rate": jsonText("1")}})
		wantErr(t, err, storage.ErrInvalid, "names of members, joined by dots")
		for _, path := range []string{`tags."a`, `tags."a"b`, `tags.""`, `tags."a".`} {
			_, err = ledger(t, s).Set(t.Context(), ada, settings.Patch{Unset: []string{path}})
			wantErr(t, err, storage.ErrInvalid, "a name with a dot is in quotes")
		}
		_, err = ledger(t, s).Set(t.Context(), ada, settings.Patch{Set: map[string]jsonText{`tags."api.example.com"`: jsonText(`true`)}})
		wantErr(t, err, settings.ErrRefused, `tags."api.example.com": want a whole number`)
		_, err = ledger(t, s).Set(t.Context(), ada, settings.Patch{Set: map[string]jsonText{"tags": jsonText(`{"` + strings.Repeat("x", 17000) + `":1}`)}})
		wantErr(t, err, storage.ErrTooLarge, "want at most 16384")
		_, err = ledger(t, s).Set(t.Context(), ada, settings.Patch{Set: map[string]jsonText{"seats": jsonText(`"many"`)}})
		wantErr(t, err, settings.ErrRefused, "seats: want a whole number")
		_, err = ledger(t, s).Set(t.Context(), ada, settings.Patch{Set: map[string]jsonText{"mail.from": jsonText(`5`)}})
		wantErr(t, err, settings.ErrRefused, "mail.from: want a text", "a time has its unit, such as 5s", `as in "5"`)
	})
}

// The names of settings are listed, and nothing else in the container is.
func TestNames(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		for n, err := range settings.Names(t.Context(), s) {
			t.Errorf("got %q, %v", n, err)
		}
		propose(t, node(t, s, settings.Config{}), 60)
		var got []string
		for n, err := range settings.Names(t.Context(), s) {
			must(t, err)
			got = append(got, n)
		}
		if len(got) != 1 || got[0] != name {
			t.Errorf("got %q", got)
		}
		for _, err := range settings.Names(t.Context(), nil) {
			wantErr(t, err, storage.ErrInvalid)
		}
	})
}
