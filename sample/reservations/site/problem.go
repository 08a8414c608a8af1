package site

import (
	"context"
	"encoding/json"
	"errors"
	"html/template"
	"log/slog"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/millrace-go/millrace/sample/reservations"
)

// retryAfter is what a 503 suggests, in seconds.
const retryAfter = "5"

// A problem is an answer that reports a failure or a refusal.
type problem struct {
	Status int
	Detail string              // for people; has a default for the status
	Faults reservations.Faults // by field
	Err    error               // the cause, for the log only
}

func (p *problem) Error() string {
	if p.Err != nil {
		return p.Err.Error()
	}
	return http.StatusText(p.Status)
}

func (p *problem) Unwrap() error { return p.Err }

// asProblem makes a problem of any error. An error that isn't a problem already says that a command was refused when it
// was sent, or comes from the store, or from a client that has gone and reads no answer.
func asProblem(err error) *problem {
	var p *problem
	var faults reservations.Faults
	switch {
	case errors.As(err, &p):
	case errors.As(err, &faults):
		p = &problem{Status: http.StatusUnprocessableEntity, Faults: faults}
	default:
		p = &problem{Status: http.StatusServiceUnavailable, Err: err}
	}
	if p.Detail == "" {
		p.Detail = details[p.Status]
	}
	return p
}

var details = map[int]string{
	http.StatusNotFound:            "There is nothing at this address.",
	http.StatusMethodNotAllowed:    "This address does not accept such a request.",
	http.StatusUnprocessableEntity: "Some fields are not right. Please check them.",
	http.StatusServiceUnavailable:  "We can't write anything down at the moment. Please try again shortly.",
	http.StatusInternalServerError: "Something is broken on our side. We have been told.",
}

// answers writes pages and problems, and logs the failures of the server.
type answers struct {
	log   *slog.Logger
	pages map[string]*template.Template
	notes notes
}

func (a *answers) fail(w http.ResponseWriter, r *http.Request, err error) {
	p := a.report(w, r, err)
	if wantsJSON(r) {
		writeProblem(w, p)
		return
	}
	a.page(w, r, "message", p.Status, messagePage{Title: headline(p.Status), Text: p.Detail})
}

type messagePage struct{ Title, Text string }

// headline says a status in plain words.
func headline(status int) string {
	switch status {
	case http.StatusNotFound:
		return "Nothing here"
	case http.StatusServiceUnavailable:
		return "We will be right back"
	case http.StatusInternalServerError:
		return "Sorry"
	}
	return "That didn't work"
}

// report logs a problem that an operator should know, and sets the headers that all problems have.
func (a *answers) report(w http.ResponseWriter, r *http.Request, err error) *problem {
	p := asProblem(err)
	a.note(r, p)
	if p.Status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", retryAfter)
	}
	w.Header().Set("Cache-Control", "no-store")
	return p
}

// note logs a failure of the server, unless the client has gone, because then that may be the only cause. The log
// gets the route's pattern, not the address: the address has the ID in it, which is the right to cancel.
func (a *answers) note(r *http.Request, p *problem) {
	if p.Status < 500 || p.Err == nil || context.Cause(r.Context()) != nil {
		return
	}
	if silent, ok := a.notes.take(r.Pattern, time.Now()); ok {
		a.log.LogAttrs(r.Context(), slog.LevelError, "request failed", slog.String("route", r.Pattern),
			slog.Int("status", p.Status), slog.Any("error", p.Err), slog.Int("not_logged", silent))
	}
}

// noteEvery bounds how often failures of one route are logged, because a store that is down fails every request.
const noteEvery = time.Second

// notes remember the last log line of each route. The zero notes work.
type notes struct {
	mu   sync.Mutex
	last map[string]noted
}

type noted struct {
	at     time.Time
	silent int // failures since then that were not logged
}

// take reports whether to log a failure, and how many failures were not logged since the last one that was.
func (n *notes) take(route string, now time.Time) (silent int, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.last == nil {
		n.last = map[string]noted{}
	}
	last := n.last[route]
	if now.Sub(last.at) < noteEvery {
		n.last[route] = noted{last.at, last.silent + 1}
		return 0, false
	}
	n.last[route] = noted{at: now}
	return last.silent, true
}

// writeProblem answers in the form of RFC 9457. Its type is about:blank: the status says it all.
func writeProblem(w http.ResponseWriter, p *problem) {
	type fieldError struct {
		Detail  string `json:"detail"`
		Pointer string `json:"pointer"` // RFC 6901, into the body that was sent
	}
	body := struct {
		Title  string       `json:"title"`
		Status int          `json:"status"`
		Detail string       `json:"detail,omitempty"`
		Errors []fieldError `json:"errors,omitempty"`
	}{Title: http.StatusText(p.Status), Status: p.Status, Detail: p.Detail}
	for _, field := range fields {
		if text := p.Faults[field]; text != "" {
			body.Errors = append(body.Errors, fieldError{Detail: text, Pointer: "#/" + field})
		}
	}
	writeJSON(w, "application/problem+json", p.Status, body)
}

func writeJSON(w http.ResponseWriter, contentType string, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil { // a programmer's mistake: the types are fixed
		panic(err)
	}
	w.Header().Set("Content-Type", contentType)
	w.Header().Add("Vary", "Accept")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)+1))
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // the client may have gone
}

// wantsJSON reports whether the client is a program: it sent JSON, or it prefers JSON to HTML.
func wantsJSON(r *http.Request) bool {
	if isJSON(mediaType(r)) {
		return true
	}
	var asJSON, asHTML float64
	for _, part := range strings.Split(strings.Join(r.Header.Values("Accept"), ","), ",") {
		t, params, err := mime.ParseMediaType(part)
		if err != nil {
			continue
		}
		q := 1.0
		if text, ok := params["q"]; ok {
			if q, err = strconv.ParseFloat(text, 64); err != nil {
				continue
			}
		}
		switch {
		case isJSON(t) || t == "application/*":
			asJSON = max(asJSON, q)
		case slices.Contains([]string{"text/html", "application/xhtml+xml", "text/*"}, t):
			asHTML = max(asHTML, q)
		}
	}
	return asJSON > 0 && asJSON >= asHTML
}

func isJSON(mediaType string) bool {
	return mediaType == "application/json" || strings.HasPrefix(mediaType, "application/") && strings.HasSuffix(mediaType, "+json")
}

// mediaType returns the type of the request's body. It is empty for a missing or malformed header.
func mediaType(r *http.Request) string {
	t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return t
}
