package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/cmd/internal/boot"
	"github.com/millrace-go/millrace/internal/post"
	"github.com/millrace-go/millrace/storage"
)

// readCommand reads the command and makes its message. That may take long, so no store is open meanwhile, and a
// signal ends it.
func readCommand(ctx context.Context, c *call) error {
	kind, name := channel.Kind(c.args[0]), c.args[1]
	decode := commands()[kind]
	if decode == nil {
		return usage("send: unknown command %s; want one of %s", boot.Word(string(kind)), strings.Join(commandKinds(), ", "))
	}
	type input struct {
		body []byte
		err  error
	}
	came := make(chan input, 1)
	go func() {
		body, err := c.read(name)
		came <- input{body, err}
	}()
	var in input
	select {
	case in = <-came:
	case <-ctx.Done():
		return ctx.Err()
	}
	if in.err != nil {
		return fmt.Errorf("send: %w", in.err)
	}
	m, err := decode(in.body)
	if err != nil {
		return usage("send: %s: %w", inputName(name), err)
	}
	if c.message, err = c.envelope(m); err != nil {
		return usage("send: %w", err)
	}
	return nil
}

// send sends the command that readCommand has read.
func send(ctx context.Context, c *call) error {
	e := c.message
	if time.Since(e.Born()) > remembered {
		_, _ = fmt.Fprintf(c.progress, "Note: its ID is more than 30 days old. If it is too old to tell whether it was applied, it goes to the poison queue. Another -id sends it as a new message.\n")
	}
	packed, err := c.channels.Outbox().Pack(ctx, e)
	if err != nil {
		return err
	}
	if err := c.channels.Outbox().SendPacked(ctx, packed); err != nil {
		if errors.Is(err, storage.ErrInvalid) || errors.Is(err, storage.ErrTooLarge) {
			return err
		}
		return fmt.Errorf("%w. The message may have been sent. Send it again with -id %s: it still has its effect once", err, storage.Quote(e.ID))
	}
	if c.json {
		return c.out.line(map[string]any{"id": e.ID, "kind": e.Kind, "queue": packed.Sends[0].Queue})
	}
	c.out.printf("%s\n", boot.Clean(e.ID))
	return nil
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

// envelope makes the message. Its ID is the given one, else the command's own, else a new one.
func (c *call) envelope(m channel.Message) (channel.Envelope, error) {
	id := ""
	if len(c.ids) > 0 {
		id = c.ids[0]
	}
	e, err := post.ComposeAs(id, channel.After(c.delay, m), "/millrace", time.Now())
	if err != nil {
		return e, err
	}
	return e, post.CheckID(e.ID)
}

// strictly decodes a command. Every member must be there, in its own letters, once, and there must be no other. A
// command's own Check is run, too.
func strictly[M channel.Message](body []byte) (channel.Message, error) {
	if !utf8.Valid(body) { // the decoder would replace it by U+FFFD
		return nil, errors.New("want UTF-8")
	}
	given, err := members(body)
	if err != nil {
		return nil, err
	}
	var m M
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&m); err != nil {
		return nil, err
	}
	again, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	want, err := members(again)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if !given[name] {
			return nil, fmt.Errorf("member %q is missing", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !want[name] {
			return nil, fmt.Errorf("unknown member %s", storage.Quote(name))
		}
	}
	return m, post.CheckMessage(m)
}

// members returns the names of the members of a JSON object, and refuses a name that occurs twice.
func members(body []byte) (map[string]bool, error) {
	dec := json.NewDecoder(bytes.NewReader(body))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("want a JSON object")
	}
	names := map[string]bool{}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return nil, err
		}
		name, ok := t.(string)
		if !ok || names[name] {
			return nil, fmt.Errorf("member %s occurs twice", storage.Quote(name))
		}
		names[name] = true
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, err
		}
	}
	if _, err := dec.Token(); err != nil {
		return nil, errors.New("the JSON object is not closed")
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("unexpected text after the JSON object")
	}
	return names, nil
}
