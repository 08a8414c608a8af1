package site_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/coord/ids"
	"github.com/millrace-go/millrace/files/valet"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/sample/reservations"
	"github.com/millrace-go/millrace/sample/reservations/site"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/azure"
	"github.com/millrace-go/millrace/storage/azure/azuretest"
	"github.com/millrace-go/millrace/storage/sqlite"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/worker"
)

const patience = 30 * time.Second // for events that must happen; a test that waits so long has failed

// A stack is the sample as a program runs it: a store in a file, the site, and a worker once it has started.
type stack struct {
	t        *testing.T
	url      string
	store    *storage.Store
	channels *channel.Channels
	registry *handlers.Registry
	client   *http.Client // follows no redirects
	down     atomic.Bool  // makes the store fail
	hangs    atomic.Bool  // makes the store wait until the caller gives up
	log      *logBuffer
	mails    *outbox
	files    *valet.Valet
}

func newStack(t *testing.T, cfg site.Config, change ...func(*httptest.Server)) *stack {
	t.Helper()
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "test.db"))
	if err != nil {
		t.Fatal(err)
	}
	return newStackOn(t, store, cfg, change...)
}

// onEachStore runs a test of the whole sample on a file and on Azure Storage.
func onEachStore(t *testing.T, test func(t *testing.T, s *stack)) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t, newStack(t, site.Config{KitchenKey: kitchenKey}))
	})
	t.Run("azure", func(t *testing.T) {
		t.Parallel()
		store, err := azure.Open(t.Context(), azuretest.Place(t, azurite, azure.Wipe))
		if err != nil {
			t.Fatal(err)
		}
		test(t, newStackOn(t, store, site.Config{KitchenKey: kitchenKey}))
	})
}

var azurite = sync.OnceValues(azuretest.Launch)

// newStackOn closes the store when the test ends.
func newStackOn(t *testing.T, store *storage.Store, cfg site.Config, change ...func(*httptest.Server)) *stack {
	t.Helper()
	s := &stack{t: t, log: &logBuffer{}, mails: &outbox{}}
	t.Cleanup(func() { _ = store.Close() })
	s.store = storagetest.Intercept(store, func(ctx context.Context, op storagetest.Op, do func() error) error {
		switch {
		case s.down.Load():
			return op.Fail(storage.ErrUnavailable)
		case s.hangs.Load():
			select {
			case <-ctx.Done():
				return op.Fail(context.Cause(ctx))
			case <-t.Context().Done(): // a read that several callers wait for ignores their contexts
				return op.Fail(storage.ErrUnavailable)
			}
		}
		return do()
	})
	routes, err := reservations.Routes()
	if err != nil {
		t.Fatal(err)
	}
	if s.channels, err = channel.New(s.store, routes, "/web"); err != nil {
		t.Fatal(err)
	}
	s.registry = handlers.NewRegistry(s.channels, handlers.Config{Logger: slog.New(slog.DiscardHandler)})
	numbers, err := reservations.Numbers(s.store, ids.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Files, err = reservations.Files(s.channels, valet.Config{}); err != nil {
		t.Fatal(err)
	}
	s.files = cfg.Files
	reservations.Register(s.registry, 40, reservations.Mails{Mailer: s.mails}, numbers, cfg.Files)
	if err := s.registry.Err(); err != nil {
		t.Fatal(err)
	}

	stopping := make(chan struct{})
	if cfg.Stopping == nil {
		cfg.Stopping = stopping
	}
	cfg.Logger = slog.New(slog.NewTextHandler(s.log, nil))
	h, err := site.New(s.channels, cfg)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(h)
	for _, f := range change {
		f(server)
	}
	server.Start()
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(stopping) }) // runs before the server's cleanup, which waits for event streams
	s.url = server.URL
	s.client = &http.Client{
		Timeout:       patience,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return s
}

// work starts a worker, which ends with the test.
func (s *stack) work() {
	s.t.Helper()
	often := map[string]worker.QueueConfig{} // poll often, because nothing rings here
	for _, q := range s.registry.Queues() {
		often[q] = worker.QueueConfig{PollInterval: 500 * time.Millisecond}
	}
	w, err := worker.New(s.registry, worker.Config{Logger: slog.New(slog.DiscardHandler), Queues: often})
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	s.t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			s.t.Errorf("worker: %v", err)
		}
	})
}

// An answer is a response with its whole body.
type answer struct {
	*http.Response
	body string
}

func (s *stack) do(method, path string, body io.Reader, header ...string) answer {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, body)
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	resp, err := s.client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer{resp, string(b)}
}

func (s *stack) get(path string, header ...string) answer {
	s.t.Helper()
	return s.do("GET", path, nil, header...)
}

func (s *stack) postJSON(body string, header ...string) answer {
	s.t.Helper()
	return s.do("POST", "/reservations", strings.NewReader(body), append(header, "Content-Type", "application/json")...)
}

func (s *stack) postForm(form url.Values, header ...string) answer {
	s.t.Helper()
	return s.do("POST", "/reservations", strings.NewReader(form.Encode()), append(header, "Content-Type", "application/x-www-form-urlencoded")...)
}

// want checks a status and headers, given in pairs.
func (a answer) want(t *testing.T, status int, header ...string) answer {
	t.Helper()
	if a.StatusCode != status {
		t.Fatalf("%s %s: got %s, want %d\n%s", a.Request.Method, a.Request.URL.Path, a.Status, status, a.body)
	}
	for i := 0; i < len(header); i += 2 {
		if got := a.Header.Get(header[i]); got != header[i+1] {
			t.Errorf("%s %s: header %s: got %q, want %q", a.Request.Method, a.Request.URL.Path, header[i], got, header[i+1])
		}
	}
	return a
}

// has checks that a body contains all of texts.
func (a answer) has(t *testing.T, texts ...string) answer {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(a.body, text) {
			t.Errorf("%s %s: body doesn't have %q:\n%s", a.Request.Method, a.Request.URL.Path, text, a.body)
		}
	}
	return a
}

func decode[T any](t *testing.T, a answer) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(a.body), &v); err != nil {
		t.Fatalf("%s %s: %v\n%s", a.Request.Method, a.Request.URL.Path, err, a.body)
	}
	return v
}

type problem struct {
	Title  string
	Status int
	Detail string
	Errors []struct{ Detail, Pointer string }
}

// states yields the states of a reservation from its event stream, until the stream ends.
func (s *stack) states(path string, yield func(reservations.Status) bool) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), "GET", s.url+path+"/events", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	resp, err := s.client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	if got, want := resp.Header.Get("Content-Type"), "text/event-stream"; resp.StatusCode != http.StatusOK || got != want {
		s.t.Fatalf("events: got %s, %s", resp.Status, got)
	}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var status reservations.Status
		if err := json.Unmarshal([]byte(data), &status); err != nil {
			s.t.Fatal(err)
		}
		if !yield(status) {
			return
		}
	}
}

// becomes waits until a reservation has reached a state.
func (s *stack) becomes(path string, want reservations.State) reservations.Status {
	s.t.Helper()
	var last reservations.Status
	s.states(path, func(now reservations.Status) bool {
		last = now
		return now.Status != want
	})
	if last.Status != want {
		s.t.Fatalf("%s: the event stream ended at %q, want %q", path, last.Status, want)
	}
	return last
}

// eventually repeats ok until it is true, for results that come later.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for end := time.Now().Add(patience); time.Now().Before(end); <-again.C {
		if ok() {
			return
		}
	}
	t.Fatalf("never came true: %s", what)
}

type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// An outbox is a Mailer that keeps its mails.
type outbox struct {
	mu    sync.Mutex
	mails []reservations.Mail
}

func (o *outbox) Send(_ context.Context, m reservations.Mail) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mails = append(o.mails, m)
	return nil
}

func (o *outbox) subjects() (all []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, m := range o.mails {
		all = append(all, m.Subject)
	}
	slices.Sort(all) // two mails may overtake each other
	return all
}
