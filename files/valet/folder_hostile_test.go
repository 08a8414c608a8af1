package valet_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/files/valet"
	"github.com/millrace-go/millrace/millracetest"
)

// folder returns a key of a folder.
func (w *town) folder(f valet.Folder) valet.Key {
	w.t.Helper()
	f.Owner = "cook"
	key, err := w.v.Folder(w.t.Context(), f)
	w.must(err)
	return key
}

// list returns what a folder's key lists, from a place on.
func (w *town) list(key valet.Key, after string) valet.Listing {
	w.t.Helper()
	var l valet.Listing
	w.must(json.Unmarshal([]byte(w.want(http.StatusOK, http.MethodGet, key.URL+"?after="+url.QueryEscape(after), nil)), &l))
	return l
}

// into uploads the picture into a folder.
func (w *town) into(folder string) valet.Key {
	w.t.Helper()
	key := w.upload(valet.Upload{Rule: "picture", Type: "image/png", Size: int64(len(png)), Folder: folder})
	millracetest.Upload(w.t, w.v, key, png)
	return key
}

// A folder's list has its own files alone: not those beside it, above it or below it.
func TestAFolderHasItsOwnFiles(t *testing.T) {
	t.Parallel()
	inTown(t, valet.Config{}, func(w *town) {
		mine := w.into("menu/summer")
		for _, other := range []string{"", "menu", "menu/summer/drinks", "menu/summer2", "menu/summe", "other"} {
			w.into(other)
		}
		w.app.Drain()
		key := w.folder(valet.Folder{Path: "menu/summer"})
		l := w.list(key, "")
		if len(l.Files) != 1 || l.Files[0].ID != mine.ID || l.Next != "" {
			w.t.Fatalf("got %+v", l)
		}
		if got := w.want(http.StatusOK, http.MethodGet, l.Files[0].URL, nil); got != string(png) {
			w.t.Errorf("got %q", got)
		}
		for _, after := range []string{"menu/", "a", "\x00", "menu/summer", strings.Repeat("x", 5000), "../", "\xff"} {
			for _, f := range w.list(key, after).Files {
				if f.ID != mine.ID {
					w.t.Errorf("after %.20q: got %s", after, f.ID)
				}
			}
		}
	})
}

// A list has 200 files, and says where the next one begins.
func TestAFolderOfManyFiles(t *testing.T) {
	t.Parallel()
	inTown(t, valet.Config{}, func(w *town) {
		w.app.Stop() // nothing is checked here
		var want []string
		for range 450 {
			want = append(want, w.upload(valet.Upload{Rule: "any", Type: "text/plain", Size: 1, Folder: "menu"}).ID)
		}
		slices.Sort(want)
		key := w.folder(valet.Folder{Path: "menu"})
		var got []string
		var pages []int
		for after := ""; ; {
			l := w.list(key, after)
			pages = append(pages, len(l.Files))
			for _, f := range l.Files {
				got = append(got, f.ID)
				if f.URL != "" {
					w.t.Errorf("a file that isn't there has a key")
				}
			}
			if after = l.Next; after == "" {
				break
			}
		}
		if !slices.Equal(got, want) || fmt.Sprint(pages) != "[200 200 50]" {
			w.t.Errorf("got %d files in pages of %v", len(got), pages)
		}
		w.app.Start()
	})
}

// An upload into a folder has to fit the key's rule, whatever is in the body.
func TestAsksOfAFolder(t *testing.T) {
	t.Parallel()
	inTown(t, valet.Config{}, func(w *town) {
		key := w.folder(valet.Folder{Path: "menu", Rule: "picture", TTL: 10 * time.Minute})
		for body, want := range map[string]int{
			``: 400, `x`: 400, `[]`: 400, `"a"`: 400, `1`: 400, `{`: 400, `{"name":1}`: 400, `{}`: 400, `null`: 400,
			`{"name":"a.png","type":"image/png","size":33}`:                           201,
			`{"name":"a.png","type":"image/png","size":33} x`:                         400,
			`{"name":"a.png","type":"image/png","size":33}{"size":1}`:                 400,
			`{"name":"a.png","type":"image/png","size":33,"rule":"any"}`:              400,
			`{"name":"a.png","type":"image/png","size":33,"owner":"ada"}`:             400,
			`{"name":"a.png","type":"image/png","size":33,"folder":"other"}`:          400,
			`{"name":"a.png","type":"image/png","size":1048576}`:                      201,
			`{"name":"a.png","type":"image/png","size":1048577}`:                      413,
			`{"name":"a.png","type":"image/png","size":0}`:                            400,
			`{"name":"a.png","type":"image/png","size":-1}`:                           400,
			`{"name":"a.png","type":"image/png","size":1e3}`:                          400,
			`{"name":"a.png","type":"image/png","size":99999999999999999999}`:         400,
			`{"name":"a.pdf","type":"application/pdf","size":33}`:                     400,
			`{"name":"a.png","type":"image/png\r\nX: y","size":33}`:                   400,
			`{"name":"a.png","type":"image/png; charset=x","size":33}`:                201,
			`{"name":"a.png","type":"","size":33}`:                                    400,
			`{"name":"","type":"image/png","size":33}`:                                400,
			`{"name":"..","type":"image/png","size":33}`:                              400,
			`{"name":"a\u0000","type":"image/png","size":33}`:                         400,
			`{"name":"\u202ea","type":"image/png","size":33}`:                         400,
			`{"name":"a.png","type":"image/png","size":33,"sha256":"x"}`:              400,
			`{"name":"` + strings.Repeat("a", 256) + `"}`:                             400,
			strings.Repeat(" ", 70<<10) + `{"name":"a"}`:                              400,
			`{"name":"` + strings.Repeat("a", 70<<10) + `"}`:                          400,
			strings.Repeat("[", 60<<10):                                               400,
			`{"name":"a.png","type":"image/png","size":33}` + strings.Repeat(" ", 10): 201,
		} {
			got := w.want(want, http.MethodPost, key.URL, []byte(body))
			if strings.Contains(got, "goroutine") || strings.Contains(got, "valet") || strings.Contains(got, "invalid argument") || strings.Contains(got, `"owner"`) {
				w.t.Errorf("%.60s: got %s", body, got)
			}
		}
		for method, code := range map[string]int{http.MethodPost: http.StatusMethodNotAllowed, http.MethodGet: http.StatusOK} {
			w.want(code, method, w.folder(valet.Folder{Path: "menu"}).URL, []byte(`{"name":"a.png","type":"image/png","size":33}`))
		}
		for _, bad := range []valet.Folder{{Path: ""}, {Path: "/"}, {Path: "a/"}, {Path: "/a"}, {Path: "a//b"}, {Path: ".."}, {Path: "a/../b"}, {Path: "A"}, {Path: "ä"}, {Path: "a b"}, {Path: "a~b"}, {Path: "a\n"}, {Path: strings.Repeat("a", 256)}, {Path: "menu", Rule: "none"}, {Path: "menu/00dc6acf-ac00-76bb-a3ef-28ca1b851ee4"}, {Path: "menu", TTL: time.Second}} {
			bad.Owner = "cook"
			if _, err := w.v.Folder(w.t.Context(), bad); err == nil {
				w.t.Errorf("%+v: no error", bad)
			}
		}
	})
}

// Keys from a folder end soon after the folder's own key was revoked, and a new key of the folder works.
func TestAFolderIsRevoked(t *testing.T) {
	t.Parallel()
	inTown(t, valet.Config{}, func(w *town) {
		w.into("menu")
		w.app.Drain()
		key, other := w.folder(valet.Folder{Path: "menu", Rule: "picture", TTL: 24 * time.Hour}), w.folder(valet.Folder{Path: "menu", TTL: 5 * time.Minute})
		child, short := w.list(key, "").Files[0], w.list(other, "").Files[0]
		if left := time.Until(child.Until); left > 15*time.Minute || !short.Until.Equal(other.Until) {
			w.t.Errorf("the keys of the list are good for %v, and until %v", left, short.Until)
		}
		var up valet.Key
		w.must(json.Unmarshal([]byte(w.want(http.StatusCreated, http.MethodPost, key.URL, []byte(`{"name":"a.png","type":"image/png","size":33}`))), &up))
		if f := w.wantState(up.ID, valet.StateGranted); f.Owner != "cook" || f.Rule != "picture" || !strings.HasPrefix(up.ID, "menu/") {
			w.t.Errorf("got %+v", f)
		}
		w.want(http.StatusMethodNotAllowed, http.MethodPost, child.URL, nil)
		w.must(w.v.Revoke(w.t.Context(), key.ID, "left"))
		w.app.Drain()
		w.want(http.StatusGone, http.MethodGet, key.URL, nil)
		w.want(http.StatusGone, http.MethodGet, child.URL, nil) // at once, as the key that it comes from
		w.want(http.StatusGone, http.MethodPost, key.URL, []byte(`{"name":"a.png","type":"image/png","size":33}`))
		w.want(http.StatusOK, http.MethodGet, other.URL, nil)
		w.app.Advance(16 * time.Minute)
		w.want(http.StatusOK, http.MethodGet, w.folder(valet.Folder{Path: "menu"}).URL, nil)
		w.app.Advance(2 * time.Hour)
		w.wantState(up.ID, valet.StateExpired) // a grant ends by itself
	})
}
