package host

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/jsonform"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/throttle"
)

// maxCommand bounds the body of a request that Accept reads.
const maxCommand = 1 << 20

// Accept returns a handler of requests that send a command. The request's body is the command as JSON; one without a
// body is the zero M. fill may set fields from elsewhere, such as the path. It may be nil. The answers are
//
//	202  the command is safe, and decided in a moment. Or
//	     {"due":"2026-11-28T09:30:00Z"}: not before that time, because a limiter has deferred it; see throttle.Deferred
//	     {"spooled":true}: it is safe in the spool, and decided when the store is back
//	405  the method is GET, HEAD, OPTIONS or TRACE, by which nothing is sent
//	415  the body isn't declared as JSON: the Content-Type is application/json, or ends with +json
//	400  the body isn't JSON of an M in UTF-8, or has other members than an M, or one twice
//	413  the body has more than 1 MiB
//	422  the command's own Check refuses it, or its ID or subject can't be used
//	503  the store can't take it now; the request may be sent again
//
// Errors are problems as in RFC 9457 (application/problem+json). To be safe across a repeat the command must choose its
// ID; see [channel.Identified]. A command whose key no document can have, such as an empty one, goes to the poison
// queue: let its Check refuse it.
func Accept[M channel.Message](a *App, fill func(r *http.Request, m *M)) http.Handler {
	name := string(channel.KindOf[M]())
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m, ok := bodyOf[M](w, r, name)
		if !ok {
			return
		}
		if fill != nil {
			fill(r, &m)
		}
		send, due := channel.Message(m), time.Time{}
		if late := throttle.Deferred(r.Context()); late > 0 {
			send, due = channel.After(late, m), time.Now().Add(late)
		}
		a.answer(w, r, "a command", due, func(ctx context.Context) error { return a.Channels.Send(ctx, send) }, name)
	})
}

// sends reports that a request's method is one that may send something. Otherwise it answers. Links and pictures of any
// page make a browser send a GET.
func sends(w http.ResponseWriter, r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		w.Header().Set("Allow", "POST, PUT, PATCH, DELETE")
		problem(w, http.StatusMethodNotAllowed, "Nothing is sent by "+r.Method+". Want POST, or the method that the site names.")
		return false
	}
	return true
}

// bodyOf reads the body of a request that sends something. The body is JSON of a T. A request without a body has the
// zero T. If the request is anything else, bodyOf answers, and reports false. name is what people call a T.
func bodyOf[T any](w http.ResponseWriter, r *http.Request, name string) (x T, ok bool) {
	if !sends(w, r) {
		return x, false
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxCommand))
	if err == nil && len(bytes.TrimSpace(body)) > 0 {
		if !isJSON(r.Header.Get("Content-Type")) {
			problem(w, http.StatusUnsupportedMediaType, "The request's body isn't declared as JSON. Want the header Content-Type: application/json.")
			return x, false
		}
		x, err = jsonform.DecodeStrictly[T](body)
	}
	var tooLarge *http.MaxBytesError
	var unfit *jsonform.TypeError
	switch {
	case errors.As(err, &tooLarge):
		problem(w, http.StatusRequestEntityTooLarge, "The request's body has more than 1 MiB.")
	case errors.As(err, &unfit):
		problem(w, http.StatusBadRequest, "The request's body can't be read: "+unfit.For(name)+".")
	case err != nil:
		problem(w, http.StatusBadRequest, "The request's body can't be read: "+err.Error()+".")
	}
	return x, err == nil
}

// isJSON reports that a Content-Type is JSON's. A page of another origin can't send one of those without being asked
// first, unlike text/plain or none.
func isJSON(contentType string) bool {
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && (media == "application/json" || strings.HasPrefix(media, "application/") && strings.HasSuffix(media, "+json"))
}

// answer sends something and answers the request for it. due is when it is decided; zero: in a moment. kind and about
// tell the log about it.
func (a *App) answer(w http.ResponseWriter, r *http.Request, what string, due time.Time, send func(ctx context.Context) error, kind string, about ...slog.Attr) {
	ctx, spooled := channel.NoteSpooled(r.Context())
	err := send(ctx)
	switch {
	case err == nil && (spooled() > 0 || !due.IsZero()):
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(http.StatusAccepted)
		_ = json.NewEncoder(w).Encode(later{spooled() > 0, due.UTC().Round(time.Second)}) // the client may have gone
	case err == nil:
		w.WriteHeader(http.StatusAccepted)
	case errors.Is(err, channel.ErrRefused), errors.Is(err, channel.ErrAttribute), errors.Is(err, channel.ErrBody),
		errors.Is(err, storage.ErrTooLarge), errors.Is(err, storage.ErrInvalid):
		problem(w, http.StatusUnprocessableEntity, refusal(err))
	default:
		a.lines.Log(r, a.Log, slog.LevelWarn, what+" could not be sent", kind, append(about, slog.Any("error", err))...)
		unavailable(w)
	}
}

// later is the body of an answer to a command that isn't decided in a moment.
type later struct {
	Spooled bool      `json:"spooled,omitzero"`
	Due     time.Time `json:"due,omitzero"`
}

// unavailable answers a request that the store can't serve now.
func unavailable(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "1")
	problem(w, http.StatusServiceUnavailable, "The request could not be served. Please send it again.")
}

// refusal returns what is wrong with a command, without what was to be done with it. That is the text of the command's
// own Check, or the fault.
func refusal(err error) string {
	faults := []error{channel.ErrAttribute, channel.ErrBody, storage.ErrTooLarge, storage.ErrInvalid}
	for {
		if all, ok := err.(interface{ Unwrap() []error }); ok {
			if all := all.Unwrap(); len(all) == 2 && all[0] == channel.ErrRefused {
				return all[1].Error()
			}
			return err.Error()
		}
		cause := errors.Unwrap(err)
		if cause == nil || slices.Contains(faults, cause) {
			return err.Error()
		}
		err = cause
	}
}

// problem answers with an error.
func problem(w http.ResponseWriter, status int, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"title": http.StatusText(status), "status": status, "detail": detail}) // the client may have gone
}
