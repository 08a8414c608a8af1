// Package valettest follows a file through a program with real HTTP, on any store that keeps files.
package valettest

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
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/files/valet"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/worker"
)

// A Place is where the program keeps what it has.
type Place struct {
	Store  *storage.Store // of messages and documents
	Files  *storage.Store // of bytes; nil: Store
	Client *http.Client   // that reaches URLs of Files
	Host   string         // of the URLs of Files; "": the program takes the bytes
	Plain  bool           // the URLs are good over plain HTTP, too: the store is one for tests
}

// flow is a program and its client.
type flow struct {
	Place
	t       *testing.T
	v       *valet.Valet
	server  *httptest.Server
	through atomic.Int64 // bytes of files that went through the program
	events  chan string
	key     valet.Key
	content []byte
}

// Run puts a file of three parts, with a break after the first, reads it, and ends its keys.
func Run(t *testing.T, p Place) {
	t.Helper()
	f := &flow{Place: p, t: t, events: make(chan string, 10)}
	f.content = bytes.Repeat([]byte("0123456789abcde\n"), 1<<20)
	f.content = append(f.content, "and one part more"...)
	f.begin()
	f.put()
	f.read()
	f.list()
	f.end()
	most := int64(64 << 10) // of JSON
	if n := f.through.Load(); (p.Host != "") != (n < most) {
		t.Errorf("%d bytes have gone through the program", n)
	}
}

func (f *flow) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// begin starts the worker and the web.
func (f *flow) begin() {
	routes, err := channel.NewRoutes(valet.Route(), channel.Event[valet.Uploaded]("told"), channel.Event[valet.Rejected]("told"))
	f.must(err)
	c, err := channel.New(f.Store, routes, "/valettest")
	f.must(err)
	f.v, err = valet.New(c, valet.Config{Rules: map[string]valet.Rules{"plan": {MaxSize: 1 << 30}}, Files: f.Files})
	f.must(err)
	h := handlers.NewRegistry(c, handlers.Config{})
	f.v.Register(h)
	handlers.React(h, "told", func(_ context.Context, e valet.Uploaded) error { f.events <- "uploaded " + e.ID; return nil })
	handlers.React(h, "told", func(_ context.Context, e valet.Rejected) error { f.events <- string(e.State) + " " + e.ID; return nil })
	f.must(h.Err())
	queues := map[string]worker.QueueConfig{}
	for _, q := range h.Queues() {
		queues[q] = worker.QueueConfig{PollInterval: 100 * time.Millisecond} // for stores that don't ring
	}
	wk, err := worker.New(h, worker.Config{Name: "valettest", Queues: queues})
	f.must(err)
	ctx, stop := context.WithCancel(context.WithoutCancel(f.t.Context()))
	var all sync.WaitGroup
	all.Go(func() {
		if err := wk.Run(ctx); err != nil {
			f.t.Errorf("the worker: %v", err)
		}
	})
	f.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = counted{r.Body, &f.through}
		f.v.ServeHTTP(countedWriter{w, &f.through}, r)
	}))
	f.t.Cleanup(func() { f.server.Close(); stop(); all.Wait() })
}

type counted struct {
	io.ReadCloser
	n *atomic.Int64
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.n.Add(int64(n))
	return n, err
}

type countedWriter struct {
	http.ResponseWriter
	n *atomic.Int64
}

func (c countedWriter) Write(p []byte) (int, error) {
	c.n.Add(int64(len(p)))
	return c.ResponseWriter.Write(p)
}

func (c countedWriter) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// ask makes a request and reads its answer. It follows no redirect.
func (f *flow) ask(method, where string, body []byte, want int) (answer []byte, h http.Header) {
	f.t.Helper()
	client := *f.server.Client()
	if strings.HasPrefix(where, "/") {
		where = f.server.URL + where
	} else if f.Client != nil {
		client = *f.Client
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	r, err := http.NewRequestWithContext(f.t.Context(), method, where, bytes.NewReader(body))
	f.must(err)
	resp, err := client.Do(r)
	f.must(err)
	defer resp.Body.Close()
	answer, err = io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != want {
		f.t.Fatalf("%s: got %d, %.500s (%v), want %d", method, resp.StatusCode, answer, err, want)
	}
	return answer, resp.Header
}

// told waits for an event.
func (f *flow) told(want string) {
	f.t.Helper()
	select {
	case got := <-f.events:
		if got != want {
			f.t.Errorf("told %s, want %s", got, want)
		}
	case <-f.t.Context().Done():
	case <-time.After(time.Minute):
		f.t.Fatalf("%s was not told", want)
	}
}

// goodURL fails unless a URL of the store allows what it should, for no longer than it should.
func (f *flow) goodURL(text, may string, most time.Duration) {
	f.t.Helper()
	if f.Host == "" {
		if !strings.HasPrefix(text, "/files/v1.") {
			f.t.Error("a key isn't the program's own")
		}
		return
	}
	u, err := url.Parse(text)
	f.must(err)
	q := u.Query()
	end, err := time.Parse(time.RFC3339, q.Get("se"))
	left := time.Until(end)
	if err != nil || left <= 0 || left > most+2*time.Second {
		f.t.Errorf("a URL is good for %v (%v), want at most %v", left, err, most)
	}
	protocol := "https"
	if f.Plain {
		protocol = "https,http"
	}
	if u.Host != f.Host || q.Get("sp") != may || q.Get("sr") != "b" || q.Get("spr") != protocol || q.Get("st") != "" || !f.Plain && u.Scheme != "https" {
		f.t.Errorf("a URL is for %s, sp=%s, sr=%s, spr=%s, st=%s; want %s, %s", u.Host, q.Get("sp"), q.Get("sr"), q.Get("spr"), q.Get("st"), f.Host, may)
	}
}

// parts returns the URLs of parts.
func (f *flow) parts(list string) []valet.PartKey {
	f.t.Helper()
	var keys valet.PartKeys
	answer, _ := f.ask(http.MethodPost, f.key.URL+"/parts?n="+list, nil, http.StatusOK)
	f.must(json.Unmarshal(answer, &keys))
	for _, k := range keys.Parts {
		f.goodURL(k.URL, "w", 15*time.Minute)
	}
	return keys.Parts
}

func (f *flow) putPart(k valet.PartKey) {
	f.t.Helper()
	from := int64(k.Number-1) * f.key.PartSize
	f.ask(http.MethodPut, k.URL, f.content[from:from+k.Size], http.StatusCreated)
}

// put uploads the file: one part, and after a break what the program says is missing.
func (f *flow) put() {
	sum := sha256.Sum256(f.content)
	key, err := f.v.Upload(f.t.Context(), valet.Upload{Rule: "plan", Owner: "ada", Name: "plan.txt", Type: "text/plain", Size: int64(len(f.content)), SHA256: hex.EncodeToString(sum[:]), Folder: "plans"})
	f.must(err)
	if f.key = key; key.Parts != 3 {
		f.t.Fatalf("got %d parts", key.Parts)
	}
	f.putPart(f.parts("2")[0])
	var s valet.Status
	answer, _ := f.ask(http.MethodPost, key.URL+"/complete", nil, http.StatusConflict)
	f.must(json.Unmarshal(answer, &s))
	if s.Missing != "1,3" {
		f.t.Errorf("missing are %q", s.Missing)
	}
	answer, _ = f.ask(http.MethodGet, key.URL, nil, http.StatusOK)
	f.must(json.Unmarshal(answer, &s))
	if s.Have != "2" {
		f.t.Errorf("there are %q", s.Have)
	}
	for _, k := range f.parts(s.Missing) {
		f.putPart(k)
	}
	_, h := f.ask(http.MethodPut, key.URL+"/3", nil, http.StatusTemporaryRedirect) // as curl does
	f.goodURL(h.Get("Location"), "w", 15*time.Minute)
	f.ask(http.MethodPost, key.URL+"/complete", nil, http.StatusAccepted)
	f.told("uploaded " + key.ID)
}

// get follows a key to the bytes.
func (f *flow) get(where string) {
	f.t.Helper()
	want, at := http.StatusOK, where
	if f.Host != "" {
		_, h := f.ask(http.MethodGet, where, nil, http.StatusTemporaryRedirect)
		at = h.Get("Location")
		f.goodURL(at, "r", 2*time.Minute)
	}
	got, h := f.ask(http.MethodGet, at, nil, want)
	if !bytes.Equal(got, f.content) || h.Get("Content-Type") != "text/plain; charset=utf-8" || h.Get("Content-Disposition") != "attachment; filename=plan.txt" || h.Get("Cache-Control") != "no-store" {
		f.t.Errorf("got %d bytes, %v", len(got), h)
	}
}

// read reads the file with a key, and ends the key.
func (f *flow) read() {
	key, err := f.v.Download(f.t.Context(), f.key.ID, valet.Download{Owner: "cook", Uses: 1})
	f.must(err)
	_, h := f.ask(http.MethodHead, key.URL, nil, http.StatusOK)
	if h.Get("Location") != "" || h.Get("Content-Length") != fmt.Sprint(len(f.content)) {
		f.t.Errorf("HEAD: got %v", h)
	}
	f.get(key.URL)
	f.ask(http.MethodGet, key.URL, nil, http.StatusGone)
}

// list reads the file with a key of its folder.
func (f *flow) list() {
	key, err := f.v.Folder(f.t.Context(), valet.Folder{Path: "plans", Owner: "cook"})
	f.must(err)
	var l valet.Listing
	answer, _ := f.ask(http.MethodGet, key.URL, nil, http.StatusOK)
	f.must(json.Unmarshal(answer, &l))
	if len(l.Files) != 1 || l.Files[0].ID != f.key.ID || l.Files[0].State != valet.StateClean {
		f.t.Fatalf("got %+v", l)
	}
	f.get(l.Files[0].URL)
}

// end revokes an upload in its middle, and deletes the file.
func (f *flow) end() {
	first := f.key
	f.content = []byte("never there")
	key, err := f.v.Upload(f.t.Context(), valet.Upload{Rule: "plan", Owner: "ada", Name: "x.txt", Type: "text/plain", Size: int64(len(f.content))})
	f.must(err)
	f.key = key
	f.putPart(f.parts("1")[0])
	f.must(f.v.Revoke(f.t.Context(), key.ID, "a test"))
	f.told("revoked " + key.ID)
	f.ask(http.MethodPost, key.URL+"/complete", nil, http.StatusGone)
	read, err := f.v.Download(f.t.Context(), first.ID, valet.Download{Owner: "cook"})
	f.must(err)
	f.must(f.v.Delete(f.t.Context(), first.ID, "a test"))
	for f.state(first.ID) != valet.StateDeleted {
		f.must(worldtest.Pause(f.t.Context(), 20*time.Millisecond))
	}
	f.ask(http.MethodGet, read.URL, nil, http.StatusGone)
}

func (f *flow) state(id string) valet.State {
	f.t.Helper()
	got, err := f.v.File(f.t.Context(), id)
	f.must(err)
	return got.State
}
