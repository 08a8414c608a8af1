package views

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/millrace-go/millrace/internal/lru"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/values"
)

// loadTime bounds a request that several readers wait for.
const loadTime = 10 * time.Second

// cached is what a reader's memory holds of a document.
type cached[V any] struct {
	snapshot values.Snapshot[folded[V]]
	checked  atomic.Int64 // when the last request that confirmed it began, in nanoseconds after View.start
	kept     time.Time    // when that request's answer came; guarded by View.keeping
}

// rendered is a document as HTTP serves it.
type rendered[V any] struct {
	from    *cached[V]
	content *Content // nil: the document has no content to show
}

// Get returns the document of a key, or the initial view before its first event. The document may be as old as
// Config.Fresh. The value is shared: don't change what it refers to.
func (v *View[V]) Get(ctx context.Context, key string) (V, error) {
	c, err := v.read(ctx, key, v.cfg.Fresh)
	if err != nil {
		var none V
		return none, err
	}
	return c.snapshot.Value.View, nil
}

// GetFresh returns the document of a key as the store has it now, with the number of events that it has folded: 0
// before the first one. An unchanged document costs a conditional read.
func (v *View[V]) GetFresh(ctx context.Context, key string) (view V, version uint64, err error) {
	c, err := v.read(ctx, key, -1)
	if err != nil {
		return view, 0, err
	}
	return c.snapshot.Value.View, c.snapshot.Version, nil
}

// read returns a document that is no older than fresh. Readers of one key share one request. Each reader waits no
// longer than its own context.
func (v *View[V]) read(ctx context.Context, key string, fresh time.Duration) (*cached[V], error) {
	c, ok := v.cached(key, fresh)
	if ok {
		return c, nil
	}
	if err := storage.CheckKey(key); err != nil {
		return nil, err
	}
	if fresh < 0 { // a request that began before now would not be fresh
		return v.load(ctx, key, c)
	}
	result := v.reads.DoChan(key, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), loadTime)
		defer cancel()
		return v.load(ctx, key, c)
	})
	select {
	case r := <-result:
		if r.Err != nil {
			return nil, r.Err
		}
		return r.Val.(*cached[V]), nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// cached returns the document in memory, which may be nil, and whether it is no older than fresh.
func (v *View[V]) cached(key string, fresh time.Duration) (c *cached[V], ok bool) {
	c, ok = v.cache.Get(key)
	return c, ok && time.Since(v.start)-time.Duration(c.checked.Load()) < fresh
}

// load asks the store whether it has another version than known, which may be nil.
func (v *View[V]) load(ctx context.Context, key string, known *cached[V]) (*cached[V], error) {
	began := time.Now()
	var etag storage.ETag
	if known != nil {
		etag = known.snapshot.ETag
	}
	snapshot, err := v.docs.Get(ctx, key, etag)
	switch {
	case err == nil && (known == nil || snapshot.ETag != etag):
		known = &cached[V]{snapshot: snapshot}
	case err != nil && !errors.Is(err, storage.ErrNotModified):
		return nil, err
	}
	return v.keep(key, known, began), nil
}

// keep caches an answer of the store to a request that began at the given time, and returns what is cached afterwards.
// Of requests that overlapped, the one that read the higher version wins, whichever began or ended first: readers of
// one process don't see a view go back. Otherwise the later request wins; its version is lower after a Clear.
func (v *View[V]) keep(key string, c *cached[V], began time.Time) *cached[V] {
	v.keeping.Lock()
	defer v.keeping.Unlock()
	if now, ok := v.cache.Get(key); ok && now.kept.After(began) && now.snapshot.Version >= c.snapshot.Version {
		return now
	}
	c.checked.Store(int64(began.Sub(v.start)))
	c.kept = time.Now()
	v.cache.Add(key, c, c.snapshot.Size)
	return c
}

// Handler serves documents as JSON with ETag, If-None-Match, HEAD and Cache-Control. key takes the document's key from
// the request. render returns the value that is encoded for a view; a nil render shows the view as it is.
//
//   - A document without events is served as its initial view: an empty calendar is a calendar.
//   - Where there is nothing to show, render returns nil, which is answered with 404. A nil slice or map is [] or {}.
//   - The key "" is answered with 404.
//   - A store that fails is answered with 503 and Retry-After.
//
// These errors are problems as in RFC 9457 (application/problem+json).
func (v *View[V]) Handler(key func(*http.Request) string, render func(key string, view V) any) http.Handler {
	s := v.Server(render)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !reads(w, r) {
			return
		}
		k := key(r)
		if storage.CheckKey(k) != nil {
			answerProblem(w, http.StatusNotFound, "there is no view of this name")
			return
		}
		if err := s.Serve(r.Context(), w, r, k); err != nil {
			v.lines.Log(r, v.cfg.Logger, slog.LevelWarn, "a view can't be read", "", slog.String("view", v.Name()), slog.Any("error", err))
			w.Header().Set("Retry-After", "1")
			answerProblem(w, http.StatusServiceUnavailable, "the view can't be read at the moment")
		}
	})
}

// A Server serves documents as [View.Handler] does, for callers that choose the key and word the errors themselves.
// Safe for concurrent use.
type Server[V any] struct {
	view   *View[V]
	render func(key string, view V) any
	kept   *lru.Cache[*rendered[V]]
}

// Server returns a server of the view. render returns the value that is encoded for a document; nil is answered with
// 404. A nil render shows the view as it is.
func (v *View[V]) Server(render func(key string, view V) any) *Server[V] {
	if render == nil {
		render = func(_ string, view V) any { return view }
	}
	return &Server[V]{v, render, lru.New[*rendered[V]](v.cfg.Cache, v.cfg.CacheBytes)}
}

// ServeCached answers with a key's document and reports true, if that is in memory and no older than Config.Fresh.
// Otherwise it answers nothing and reports false. It never waits.
func (s *Server[V]) ServeCached(w http.ResponseWriter, r *http.Request, key string) bool {
	c, ok := s.view.cached(key, s.view.cfg.Fresh)
	if ok {
		s.serve(w, r, key, c)
	}
	return ok
}

// Serve answers with a key's document. ctx bounds the wait for the store. After an error nothing is answered.
func (s *Server[V]) Serve(ctx context.Context, w http.ResponseWriter, r *http.Request, key string) error {
	c, err := s.view.read(ctx, key, s.view.cfg.Fresh)
	if err == nil {
		s.serve(w, r, key, c)
	}
	return err
}

func (s *Server[V]) serve(w http.ResponseWriter, r *http.Request, key string, c *cached[V]) {
	out, ok := s.kept.Get(key)
	if !ok || out.from != c {
		content, err := encode(s.render(key, c.snapshot.Value.View), s.view.cfg.CacheControl)
		if err != nil { // a programmer's mistake, the same for every reader
			s.view.lines.Log(r, s.view.cfg.Logger, slog.LevelError, "a view can't be encoded", "", slog.String("view", s.view.Name()), slog.Any("error", err))
			answerProblem(w, http.StatusInternalServerError, "the view can't be encoded")
			return
		}
		out = &rendered[V]{c, content}
		size := 0
		if content != nil {
			size = len(content.body)
		}
		s.kept.Add(key, out, size)
	}
	if out.content == nil {
		if reads(w, r) {
			answerProblem(w, http.StatusNotFound, "there is nothing here yet")
		}
		return
	}
	out.content.ServeHTTP(w, r)
}

// answerProblem answers in the form of RFC 9457. Caches must not keep it, because the next answer may differ.
func answerProblem(w http.ResponseWriter, status int, detail string) {
	body, _ := json.Marshal(map[string]any{"title": http.StatusText(status), "status": status, "detail": detail})
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // net/http omits the body for HEAD
}

// encode makes the content of a view, or nil if there is nothing to show. The ETag is a digest of the content. So all
// web processes agree on it, and a write that changes nothing visible changes no ETag.
func encode(x any, cacheControl string) (*Content, error) {
	body, err := json.Marshal(x)
	if err != nil {
		return nil, err
	}
	if string(body) == "null" {
		switch v := reflect.ValueOf(x); v.Kind() {
		case reflect.Slice:
			body = []byte("[]")
		case reflect.Map:
			body = []byte("{}")
		default:
			return nil, nil
		}
	}
	sum := sha256.Sum256(body)
	return NewContent(append(body, '\n'), http.Header{
		"Content-Type":  {"application/json"},
		"Cache-Control": {cacheControl},
		"Etag":          {`"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`},
	}), nil
}
