// Package site is the HTTP side of the sample: the same few addresses for people, as pages, and for
// programs, as JSON.
//
//	GET  /                          the month's calendar, ?month=2026-12
//	GET  /reservations/new          the form, ?date=2026-12-24
//	POST /reservations              asks for a table: 202, or 303 to the receipt; 429 for whoever asks too often
//	GET  /reservations              finds a reservation, ?number=1042-9; without a number, a form to ask
//	GET  /reservations/{id}         the receipt
//	GET  /reservations/{id}/events  the receipt as server-sent events, whenever it changes
//	POST /reservations/{id}/cancel  asks to cancel
//	POST /reservations/{id}/wish    asks for a key that uploads a menu wish, by JSON alone
//	…    /files/                    whoever has such a key; see package valet
//	GET  /evenings/{date}           for the kitchen: who comes, with their wishes
//	GET  /views/months/{month}      the calendar's view
//
// A request for a page reads views. A request that changes something sends a command, and is answered before the
// command is decided. The request itself is kept as a document, written in one unit of work with the command, so that
// the receipt is there straight after the POST.
//
// While the store is away, the channels may keep commands in a spool. Then a reservation is accepted without the
// document, and the receipt's address says so, with ?kept=1: there the receipt tells that the request is kept, until
// the reservation is decided.
//
// An answer is JSON when the Accept header prefers it or the request's body is JSON; otherwise it is a page.
// Pages work without JavaScript; an upload needs it.
package site

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/files/assets"
	"github.com/millrace-go/millrace/files/valet"
	"github.com/millrace-go/millrace/sample/reservations"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/throttle"
	"github.com/millrace-go/millrace/views"
)

// Config has the settings of the site. The zero Config works.
type Config struct {
	// Now tells the time, in the location that decides which day it is. Defaults to time.Now, for a server in the
	// restaurant's time zone.
	Now func() time.Time

	// Logger gets failures, without anything personal. Defaults to slog.Default().
	Logger *slog.Logger

	// Assets are the site's static files; see [Assets]. Defaults to those of the program alone.
	Assets *assets.Set

	// Files has the keys of menu wishes, where the store keeps files. Defaults to none, and no wishes.
	Files *valet.Valet

	// KitchenKey is the password of the restaurant's pages; see [CheckKitchenKey]. Defaults to none, and no such pages.
	KitchenKey string

	// Seats is the number of seats a day: the site offers no more at a time. Defaults to reservations.MaxQuantity,
	// which is the most in any case.
	Seats int

	// Season is a year that can't be booked yet. Defaults to none.
	Season *reservations.Season

	// Stopping is closed when the server begins to stop, and ends the event streams, which a graceful
	// shutdown would otherwise wait for. Defaults to never.
	Stopping <-chan struct{}

	// StreamFor bounds how long one event stream lasts; browsers open a new one. Defaults to 2 minutes.
	StreamFor time.Duration

	// MaxStreams bounds how many event streams are open at a time. A further one gets a 503, and its page polls
	// instead. Defaults to 1000.
	MaxStreams int

	// PerAddress is how many reservations may be asked for from one IP address in a minute, and PerMail with one e-mail
	// address in an hour. A request from this machine itself counts for neither, by its connection: it comes from an
	// operator, or, where Proxies is 0, from a proxy that everybody uses. Defaults to no limit.
	PerAddress, PerMail int

	// Proxies is the number of proxies before the server that add to X-Forwarded-For; see throttle.Address. Defaults to
	// 0.
	Proxies int

	// RateLimiter has the metrics and the key of the rate limiters that keep these limits. Its other fields are not
	// used. Defaults to none.
	RateLimiter throttle.Config

	// Timeout bounds how long a request may wait for the store; then it gets a 503. An event stream that has begun
	// has its own bound. Defaults to 10 seconds.
	Timeout time.Duration
}

// A Site is the handler of the site's addresses, all below "/".
type Site struct {
	http.Handler
	limiters *limiters
}

// SetLimits changes Config.PerAddress and Config.PerMail. Earlier requests count on.
func (s *Site) SetLimits(perAddress, perMail int) error {
	if err := s.limiters.set(perAddress, perMail); err != nil {
		return fmt.Errorf("site: %w", err)
	}
	return nil
}

// Asked returns how many requests for a table the limits have let through, and how many they have refused.
func (s *Site) Asked() (let, refused int64) {
	return s.limiters.counts.let.Load(), s.limiters.counts.refused.Load()
}

type site struct {
	makes    *channel.Sender[reservations.MakeReservation]
	cancels  *channel.Sender[reservations.CancelReservation]
	statuses *views.View[reservations.Status]
	requests *storage.Blobs // the requests that were sent, by reservations.Key
	numbers  *storage.Table // see reservations.Numbered
	guests   *storage.Table // see reservations.Guests
	limiters limiters

	reader
	cfg     Config
	streams chan struct{} // holds a token for each open event stream
	answers
}

// New returns a site. It leaves to package host to refuse what pages of other origins send.
func New(channels *channel.Channels, cfg Config) (*Site, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Seats < 0 || cfg.StreamFor < 0 || cfg.MaxStreams < 0 || cfg.Timeout < 0 || cfg.PerAddress < 0 || cfg.PerMail < 0 || cfg.Proxies < 0 {
		return nil, fmt.Errorf("site: Seats is %d, StreamFor %v, MaxStreams %d, Timeout %v, PerAddress %d, PerMail %d, Proxies %d; want none of them negative",
			cfg.Seats, cfg.StreamFor, cfg.MaxStreams, cfg.Timeout, cfg.PerAddress, cfg.PerMail, cfg.Proxies)
	}
	if err := CheckKitchenKey(cfg.KitchenKey); err != nil {
		return nil, fmt.Errorf("site: KitchenKey: %w", err)
	}
	cfg.Seats = min(cmp.Or(cfg.Seats, reservations.MaxQuantity), reservations.MaxQuantity)
	cfg.StreamFor = cmp.Or(cfg.StreamFor, 2*time.Minute)
	cfg.MaxStreams = cmp.Or(cfg.MaxStreams, 1000)
	cfg.Timeout = cmp.Or(cfg.Timeout, 10*time.Second)
	if cfg.Assets == nil {
		var err error
		if cfg.Assets, err = Assets("", cfg.Logger); err != nil {
			return nil, fmt.Errorf("site: %w", err)
		}
	}
	makes, err := channel.NewSender[reservations.MakeReservation](channels)
	if err != nil {
		return nil, fmt.Errorf("site: %w", err)
	}
	cancels, err := channel.NewSender[reservations.CancelReservation](channels)
	if err != nil {
		return nil, fmt.Errorf("site: %w", err)
	}
	s := &site{
		makes: makes, cancels: cancels,
		reader: reader{reservations.Months(channels), channels.Spools()}, statuses: reservations.Statuses(channels),
		requests: channels.Store().Blobs(requestsContainer), numbers: channels.Store().Table("numbers"), guests: channels.Store().Table("reservations"),
		cfg: cfg, streams: make(chan struct{}, cfg.MaxStreams), answers: answers{log: cfg.Logger, pages: loadPages(cfg.Assets)},
	}
	if s.limiters, err = newLimiters(cfg, knownBy(s.requested)); err != nil {
		return nil, fmt.Errorf("site: %w", err)
	}
	return &Site{s.handler(cfg.Assets.Handler(assets.HandlerConfig{Store: channels.Store(), Fail: s.failStatic})), &s.limiters}, nil
}

func (s *site) handler(static http.Handler) http.Handler {
	known := map[string]http.HandlerFunc{
		"GET /{$}":                       s.serve(s.calendar),
		"GET /reservations/new":          s.serve(s.form),
		"POST /reservations":             s.serve(s.book),
		"GET /reservations":              s.serve(s.find),
		"GET /reservations/{id}":         s.serve(s.receipt),
		"GET /reservations/{id}/events":  s.serve(s.events),
		"POST /reservations/{id}/cancel": s.serve(s.cancel),
		"GET /reservations/{id}/cancel":  s.afterCancel,
		"GET /views/months/{month}":      s.monthView(),
		"GET /static/":                   static.ServeHTTP,
	}
	if s.cfg.Files != nil {
		known["POST /reservations/{id}/wish"] = s.serve(s.wish)
		known[filesPath] = s.cfg.Files.ServeHTTP
	}
	if s.cfg.KitchenKey != "" {
		known["GET /evenings/{date}"] = s.serve(s.evening)
	}
	mux, strict := http.NewServeMux(), http.NewServeMux() // strict tells 404 from 405; a mux with "/" can't
	for pattern, h := range known {
		mux.HandleFunc(pattern, h)
		strict.HandleFunc(pattern, h)
	}
	mux.HandleFunc("/", s.unknown(strict))
	return securityHeaders(mux, s.cfg.Assets.Sources())
}

// failStatic answers for a static file that isn't there, or can't be read now.
func (s *site) failStatic(w http.ResponseWriter, r *http.Request, status int) {
	s.fail(w, r, &problem{Status: status})
}

// unknown answers addresses that match no route with a page of the site. The status (404 or 405) and the headers are
// those of a mux that has only the known routes.
func (s *site) unknown(known *http.ServeMux) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		only := statusOnly{header: w.Header()}
		known.ServeHTTP(&only, r)
		s.fail(w, r, &problem{Status: only.status})
	}
}

type statusOnly struct {
	header http.Header
	status int
}

func (w *statusOnly) Header() http.Header         { return w.header }
func (w *statusOnly) WriteHeader(status int)      { w.status = status }
func (w *statusOnly) Write(b []byte) (int, error) { return len(b), nil }

// A handler gets two contexts: ctx bounds its calls of the store, and the request's own ends when the client has
// gone.
type handler func(ctx context.Context, w http.ResponseWriter, r *http.Request) error

// serve turns a handler's error into an answer. A *problem says what to answer; any other error comes from the store,
// or from a wait for the store that took too long.
func (s *site) serve(h handler) http.HandlerFunc {
	late := fmt.Errorf("the request took longer than %v", s.cfg.Timeout)
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeoutCause(r.Context(), s.cfg.Timeout, late)
		defer cancel()
		if err := h(ctx, w, r); err != nil {
			s.fail(w, r, err)
		}
	}
}

// security are the headers of every answer, in the form that a server uses. Nothing changes them.
var security = http.Header{
	"X-Content-Type-Options": {"nosniff"},
	"X-Frame-Options":        {"DENY"},
	// A receipt's address is the right to cancel, so no other site may learn it. The stricter no-referrer would turn
	// the Origin of our own forms into "null", which package host must refuse.
	"Referrer-Policy":              {"same-origin"},
	"Cross-Origin-Opener-Policy":   {"same-origin"},
	"Cross-Origin-Resource-Policy": {"same-origin"},
	"Permissions-Policy":           {"camera=(), geolocation=(), microphone=()"},
}

// policy says what pages may load from where. static are the sources of static files, and wishes those of menu wishes
// besides the site itself.
func policy(static string, wishes ...string) []string {
	more := strings.Join(append([]string{""}, wishes...), " ")
	return []string{"default-src 'none'; script-src " + static + "; style-src " + static + "; img-src " + static + more +
		"; connect-src 'self'" + more + "; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"}
}

// securityHeaders adds these headers. sources are those of static files.
func securityHeaders(next http.Handler, sources string) http.Handler {
	policy := policy(sources)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		maps.Copy(h, security)
		h["Content-Security-Policy"] = policy
		if r.TLS != nil {
			h.Set("Strict-Transport-Security", "max-age=31536000")
		}
		next.ServeHTTP(w, r)
	})
}
