package act

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/ops/catalog"
	"github.com/millrace-go/millrace/ops/internal/known"
	"github.com/millrace-go/millrace/ops/internal/reveal"
	"github.com/millrace-go/millrace/storage"
)

// Source is the source of the messages that operators send.
const Source = "/millrace"

// A Program is the program whose binary does the acts. The zero Program is none: then an act knows what the programs of
// the store have published.
type Program struct {
	Command string // as people type it. Defaults to "millrace".

	Settings string // the name of the program's live settings, for a request that names none; may be empty

	Routes   func() (*channel.Routes, error) // nil: the binary has no program's code
	Register func(*handlers.Registry) error  // may be nil
	Rebuild  map[string]Rebuild              // by view

	// Alias returns other IDs and keys that a person may mean by a word: those of the messages and documents of an order,
	// say. May be nil.
	Alias func(word string) []string
}

// A Rebuild rebuilds a view from values.
type Rebuild struct {
	From  string                                                // the collection of the values
	Clear func(context.Context, *channel.Channels) error        // empties the view
	Run   func(context.Context, *channel.Channels) (int, error) // returns the number of values read
}

// A Desk is an open store with what is known of the programs that use it. Acts are done at a desk. That of acts that
// need no store has a program only.
type Desk struct {
	Program
	Store    *storage.Store // it counts and peeks all lanes of a queue
	Channels *channel.Channels
	Known    *known.Programs
	File     string // of a store in a file; "" for another store

	// Standstill says which process keeps all others from writing to the file, and for how long. who is "" if none does.
	// The function is nil for a store without a file.
	Standstill func(context.Context) (who string, lasted time.Duration, err error)

	// Wake has somebody do in the background what an act has only begun. It is nil where nobody does so: then a person
	// waits for the act.
	Wake func()

	Past     *catalog.History   // what the workers of the store have done
	Registry *handlers.Registry // of the binary's program; nil for none
	Handled  []wire.Handled     // by that registry

	plain    *storage.Store // Store without lanes
	underWay *sync.Map      // the IDs of acts that this process does; copies of the desk share them
	marks    reveal.Marks   // of errors
}

// Open makes a desk of an open store, and looks. The store stays the caller's, who closes it after the last act.
func Open(ctx context.Context, store *storage.Store, p Program) (*Desk, error) {
	d, err := At(store, p)
	if err != nil {
		return nil, err
	}
	return d, d.Look(ctx)
}

// At is Open for a caller who looks later, before the first act. It asks the store nothing.
func At(store *storage.Store, p Program) (*Desk, error) {
	p.Command = cmp.Or(p.Command, "millrace")
	d := &Desk{Program: p, Past: new(catalog.History), plain: store, underWay: new(sync.Map), marks: reveal.NewMarks()}
	routes, err := p.routes()
	if err != nil {
		return nil, err
	}
	if d.Channels, err = channel.New(store, routes, Source); err != nil {
		return nil, err
	}
	if p.Routes != nil {
		d.Registry = handlers.NewRegistry(d.Channels, handlers.Config{Logger: slog.New(slog.DiscardHandler)})
		if p.Register != nil {
			err = p.Register(d.Registry)
		}
		if err = cmp.Or(err, d.Registry.Err()); err != nil {
			return nil, err
		}
		d.Handled = d.Registry.Inside().Handlers.About()
	}
	return d, nil
}

// Look reads again what the programs have published.
func (d *Desk) Look(ctx context.Context) (err error) {
	var own *catalog.Description
	if d.Routes != nil {
		x := catalog.Describe(d.Registry, catalog.Program{Name: d.Command})
		own = &x
	}
	if d.Known, err = known.Read(ctx, d.plain, own); err != nil {
		return err
	}
	d.Store, err = wire.WithLanes(d.plain, d.Known.Lanes())
	return err
}

// routes returns the routes of the program, or none.
func (p Program) routes() (*channel.Routes, error) {
	if p.Routes == nil {
		return channel.NewRoutes()
	}
	return p.Routes()
}

// Unpublished says what to do where nothing is known of any program. It is "" elsewhere.
func (d *Desk) Unpublished() string {
	if !d.Known.Nobody() {
		return ""
	}
	return fmt.Sprintf("; no program has published what it knows in this store: start a worker of package host, or use the program's own binary in place of %s", d.Command)
}
