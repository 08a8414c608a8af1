package acts

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/internal/unsend"
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

// mostSkipped bounds the messages that a look at a queue leaves out, because they are read all the same.
const mostSkipped = 10_000

// A messageInput is what acts on the messages of a queue take.
type messageInput struct {
	queue, id, kind string
	limit, skip     int
	most            int
	bounded         bool // by most
}

// messageActs are the acts on messages that wait.
func messageActs() []*act.Act {
	return []*act.Act{
		act.New(act.Act{Noun: "queues", Verb: "peek", Role: act.Viewer, About: "show the messages that wait in a queue",
			More: "They are not received. Ready messages come first, then delayed ones by the end of their delay. A queue in the cloud shows its " +
				"first 32 ready messages alone. The content of messages isn't shown.",
		}, func(in *messageInput) []act.Field {
			in.limit = 32
			return []act.Field{queueField(&in.queue), act.Limit(&in.limit, "messages"), act.Number(&in.skip, "skip", "leave out the first `NUMBER` of messages", 0, mostSkipped)}
		}, peekQueue),
		act.New(act.Act{Noun: "queues", Verb: "purge", Role: act.Admin, Once: true, Why: act.Must, Sure: act.Must, About: "delete the messages that wait in a queue",
			More: "It deletes as many messages as wait when it begins, with their bodies, and never handles them. Messages that workers hold stay, and " +
				"so do those of the poison queue. A queue in the cloud keeps its delayed messages, too. Pause the queue first, so that workers take none meanwhile.",
		}, func(in *messageInput) []act.Field {
			return []act.Field{queueField(&in.queue), act.Number(&in.most, "most", "delete at most this `NUMBER` of messages, such as a dry run has counted", 0, math.MaxInt32).
				With(func(string) error { in.bounded = true; return nil })}
		}, purgeQueue),
		act.New(act.Act{Noun: "messages", Verb: "cancel", Role: act.Operator, Why: act.Must, About: "take back a message that waits in a queue",
			More: "A message that a handler has had stays: it may have had its effect. Where the store can't find a message by its ID, as in the " +
				"cloud, only a delayed message can be cancelled: the worker that takes it deletes it, and nothing tells whether there is such a message.",
		}, func(in *messageInput) []act.Field {
			return []act.Field{
				queueField(&in.queue), act.Text(&in.id, "id", "the message's `ID`").At("ID").With(wire.CheckID),
				act.Text(&in.kind, "kind", "its `KIND`, where queues peek doesn't show it").From(kindNames),
			}
		}, cancelMessage),
	}
}

// checkFilled refuses a queue that nobody knows and that is empty: the name is misspelt. Messages may wait in a queue
// that no program has published: the queue was renamed, or the program's worker is yet to come.
func checkFilled(ctx context.Context, desk *act.Desk, queue string) error {
	unknown := checkKnown(ctx, desk, []string{queue}, nil)
	if bad := (*act.UsageError)(nil); !errors.As(unknown, &bad) {
		return unknown
	}
	st, err := desk.Store.Queue(queue).Stats(ctx)
	if err == nil && max(0, st.Ready)+max(0, st.InFlight)+max(0, st.Delayed) == 0 {
		err = unknown
	}
	return err
}

func peekQueue(ctx context.Context, c *act.Call, in *messageInput) error {
	if err := checkFilled(ctx, c.Desk, in.queue); err != nil {
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
		if n++; n <= in.skip {
			continue
		}
		if n > in.skip+in.limit {
			if next := in.skip + in.limit; next <= mostSkipped {
				c.Next("skip", fmt.Sprint(next))
			} else {
				c.Note("there are more. --limit shows more.")
			}
			return nil
		}
		line := newWaiting(in.queue, m)
		ready := any("now")
		if line.ReadyAt != nil {
			ready = "in " + act.Age(time.Until(m.ReadyAt))
		}
		if err := c.Row(line, messageLink(in.queue, line.ID, line.Kind), string(line.Kind), m.SentAt, ready, line.Attempts, line.Bytes); err != nil {
			return err
		}
	}
	return nil
}

// messageLink leads to the page of a message. One that can't be decoded has none.
func messageLink(queue, id string, kind channel.Kind) any {
	if id == "" {
		return nil
	}
	with := map[string]string{"queue": queue, "id": id}
	if kind != "" {
		with["kind"] = string(kind)
	}
	return act.Link{Text: id, Act: "messages show", With: with}
}

func newWaiting(queue string, m storage.Peeked) Waiting {
	line := Waiting{Queue: queue, Sent: act.Maybe(m.SentAt), ReadyAt: act.Maybe(m.ReadyAt), Deliveries: m.Deliveries, Bytes: len(m.Body)}
	if e, err := wire.Decode(m.Body); err == nil {
		line.ID, line.Kind, line.Attempts = e.ID, e.Kind, e.Attempts
	}
	return line
}

// cancelMessage takes a message back.
func cancelMessage(ctx context.Context, c *act.Call, in *messageInput) error {
	if err := checkFilled(ctx, c.Desk, in.queue); err != nil {
		return err
	}
	m := unsend.Message{Queue: in.queue, ID: in.id, Kind: channel.Kind(in.kind)}
	noted, err := m.Cancel(ctx, c.Desk)
	if err != nil {
		return err
	}
	line, text := MessageCancelled{Queue: in.queue, ID: in.id, Kind: m.Kind, Result: "cancelled"}, "Message %s is cancelled."
	if noted {
		line.Result, text = "noted", "It is noted that message %s is cancelled. The worker that takes the message deletes it."
	}
	return c.Say(line, text, storage.Quote(in.id))
}

func purgeQueue(ctx context.Context, c *act.Call, in *messageInput) error {
	if err := checkFilled(ctx, c.Desk, in.queue); err != nil {
		return err
	}
	p, err := unsend.NewPurge(ctx, c.Desk, in.queue)
	if err != nil {
		return err
	}
	if in.bounded {
		p.Waiting = min(p.Waiting, int64(in.most))
	}
	line := Purged{Queue: in.queue, Result: selected, Deleted: p.Waiting, InHands: number(p.InHands), Delayed: number(p.Delayed)}
	if c.DryRun {
		c.Confirm("most", fmt.Sprint(line.Deleted))
		return c.Say(line, "Would delete %s of queue %s. %s", act.Count(int(line.Deleted), "message"), in.queue, stays(line))
	}
	bar := c.Begin("Purging", int(line.Deleted))
	defer bar.End()
	line.Result = "purged"
	line.Deleted, err = p.Run(ctx, bar)
	bar.End()
	told := c.Say(line, "Deleted %s of queue %s. %s", act.Count(int(line.Deleted), "message"), in.queue, stays(line))
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
