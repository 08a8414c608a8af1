package valet_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/files/valet"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/parttest"
	"github.com/millrace-go/millrace/millracetest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// A troubledTown is a program with files whose worker and web have faults.
type troubledTown struct {
	t   *testing.T
	sim *millracetest.Sim
	v   *valet.Valet // of the web, whose calls fail
	all []*sent

	mu   sync.Mutex
	told map[string]map[string]bool // by file
}

// A sent file is one that the test has made a grant for.
type sent struct {
	key     valet.Key
	content []byte
	put     bool // all parts were acknowledged, and they are what was declared
	bad     bool // it must not become clean without a release
}

// scanSome judges by what the upload is for.
func scanSome(_ context.Context, f valet.File, content io.Reader) (valet.Verdict, error) {
	if _, err := io.Copy(io.Discard, content); err != nil {
		return valet.Verdict{}, err
	}
	switch f.For {
	case "bad":
		return valet.Refuse("it is infected"), nil
	case "locked":
		return valet.Unclear("it has a password"), nil
	}
	return valet.Pass(), nil
}

func (w *troubledTown) program() millracetest.Program {
	tell := func(id, what string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.told[id] == nil {
			w.told[id] = map[string]bool{}
		}
		w.told[id][what] = true
	}
	return millracetest.Program{Routes: routes, Register: func(h *handlers.Registry) error {
		v, err := valet.New(h.Channels(), valet.Config{Rules: rules(), Scan: scanSome})
		if err != nil {
			return err
		}
		v.Register(h)
		handlers.React(h, "told", func(_ context.Context, e valet.Uploaded) error { tell(e.ID, "uploaded"); return nil })
		handlers.React(h, "told", func(_ context.Context, e valet.Rejected) error { tell(e.ID, string(e.State)); return nil })
		return nil
	}}
}

// ask repeats a request until the program has an answer, as a client does.
func (w *troubledTown) ask(method, url string, body []byte, to any) int {
	w.t.Helper()
	for range 200 {
		r := httptest.NewRequestWithContext(w.t.Context(), method, url, bytes.NewReader(body))
		r.RemoteAddr = "127.0.0.1:1"
		rec := httptest.NewRecorder()
		w.v.ServeHTTP(rec, r)
		if rec.Code != http.StatusServiceUnavailable {
			if to != nil && rec.Code < 300 {
				if err := json.Unmarshal(rec.Body.Bytes(), to); err != nil {
					w.t.Error(err)
				}
			}
			return rec.Code
		}
		w.sim.Advance(time.Second)
	}
	w.t.Fatalf("%s: the program is never there", method)
	return 0
}

// try repeats a call until it is done.
func (w *troubledTown) try(call func() error) {
	w.t.Helper()
	var err error
	for range 200 {
		if err = call(); err == nil {
			return
		}
		w.sim.Advance(time.Second)
	}
	w.t.Fatal(err)
}

// send begins an upload, and puts as many of its parts as chance will have.
func (w *troubledTown) send() {
	r := w.sim.Rand
	f := &sent{content: append(slices.Clone(png), fmt.Sprint("file ", len(w.all))...)}
	u := valet.Upload{Rule: "picture", Owner: []string{"ada", "bob"}[r.IntN(2)], Name: "a.png", Type: "image/png", Size: int64(len(f.content)), TTL: time.Duration(1+r.IntN(60)) * time.Minute}
	switch r.IntN(6) {
	case 0:
		u.For, f.bad = "bad", true
	case 1:
		u.For = "locked"
	case 2:
		u.Type, f.bad = "image/svg+xml", true
	case 3:
		u.SHA256, f.bad = sumOf(png), true
	}
	w.try(func() (err error) { f.key, err = w.v.Upload(w.t.Context(), u); return err })
	w.all = append(w.all, f)
	if r.IntN(5) == 0 {
		return // it never comes
	}
	var keys valet.PartKeys
	if w.ask(http.MethodPost, f.key.URL+"/parts?n=1", nil, &keys) != http.StatusOK {
		return
	}
	if r.IntN(5) == 0 {
		w.ask(http.MethodPut, keys.Parts[0].URL, f.content[:len(f.content)-1], nil)
		return // it breaks off
	}
	f.put = w.ask(http.MethodPut, keys.Parts[0].URL, f.content, nil) == http.StatusCreated
	for range r.IntN(3) { // never, or even twice
		w.ask(http.MethodPost, f.key.URL+"/complete", nil, nil)
	}
}

// meddle does something to one of the files.
func (w *troubledTown) meddle() {
	f := w.all[w.sim.Rand.IntN(len(w.all))]
	ctx, id := w.t.Context(), f.key.ID
	switch w.sim.Rand.IntN(6) {
	case 0:
		w.try(func() error { return w.v.Revoke(ctx, id, "a test") })
	case 1:
		w.try(func() error { return w.v.Release(ctx, id, "a test") })
	case 2:
		w.try(func() error { return w.v.Delete(ctx, id, "a test") })
	case 3:
		w.ask(http.MethodDelete, f.key.URL, nil, nil)
	case 4:
		w.ask(http.MethodPost, f.key.URL+"/complete", nil, nil)
	case 5:
		w.try(func() error { return w.v.RevokeOwner(ctx, "bob", "a test") })
	}
}

// judge fails where a file has two ends, other bytes than it should have, or bytes after its end.
func (w *troubledTown) judge() {
	for _, f := range w.all {
		id := f.key.ID
		told := w.told[id]
		if len(told) > 1 {
			w.t.Errorf("file %s was told as %v", id, told)
		}
		got, err := w.v.File(w.t.Context(), id)
		if gone := errors.Is(err, storage.ErrNotFound); err != nil && !gone {
			w.t.Errorf("file %s: %v", id, err)
		}
		switch {
		case err != nil || got.State.Ended(): // it ended more than a week ago
			w.wantBytes(id, "")
			if len(told) != 1 {
				w.t.Errorf("the end of %s was never told", id)
			}
		case got.State == valet.StateClean:
			w.wantBytes(id, string(f.content))
			if !told["uploaded"] || f.bad || !f.put {
				w.t.Errorf("%s is accepted: told %v, bad %v, put %v", id, told, f.bad, f.put)
			}
		case got.State != valet.StateHeld:
			w.t.Errorf("%s is %s at the end", id, got.State)
		}
	}
}

// wantBytes fails unless the containers have these bytes of an accepted file, or none.
func (w *troubledTown) wantBytes(id, want string) {
	for _, c := range []string{"file-inbox", "file-store"} {
		files := w.sim.Store().Files(c)
		parts, err := files.Parts(w.t.Context(), id)
		if err != nil || (len(parts) > 0) != (c == "file-store" && want != "") {
			w.t.Errorf("%s has %v of %s (%v)", c, parts, id, err)
		}
	}
	if want == "" {
		return
	}
	v, err := valet.New(w.sim.Channels(), valet.Config{})
	if err != nil {
		w.t.Fatal(err)
	}
	r, _, err := v.Open(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	if got, err := io.ReadAll(r); err != nil || string(got) != want {
		w.t.Errorf("%s has %d bytes (%v), and they should be %d", id, len(got), err, len(want))
	}
}

// All laws of files hold under random faults of the store, of the worker and of the web.
func TestFilesUnderFaults(t *testing.T) {
	t.Parallel()
	parttest.InTurn(t)
	millracetest.Simulate(t, func(t *testing.T, sim *millracetest.Sim) {
		w := &troubledTown{t: t, sim: sim, told: map[string]map[string]bool{}}
		sim.Start(w.program())
		faults := map[storagetest.Fault]float64{storagetest.FailBefore: 0.03, storagetest.FailAfter: 0.03, storagetest.Throttle: 0.01}
		s, _ := storagetest.Disturb(sim.Store(), storagetest.Disturbance{Schedule: storagetest.Seeded(sim.Seed, faults)})
		known, err := routes()
		if err != nil {
			t.Fatal(err)
		}
		c, err := channel.New(s, known, "/web")
		if err != nil {
			t.Fatal(err)
		}
		if w.v, err = valet.New(c, valet.Config{Rules: rules()}); err != nil {
			t.Fatal(err)
		}
		for range 12 {
			w.send()
			sim.Advance(time.Duration(sim.Rand.IntN(300)) * time.Second)
			if sim.Rand.IntN(2) == 0 {
				w.meddle()
			}
		}
		sim.Settle()
		if w.v, err = valet.New(sim.Channels(), valet.Config{Rules: rules()}); err != nil {
			t.Fatal(err)
		}
		w.judge()
		t.Logf("told: %v", w.told)
		for _, f := range w.all { // no key does anything any more but tell and read
			if code := w.ask(http.MethodPost, f.key.URL+"/parts?n=1", nil, nil); code < 400 {
				t.Errorf("got %d", code)
			}
		}
	})
}

// With a fault in each storage call of the worker, files end as without one.
func TestFilesWithAFaultInEachCall(t *testing.T) {
	t.Parallel()
	parttest.InTurn(t)
	millracetest.CrashEverywhere(t, func(t *testing.T, start func(millracetest.Program) *millracetest.App) {
		w := &troubledTown{t: t, told: map[string]map[string]bool{}}
		app := start(w.program())
		v, err := valet.New(app.Channels(), valet.Config{Rules: rules()})
		if err != nil {
			t.Fatal(err)
		}
		key, err := v.Upload(t.Context(), valet.Upload{Rule: "picture", Owner: "ada", Name: "a.png", Type: "image/png", Size: int64(len(png))})
		if err != nil {
			t.Fatal(err)
		}
		millracetest.Upload(t, v, key, png)
		app.Drain()
		if f, err := v.File(t.Context(), key.ID); err != nil || f.State != valet.StateClean {
			t.Errorf("got %+v, %v", f, err)
		}
	})
}
