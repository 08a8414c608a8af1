package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/host"
	"github.com/millrace-go/millrace/millracetest"
	"github.com/millrace-go/millrace/process"
)

// stay is the state of a process: somebody stays in a flat until they leave.
type stay struct {
	Flat string `json:"flat"`
	Days int    `json:"days"`
	Key  string `json:"key,omitempty"`
}

// Check refuses no days.
func (s stay) Check() error { return rent{Days: s.Days}.Check() }

type leave struct {
	Tip int `json:"tip"`
}

func (leave) Kind() channel.Kind { return "test.leave.v1" }

func stays() millracetest.Program {
	return millracetest.Program{
		Routes: func() (*channel.Routes, error) { return channel.NewRoutes(process.Route("stay")) },
		Register: func(h *handlers.Registry) error {
			return process.Register(h, "stay", process.Version(1, func(p *process.Plan[stay]) {
				key := func(context.Context, stay) (string, error) { return "secret", nil }
				process.Do(p, "key", key, func(s stay, key string) stay { s.Key = key; return s })
				process.Wait(p, "leave", func(s stay, _ leave) stay { return s })
			}))
		},
	}
}

func hotel(c *channel.Channels) http.Handler {
	a := &host.App{Channels: c, Log: slog.New(slog.DiscardHandler)}
	x := process.Open[stay](c, "stay")
	id := func(r *http.Request) string { return r.PathValue("id") }
	by := func(r *http.Request) (string, string) { return r.FormValue("by"), "no reason" }
	mux := http.NewServeMux()
	mux.Handle("PUT /stays/{id}", host.AcceptStart(a, x, func(r *http.Request, m rent) (string, stay) {
		return id(r), stay{Flat: m.Flat, Days: m.Days}
	}))
	mux.Handle("GET /stays/{id}", host.ShowInstance(a, x, id, func(s stay) any { return s.Days }))
	mux.Handle("GET /whole/{id}", host.ShowInstance(a, x, id, nil))
	mux.Handle("GET /broken/{id}", host.ShowInstance(a, x, id, func(stay) any { return func() {} }))
	mux.Handle("POST /stays/{id}/leave", host.AcceptSignal[leave](a, x, id))
	mux.Handle("DELETE /stays/{id}", host.AcceptCancel(a, x, id, by))
	mux.Handle("/any/start/{id}", host.AcceptStart(a, x, func(r *http.Request, m rent) (string, stay) { return id(r), stay{m.Flat, m.Days, ""} }))
	mux.Handle("/any/leave/{id}", host.AcceptSignal[leave](a, x, id))
	mux.Handle("/any/cancel/{id}", host.AcceptCancel(a, x, id, by))
	return mux
}

// Each request to an instance has the answer that its handler documents.
func TestInstances(t *testing.T) {
	t.Parallel()
	millracetest.Run(t, stays(), func(t *testing.T, app *millracetest.App) {
		h := hotel(app.Channels())
		for _, x := range []struct {
			ask, body string
			want      int
			says      string
		}{
			{"GET /stays/7", "", http.StatusNotFound, "no such instance"},
			{"DELETE /stays/7", "", http.StatusNotFound, "no such instance"},
			{"PUT /stays/7", `{"flat":"a","days":2}`, http.StatusAccepted, ""},
			{"PUT /stays/7", `{"flat":"a","days":2}`, http.StatusAccepted, ""},
			{"PUT /stays/7", `{"flat":"a","days":3}`, http.StatusConflict, "started before"},
			{"PUT /stays/8", `{"flat":"a"}`, http.StatusUnprocessableEntity, `"detail":"days: want at least 1"`},
			{"PUT /stays/8", `{"nights":1}`, http.StatusBadRequest, "nights"},
			{"PUT /stays/8", `{"flat":"` + strings.Repeat("x", 2<<20) + `"}`, http.StatusRequestEntityTooLarge, "1 MiB"},
			{"PUT /stays/a%2Fb", `{"flat":"a","days":2}`, http.StatusUnprocessableEntity, "it has a / or a #"},
			{"GET /stays/a%2Fb", "", http.StatusNotFound, "no such instance"},
			{"GET /stays/7", "", http.StatusOK, `"status":"inprocess","waitsFor":["leave"]`},
			{"GET /stays/7", "", http.StatusOK, `"state":2}`},
			{"GET /whole/7", "", http.StatusOK, `"state":{"flat":"a","days":2,"key":"secret"}}`},
			{"GET /broken/7", "", http.StatusInternalServerError, "can't be shown"},
			{"POST /stays/7/leave", `{"tip":"much"}`, http.StatusBadRequest, "tip"},
			{"POST /stays/7/leave", `{"tip":5}`, http.StatusAccepted, ""},
			{"GET /stays/7", "", http.StatusOK, `"status":"completed"`},
			{"DELETE /stays/7", "", http.StatusConflict, "has ended"},
			{"POST /stays/7/leave", `{"tip":5}`, http.StatusConflict, "has ended"},
			{"POST /stays/early/leave", `{"tip":5}`, http.StatusAccepted, ""},
			{"GET /stays/early", "", http.StatusNotFound, "no such instance"},
			{"DELETE /stays/early", "", http.StatusNotFound, "no such instance"},
			{"PUT /stays/early", `{"flat":"a","days":2}`, http.StatusAccepted, ""},
			{"GET /stays/early", "", http.StatusOK, `"status":"completed"`},
			{"PUT /stays/9", `{"flat":"a","days":2}`, http.StatusAccepted, ""},
			{"DELETE /stays/9?by=ada", "", http.StatusAccepted, ""},
			{"GET /stays/9", "", http.StatusOK, `"error":"canceled by ada"`},
		} {
			method, path, _ := strings.Cut(x.ask, " ")
			w := httptest.NewRecorder()
			h.ServeHTTP(w, asked(t.Context(), method, path, x.body))
			if w.Code != x.want || !strings.Contains(w.Body.String(), x.says) {
				t.Errorf("%s %.60s: got %d %s; want %d %s", x.ask, x.body, w.Code, w.Body, x.want, x.says)
			}
			app.Drain()
		}
	})
}

// A client that has an instance as it is gets no body.
func TestShowInstanceETag(t *testing.T) {
	t.Parallel()
	millracetest.Run(t, stays(), func(t *testing.T, app *millracetest.App) {
		h := hotel(app.Channels())
		if err := process.Open[stay](app.Channels(), "stay").Start(t.Context(), "7", stay{"a", 2, ""}); err != nil {
			t.Fatal(err)
		}
		app.Drain()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/stays/7", nil)
		first, second := httptest.NewRecorder(), httptest.NewRecorder()
		h.ServeHTTP(first, r)
		r.Header.Set("If-None-Match", first.Header().Get("ETag"))
		h.ServeHTTP(second, r)
		var shown struct{ ID string }
		if err := json.Unmarshal(first.Body.Bytes(), &shown); err != nil || shown.ID != "7" || first.Header().Get("Cache-Control") == "" {
			t.Errorf("got %+v, %v, headers %v", shown, err, first.Header())
		}
		if second.Code != http.StatusNotModified || second.Body.Len() > 0 {
			t.Errorf("again: got %d %s; want 304 without a body", second.Code, second.Body)
		}
	})
}

// A store that can't be reached is said so, and the request may be sent again.
func TestInstancesWithoutAStore(t *testing.T) {
	t.Parallel()
	millracetest.Run(t, stays(), func(t *testing.T, app *millracetest.App) {
		h := hotel(app.Channels())
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("gone"))
		for ask, body := range map[string]string{
			"PUT /stays/7": `{"flat":"a","days":2}`, "GET /stays/7": "", "DELETE /stays/7": "", "POST /stays/7/leave": `{"tip":5}`,
		} {
			method, path, _ := strings.Cut(ask, " ")
			w := httptest.NewRecorder()
			h.ServeHTTP(w, asked(ctx, method, path, body))
			if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
				t.Errorf("%s: got %d %s; want 503", ask, w.Code, w.Body)
			}
		}
	})
}
