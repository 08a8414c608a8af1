package operator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/host/internal/boot"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/ops/catalog"
	"github.com/millrace-go/millrace/poison"
	"github.com/millrace-go/millrace/storage"
)

// An editCall is a run of poison edit.
type editCall struct{ poisonCall }

// edited is what -json prints of an edit.
type edited struct {
	ID     string       `json:"id"` // of the new message
	Kind   channel.Kind `json:"kind"`
	Queue  string       `json:"queue"`
	Edited string       `json:"edited"`           // the ID of the old message
	Result string       `json:"result"`           // "sent", or "changed" if a new entry of the old message came in meanwhile; that stays
	Halted string       `json:"halted,omitempty"` // the key of the queue that the old message has halted: see turns release
}

// readEdit reads the new body.
func readEdit(ctx context.Context, c *call) error {
	name := c.data
	switch {
	case len(c.args) == 2 && c.args[1] != "-" && name == "":
		return usage("poison edit: unknown argument %s; if that is the file with the new body, write -data FILE. See %s poison edit -help", boot.Word(c.args[1]), c.Command)
	case len(c.args) == 2 && name != "":
		return usage("poison edit: unknown argument %s. See %s poison edit -help", boot.Word(c.args[1]), c.Command)
	case len(c.args) == 2:
		name = "-"
	case name == "":
		return usage("poison edit: want the new body: -data FILE, or - after the ID for the standard input")
	}
	c.data, c.args = name, c.args[:1]
	return c.readInput(ctx, "poison edit", name)
}

// poisonEdit sends a message with another body in place of one in the poison queue.
func poisonEdit(ctx context.Context, x *call) error {
	c := editCall{poisonCall{x}}
	entry, old, err := c.toEdit(ctx)
	if err != nil {
		return err
	}
	about := c.known.kind(old.Kind)
	if about == nil {
		about = &catalog.Kind{Kind: old.Kind}
	}
	e := channel.Envelope{
		Source: old.Source, Kind: old.Kind, Subject: old.Subject, Time: time.Now(), Data: c.input,
		Sequence: old.Sequence, Extensions: old.Extensions, // an event is still one of its source
	}
	e.ID = "chosen below"
	if err := c.complete(&e, []string{entry.Queue}, about); err != nil {
		return usage("poison edit: %s: %w", inputName(c.data), err)
	}
	body, err := normalised(c.input)
	if err != nil {
		return usage("poison edit: %s: %w", inputName(c.data), err)
	}
	if sameJSON(body, old.Data) || sameJSON(e.Data, old.Data) {
		return usage("poison edit: the body is as it was; %s poison retry sends the message as it is", c.Command)
	}
	if err := c.mayEdit(ctx, entry, &old); err != nil {
		return err
	}
	if isOld(&old) {
		_, _ = fmt.Fprintf(c.progress, "Note: the old message counts from more than 30 days ago, and so does the edited one. If it comes back as too old to judge, send it as a new message.\n")
	}
	e.Data = body // the same for every binary: the program's own form of it is known only to the program's binary
	e.ID = channel.DerivedID(old.ID, "edited", string(e.Kind), string(body))
	if _, timed := channel.IDTime(old.ID); !timed || !old.Since.IsZero() {
		e.Since = old.Born()
	}
	e.Follow(&old)
	if err := c.sendTo(ctx, entry.Queue, e); err != nil {
		return fmt.Errorf("%w. The edited message may have been sent; the old one is still in the poison queue. The same edit again is the same message", err)
	}
	result := edited{ID: e.ID, Kind: e.Kind, Queue: entry.Queue, Edited: old.ID, Result: "sent", Halted: c.tellHalt(ctx, entry.Queue, old.ID, e.ID)}
	err = poison.At(c.channels, entry.Queue).DiscardIf(context.WithoutCancel(ctx), entry.Key, entry.ETag)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		err = nil // another operator has removed it
	case errors.Is(err, storage.ErrPrecondition):
		result.Result = changed
		_, _ = fmt.Fprintf(c.progress, "Note: the old message has come to the poison queue again since it was read. That entry stays.\n")
		err = nil
	case err != nil && !errors.Is(err, poison.ErrBodyLeft):
		err = fmt.Errorf("%w. The edited message is sent; the old one is still in the poison queue. The same edit again is the same message", err)
	}
	if c.json {
		return errors.Join(c.out.line(result), err)
	}
	c.out.printf("Sent %s in place of %s.\n", boot.Clean(e.ID), boot.Clean(old.ID))
	return err
}

// tellHalt says that a key stays halted by the message in whose place another one is sent. It returns the key, if any.
func (c editCall) tellHalt(ctx context.Context, queue, old, sent string) string {
	h := c.haltsOf(ctx, queue)[old]
	if h == nil {
		return ""
	}
	text := c.untilReleased(*h, "the edited message waits with the others")
	if h.ordered {
		text = c.untilDone(*h, sent)
	}
	_, _ = fmt.Fprintf(c.progress, "Note: %s\n", boot.Clean(text))
	return h.key
}

// sameJSON reports that two bodies say the same.
func sameJSON(a, b []byte) bool {
	x, err := normalised(a)
	y, fault := normalised(b)
	return err == nil && fault == nil && bytes.Equal(x, y)
}

// toEdit returns the one entry that is meant, and its message with its body.
func (c editCall) toEdit(ctx context.Context) (m poison.Entry, old channel.Envelope, err error) {
	c.ids, c.aliased = c.args, true
	p, err := c.pick(ctx)
	if err == nil && len(p.entries) == 0 {
		err = p.missing
	}
	if err == nil && len(p.entries) > 1 {
		var keys []string
		for _, e := range p.entries {
			keys = append(keys, e.Queue+" "+e.Key)
		}
		err = usage("poison edit: %s stands for several messages; name one by its key, with -queue if need be: %s", storage.Quote(c.args[0]), strings.Join(keys, ", "))
	}
	if err != nil {
		return m, old, err
	}
	queue := p.entries[0].Queue
	m, err = poison.At(c.channels, queue).Get(ctx, p.entries[0].Key)
	if errors.Is(err, storage.ErrNotFound) {
		return m, old, nothing("message %s was removed by somebody else", storage.Quote(c.args[0]))
	}
	if err != nil {
		return m, old, err
	}
	old, err = wire.Decode(m.Body)
	if err == nil {
		err = old.CheckDataRef(queue)
	}
	if err != nil {
		return m, old, fmt.Errorf("poison edit: the entry holds no message that could be edited (%w). Send a new one with %s send, and discard this one", err, c.Command)
	}
	if err := c.channels.Outbox().FetchBody(ctx, &old); err != nil && !errors.Is(err, wire.ErrDataLost) {
		return m, old, err
	}
	old.DataRef = ""
	return m, old, nil
}

// mayEdit refuses to edit a message that was applied, or that may have been.
func (c editCall) mayEdit(ctx context.Context, entry poison.Entry, old *channel.Envelope) error {
	if c.again {
		return nil
	}
	switch v, err := c.wasApplied(ctx, entry, old); {
	case err != nil:
		return err
	case v.applied:
		return fmt.Errorf("poison edit: the old message has had its effect: %s. The edited one would have another. -again sends it all the same; "+
			"%s poison discard removes the old one", v.why, c.Command)
	case len(entry.Emitted) > 0: // the program has given up the message
		return fmt.Errorf("poison edit: the program has compensated for the old message, by %s. If the edited one is right all the same, add -again",
			strings.Join(entry.Emitted, ", "))
	case !v.known && isOld(old):
		return fmt.Errorf("poison edit: the old message counts from more than 30 days ago, and so would the edited one: it may come back as too old to judge (%s). "+
			"If you know that the old one has not had its effect, send the new body as a new message, for a command with %s send, and discard the old one; -again edits it all the same", v.why, c.Command)
	case !v.known:
		return fmt.Errorf("poison edit: nobody can tell whether the old message has had its effect: %s. If you know that it has not, add -again", v.why)
	}
	return nil
}
