package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/process"
	"github.com/millrace-go/millrace/storage"
)

// AcceptStart returns a handler of requests that start an instance of a process. The request's body is an I as JSON,
// and start makes of it the instance's ID and its state. The answers are those of [Accept], and
//
//	202  the instance is there; also if the same start has come before
//	409  the ID has an instance that was started with another state
//	422  the ID can't be used, or the state's own Check refuses it
func AcceptStart[S, I any](a *App, x *process.Instances[S], start func(r *http.Request, input I) (id string, s S)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		input, ok := bodyOf[I](w, r, "the input of the start")
		if !ok {
			return
		}
		id, s := start(r, input)
		err := x.StartNew(r.Context(), id, s)
		if errors.Is(err, process.ErrStarted) {
			problem(w, http.StatusConflict, "It was started before, as something else.")
			return
		}
		a.answer(w, r, "a start", time.Time{}, func(context.Context) error { return err }, "", slog.String("id", id))
	})
}

// AcceptSignal returns a handler of requests that signal to an instance of a process. The request's body is an M as
// JSON. An instance that doesn't wait for an M yet, or isn't started, gets it later. The answers are those of [Accept],
// and 409 if the instance has ended.
func AcceptSignal[M channel.Message, S any](a *App, x *process.Instances[S], id func(r *http.Request) string) http.Handler {
	name := string(channel.KindOf[M]())
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m, ok := bodyOf[M](w, r, name)
		if !ok {
			return
		}
		if s, err := x.Get(r.Context(), id(r)); err == nil && s.Final() {
			problem(w, http.StatusConflict, "It has ended.")
			return
		}
		a.answer(w, r, "a signal", time.Time{}, func(ctx context.Context) error { return x.Signal(ctx, id(r), m) }, name, slog.String("id", id(r)))
	})
}

// AcceptCancel returns a handler of requests that cancel an instance of a process. by names whoever asks for it, and
// why; both stand in the instance. The answers are
//
//	202  it will be cancelled, unless it ends first or has passed its pivot
//	404  there is no such instance
//	405  the method is GET, HEAD, OPTIONS or TRACE
//	409  it has ended
//	503  the store can't take it now; the request may be sent again
func AcceptCancel[S any](a *App, x *process.Instances[S], id func(r *http.Request) string, by func(r *http.Request) (who, why string)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !sends(w, r) {
			return
		}
		s, ok := snapshot(a, w, r, x, id(r))
		if !ok {
			return
		}
		if s.Final() {
			problem(w, http.StatusConflict, "It has ended.")
			return
		}
		who, why := by(r)
		a.answer(w, r, "a cancel", time.Time{}, func(ctx context.Context) error { return x.Cancel(ctx, s.ID, who, why) }, "", slog.String("id", s.ID))
	})
}

// ShowInstance returns a handler of requests for an instance of a process, as JSON with an ETag:
//
//	{"id":"o17", "status":"inprocess", "waitsFor":["pickup"], "created":"2026-12-01T10:00:00Z", "state":{…}}
//
// It has "error" and "ended" where it has failed or ended. render returns what is shown of the state; nil shows all.
// The handler answers 404 if there is no such instance, 304 if the client has it as it is, and 503 if the store can't
// be read.
func ShowInstance[S any](a *App, x *process.Instances[S], id func(r *http.Request) string, render func(S) any) http.Handler {
	type shown struct {
		ID       string         `json:"id"`
		Status   process.Status `json:"status"`
		WaitsFor []string       `json:"waitsFor,omitempty"`
		Error    string         `json:"error,omitempty"`
		Created  time.Time      `json:"created"`
		Ended    time.Time      `json:"ended,omitzero"`
		State    any            `json:"state"`
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s, ok := snapshot(a, w, r, x, id(r))
		if !ok {
			return
		}
		state := any(s.State)
		if render != nil {
			state = render(s.State)
		}
		body, err := json.Marshal(shown{s.ID, s.Status, s.WaitsFor, s.Error, s.Created, s.Ended, state})
		if err != nil {
			a.lines.Log(r, a.Log, slog.LevelError, "an instance can't be encoded", "", slog.String("id", s.ID), slog.Any("error", err))
			problem(w, http.StatusInternalServerError, "It can't be shown.")
			return
		}
		digest := sha256.Sum256(body)
		etag := `"` + hex.EncodeToString(digest[:12]) + `"`
		w.Header().Set("ETag", etag)
		w.Header().Set("Cache-Control", "no-cache")
		if strings.Contains(r.Header.Get("If-None-Match"), etag) {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(append(body, '\n')) // the client may have gone
	})
}

// snapshot reads an instance. If it can't, it answers, and reports false.
func snapshot[S any](a *App, w http.ResponseWriter, r *http.Request, x *process.Instances[S], id string) (s process.Snapshot[S], ok bool) {
	s, err := x.Get(r.Context(), id)
	switch {
	case errors.Is(err, storage.ErrNotFound), errors.Is(err, storage.ErrInvalid):
		problem(w, http.StatusNotFound, "There is no such instance.")
	case err != nil:
		a.lines.Log(r, a.Log, slog.LevelWarn, "an instance can't be read", "", slog.String("id", id), slog.Any("error", err))
		unavailable(w)
	}
	return s, err == nil
}
