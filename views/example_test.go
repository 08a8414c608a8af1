package views_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/storage/sqlite"
	"github.com/millrace-go/millrace/views"
	"github.com/millrace-go/millrace/worker"
)

// SeatTaken is an event.
type SeatTaken struct {
	Date string `json:"date"`
	Seat int    `json:"seat"`
}

// MessageID is the event's own ID: a seat is taken once on a date.
func (e SeatTaken) MessageID() string { return fmt.Sprintf("%s/%d", e.Date, e.Seat) }

// Kind names it on the wire.
func (SeatTaken) Kind() channel.Kind { return "example.seat-taken.v1" }

// Seats is a view of one date.
type Seats struct {
	Taken int `json:"taken"`
}

// Take folds an event. Counting is order-free.
func (s Seats) Take(SeatTaken) Seats {
	s.Taken++
	return s
}

// A view is registered beside the other handlers, and served over HTTP from memory.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	folder, err := os.MkdirTemp("", "views")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	store, err := sqlite.Open(ctx, filepath.Join(folder, "example.db"))
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	routes, err := channel.NewRoutes(channel.Event[SeatTaken]("seats")) // the group has the view's name
	if err != nil {
		log.Fatal(err)
	}
	channels, err := channel.New(store, routes, "/example")
	if err != nil {
		log.Fatal(err)
	}

	handled := make(chan error)
	tell := func(next handlers.Next) handlers.Next {
		return func(ctx context.Context, d *handlers.Delivery) error {
			err := next(ctx, d)
			handled <- err
			return err
		}
	}
	h := handlers.NewRegistry(channels, handlers.Config{Middleware: []handlers.Middleware{tell}})
	seats := views.New(channels, "seats", views.Config[Seats]{})
	views.Project(h, seats, func(e SeatTaken) string { return e.Date }, Seats.Take)
	w, err := worker.New(h, worker.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		log.Fatal(err)
	}
	go func() { _ = w.Run(ctx) }()

	// The second event comes twice and counts once.
	first, second := SeatTaken{"2026-12-24", 1}, SeatTaken{"2026-12-24", 2}
	if err := channels.Send(ctx, first, second, second); err != nil {
		log.Fatal(err)
	}
	for range 3 {
		if err := <-handled; err != nil {
			log.Fatal(err)
		}
	}

	mux := http.NewServeMux()
	mux.Handle("/seats/{date}", seats.Handler(
		func(r *http.Request) string { return r.PathValue("date") },
		func(_ string, s Seats) any { return s },
	))
	r := httptest.NewRequest("GET", "/seats/2026-12-24", nil)
	answer := httptest.NewRecorder()
	mux.ServeHTTP(answer, r)
	fmt.Println(answer.Code, strings.TrimSpace(answer.Body.String()))

	r.Header.Set("If-None-Match", answer.Header().Get("ETag"))
	answer = httptest.NewRecorder()
	mux.ServeHTTP(answer, r)
	fmt.Println(answer.Code)
	// Output:
	// 200 {"taken":2}
	// 304
}
