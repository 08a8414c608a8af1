package millracetest

import (
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/poison"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/values"
	"github.com/millrace-go/millrace/views"
	"github.com/millrace-go/millrace/worker"
)

// A Program is the program under test.
type Program struct {
	// Routes returns the routes.
	Routes func() (*channel.Routes, error)

	// Register registers the handlers. It is called once for each process.
	Register func(*handlers.Registry) error

	// Queues holds the settings of single queues, as worker.Config does. Defaults to none.
	Queues map[string]worker.QueueConfig

	// InSteps has Run use a store that takes the steps of a unit of work one by one, as Azure Storage does. Defaults to
	// one that takes them as a whole.
	InSteps bool

	// Handlers is how handlers are run, as in host.Program. All processes of the program share it. The laws of Simulate
	// repeat decisions with its Middleware, too, so that gives a message the same verdict each time. Defaults to the zero
	// Config, with the kit's logger.
	Handlers handlers.Config
}

// source is the source of the messages that a test sends.
const source = "/millracetest"

// channels makes the channels of one process.
func (p Program) channels(s *storage.Store) (*channel.Channels, error) {
	if p.Routes == nil || p.Register == nil {
		return nil, errors.New("millracetest: a Program needs Routes and Register")
	}
	routes, err := p.Routes()
	if err != nil {
		return nil, err
	}
	return channel.New(s, routes, source)
}

// watches are what a run sees of a process beside its calls of the store. Each may be nil.
type watches struct {
	reaction func(h *wire.Handling, once bool) (done func(error))
	fold     func(container, key string, body []byte, messages []wire.Folded)
	clock    func() time.Time
}

// register makes the memory of one worker process.
func (p Program) register(s *storage.Store, log *slog.Logger, w watches) (*handlers.Registry, error) {
	c, err := p.channels(s)
	if err != nil {
		return nil, err
	}
	o := c.Outbox()
	o.Watch, o.Folded, o.Clock = w.reaction, w.fold, w.clock
	cfg := p.Handlers
	if cfg.Logger == nil {
		cfg.Logger = log
	}
	h := handlers.NewRegistry(c, cfg)
	if err := p.Register(h); err != nil {
		return nil, fmt.Errorf("register: %w", err)
	}
	return h, h.Err()
}

// Value returns a document of a collection of value objects, as it is stored.
func Value[V any](t testing.TB, c *values.Collection[V], key string) V {
	t.Helper()
	s, err := c.Get(t.Context(), key, "")
	if err != nil {
		t.Fatal(err)
	}
	return s.Value
}

// View returns a document of a view, as it is stored.
func View[V any](t testing.TB, v *views.View[V], key string) V {
	t.Helper()
	x, _, err := v.GetFresh(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// poisoned lists all messages in the poison queues of a program's queues.
func poisoned(t testing.TB, c *channel.Channels) []poison.Entry {
	t.Helper()
	var all []poison.Entry
	for _, q := range c.Routes().Queues() {
		for e, err := range poison.At(c, q).List(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, e)
		}
	}
	return all
}

// describe says what is in the poison queue, and why.
func describe(e poison.Entry) string {
	return fmt.Sprintf("queue %s: %s %s is in the poison queue (%s): %s\n%s", e.Queue, e.Kind, e.ID, e.Reason, e.Error, e.Body)
}

// lanesOf returns the queues of the store that hold the messages of a queue.
func lanesOf(c *channel.Channels, queue string) []string {
	if x, ok := c.Routes().Lanes()[queue]; ok {
		return x.Names(queue)
	}
	return []string{queue}
}
