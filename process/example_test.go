package process_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/process"
	"github.com/millrace-go/millrace/storage/sqlite"
	"github.com/millrace-go/millrace/worker"
)

// Trip is the state of a plan.
type Trip struct {
	To     string `json:"to"`
	Flight string `json:"flight,omitempty"`
	Hotel  string `json:"hotel,omitempty"`
	Paid   int    `json:"paid,omitempty"`
}

// The methods of Trip take results and signals into it. They are pure.

func (t Trip) Flying(flight string) Trip { t.Flight = flight; return t }
func (t Trip) Staying(hotel string) Trip { t.Hotel = hotel; return t }
func (t Trip) Settled(p Payment) Trip    { t.Paid = p.Euros; return t }

// Payment is a signal.
type Payment struct {
	Euros int `json:"euros"`
}

// Kind is the name on the wire.
func (Payment) Kind() channel.Kind { return "travel.payment.v1" }

// The agents have effects. They are called at least once for a step, always with the same process.Key.

func bookFlight(_ context.Context, t Trip) (string, error) { return "flight to " + t.To, nil }

func bookHotel(_ context.Context, t Trip) (string, error) {
	if t.To == "Atlantis" {
		return "", process.Refuse(errors.New("no room"))
	}
	return "room in " + t.To, nil
}

func cancelFlight(_ context.Context, _ Trip, flight string) error {
	fmt.Println("cancelled:", flight)
	return nil
}

func trip(p *process.Plan[Trip]) {
	process.Do(p, "flight", bookFlight, Trip.Flying).Undo(cancelFlight)
	process.Do(p, "hotel", bookHotel, Trip.Staying)
	process.Wait(p, "payment", Trip.Settled)
}

// A trip is a flight, a hotel and a payment. Where there is no hotel, the flight is cancelled.
func Example() {
	dir, err := os.MkdirTemp("", "process")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx, stop := context.WithCancel(context.Background())
	store, err := sqlite.Open(ctx, filepath.Join(dir, "travel.db"))
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()

	routes, err := channel.NewRoutes(process.Route("trip"))
	if err != nil {
		log.Fatal(err)
	}
	channels, err := channel.New(store, routes, "/travel")
	if err != nil {
		log.Fatal(err)
	}
	registry := handlers.NewRegistry(channels, handlers.Config{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err := process.Register(registry, "trip", process.Version(1, trip)); err != nil {
		log.Fatal(err)
	}
	w, err := worker.New(registry, worker.Config{})
	if err != nil {
		log.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- w.Run(ctx) }()

	trips := process.Open[Trip](channels, "trip")
	for id, to := range map[string]string{"ada": "Rome", "bob": "Atlantis"} {
		if err := trips.Start(ctx, id, Trip{To: to}); err != nil {
			log.Fatal(err)
		}
	}
	if err := trips.Signal(ctx, "ada", Payment{900}); err != nil { // it may be early
		log.Fatal(err)
	}
	for _, id := range []string{"ada", "bob"} {
		s, err := trips.Await(ctx, id)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: %s, error %q, %+v\n", id, s.Status, s.Error, s.State)
	}
	stop()
	if err := <-ended; err != nil {
		log.Fatal(err)
	}
	// Unordered output:
	// cancelled: flight to Atlantis
	// ada: completed, error "", {To:Rome Flight:flight to Rome Hotel:room in Rome Paid:900}
	// bob: aborted, error "refused: no room", {To:Atlantis Flight:flight to Atlantis Hotel: Paid:0}
}

// Version 2 has another name for a step, and a step more. A test asks whether instances of version 1 can go on by it.
func ExampleCheck() {
	newTrip := func(p *process.Plan[Trip]) {
		process.Do(p, "flight", bookFlight, Trip.Flying).Undo(cancelFlight)
		process.Do(p, "room", bookHotel, Trip.Staying)
		process.Then(p, "discount", func(t Trip) Trip { return t })
		process.Wait(p, "payment", Trip.Settled)
	}
	one, two := process.Version(1, trip), process.Version(2, newTrip)
	fmt.Println(process.Check(one, two))
	fmt.Println(process.Check(one, two, process.Renamed("hotel", "room")))
	// Output:
	// process: check: an instance of version 1 that waits for hotel can't go on by version 2
	// keep version 1, or say what was renamed
	// <nil>
}
