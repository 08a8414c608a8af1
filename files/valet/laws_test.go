package valet_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/files/valet"
	"github.com/millrace-go/millrace/millracetest"
)

// A file comes, is checked, and can be read with a key.
func TestAFileComesAndIsRead(t *testing.T) {
	t.Parallel()
	inTown(t, valet.Config{}, func(w *town) {
		id := w.accepted()
		w.wantTold("uploaded " + id)
		key, err := w.v.Download(w.t.Context(), id, valet.Download{Owner: "cook"})
		if err != nil {
			w.t.Fatal(err)
		}
		if got := w.want(http.StatusOK, http.MethodGet, key.URL, nil); got != string(png) {
			w.t.Errorf("got %q", got)
		}
		if got := w.log(id); fmt.Sprint(got) != "[complete issue issue renew use]" {
			w.t.Errorf("the audit log has %v", got)
		}
	})
}

// Law V1: bytes count only through a completion, and a grant that isn't alive can't complete.
func TestLawV1OnlyACompletionCounts(t *testing.T) {
	t.Parallel()
	inTown(t, valet.Config{}, func(w *town) {
		key := w.picture()
		put := w.part(key, 1)
		if err := w.v.Revoke(w.t.Context(), key.ID, "a test"); err != nil {
			w.t.Fatal(err)
		}
		w.app.Drain()
		w.want(http.StatusCreated, http.MethodPut, put.URL, png) // a key of the store that was given before
		w.want(http.StatusGone, http.MethodPost, key.URL+"/complete", nil)
		w.want(http.StatusGone, http.MethodPost, key.URL+"/parts?n=1", nil)
		w.app.Advance(time.Hour) // the grant would have ended
		w.wantState(key.ID, valet.StateRevoked)
		w.wantTold("revoked " + key.ID)
		parts, err := w.app.Store().Files("file-inbox").Parts(w.t.Context(), key.ID)
		if err != nil || len(parts) > 0 {
			w.t.Errorf("the inbox has %v (%v)", parts, err)
		}
		if got := w.log(key.ID); fmt.Sprint(got) != "[issue refuse: this key was revoked renew revoke]" {
			w.t.Errorf("the audit log has %v", got)
		}
	})
}

// Law V2: what was checked is what is copied, also where somebody puts other bytes meanwhile.
func TestLawV2CheckedBytesAreCopied(t *testing.T) {
	t.Parallel()
	var w2 *town
	var put valet.PartKey
	evil := slices.Clone(png)
	evil[len(evil)-1] = 0
	scans := 0
	scan := func(_ *valet.File) valet.Verdict {
		if scans++; scans == 1 {
			w2.want(http.StatusCreated, http.MethodPut, put.URL, evil)
		}
		return valet.Pass()
	}
	inTown(t, valet.Config{Scan: scanner(scan)}, func(w *town) {
		w2 = w
		key := w.picture()
		put = w.part(key, 1)
		millracetest.Upload(w.t, w.v, key, png)
		w.app.Drain()
		w.app.Advance(time.Hour)
		id := key.ID
		f := w.wantState(id, valet.StateClean)
		read, err := w.v.Download(w.t.Context(), id, valet.Download{Owner: "cook"})
		if err != nil {
			w.t.Fatal(err)
		}
		got := w.want(http.StatusOK, http.MethodGet, read.URL, nil)
		if got != string(png) || f.SHA256 != sumOf(png) {
			w.t.Errorf("got %x", got)
		}
		w.wantTold("uploaded " + id)
	})
}

// Law V3: the worker compares what was declared with what lies there.
func TestLawV3DeclaredIsCompared(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		u       valet.Upload
		content []byte
		reason  string
	}{
		{"type", valet.Upload{Rule: "picture", Type: "image/png"}, pdf, "application/pdf"},
		{"digest", valet.Upload{Rule: "picture", Type: "image/png", SHA256: sumOf(pdf)}, png, "SHA-256"},
		{"page for a picture", valet.Upload{Rule: "picture", Type: "image/png"}, []byte("<!DOCTYPE html><script>alert(1)</script>"), "text/html"},
		{"page for another type", valet.Upload{Rule: "any", Type: "application/zip"}, []byte("<html>"), "text/html"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			inTown(t, valet.Config{}, func(w *town) {
				test.u.Size = int64(len(test.content))
				key := w.upload(test.u)
				millracetest.Upload(w.t, w.v, key, test.content)
				w.app.Drain()
				if f := w.wantState(key.ID, valet.StateRejected); !strings.Contains(f.Reason, test.reason) {
					w.t.Errorf("the reason is %q; want one with %s", f.Reason, test.reason)
				}
				w.wantTold("rejected " + key.ID)
				read, err := w.v.Download(w.t.Context(), key.ID, valet.Download{Owner: "cook"})
				if err != nil {
					w.t.Fatal(err)
				}
				w.want(http.StatusGone, http.MethodGet, read.URL, nil)
				w.wantNoBytes(key.ID)
			})
		})
	}
}

// Law V4: each use of our key asks the grant, and a key of the store lives for minutes.
func TestLawV4EachUseAsksTheGrant(t *testing.T) {
	t.Parallel()
	inTown(t, valet.Config{}, func(w *town) {
		id := w.accepted()
		one, other := w.read(id, valet.Download{Owner: "cook"}), w.read(id, valet.Download{Owner: "waiter"})
		w.want(http.StatusOK, http.MethodGet, one.URL, nil)
		w.must(w.v.Revoke(w.t.Context(), one.ID, "left"))
		w.app.Drain()
		w.want(http.StatusGone, http.MethodGet, one.URL, nil)
		w.want(http.StatusOK, http.MethodGet, other.URL, nil)
		w.must(w.v.RevokeOwner(w.t.Context(), "waiter", "left"))
		w.app.Advance(time.Second)
		w.want(http.StatusGone, http.MethodGet, other.URL, nil)
		w.want(http.StatusOK, http.MethodGet, w.read(id, valet.Download{Owner: "waiter"}).URL, nil) // a new key
		third := w.read(id, valet.Download{Owner: "cook"})
		w.must(w.v.Revoke(w.t.Context(), id, "all keys so far"))
		w.app.Advance(time.Second)
		w.want(http.StatusGone, http.MethodGet, third.URL, nil)
		w.wantState(id, valet.StateClean)
		w.want(http.StatusOK, http.MethodGet, w.read(id, valet.Download{Owner: "cook"}).URL, nil)
		w.must(w.v.Delete(w.t.Context(), id, "asked for"))
		w.app.Drain()
		w.want(http.StatusGone, http.MethodGet, w.read(id, valet.Download{Owner: "cook"}).URL, nil)
		w.wantNoBytes(id)

		key := w.upload(valet.Upload{Rule: "any", Type: "application/octet-stream", Size: 3, TTL: 24 * time.Hour})
		put := w.part(key, 1)
		w.app.Advance(16 * time.Minute)
		w.want(http.StatusGone, http.MethodPut, put.URL, []byte("abc"))
		w.want(http.StatusCreated, http.MethodPut, w.part(key, 1).URL, []byte("abc")) // renewed
	})
}

// Law V5: every grant ends by itself, and completes where all bytes are there.
func TestLawV5EveryGrantEnds(t *testing.T) {
	t.Parallel()
	inTown(t, valet.Config{}, func(w *town) {
		none, all := w.picture(), w.picture()
		w.want(http.StatusCreated, http.MethodPut, w.part(all, 1).URL, png)
		half := w.upload(valet.Upload{Rule: "any", Type: "application/octet-stream", Size: 9 << 20})
		w.want(http.StatusCreated, http.MethodPut, w.part(half, 2).URL, make([]byte, 1<<20))
		w.app.Advance(59 * time.Minute)
		w.wantTold()
		w.app.Advance(2 * time.Minute)
		w.wantState(none.ID, valet.StateExpired)
		w.wantState(half.ID, valet.StateExpired)
		w.wantState(all.ID, valet.StateClean)
		w.wantTold("expired "+none.ID, "expired "+half.ID, "uploaded "+all.ID)
		w.want(http.StatusGone, http.MethodPost, none.URL+"/complete", nil)
		w.wantNoBytes(half.ID)
		w.app.Advance(8 * 24 * time.Hour)
		if _, err := w.v.File(w.t.Context(), none.ID); err == nil {
			w.t.Error("a file that ended is still known")
		}
		w.wantState(all.ID, valet.StateClean)
	})
}

// Law V6: what is done with keys is in the audit log, and no key is.
func TestLawV6TheAuditHasEachUse(t *testing.T) {
	t.Parallel()
	inTown(t, valet.Config{}, func(w *town) {
		key := w.picture()
		for range 5 {
			w.want(http.StatusMethodNotAllowed, http.MethodPatch, key.URL, nil) // one row a minute
		}
		w.part(key, 1)
		w.want(http.StatusAccepted, http.MethodDelete, key.URL, nil)
		w.app.Drain()
		if got, want := fmt.Sprint(w.log(key.ID)), "[abort issue refuse: this key doesn't allow that renew]"; got != want {
			w.t.Errorf("got %v, want %v", got, want)
		}
	})
}

// Law V7: a browser saves what it gets, but for types that can't have scripts.
func TestLawV7FilesAreAttachments(t *testing.T) {
	t.Parallel()
	svg := []byte(`<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>`)
	inTown(t, valet.Config{}, func(w *town) {
		for _, test := range []struct {
			u          valet.Upload
			content    []byte
			inline     bool
			want, name string
		}{
			{valet.Upload{Rule: "picture", Type: "image/png", Name: "wish.png"}, png, false, "attachment; filename=wish.png", ""},
			{valet.Upload{Rule: "picture", Type: "image/png", Name: "wish.png"}, png, true, "inline; filename=wish.png", ""},
			{valet.Upload{Rule: "picture", Type: "image/svg+xml", Name: `..\..\"evil"; x=.svg`}, svg, true, `attachment; filename="\"evil\"; x=.svg"`, ""},
			{valet.Upload{Rule: "any", Type: "application/pdf", Name: "/etc/Menü.pdf"}, pdf, true, "attachment; filename=Men_.pdf; filename*=UTF-8''Men%C3%BC.pdf", ""},
			{valet.Upload{Rule: "any", Type: "text/html", Name: "a.html"}, []byte("<html><body>x"), true, "attachment; filename=a.html", ""},
		} {
			test.u.Size = int64(len(test.content))
			key := w.upload(test.u)
			millracetest.Upload(w.t, w.v, key, test.content)
			w.app.Drain()
			w.wantState(key.ID, valet.StateClean)
			r := w.ask(http.MethodGet, w.read(key.ID, valet.Download{Owner: "cook", Inline: test.inline}).URL, nil)
			h := r.Header
			if h.Get("Content-Disposition") != test.want || strings.TrimSuffix(h.Get("Content-Type"), "; charset=utf-8") != test.u.Type || h.Get("X-Content-Type-Options") != "nosniff" ||
				h.Get("Cache-Control") != "no-store" || h.Get("Referrer-Policy") != "no-referrer" || !strings.Contains(h.Get("Content-Security-Policy"), "sandbox") {
				w.t.Errorf("%s: got %v", test.u.Name, h)
			}
		}
	})
}

// Law V8: nothing but the verdict takes a file out of the inbox, and an operator's release is one.
func TestLawV8OnlyAVerdictReleases(t *testing.T) {
	t.Parallel()
	inTown(t, valet.Config{Scan: scanner(func(f *valet.File) valet.Verdict {
		switch f.For {
		case "bad":
			return valet.Refuse("it is infected")
		case "locked":
			return valet.Unclear("it has a password")
		}
		return valet.Pass()
	})}, func(w *town) {
		put := func(what string) valet.Key {
			key := w.upload(valet.Upload{Rule: "picture", Type: "image/png", Size: int64(len(png)), For: what})
			millracetest.Upload(w.t, w.v, key, png)
			w.app.Drain()
			return key
		}
		bad, locked, other := put("bad"), put("locked"), put("locked")
		if f := w.wantState(bad.ID, valet.StateRejected); f.Reason != "it is infected" {
			w.t.Errorf("got %q", f.Reason)
		}
		w.wantState(locked.ID, valet.StateHeld)
		w.app.Advance(2 * time.Hour)
		w.wantState(locked.ID, valet.StateHeld)
		w.want(http.StatusNotFound, http.MethodGet, w.read(locked.ID, valet.Download{Owner: "cook"}).URL, nil)
		w.must(w.v.Release(w.t.Context(), locked.ID, "I know the sender"))
		w.must(w.v.Revoke(w.t.Context(), other.ID, "I don't know the sender"))
		w.must(w.v.Release(w.t.Context(), bad.ID, "a mistake"))
		w.app.Drain()
		w.wantState(locked.ID, valet.StateClean)
		w.wantState(other.ID, valet.StateRevoked)
		w.wantState(bad.ID, valet.StateRejected)
		w.wantTold("rejected "+bad.ID, "uploaded "+locked.ID, "revoked "+other.ID)
	})
}

// Law V9: a client's clock means nothing. A client whose clock is a day off gets the same key, which ends when the
// program says so.
func TestLawV9ClientsHaveNoClock(t *testing.T) {
	t.Parallel()
	inTown(t, valet.Config{}, func(w *town) {
		for _, off := range []time.Duration{-24 * time.Hour, 24 * time.Hour} {
			key := w.picture()
			body := w.wantOf(http.StatusOK, request{http.MethodPost, key.URL + "/parts?n=1", nil, func(r *http.Request) {
				at := time.Now().Add(off).UTC().Format(http.TimeFormat)
				r.Header.Set("Date", at)
				r.Header.Set("If-Modified-Since", at)
			}})
			var keys valet.PartKeys
			w.must(json.Unmarshal([]byte(body), &keys))
			if left := time.Until(keys.Until); left != 15*time.Minute {
				w.t.Errorf("off by %v: the part's key is good for %v", off, left)
			}
			w.app.Advance(61 * time.Minute)
			w.wantOf(http.StatusGone, request{http.MethodPost, key.URL + "/parts?n=1", nil, func(r *http.Request) {
				r.Header.Set("Date", time.Now().Add(-off).UTC().Format(http.TimeFormat))
			}})
			w.wantState(key.ID, valet.StateExpired)
		}
	})
}
