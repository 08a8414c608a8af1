package operator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/host/internal/boot"
	"github.com/millrace-go/millrace/internal/handling/usercode"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/ops/catalog"
	"github.com/millrace-go/millrace/storage"
)

const mostDelay = wire.MaxDelay

func checkSend(verb string, o options) error {
	if o.delay > 0 && !o.at.IsZero() {
		return usage("%s: want -delay or -at, not both", verb)
	}
	return nil
}

// readCommand reads the body of the command. That may take long, so no store is open meanwhile, and a signal ends it.
func readCommand(ctx context.Context, c *call) error {
	if c.Routes != nil {
		routes, err := c.routes()
		if err != nil {
			return err
		}
		if _, err := routes.CommandQueue(channel.Kind(c.args[0])); err != nil {
			return unknownCommand(c.args[0], commandsOf(routes))
		}
	}
	return c.readInput(ctx, "send", c.args[1])
}

func unknownCommand(kind string, all []string) error {
	return usage("send: unknown command %s; want one of %s", boot.Word(kind), strings.Join(all, ", "))
}

// commandsOf returns the kinds of command of the routes.
func commandsOf(routes *channel.Routes) (all []string) {
	for _, q := range routes.Queues() {
		for _, k := range routes.Kinds(q) {
			if _, err := routes.CommandQueue(k); err == nil {
				all = append(all, string(k))
			}
		}
	}
	slices.Sort(all)
	return all
}

// readInput reads a file or the standard input, until ctx ends.
func (c *call) readInput(ctx context.Context, verb, name string) error {
	type input struct {
		body []byte
		err  error
	}
	came := make(chan input, 1)
	go func() {
		body, err := c.read(name)
		came <- input{body, err}
	}()
	select {
	case in := <-came:
		c.input = in.body
		if in.err != nil {
			return fmt.Errorf("%s: %w", verb, in.err)
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// read returns the content of a file or of the standard input.
func (c *call) read(name string) ([]byte, error) {
	in := c.in
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	body, err := io.ReadAll(io.LimitReader(in, channel.MaxData+1))
	if err == nil && len(body) > channel.MaxData {
		err = fmt.Errorf("%s: more than %d bytes", inputName(name), channel.MaxData)
	}
	return body, err
}

// inputName is a file's name in errors.
func inputName(name string) string {
	if name == "-" {
		return "standard input"
	}
	return name
}

// send sends the command that readCommand has read.
func send(ctx context.Context, c *call) error {
	kind := channel.Kind(c.args[0])
	about := c.known.kind(kind)
	if about == nil || !about.Command {
		if all := c.known.commands(); len(all) > 0 {
			return unknownCommand(c.args[0], all)
		}
		return usage("send: unknown command %s%s", boot.Word(c.args[0]), c.unpublished())
	}
	now := time.Now()
	e := channel.Envelope{Source: source, Kind: kind, Time: now, Data: c.input}
	if len(c.ids) > 0 {
		e.ID = c.ids[0]
	}
	if err := c.complete(&e, about.Queues, about); err != nil {
		return usage("send: %s: %w", inputName(c.args[1]), err)
	}
	c.tellUncoded(about)
	born := now
	if due := now.Add(c.delay); c.delay > 0 || c.at.After(now) {
		if c.at.After(now) {
			due = c.at
		}
		e.Due, born = due, due
	}
	if e.ID == "" {
		e.ID = channel.IDAt(born)
	} else if !e.Due.IsZero() { // its age counts from when it is due
		e.Since = born
	}
	if err := wire.CheckID(e.ID); err != nil {
		return usage("send: %w", err)
	}
	if isOld(&e) {
		_, _ = fmt.Fprintf(c.progress, "Note: its ID is more than 30 days old. If it is too old to tell whether it was applied, it goes to the poison queue. Another -id sends it as a new message.\n")
	}
	for _, q := range about.Queues { // a command has one
		if err := c.sendTo(ctx, q, e); err != nil {
			if errors.Is(err, storage.ErrInvalid) || errors.Is(err, storage.ErrTooLarge) {
				return err
			}
			return fmt.Errorf("%w. The message may have been sent. Send it again with -id %s: then it is the same message", err, storage.Quote(e.ID))
		}
	}
	if c.json {
		return c.out.line(map[string]any{"id": e.ID, "kind": e.Kind, "queue": about.Queues[0]})
	}
	c.out.printf("%s\n", boot.Clean(e.ID))
	return nil
}

// tellUncoded says what this binary can't do for a command, because it lacks the code of its handler.
func (c *call) tellUncoded(about *catalog.Kind) {
	if slices.ContainsFunc(about.Queues, func(q string) bool { return c.handles(q, about.Kind) }) {
		return
	}
	if about.ChoosesID && len(c.ids) == 0 {
		_, _ = fmt.Fprintf(c.progress, "Note: this kind chooses its own ID; give it by -id, or send with the program's own binary.\n")
	}
	if about.Checks {
		_, _ = fmt.Fprintf(c.progress, "Note: its Check runs in the worker, not here. A message that it refuses goes to the poison queue.\n")
	}
}

// sendTo sends a message to a queue, whatever the routes of this binary say.
func (c *call) sendTo(ctx context.Context, queue string, e channel.Envelope) error {
	packed, err := c.channels.Outbox().PackFor(ctx, queue, e)
	if err != nil {
		return err
	}
	return c.channels.Outbox().SendPacked(ctx, packed)
}

// complete checks the body of a message that a person has written, and gives it the form that every body has. If this
// binary has the code that handles it in one of the queues, the message is decoded and checked, too, and chooses the ID
// and the subject that it hasn't got yet.
func (c *call) complete(e *channel.Envelope, queues []string, about *catalog.Kind) error {
	if len(about.Schema) == 0 {
		_, _ = fmt.Fprintf(c.progress, "Note: no schema of %s is published, so the JSON is not held against one.\n", boot.Clean(string(e.Kind)))
	}
	if err := checkBody(e.Data, about.Schema); err != nil {
		return err
	}
	canonical, err := normalised(e.Data)
	if err != nil {
		return err
	}
	e.Data = canonical
	for _, q := range queues {
		if !c.handles(q, e.Kind) {
			continue
		}
		return usercode.Contain(func() error {
			trial := *e
			d, err := c.known.registry.Inside().Handlers.Resolve(q, &trial) // which runs the message's Check
			if refused := (*handlers.PoisonError)(nil); errors.As(err, &refused) {
				return refused.Err
			}
			if err != nil {
				return err
			}
			return choose(e, d.Message)
		})
	}
	return nil
}

// handles reports that this binary has the code that handles a kind from a queue.
func (c *call) handles(queue string, kind channel.Kind) bool {
	return slices.ContainsFunc(c.known.handled, func(h wire.Handled) bool { return h.Queue == queue && h.Kind == kind })
}

// choose takes a message's own body, ID and subject. It calls the user's code.
func choose(e *channel.Envelope, message any) error {
	if m, ok := message.(channel.Message); ok && m.Kind() == e.Kind { // otherwise it is of an older kind
		data, err := wire.EncodeBody(m)
		if err != nil {
			return err
		}
		e.Data = data
	}
	if x, ok := message.(channel.Identified); ok && e.ID == "" {
		e.ID = x.MessageID()
	}
	if x, ok := message.(channel.Subjected); ok {
		e.Subject = x.Subject()
	}
	return nil
}

// normalised gives a body one form, whatever the order of its members: its bytes decide whether two messages with one
// ID are the same, and the ID of an edited message follows from them.
func normalised(body []byte) ([]byte, error) {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	var sorted bytes.Buffer
	enc := json.NewEncoder(&sorted)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	e := channel.Envelope{ID: "body", Source: source, Kind: "millrace.body", Data: bytes.TrimSpace(sorted.Bytes())}
	raw, err := e.Encode() // and back: that is the form in which every body arrives
	if err == nil {
		e, err = wire.Decode(raw)
	}
	return e.Data, err
}
