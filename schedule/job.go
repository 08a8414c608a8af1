package schedule

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/handling/usercode"
	"github.com/millrace-go/millrace/internal/wire"
)

// A job is a schedule as a program has registered it.
type job struct {
	name       string
	definition definition
	kind       channel.Kind // empty: runs may differ
	queue      func(channel.Kind) (string, error)
	command    func(Tick) channel.Message
	metrics    metrics
	log        *slog.Logger
}

// buildTime is how long the user's function may take.
const buildTime = 5 * time.Second

// build makes the command of a tick. It calls the user's code on a goroutine that may be lost.
func (j *job) build(t Tick, id string) (built, error) {
	type outcome struct {
		command built
		err     error
	}
	ended := make(chan outcome, 1)
	go func() {
		var o outcome
		o.err = usercode.Contain(func() (err error) {
			o.command, err = j.compose(t, id)
			return err
		})
		ended <- o
	}()
	patience := time.NewTimer(buildTime)
	defer patience.Stop()
	select {
	case o := <-ended:
		return o.command, o.err
	case <-patience.C:
		return built{}, fmt.Errorf("the function for its commands hangs: it was given up after %v", buildTime)
	}
}

// compose makes the command and all that its methods say of it.
func (j *job) compose(t Tick, id string) (built, error) {
	m := j.command(t)
	if wire.IsNil(m) {
		return built{}, errors.New("the function for its commands returns nil")
	}
	k := m.Kind()
	if j.kind != "" && k != j.kind {
		return built{}, fmt.Errorf("the kind of its command is %s now, and was %s", k, j.kind)
	}
	if _, err := j.queue(k); err != nil {
		return built{}, err
	}
	e, err := wire.Compose(m, "/"+collection, t.Due)
	if err != nil {
		return built{}, err
	}
	if chosen, ok := m.(channel.Identified); !ok || chosen.MessageID() == "" {
		e.ID = id
	}
	if _, err := e.Encode(); err != nil {
		return built{}, err
	}
	return built{kind: e.Kind, id: e.ID, subject: e.Subject, data: e.Data}, nil
}

// built is a command whose content and attributes are known, so that to send it calls none of the user's code.
type built struct {
	kind        channel.Kind
	id, subject string
	data        []byte
}

// Kind is the name on the wire.
func (m built) Kind() channel.Kind { return m.kind }

// MessageID is the command's ID.
func (m built) MessageID() string { return m.id }

// Subject is the command's own subject, or empty.
func (m built) Subject() string { return m.subject }

// MarshalJSON returns the body.
func (m built) MarshalJSON() ([]byte, error) { return m.data, nil }

// id returns the ID of the command of an entry. It follows from the schedule and the due time, or from the order. An ID
// counts from the due time it carries, and a message that is too old can't be judged: so the ID of a run that is very
// late carries the present time.
func (x entry) id(schedule string, now time.Time) string {
	due := x.Due.Format(time.RFC3339)
	switch {
	case x.Asked != "":
		return channel.DerivedID(x.Asked, string(x.Cause), due)
	case now.Sub(x.Due) > veryLate:
		return wire.DerivedAt(now, collection, schedule, due)
	}
	return wire.DerivedAt(x.Due, collection, schedule, due)
}

const veryLate = 7 * 24 * time.Hour

// sent notes that the command of a run is sent.
func (j *job) sent(r Run) {
	j.metrics.count(sent)
	if r.Cause.byClock() {
		j.metrics.observe(r.Sent.Sub(r.Due))
	}
}

// failed notes that a run has no command.
func (j *job) failed(r Run, err error) {
	j.metrics.count(failed)
	attrs := []slog.Attr{slog.String("schedule", j.name), slog.Time("due", r.Due), slog.Any("error", err)}
	if p, ok := errors.AsType[*handlers.PanicError](err); ok {
		attrs = append(attrs, slog.String("stack", p.Stack))
	}
	j.log.LogAttrs(context.Background(), slog.LevelError, "a schedule could not make its command; it goes on with the next due time", attrs...)
}
