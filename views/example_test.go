package views_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/storage/sqlite"
	"github.com/millrace-go/millrace/views"
)

// SeatTaken is an event.
type SeatTaken struct {
	Date string `json:"date"`
}

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
	ctx := context.Background()
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

	h := handlers.NewRegistry(channels, handlers.Config{})
	seats := views.New(channels, "seats", views.Config[Seats]{})
	views.Project(h, seats, func(e SeatTaken) string { return e.Date }, Seats.Take)
	if err := h.Err(); err != nil {
		log.Fatal(err)
	}

	// A worker would receive these. The second event comes twice and counts once.
	first, second := seatTaken(h, "1", "2026-12-24"), seatTaken(h, "2", "2026-12-24")
	group, _ := first.Group()
	handlers.Handle(ctx, group, []*handlers.Delivery{first, second, second}, nil)

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

func seatTaken(h *handlers.Registry, id, date string) *handlers.Delivery {
	e := &channel.Envelope{ID: id, Source: "/example", Kind: "example.seat-taken.v1", Data: []byte(`{"date":"` + date + `"}`)}
	d, err := h.Resolve("seats", e)
	if err != nil {
		log.Fatal(err)
	}
	return d
}
