package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/azure"
	"github.com/millrace-go/millrace/storage/doorbell"
	"github.com/millrace-go/millrace/storage/sqlite"
	"github.com/millrace-go/millrace/values"
	"github.com/millrace-go/millrace/worker"
)

// A tick is a command for a value object. It has an ID of its own only if it is to be replayed.
type tick struct {
	Key     string `json:"key"`
	Payload string `json:"payload"`
	ID      string `json:"-"`
}

// A ticked is the event of a tick.
type ticked struct {
	Count int64 `json:"count"`
}

// A noop is a message whose handler does nothing.
type noop struct {
	Payload string `json:"payload"`
}

func (tick) Kind() channel.Kind   { return "curves.tick.v1" }
func (t tick) MessageID() string  { return t.ID }
func (ticked) Kind() channel.Kind { return "curves.ticked.v1" }
func (noop) Kind() channel.Kind   { return "curves.noop.v1" }

// A counter is a value object that stays small.
type counter struct {
	Count int64 `json:"count"`
}

func (c counter) decide(tick) (counter, []channel.Message, error) {
	c.Count++
	return c, []channel.Message{ticked(c)}, nil
}

const (
	ticks = "ticks" // the queue of commands
	told  = "told"  // the group that subscribes to events
	noops = "noops" // the queue of noops
)

// A world has the open store, senders and handlers of a process.
type world struct {
	store    *storage.Store
	counted  *counted
	channels *channel.Channels
	ticks    *channel.Sender[tick]
	noops    *channel.Sender[noop]
	counters *values.Collection[counter]
	registry *handlers.Registry
}

// plan says for which messages a world has handlers.
type plan struct {
	Ticks  bool          `json:"ticks"`  // commands; otherwise noops
	Told   bool          `json:"told"`   // and a subscriber of their events
	Takes  time.Duration `json:"takes"`  // how long a noop takes
	Window int           `json:"window"` // of the replay record
}

// queue is the queue of the plan's messages.
func (p plan) queue() string {
	if p.Ticks {
		return ticks
	}
	return noops
}

// last is the queue in which the plan ends: it has one message for each that came in.
func (p plan) last() string {
	if p.Told {
		return told
	}
	return p.queue()
}

var quiet = slog.New(slog.DiscardHandler)

// open opens a store as the sample's programs do, and registers the plan's handlers.
func open(ctx context.Context, url string, p plan) (*world, error) {
	opened, err := storage.Drivers{sqlite.Driver, azure.Driver}.Open(ctx, url, storage.OpenConfig{})
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(url, "azure:") {
		rung, err := doorbell.Over(opened, doorbell.Config{Listen: "127.0.0.1:0", Logger: quiet})
		if err != nil {
			return nil, errors.Join(err, opened.Close())
		}
		opened = rung.Store
	}
	w := &world{counted: &counted{Store: opened.Driver()}}
	w.store = storage.New(w.counted)
	if err := w.register(p); err != nil {
		return nil, errors.Join(err, opened.Close())
	}
	return w, nil
}

func (w *world) register(p plan) error {
	var groups []string
	if p.Told {
		groups = []string{told}
	}
	routes, err := channel.NewRoutes(channel.Command[tick](ticks), channel.Command[noop](noops), channel.Event[ticked](groups...))
	if err != nil {
		return err
	}
	if w.channels, err = channel.New(w.store, routes, "/curves"); err != nil {
		return err
	}
	if w.ticks, err = channel.NewSender[tick](w.channels); err != nil {
		return err
	}
	if w.noops, err = channel.NewSender[noop](w.channels); err != nil {
		return err
	}
	w.counters = values.New(w.channels, "curves", values.Config[counter]{Window: p.Window})
	w.registry = handlers.NewRegistry(w.channels, handlers.Config{Logger: quiet})
	switch {
	case p.Ticks:
		handlers.Decide(w.registry, w.counters, func(t tick) string { return t.Key }, counter.decide, ticked{})
		if p.Told {
			handlers.React(w.registry, told, func(context.Context, ticked) error { return nil })
		}
	case p.Takes > 0:
		handlers.React(w.registry, noops, func(ctx context.Context, _ noop) error {
			select {
			case <-time.After(p.Takes):
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
	default:
		handlers.React(w.registry, noops, func(context.Context, noop) error { return nil })
	}
	return w.registry.Err()
}

// work runs a worker until done returns true, and returns how long that took. It calls done every look, with the
// number of the queue's messages that the worker has handled.
func (w *world) work(ctx context.Context, cfg worker.Config, queue string, look time.Duration, done func(handled int64) (bool, error)) (took time.Duration, err error) {
	x, err := worker.New(w.registry, cfg)
	if err != nil {
		return 0, err
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	began := time.Now()
	go func() { ended <- x.Run(running) }()
	defer func() {
		stop()
		if e := <-ended; err == nil {
			err = e
		}
	}()
	err = until(ctx, look, func() (bool, error) {
		select {
		case e := <-ended:
			ended <- nil
			return true, errors.Join(errors.New("the worker has ended"), e)
		default:
		}
		over, e := done(x.Handled(queue))
		took = time.Since(began)
		return over, e
	})
	return took, err
}

// drain runs a worker until it has handled n messages.
func (w *world) drain(ctx context.Context, cfg worker.Config, queue string, n int) (time.Duration, error) {
	return w.work(ctx, cfg, queue, time.Millisecond, func(handled int64) (bool, error) { return handled >= int64(n), nil })
}

// until repeats done until it returns true, fails or ctx ends.
func until(ctx context.Context, pause time.Duration, done func() (bool, error)) error {
	t := time.NewTicker(pause)
	defer t.Stop()
	for {
		over, err := done()
		if over || err != nil {
			return err
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// fill sends n messages in batches.
func fill[M channel.Message](ctx context.Context, s *channel.Sender[M], n, batch int, message func(i int) M) error {
	for sent := 0; sent < n; {
		all := make([]M, min(batch, n-sent))
		for i := range all {
			all[i] = message(sent + i)
		}
		if err := s.Send(ctx, all...); err != nil {
			return fmt.Errorf("after %d of %d messages: %w", sent, n, err)
		}
		sent += len(all)
	}
	return nil
}

// payload is a string for a message of about that many bytes.
func payload(size int) string { return strings.Repeat("0123456789", size/10+1)[:size] }

const small = 180 // bytes of payload in a body of some 200
