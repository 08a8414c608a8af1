package acts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/storage"
)

// A Waiting is a message that waits in a queue, without its content.
type Waiting struct {
	Queue      string       `json:"queue"`
	ID         string       `json:"id"`   // "" if the message can't be decoded
	Kind       channel.Kind `json:"kind"` // "" if the message can't be decoded
	Sent       *time.Time   `json:"sent"`
	ReadyAt    *time.Time   `json:"ready_at"` // null: it is ready
	Deliveries int          `json:"deliveries"`
	Attempts   int          `json:"attempts"`
	Bytes      int          `json:"bytes"` // of the message in the queue; a large body lies elsewhere
}

// A MessageCancelled is a message that was taken back.
type MessageCancelled struct {
	Queue  string       `json:"queue"`
	ID     string       `json:"id"`
	Kind   channel.Kind `json:"kind"`
	Result string       `json:"result"` // cancelled, or noted: the worker that takes the message deletes it
}

// A Purged is a queue whose messages were deleted.
type Purged struct {
	Queue   string `json:"queue"`
	Result  string `json:"result"`   // purged, or selected: a dry run
	Deleted int64  `json:"deleted"`  // messages, or those that would be
	InHands *int64 `json:"in_hands"` // that workers hold, and that stay
	Delayed *int64 `json:"delayed"`  // that stay because the store can't find them
}

// A messageInput is what acts on the messages of a queue take.
type messageInput struct {
	queue, id, kind string
	limit           int
}

func (in *messageInput) queueField() act.Field {
	return act.Text(&in.queue, "queue", "the queue").At("QUEUE").With(storage.CheckName).From(queueNames)
}

// messageActs are the acts on messages that wait.
func messageActs() []*act.Act {
	return []*act.Act{
		act.New(act.Act{Noun: "queues", Verb: "peek", Role: act.Viewer, About: "show the messages that wait in a queue",
			More: "They are not received. Ready messages come first, then delayed ones by the end of their delay. A queue in the cloud shows its " +
				"first 32 ready messages alone. The content of messages isn't shown.",
		}, func(in *messageInput) []act.Field {
			in.limit = 32
			return []act.Field{in.queueField(), act.Limit(&in.limit, "messages")}
		}, peekQueue),
		act.New(act.Act{Noun: "queues", Verb: "purge", Role: act.Admin, Why: act.Must, Sure: act.Must, About: "delete the messages that wait in a queue",
			More: "It deletes as many messages as wait when it begins, with their bodies, and never handles them. Messages that workers hold stay, and " +
				"so do those of the poison queue. A queue in the cloud keeps its delayed messages, too. Pause the queue first, so that workers take none meanwhile.",
		}, func(in *messageInput) []act.Field { return []act.Field{in.queueField()} }, purgeQueue),
		act.New(act.Act{Noun: "messages", Verb: "cancel", Role: act.Operator, Why: act.Must, About: "take back a message that waits in a queue",
			More: "A message that a handler has had stays: it may have had its effect. Where the store can't find a message by its ID, as in the " +
				"cloud, only a delayed message can be cancelled: the worker that takes it deletes it, and nothing tells whether there is such a message.",
		}, func(in *messageInput) []act.Field {
			return []act.Field{
				in.queueField(), act.Text(&in.id, "id", "the message's `ID`").At("ID").With(wire.CheckID),
				act.Text(&in.kind, "kind", "its `KIND`, where queues peek doesn't show it").From(kindNames),
			}
		}, cancelMessage),
	}
}

func kindNames(_ context.Context, desk *act.Desk) []string { return desk.Known.Kinds() }

func peekQueue(ctx context.Context, c *act.Call, in *messageInput) error {
	if err := checkKnown(ctx, c.Desk, []string{in.queue}, nil); err != nil {
		return err
	}
	if err := c.Table("No messages wait.", "ID", "KIND", "SENT", "READY", "ATTEMPTS", "BYTES"); err != nil {
		return err
	}
	n := 0
	for m, err := range c.Store.Queue(in.queue).Peek(ctx) {
		if err != nil {
			return err
		}
		if n++; n > in.limit {
			c.Note("there are more. --limit shows more.")
			return nil
		}
		line := newWaiting(in.queue, m)
		ready := any("now")
		if line.ReadyAt != nil {
			ready = "in " + act.Age(time.Until(m.ReadyAt))
		}
		if err := c.Row(line, line.ID, string(line.Kind), m.SentAt, ready, line.Attempts, line.Bytes); err != nil {
			return err
		}
	}
	return nil
}

func newWaiting(queue string, m storage.Peeked) Waiting {
	line := Waiting{Queue: queue, Sent: act.Maybe(m.SentAt), ReadyAt: act.Maybe(m.ReadyAt), Deliveries: m.Deliveries, Bytes: len(m.Body)}
	if e, err := wire.Decode(m.Body); err == nil {
		line.ID, line.Kind, line.Attempts = e.ID, e.Kind, e.Attempts
	}
	return line
}

// cancelMessage takes a message back. Where the store shows no way to delete the message, a note of the cancellation is
// left for the worker that takes it.
func cancelMessage(ctx context.Context, c *act.Call, in *messageInput) error {
	if err := checkKnown(ctx, c.Desk, []string{in.queue}, nil); err != nil {
		return err
	}
	q := c.Store.Queue(in.queue)
	m, e, err := locate(ctx, q, in)
	if err != nil {
		return err
	}
	seen, id := e != nil, storage.Quote(in.id)
	line := MessageCancelled{Queue: in.queue, ID: in.id, Kind: channel.Kind(in.kind), Result: "cancelled"}
	all, err := outbox(c.Desk)
	switch {
	case err != nil:
		return err
	case !seen && c.Store.Finds():
		return notWaiting(ctx, q, in)
	case seen && (e.Attempts+e.HandBacks > 0 || m.Deliveries > e.Hops):
		return hadError(in)
	case seen:
		line.Kind = e.Kind
	case in.kind == "":
		return act.Usage("add --kind KIND: this store doesn't show the message")
	}
	if seen && m.Receipt != "" {
		err := withdraw(ctx, q, all, m, e, in.queue)
		if errors.Is(err, storage.ErrReceiptStale) {
			return hadError(in)
		}
		return cmp.Or(err, c.Say(line, "Message %s is cancelled.", id))
	}
	if seen && m.ReadyAt.IsZero() {
		return fmt.Errorf("message %s is ready, and this store can't find a message by its ID: pause the queue, let a worker take the message, or purge the queue", id)
	}
	if err := all.Cancellations().CancelIn(ctx, in.queue, line.Kind, in.id); err != nil {
		return err
	}
	line.Result = "noted"
	return c.Say(line, "It is noted that message %s is cancelled. The worker that takes the message deletes it.", id)
}

// locate looks for a message among those that are shown. e is nil if none is the one.
func locate(ctx context.Context, q *storage.Queue, in *messageInput) (m storage.Peeked, e *channel.Envelope, err error) {
	for m, err := range q.Peek(ctx) {
		switch {
		case errors.Is(err, storage.ErrUnsupported):
			return m, nil, nil
		case err != nil:
			return m, nil, err
		}
		if e, err := wire.Decode(m.Body); err == nil && in.means(&e) {
			return m, &e, nil
		}
	}
	return storage.Peeked{}, nil, nil
}

// means reports that a request is about a message.
func (in *messageInput) means(e *channel.Envelope) bool {
	return e.ID == in.id && (in.kind == "" || string(e.Kind) == in.kind)
}

// notWaiting says why a message is not shown by a store that shows all that wait.
func notWaiting(ctx context.Context, q *storage.Queue, in *messageInput) error {
	found, err := q.Find(ctx, in.id)
	if err != nil {
		return err
	}
	for _, d := range found {
		if e, err := wire.Decode(d.Body); err == nil && in.means(&e) {
			return fmt.Errorf("message %s is not taken back: a worker has it", storage.Quote(in.id))
		}
	}
	return act.Nothing("no message %s waits in queue %s; a worker may have it", storage.Quote(in.id), in.queue)
}

// hadError says that a message stays, because it may have had its effect.
func hadError(in *messageInput) error {
	return fmt.Errorf("message %s is not taken back: a worker has it or has had it", storage.Quote(in.id))
}

// withdraw deletes a message and its body.
func withdraw(ctx context.Context, q *storage.Queue, all *wire.Outbox, m storage.Peeked, e *channel.Envelope, queue string) error {
	if err := q.Delete(ctx, []storage.Receipt{m.Receipt}); err != nil {
		return err
	}
	if e.DataRef == "" || e.CheckDataRef(queue) != nil {
		return nil
	}
	return all.DeleteBody(context.WithoutCancel(ctx), e.DataRef)
}

// outbox is an outbox over all lanes of the desk's queues.
func outbox(desk *act.Desk) (*wire.Outbox, error) {
	routes, err := channel.NewRoutes()
	if err != nil {
		return nil, err
	}
	all, err := channel.New(desk.Store, routes, act.Source)
	if err != nil {
		return nil, err
	}
	return all.Outbox(), nil
}

// purgeBatch is how many messages are claimed together, and purgeHold for how long.
const (
	purgeBatch = 32
	purgeHold  = time.Minute
)

func purgeQueue(ctx context.Context, c *act.Call, in *messageInput) error {
	if err := checkKnown(ctx, c.Desk, []string{in.queue}, nil); err != nil {
		return err
	}
	before, err := c.Store.Queue(in.queue).Stats(ctx)
	if err != nil {
		return err
	}
	delayed := before.Delayed
	if c.Store.Finds() {
		delayed = 0 // such a store shows them with receipts
	}
	line := Purged{Queue: in.queue, Result: selected, Deleted: before.Ready + max(0, before.Delayed-delayed), InHands: number(before.InFlight), Delayed: number(delayed)}
	if c.DryRun {
		return c.Say(line, "Would delete %s of queue %s. %s", act.Count(int(line.Deleted), "message"), in.queue, stays(line))
	}
	bar := c.Begin("Purging", int(line.Deleted))
	defer bar.End()
	p := purge{store: c.Store, queue: in.queue, progress: bar}
	if p.outbox, err = outbox(c.Desk); err != nil {
		return err
	}
	if c.Store.Finds() {
		err = p.delayed(ctx, before.Delayed)
	}
	lanes := []string{in.queue}
	if divided, ok := c.Known.Lanes()[in.queue]; ok {
		lanes = divided.Names(in.queue)
	}
	for _, lane := range lanes {
		if err == nil {
			err = p.ready(ctx, lane)
		}
	}
	bar.End()
	line.Result, line.Deleted = "purged", p.deleted
	told := c.Say(line, "Deleted %s of queue %s. %s", act.Count(int(p.deleted), "message"), in.queue, stays(line))
	return errors.Join(err, told)
}

// stays says which messages a purge leaves.
func stays(line Purged) string {
	text := "What workers hold stays."
	if n := line.InHands; n != nil {
		text = fmt.Sprintf("Workers hold %s, which stay.", act.Count(int(*n), "message"))
	}
	if n := line.Delayed; n == nil {
		text += " Delayed messages stay: this store can't find them."
	} else if *n > 0 {
		text += fmt.Sprintf(" %s stay: this store can't find them.", act.Count(int(*n), "delayed message"))
	}
	return text
}

// A purge deletes messages of a queue.
type purge struct {
	store    *storage.Store
	queue    string
	outbox   *wire.Outbox
	progress act.Progress
	deleted  int64
}

// ready claims and deletes the ready messages of a lane, as many as there are now: messages that come meanwhile are not
// meant.
func (p *purge) ready(ctx context.Context, lane string) error {
	q := p.store.Queue(lane)
	st, err := q.Stats(ctx)
	if err != nil {
		return err
	}
	for done := int64(0); done < st.Ready; {
		got, err := q.Receive(ctx, int(min(purgeBatch, st.Ready-done)), purgeHold)
		if err != nil || len(got) == 0 {
			return err
		}
		done += int64(len(got))
		for _, d := range got {
			if err := p.delete(ctx, q, d); err != nil {
				return err
			}
		}
	}
	return nil
}

// delayed deletes delayed messages as they are shown, at most so many.
func (p *purge) delayed(ctx context.Context, most int64) error {
	q := p.store.Queue(p.queue)
	for m, err := range q.Peek(ctx) {
		if err != nil || p.deleted == most {
			return err
		}
		if m.ReadyAt.IsZero() || m.Receipt == "" {
			continue
		}
		if err := p.delete(ctx, q, storage.Delivery{Body: m.Body, Receipt: m.Receipt}); err != nil {
			return err
		}
	}
	return nil
}

// delete deletes a message and its body. A message that somebody else has taken meanwhile stays.
func (p *purge) delete(ctx context.Context, q *storage.Queue, d storage.Delivery) error {
	switch err := q.Delete(ctx, []storage.Receipt{d.Receipt}); {
	case errors.Is(err, storage.ErrReceiptStale):
		return nil
	case err != nil:
		return err
	}
	p.deleted++
	p.progress.Add(1)
	if e, err := wire.Decode(d.Body); err == nil && e.DataRef != "" && e.CheckDataRef(p.queue) == nil {
		return p.outbox.DeleteBody(context.WithoutCancel(ctx), e.DataRef)
	}
	return nil
}
