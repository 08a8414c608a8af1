package process

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/jsonform"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/process/internal/flow"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/values"
)

// ErrStarted says that an instance can't be started anew, because its ID is taken.
var ErrStarted = errors.New("an instance with this ID was started before")

// Status is where an instance, or a step, stands.
type Status = flow.Status

// The statuses. An instance is final when it is one of the last four.
const (
	Init      = flow.Init      // it is about to start
	InProcess = flow.InProcess //
	Undoing   = flow.Undoing   // it has failed or was cancelled, and what was done is being taken back
	Stuck     = flow.Stuck     // it goes on when somebody acts
	Completed = flow.Completed
	Aborted   = flow.Aborted  // it has failed, and what was done is undone
	Canceled  = flow.Canceled // it was cancelled
	Undone    = flow.Undone   // of a step, or of a part
)

// Instances are those of a plan, as the programs see them that start them, signal to them and show them. They need the
// plan's [Route], but not its steps. Safe for concurrent use.
type Instances[S any] struct {
	plan      string
	channels  *channel.Channels
	documents *values.Collection[flow.Instance]
}

// Open returns the instances of a plan. S is the type of its state.
func Open[S any](c *channel.Channels, plan string) *Instances[S] {
	return &Instances[S]{plan, c, instances(c, plan)}
}

// maxState is how many bytes of state an instance begins with at most. The rest of its document is for its steps.
const maxState = flow.MaxSize - 64<<10

// maxID leaves room for the paths of parts.
const maxID = 200

func (x *Instances[S]) check(id string) error { return checkInstance(x.plan, id) }

func checkInstance(plan, id string) error {
	err := storage.CheckKey(id)
	if err == nil && len(id) > maxID {
		err = fmt.Errorf("%w: %d bytes; want at most %d", storage.ErrInvalid, len(id), maxID)
	}
	if err == nil && strings.TrimSpace(id) == "" {
		err = fmt.Errorf("%w: it is blank; want a word", storage.ErrInvalid)
	}
	if err == nil && strings.ContainsAny(id, "/#") {
		err = fmt.Errorf("%w: it has a / or a #, which parts of instances have", storage.ErrInvalid)
	}
	if err != nil {
		return fmt.Errorf("process: plan %s: ID %s: %w", plan, storage.Quote(id), err)
	}
	return nil
}

// Start starts an instance and returns when that is durable. The same again is the same start. The same ID with another
// state is refused: its message goes to the poison queue. An ID is known as long as its instance is kept, and 30 days.
//
// A state may have a method Check() error, as messages have. The error of a state that it refuses matches
// channel.ErrRefused, that of one of more than 192 KiB storage.ErrTooLarge. That of an ID that can't be used matches
// storage.ErrInvalid.
func (x *Instances[S]) Start(ctx context.Context, id string, s S) error {
	m, err := x.start(id, s)
	if err != nil {
		return err
	}
	return x.send(ctx, m)
}

// StartNew is Start that writes the instance at once, as [Init], so that [Instances.Get] finds it, and that tells the
// caller about an ID that was started before: by [ErrStarted] if its state was another one.
func (x *Instances[S]) StartNew(ctx context.Context, id string, s S) error {
	m, err := x.start(id, s)
	if err != nil {
		return err
	}
	now := time.Now().UTC()
	first := flow.Instance{Plan: x.plan, Status: flow.Init, Created: now, Digest: m.Digest(), State: m.State}
	err = x.documents.Insert(ctx, id, first, m)
	if !errors.Is(err, storage.ErrExists) {
		return x.wrap("start", id, err)
	}
	old, err := x.documents.Get(ctx, id, "")
	switch {
	case err != nil:
		return x.wrap("start", id, err)
	case old.Value.Digest == "", // signals came before
		old.Value.Digest == m.Digest() && old.Value.Status == flow.Init: // it may have been written and not sent
		return x.send(ctx, m)
	case old.Value.Digest == m.Digest():
		return nil
	}
	return x.wrap("start", id, ErrStarted)
}

func (x *Instances[S]) start(id string, s S) (flow.Start, error) {
	if err := x.check(id); err != nil {
		return flow.Start{}, err
	}
	if err := wire.CheckMessage(s); err != nil {
		return flow.Start{}, x.wrap("start", id, err)
	}
	form, err := jsonform.Encode(s)
	if err != nil {
		return flow.Start{}, x.wrap("start", id, err)
	}
	if len(form) > maxState {
		return flow.Start{}, x.wrap("start", id, fmt.Errorf("%w: a state of %d bytes; want at most %d: keep large things in a store of your own, and their names in the state", storage.ErrTooLarge, len(form), maxState))
	}
	return flow.Start{Plan: x.plan, ID: id, State: form}, nil
}

// Starting returns the message that starts an instance, for a decision or a schedule to emit. Its kind is
// "process.PLAN.start". A state that can't be encoded is refused when the message is sent.
func (x *Instances[S]) Starting(id string, s S) channel.Message {
	m, err := x.start(id, s)
	if err != nil {
		return refusing{flow.Start{Plan: x.plan, ID: id}, err}
	}
	return m
}

// refusing is a message that can't be sent.
type refusing struct {
	flow.Start
	err error
}

// Check refuses it.
func (r refusing) Check() error { return r.err }

// Signal sends a message to the step of an instance that waits for its kind; see [Wait]. One that comes early is kept:
// 64 of them, of 48 KiB together. One for which there is no room is refused, and the error matches storage.ErrTooLarge.
// Several that are sent at the same time may be found to be too large later, and go to the poison queue.
func (x *Instances[S]) Signal(ctx context.Context, id string, m channel.Message) error {
	if err := x.check(id); err != nil {
		return err
	}
	if wire.IsNil(m) {
		return x.wrap("signal", id, errNilMessage)
	}
	if err := wire.CheckMessage(m); err != nil {
		return x.wrap("signal", id, err)
	}
	body, err := jsonform.Encode(m)
	if err != nil {
		return x.wrap("signal", id, err)
	}
	if err := checkEarly(body, func() (flow.Instance, error) {
		d, err := x.documents.Get(ctx, id, "")
		return d.Value, err
	}); err != nil {
		return x.wrap("signal", id, err)
	}
	return x.send(ctx, flow.Signal{Plan: x.plan, ID: id, Sort: m.Kind(), Body: body})
}

// checkEarly refuses a signal that comes early and for which there is no room.
func checkEarly(body jsontext.Value, look func() (flow.Instance, error)) error {
	err := flow.KeepsEarly(body, func() (flow.Instance, error) {
		d, err := look()
		if errors.Is(err, storage.ErrNotFound) {
			return flow.Instance{}, nil
		}
		return d, err
	})
	if err != nil {
		return fmt.Errorf("%w: %w", storage.ErrTooLarge, err)
	}
	return nil
}

// Cancel cancels an instance, for somebody and for a reason, which stand in its document. Steps that have not begun
// don't begin any more. Agents at work have 30 seconds to answer. Another worker that has messages for agents in hand
// may begin with them for a minute; what they do is undone with all the rest. An instance that has ended, or passed its
// [Pivot], is not cancelled any more. Of by 100 bytes are kept, and of why 500.
func (x *Instances[S]) Cancel(ctx context.Context, id, by, why string) error {
	return x.act(ctx, flow.Act{ID: id, Do: flow.ActCancel, By: flow.Text(by, maxBy), Why: flow.Text(why, maxWhy)})
}

func (x *Instances[S]) act(ctx context.Context, m flow.Act) error {
	if err := x.check(m.ID); err != nil {
		return err
	}
	m.Plan = x.plan
	return x.send(ctx, m)
}

func (x *Instances[S]) send(ctx context.Context, m channel.Message) error {
	return x.channels.Send(ctx, m)
}

func (x *Instances[S]) wrap(op, id string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("process: %s %s %s: %w", op, x.plan, storage.Quote(id), err)
}

// A Snapshot is an instance as it was stored at some time.
type Snapshot[S any] struct {
	ID       string
	Version  int
	Status   Status
	State    S
	Error    string    // why it failed
	Created  time.Time // when it was started
	Ended    time.Time // zero: it has not
	WaitsFor []string  // names of the steps that are open
	ETag     storage.ETag
}

// Final reports that the instance has ended.
func (s Snapshot[S]) Final() bool { return s.Status.Final() }

// Get reads an instance. The error matches storage.ErrNotFound if nobody has started it.
func (x *Instances[S]) Get(ctx context.Context, id string) (Snapshot[S], error) {
	return x.get(ctx, id, "")
}

func (x *Instances[S]) get(ctx context.Context, id string, unless storage.ETag) (s Snapshot[S], err error) {
	if err := x.check(id); err != nil {
		return s, err
	}
	d, err := x.documents.Get(ctx, id, unless)
	if v := d.Value; err == nil && (v.Status == "" || v.Status == Init && v.Digest == "") { // a signal or a cancel may have come
		err = storage.ErrNotFound
	}
	if err != nil {
		return s, x.wrap("get", id, err)
	}
	v := d.Value
	s = Snapshot[S]{ID: id, Version: v.Version, Status: v.Status, Error: v.Msg, Created: v.Created, Ended: v.Ended, ETag: d.ETag}
	if v.State != nil {
		if s.State, err = decode[S](jsontext.Value(v.State)); err != nil {
			return s, x.wrap("get", id, err)
		}
	}
	for _, ev := range v.Waits() {
		s.WaitsFor = append(s.WaitsFor, ev.Name)
	}
	return s, nil
}

// Await waits until an instance has ended, or is stuck, and returns it. It waits for an instance that is not there yet,
// too.
func (x *Instances[S]) Await(ctx context.Context, id string) (Snapshot[S], error) {
	const first, most = 5 * time.Millisecond, time.Second
	var last Snapshot[S]
	for pause := first; ; pause = min(pause*3/2, most) {
		s, err := x.get(ctx, id, last.ETag)
		switch {
		case errors.Is(err, storage.ErrNotModified), errors.Is(err, storage.ErrNotFound):
		case err != nil:
			return last, err
		case s.Final() || s.Status == Stuck:
			return s, nil
		default:
			last = s
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return last, x.wrap("await", id, context.Cause(ctx))
		}
	}
}

// instances returns the collection of a plan's documents. A document tells by itself whether it has taken a start, an
// end or an alarm. Signals, acts and events of the program have a record.
func instances(c *channel.Channels, plan string) *values.Collection[flow.Instance] {
	start, done, alarm, fetched := flow.KindOf(plan, "start"), flow.KindOf(plan, "done"), flow.KindOf(plan, "alarm"), flow.KindOf(plan, "fetched")
	return values.New(c, plan, values.Config[flow.Instance]{
		Idempotent: func(e *channel.Envelope) bool {
			return e.Kind == start || e.Kind == done || e.Kind == alarm || e.Kind == fetched
		},
	}).AsIs(wire.Inside{})
}
