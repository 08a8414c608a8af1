package assets

import (
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/millrace-go/millrace/internal/seldom"
	"github.com/millrace-go/millrace/storage"
)

// container is where the programs on a store publish their files.
const container = "assets"

// patience is how long a handler waits for the store.
const patience = 5 * time.Second

// A HandlerConfig says what a handler knows besides the files of its set. The zero HandlerConfig works.
type HandlerConfig struct {
	// Store is where other versions of the program have published their files. Defaults to none, so the handler serves
	// the set's own files alone.
	Store *storage.Store

	// Fail answers with a status: 404 for a file that nobody has, and 503 while the store is away. The header says
	// already that nobody may keep the answer. Defaults to a line of text.
	Fail func(w http.ResponseWriter, r *http.Request, status int)
}

// Handler serves the files at Config.Path. It answers GET and HEAD, with conditions and ranges.
func (s *Set) Handler(cfg HandlerConfig) http.Handler {
	h := &handler{set: s, answer: cfg.Fail}
	if cfg.Store != nil {
		h.others = newShelf(cfg.Store)
	}
	if h.answer == nil {
		h.answer = func(w http.ResponseWriter, _ *http.Request, status int) {
			http.Error(w, http.StatusText(status), status)
		}
	}
	return h
}

type handler struct {
	set    *Set
	others *shelf // nil without a store
	answer func(w http.ResponseWriter, r *http.Request, status int)
	lines  seldom.Lines
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, ok := strings.CutPrefix(r.URL.Path, h.set.cfg.Path)
	if !ok {
		h.fail(w, r, http.StatusNotFound)
		return
	}
	f := h.set.served[name]
	if f == nil {
		if own := h.set.files[name]; own != nil { // a plain name, as a script or a person writes it
			w.Header().Set("Cache-Control", "no-store")
			http.Redirect(w, r, own.local, http.StatusTemporaryRedirect)
			return
		}
		var err error
		if f, err = h.other(r.Context(), name); err != nil {
			h.lines.Log(r, h.set.cfg.Logger, slog.LevelWarn, "a static file of another version can't be read", "", slog.Any("error", err))
			w.Header().Set("Retry-After", "1")
			h.fail(w, r, http.StatusServiceUnavailable)
			return
		}
	}
	if f == nil {
		h.fail(w, r, http.StatusNotFound)
		return
	}
	if f.small != nil && accepts(r.Header.Values("Accept-Encoding")) && r.Header.Get("Range") == "" {
		if r.Header.Get("If-None-Match") == "" { // net/http leaves the length of coded content to those who know it
			w = sized{w, len(f.packed)}
		}
		f.small.ServeHTTP(w, r)
		return
	}
	f.plain.ServeHTTP(w, r)
}

// sized adds the length of a body to an answer that is whole.
type sized struct {
	http.ResponseWriter
	length int
}

// WriteHeader implements http.ResponseWriter.
func (w sized) WriteHeader(status int) {
	if status == http.StatusOK {
		w.Header().Set("Content-Length", strconv.Itoa(w.length))
	}
	w.ResponseWriter.WriteHeader(status)
}

// fail answers that there is no file. A cache that kept such an answer would have it still when the file is there.
func (h *handler) fail(w http.ResponseWriter, r *http.Request, status int) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	h.answer(w, r, status)
}

// accepts reports whether a client takes gzip: RFC 9110, section 12.5.3, without weights other than 0.
func accepts(headers []string) bool {
	for _, header := range headers {
		for part := range strings.SplitSeq(header, ",") {
			coding, params, _ := strings.Cut(part, ";")
			weight := strings.ReplaceAll(params, " ", "")
			none := weight == "q=0" || strings.HasPrefix(weight, "q=0.") && strings.Trim(weight[4:], "0") == ""
			if strings.EqualFold(strings.TrimSpace(coding), "gzip") {
				return !none
			}
		}
	}
	return false
}

// other returns a file that another version of the program has published, or nil. A document that isn't what its name
// says is no such file: its writer was no program that publishes.
func (h *handler) other(ctx context.Context, name string) (*file, error) {
	plain, ok := plainName(name)
	if h.others == nil || !ok || len(name) > maxName+digits+1 || strings.ContainsFunc(name, strange) {
		return nil, nil
	}
	f, err := h.others.get(ctx, name, plain)
	if err != nil || f == nil || f.name != name {
		return nil, err
	}
	return f, nil
}
