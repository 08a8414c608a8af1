package boot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/doorbell"
	"github.com/millrace-go/millrace/storage/driver"
)

const (
	// readyTimeout is longer than a driver needs to give up on a store that refuses connections, 3 s at most. With
	// less, the answer and the log would know no other cause than the deadline.
	readyTimeout = 4 * time.Second
	readyFor     = time.Second // how long an answer of the store counts, so that frequent requests cost nothing
)

// NewMetrics returns a registry with the metrics of the process and of the Go runtime.
func NewMetrics() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), collectors.NewBuildInfoCollector())
	return r
}

// Ops returns the handler for operators' requests:
//
//	GET /healthz   200 while the process answers at all
//	GET /readyz    200 while it should get work; 503, with the cause, once stopping is closed, when healthy returns an
//	               error, or when the store can't be read and the spool takes nothing
//	GET /metrics   for Prometheus
//
// spool may be nil. notes tells what else is worth to know of a program that doesn't stop; nil: nothing. Everybody may
// read it.
func Ops(store *storage.Store, metrics *prometheus.Registry, stopping <-chan struct{}, log *slog.Logger, healthy func() error, spool Spool, notes func() string) http.Handler {
	if notes == nil {
		notes = func() string { return "" }
	}
	r := &readiness{store: store, stopping: stopping, healthy: healthy, spool: spool, notes: notes, log: log}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, "alive") })
	mux.Handle("GET /readyz", r)
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{Registry: metrics}))
	return mux
}

// A Spool keeps messages while the store is away. Takes returns an error when it takes none; everybody may read it.
type Spool interface {
	Takes() error
	Waiting() int64
}

// readiness answers /readyz.
type readiness struct {
	store    *storage.Store
	stopping <-chan struct{}
	healthy  func() error
	spool    Spool // nil for none
	notes    func() string
	log      *slog.Logger

	mu    sync.Mutex // held during the store's read, so that one read serves all requests that wait
	asked time.Time
	err   error
}

func (r *readiness) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	select {
	case <-r.stopping:
		answer(w, http.StatusServiceUnavailable, "not ready: stopping")
		return
	default:
	}
	if err := r.healthy(); err != nil {
		answer(w, http.StatusServiceUnavailable, "not ready: "+err.Error()+r.notes())
		return
	}
	err := r.check()
	var full error
	spooled := ""
	if r.spool != nil {
		if full = r.spool.Takes(); full != nil {
			spooled = "; the spool takes nothing: " + full.Error()
		}
		if n := r.spool.Waiting(); n > 0 && err == nil {
			spooled = fmt.Sprintf(": %d in the spool, on the way to the store", n) + spooled
		}
	}
	switch {
	case err == nil:
		answer(w, http.StatusOK, "ready"+spooled+r.notes())
	case r.spool != nil && full == nil:
		answer(w, http.StatusOK, fmt.Sprintf("ready: the spool takes messages, and holds %d; can't read from the store: %s%s", r.spool.Waiting(), cause(err), r.notes()))
	default:
		answer(w, http.StatusServiceUnavailable, "not ready: can't read from the store: "+cause(err)+spooled+r.notes())
	}
}

// check reads from the store. It doesn't write: a program whose disk is full can still show what is there, and
// answers a request that it can't take with a 503 of its own.
func (r *readiness) check() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.asked.IsZero() && time.Since(r.asked) < readyFor {
		return r.err
	}
	// The request's context doesn't fit: other requests wait for this answer too.
	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
	defer cancel()
	_, err := r.store.Blobs("health").Get(ctx, "ready", "")
	if errors.Is(err, storage.ErrNotFound) {
		err = nil // nobody ever writes it
	}
	if err != nil {
		r.log.Warn("not ready: can't read from the store", "error", err)
	}
	r.asked, r.err = time.Now(), err
	return err
}

// cause says why the store can't be read, without an address, path, account or key: the web serves /readyz to
// everybody who sees its pages. The log has the whole error.
func cause(err error) string {
	var (
		public driver.PublicError
		system syscall.Errno
		name   *net.DNSError
	)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("no answer within %v", readyTimeout)
	case errors.As(err, &public):
		return public.Public()
	case errors.As(err, &system):
		return system.Error()
	case errors.As(err, &name):
		return "the host name can't be resolved"
	case errors.Is(err, storage.ErrUnavailable):
		return "the store is unavailable; see the log"
	}
	return "see the log"
}

func answer(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n") // the client may have gone
}

// DoorbellMetrics are the metrics of the rings between processes.
func DoorbellMetrics(rings func() doorbell.Counts) (all []prometheus.Collector) {
	for what, count := range map[string]func(doorbell.Counts) int64{
		"sent":     func(c doorbell.Counts) int64 { return c.Sent },
		"accepted": func(c doorbell.Counts) int64 { return c.Accepted },
		"repeated": func(c doorbell.Counts) int64 { return c.Repeated },
		"refused":  func(c doorbell.Counts) int64 { return c.Refused },
	} {
		all = append(all, prometheus.NewCounterFunc(prometheus.CounterOpts{
			Namespace: "millrace", Name: "doorbell_rings_total", Help: "Rings between processes.", ConstLabels: prometheus.Labels{"what": what},
		}, func() float64 { return float64(count(rings())) }))
	}
	return all
}
