package acts

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/catalog"
	"github.com/millrace-go/millrace/ops/internal/applied"
	"github.com/millrace-go/millrace/ops/internal/draft"
	"github.com/millrace-go/millrace/ops/internal/poisoned"
	"github.com/millrace-go/millrace/poison"
	"github.com/millrace-go/millrace/storage"
)

// An Edited is an edit.
type Edited struct {
	ID     string       `json:"id"` // of the new message
	Kind   channel.Kind `json:"kind"`
	Queue  string       `json:"queue"`
	Edited string       `json:"edited"`           // the ID of the old message
	Result string       `json:"result"`           // "sent", or "changed" if a new entry of the old message came in meanwhile; that stays
	Halted string       `json:"halted,omitempty"` // the key of the queue that the old message has halted: see turns release
}

// An editInput is what poison edit takes.
type editInput struct {
	selection
	id    string
	data  []byte // nil: none is given
	again bool
}

// Check implements the check of an input.
func (in *editInput) Check() error {
	if in.data == nil {
		return act.Usage("want the new body: --data FILE")
	}
	return nil
}

func editActs() []*act.Act {
	return []*act.Act{act.New(act.Act{Noun: "poison", Verb: "edit", Role: act.Admin, Why: act.Must, About: "send a message with another body in place of one",
		More: "The body is JSON, and must fit the schema of the kind. A - for FILE is the standard input. The edited message has an ID of its own, " +
			"which follows from the old ID and the new body: the same edit made twice is one message. It is refused if the old message has had " +
			"its effect or was compensated for, and if that can't be known.",
	}, func(in *editInput) []act.Field {
		return []act.Field{
			act.Text(&in.id, "id", "the message").At("ID"),
			act.Content(&in.data, "data", "the `FILE` with the new body; - for the standard input", channel.MaxData).At("FILE").OrFlag(),
			in.queueField(),
			act.Flag(&in.again, "again", "send it even if the old message may have had its effect"),
		}
	}, editPoison)}
}

// editPoison sends a message with another body in place of one in the poison queue.
func editPoison(ctx context.Context, c *act.Call, in *editInput) error {
	entry, old, err := toEdit(ctx, c, in)
	if err != nil {
		return err
	}
	about := c.Known.Kind(old.Kind)
	if about == nil {
		about = &catalog.Kind{Kind: old.Kind}
	}
	e := channel.Envelope{
		ID: "chosen below", Source: old.Source, Kind: old.Kind, Subject: old.Subject, Time: time.Now(), Data: in.data,
		Sequence: old.Sequence, Extensions: old.Extensions, // an event is still one of its source
	}
	body, err := draft.Complete(c, &e, []string{entry.Queue}, about)
	if err != nil {
		return act.UsageOf("data", "%w", err)
	}
	if draft.Same(body, old.Data) || draft.Same(e.Data, old.Data) {
		return act.Usage("the body is as it was; %s poison retry sends the message as it is", c.Command)
	}
	if !in.again {
		if err := mayEdit(ctx, c, entry, &old); err != nil {
			return err
		}
	}
	if applied.MayBeForgotten(&old) {
		c.Note("the old message counts from more than 30 days ago, and so does the edited one. If it comes back as too old to judge, send it as a new message.")
	}
	e.Data = body // the same for every binary: the program's own form of it is known only to the program's binary
	e.ID = channel.DerivedID(old.ID, "edited", string(e.Kind), string(body))
	if _, timed := channel.IDTime(old.ID); !timed || !old.Since.IsZero() {
		e.Since = old.Born()
	}
	e.Follow(&old)
	if err := draft.Send(ctx, c.Channels, entry.Queue, e); err != nil {
		return fmt.Errorf("%w. The edited message may have been sent; the old one is still in the poison queue. The same edit again is the same message", err)
	}
	result := Edited{ID: e.ID, Kind: e.Kind, Queue: entry.Queue, Edited: old.ID, Result: "sent", Halted: tellHalt(ctx, c, entry.Queue, old.ID, e.ID)}
	err = poison.At(c.Channels, entry.Queue).DiscardIf(context.WithoutCancel(ctx), entry.Key, entry.ETag)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		err = nil // another operator has removed it
	case errors.Is(err, storage.ErrPrecondition):
		result.Result = changed
		c.Note("the old message has come to the poison queue again since it was read. That entry stays.")
		err = nil
	case err != nil && !errors.Is(err, poison.ErrBodyLeft):
		err = fmt.Errorf("%w. The edited message is sent; the old one is still in the poison queue. The same edit again is the same message", err)
	}
	return errors.Join(c.Say(result, "Sent %s in place of %s.", e.ID, old.ID), err)
}

// tellHalt says that a key stays halted by the message in whose place another one is sent. It returns the key, if any.
func tellHalt(ctx context.Context, c *act.Call, queue, old, sent string) string {
	h := poisoned.HaltsOf(ctx, c, queue)[old]
	switch {
	case h == nil:
		return ""
	case h.Ordered:
		c.Note("%s", h.UntilDone(c.Command, sent))
	default:
		c.Note("%s", h.UntilReleased(c.Command, "the edited message waits with the others"))
	}
	return h.Key
}

// toEdit returns the one entry that is meant, and its message with its body.
func toEdit(ctx context.Context, c *act.Call, in *editInput) (m poison.Entry, old channel.Envelope, err error) {
	in.IDs, in.Aliased = []string{in.id}, true
	p, err := in.Pick(ctx, c)
	if err == nil && len(p.Entries) == 0 {
		err = p.Missing
	}
	if err == nil && len(p.Entries) > 1 {
		var keys []string
		for _, e := range p.Entries {
			keys = append(keys, e.Queue+" "+e.Key)
		}
		err = act.Usage("%s stands for several messages; name one by its key, with --queue if need be: %s", storage.Quote(in.id), strings.Join(keys, ", "))
	}
	if err != nil {
		return m, old, err
	}
	queue := p.Entries[0].Queue
	m, err = poison.At(c.Channels, queue).Get(ctx, p.Entries[0].Key)
	if errors.Is(err, storage.ErrNotFound) {
		return m, old, act.Nothing("message %s was removed by somebody else", storage.Quote(in.id))
	}
	if err != nil {
		return m, old, err
	}
	old, err = wire.Decode(m.Body)
	if err == nil {
		err = old.CheckDataRef(queue)
	}
	if err != nil {
		return m, old, fmt.Errorf("the entry holds no message that could be edited (%w). Send a new one with %s send, and discard this one", err, c.Command)
	}
	if err := c.Channels.Outbox().FetchBody(ctx, &old); err != nil && !errors.Is(err, wire.ErrDataLost) {
		return m, old, err
	}
	old.DataRef = ""
	return m, old, nil
}

// mayEdit refuses to edit a message that was applied, or that may have been.
func mayEdit(ctx context.Context, c *act.Call, entry poison.Entry, old *channel.Envelope) error {
	switch v, err := applied.Was(ctx, c.Desk, entry, old); {
	case err != nil:
		return err
	case v.Applied:
		return fmt.Errorf("the old message has had its effect: %s. The edited one would have another. --again sends it all the same; "+
			"%s poison discard removes the old one", v.Why, c.Command)
	case len(entry.Emitted) > 0: // the program has given up the message
		return fmt.Errorf("the program has compensated for the old message, by %s. If the edited one is right all the same, add --again",
			strings.Join(entry.Emitted, ", "))
	case !v.Known && applied.MayBeForgotten(old):
		return fmt.Errorf("the old message counts from more than 30 days ago, and so would the edited one: it may come back as too old to judge (%s). "+
			"If you know that the old one has not had its effect, send the new body as a new message, for a command with %s send, and discard the old one; --again edits it all the same", v.Why, c.Command)
	case !v.Known:
		return fmt.Errorf("nobody can tell whether the old message has had its effect: %s. If you know that it has not, add --again", v.Why)
	}
	return nil
}
