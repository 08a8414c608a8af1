package valet_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/files/valet"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/millracetest"
	"github.com/millrace-go/millrace/worker"
)

// png is a picture of one point, and pdf a document.
var (
	png = []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89")
	pdf = []byte("%PDF-1.7\n1 0 obj\n<<>>\nendobj\n")
)

// A town has a program with files: a worker, and a web that the test is.
type town struct {
	t   *testing.T
	app *millracetest.App
	v   *valet.Valet

	mu     sync.Mutex
	events []string
}

// rules are those of all tests.
func rules() map[string]valet.Rules {
	return map[string]valet.Rules{
		"picture": {MaxSize: 1 << 20, Types: []string{"image/png", "image/svg+xml"}},
		"any":     {MaxSize: 100 << 20},
	}
}

// inTown runs a test in virtual time.
func inTown(t *testing.T, cfg valet.Config, test func(*town)) {
	t.Helper()
	inTownWith(t, cfg, nil, test)
}

// inTownWith is inTown with settings of the worker's queues.
func inTownWith(t *testing.T, cfg valet.Config, queues map[string]worker.QueueConfig, test func(*town)) {
	t.Helper()
	if cfg.Rules == nil {
		cfg.Rules = rules()
	}
	w := &town{}
	p := w.program(cfg)
	p.Queues = queues
	millracetest.Run(t, p, func(t *testing.T, app *millracetest.App) {
		w.t, w.app = t, app
		var err error
		if w.v, err = valet.New(app.Channels(), cfg); err != nil {
			t.Fatal(err)
		}
		test(w)
	})
}

func routes() (*channel.Routes, error) {
	return channel.NewRoutes(valet.Route(), channel.Event[valet.Uploaded]("told"), channel.Event[valet.Rejected]("told"))
}

func (w *town) program(cfg valet.Config) millracetest.Program {
	return millracetest.Program{Routes: routes, Register: func(h *handlers.Registry) error {
		v, err := valet.New(h.Channels(), cfg)
		if err != nil {
			return err
		}
		v.Register(h)
		handlers.React(h, "told", func(_ context.Context, e valet.Uploaded) error { w.tell("uploaded " + e.ID); return nil })
		handlers.React(h, "told", func(_ context.Context, e valet.Rejected) error {
			w.tell(string(e.State) + " " + e.ID)
			return nil
		})
		return nil
	}}
}

func (w *town) tell(event string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, event)
}

// told are the events so far. Events of several files come in any order.
func (w *town) told() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string{}, w.events...)
}

func (w *town) wantTold(events ...string) {
	w.t.Helper()
	got := w.told()
	slices.Sort(got)
	slices.Sort(events)
	if !slices.Equal(got, events) {
		w.t.Errorf("told: got %v, want %v", got, events)
	}
}

// upload makes a grant.
func (w *town) upload(u valet.Upload) valet.Key {
	w.t.Helper()
	if u.Owner == "" {
		u.Owner = "ada"
	}
	if u.Name == "" {
		u.Name = "wish.png"
	}
	key, err := w.v.Upload(w.t.Context(), u)
	if err != nil {
		w.t.Fatal(err)
	}
	return key
}

// picture makes a grant for the picture.
func (w *town) picture() valet.Key {
	return w.upload(valet.Upload{Rule: "picture", Type: "image/png", Size: int64(len(png))})
}

// accepted uploads the picture, and returns its ID.
func (w *town) accepted() string {
	w.t.Helper()
	key := w.picture()
	millracetest.Upload(w.t, w.v, key, png)
	w.app.Drain()
	w.wantState(key.ID, valet.StateClean)
	return key.ID
}

func (w *town) wantState(id string, want valet.State) valet.File {
	w.t.Helper()
	f, err := w.v.File(w.t.Context(), id)
	if err != nil || f.State != want {
		w.t.Errorf("file %s: got %s (%s), %v, want %s", id, f.State, f.Reason, err, want)
	}
	return f
}

// A request is one that a test changes.
type request struct {
	method, url string
	body        []byte
	change      func(*http.Request)
}

// ask sends a request from this machine.
func (w *town) ask(method, url string, body []byte) *http.Response {
	return w.do(request{method, url, body, nil})
}

func (w *town) do(q request) *http.Response {
	w.t.Helper()
	r := httptest.NewRequestWithContext(w.t.Context(), q.method, q.url, bytes.NewReader(q.body))
	r.RemoteAddr = "127.0.0.1:1234"
	if q.change != nil {
		q.change(r)
	}
	rec := httptest.NewRecorder()
	w.v.ServeHTTP(rec, r)
	return rec.Result()
}

// want fails unless a request has this status. It returns the body.
func (w *town) want(code int, method, url string, body []byte) string {
	w.t.Helper()
	return w.wantOf(code, request{method, url, body, nil})
}

func (w *town) wantOf(code int, q request) string {
	w.t.Helper()
	r := w.do(q)
	text, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != code {
		w.t.Errorf("%s: got %d %s (%v), want %d", q.method, r.StatusCode, text, err, code)
	}
	if r.StatusCode >= 400 && !json.Valid(text) {
		w.t.Errorf("%s: the body is no JSON: %s", q.method, text)
	}
	return string(text)
}

// part returns the URL for a part.
func (w *town) part(key valet.Key, n int) valet.PartKey {
	w.t.Helper()
	var keys valet.PartKeys
	if err := json.Unmarshal([]byte(w.want(http.StatusOK, http.MethodPost, fmt.Sprintf("%s/parts?n=%d", key.URL, n), nil)), &keys); err != nil || len(keys.Parts) != 1 {
		w.t.Fatal(err, keys)
	}
	return keys.Parts[0]
}

// log returns the acts of the audit log that name a file, in the order of their texts, and fails if one has a key.
func (w *town) log(id string) (acts []string) {
	w.t.Helper()
	for e, err := range valet.Log(w.app.Store()).List(w.t.Context(), time.Time{}.AddDate(1999, 0, 0), time.Now().Add(time.Hour)) {
		if err != nil {
			w.t.Fatal(err)
		}
		if strings.Contains(fmt.Sprint(e), "v1.") {
			w.t.Errorf("a row has a key: %+v", e)
		}
		if strings.HasPrefix(e.On, id) {
			act := strings.TrimPrefix(e.Act, "files ")
			if e.Failed {
				act += ": " + e.Result
			}
			acts = append(acts, act)
		}
	}
	slices.Sort(acts)
	return acts
}

// scanner makes a scanner that reads the whole file.
func scanner(f func(*valet.File) valet.Verdict) func(context.Context, valet.File, io.Reader) (valet.Verdict, error) {
	return func(_ context.Context, file valet.File, content io.Reader) (valet.Verdict, error) {
		if _, err := io.Copy(io.Discard, content); err != nil {
			return valet.Verdict{}, err
		}
		return f(&file), nil
	}
}

func sumOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func (w *town) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// read returns a key that reads.
func (w *town) read(id string, d valet.Download) valet.Key {
	w.t.Helper()
	key, err := w.v.Download(w.t.Context(), id, d)
	w.must(err)
	return key
}

// wantNoBytes fails if a container has bytes of a file.
func (w *town) wantNoBytes(id string) {
	w.t.Helper()
	for _, c := range []string{"file-inbox", "file-store"} {
		parts, err := w.app.Store().Files(c).Parts(w.t.Context(), id)
		if err != nil || len(parts) > 0 {
			w.t.Errorf("%s has %v (%v)", c, parts, err)
		}
	}
}
