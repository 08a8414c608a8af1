package host_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/host"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
)

// rent is a command with a check of its own.
type rent struct {
	Flat string `json:"flat"`
	Days int    `json:"days"`
	ID   string `json:"id,omitempty"`
}

// MessageID is what the client chooses.
func (r rent) MessageID() string { return r.ID }

// Kind is the name on the wire.
func (rent) Kind() channel.Kind { return "test.rent.v1" }

// Check refuses no days.
func (r rent) Check() error {
	if r.Days < 1 {
		return errors.New("days: want at least 1")
	}
	return nil
}

// asked is a request with a body of JSON.
func asked(ctx context.Context, method, path, body string) *http.Request {
	r := httptest.NewRequestWithContext(ctx, method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	return r
}

func accepting(t *testing.T, s *storage.Store) http.Handler {
	t.Helper()
	routes, err := channel.NewRoutes(channel.Command[rent]("rents"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := channel.New(s, routes, "/test")
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("POST /flats/{flat}", host.Accept(&host.App{Channels: c, Log: slog.New(slog.DiscardHandler)}, func(r *http.Request, m *rent) { m.Flat = r.PathValue("flat") }))
	mux.Handle("POST /rents", host.Accept[rent](&host.App{Channels: c, Log: slog.New(slog.DiscardHandler)}, nil))
	return mux
}

// A request that Accept takes is one command in its queue; each other one is a problem, and nothing is sent.
func TestAccept(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, worldtest.Virtual)
	h := accepting(t, s)
	sent := int64(0)
	for _, x := range []struct {
		path, body string
		want       int
		detail     string
	}{
		{"/flats/7", `{"days":2}`, http.StatusAccepted, ""},
		{"/rents", `{"flat":"8","days":2} ` + "\n", http.StatusAccepted, ""},
		{"/rents", `{"flat":"8","days":2}{}`, http.StatusBadRequest, "invalid JSON"},
		{"/rents", `{"flat":"` + "\xff" + `","days":2}`, http.StatusBadRequest, "invalid JSON"},
		{"/rents", `{"flat":"8","flat":"9","days":2}`, http.StatusBadRequest, "two members with one name"},
		{"/rents", `{"Flat":"8","days":2}`, http.StatusBadRequest, `unknown member "Flat"`},
		{"/rents", `{"flat":"8","days":`, http.StatusBadRequest, "can't be read"},
		{"/rents", `{"flat":"8","days":"2"}`, http.StatusBadRequest, "can't be read: member days doesn't fit test.rent.v1; want a whole number."},
		{"/rents", `[2]`, http.StatusBadRequest, "can't be read: the JSON doesn't fit test.rent.v1; want an object."},
		{"/rents", `{"flat":"8","nights":2}`, http.StatusBadRequest, "nights"},
		{"/rents", `{"days":0}`, http.StatusUnprocessableEntity, "days: want at least 1"},
		{"/rents", `{"days":1,"id":"a\u0000"}`, http.StatusUnprocessableEntity, `missing or invalid attribute: id: ID "a\x00": control characters are not allowed`},
		{"/rents", "", http.StatusUnprocessableEntity, "days: want at least 1"},
		{"/rents", `{"flat":"` + strings.Repeat("x", 2<<20) + `"}`, http.StatusRequestEntityTooLarge, "1 MiB"},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, asked(t.Context(), http.MethodPost, x.path, x.body))
		var got struct {
			Status int
			Detail string
		}
		if x.want == http.StatusAccepted {
			sent++
		} else if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || got.Status != x.want || !strings.Contains(got.Detail, x.detail) || x.want == http.StatusUnprocessableEntity && got.Detail != x.detail || w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s %.60s: got %q (%v), want a problem with %q", x.path, x.body, w.Body, err, x.detail)
		}
		if w.Code != x.want {
			t.Errorf("%s %.60s: got %d, want %d", x.path, x.body, w.Code, x.want)
		}
	}
	if n := worldtest.Queued(t, s, "rents"); int64(n) != sent {
		t.Errorf("got %d commands in the queue, want %d", n, sent)
	}
}

// A store that can't be reached is said so, without its name, and the request may be sent again.
func TestAcceptWithoutAStore(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, worldtest.Virtual)
	h := accepting(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, asked(ctx, http.MethodPost, "/flats/7", `{"days":2}`))
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" || strings.Contains(w.Body.String(), ".db") {
		t.Errorf("got %d %q", w.Code, w.Body)
	}
}

// A store that is away fails every request. The log has one line a second for each route and kind, with the number of
// requests between.
func TestAcceptLogsOneLineASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := worldtest.OpenStore(t, worldtest.Virtual)
		routes, err := channel.NewRoutes(channel.Command[rent]("rents"))
		if err != nil {
			t.Fatal(err)
		}
		c, err := channel.New(s, routes, "/test")
		if err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		a := &host.App{Channels: c, Log: slog.New(slog.NewTextHandler(&log, nil))}
		mux := http.NewServeMux()
		mux.Handle("POST /rents", host.Accept[rent](a, nil))
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		for range 300 {
			w, r := httptest.NewRecorder(), asked(t.Context(), http.MethodPost, "/rents", `{"flat":"7","days":2}`)
			if mux.ServeHTTP(w, r); w.Code != http.StatusServiceUnavailable {
				t.Fatalf("got %d %s, want 503", w.Code, w.Body)
			}
			time.Sleep(10 * time.Millisecond) // virtual
		}
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		if len(lines) > 4 || !strings.Contains(lines[len(lines)-1], `route="POST /rents" kind=test.rent.v1`) || strings.HasSuffix(lines[len(lines)-1], "not_logged=0") {
			t.Errorf("got %d lines, want one a second with the number between:\n%s", len(lines), &log)
		}
	})
}
