package schedule

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/storage"
)

// A Schedule is a schedule in a store, as operators and their tools use it. It needs no code of the program that has
// registered it. Safe for concurrent use.
type Schedule struct {
	store *storage.Store
	name  string
}

// At returns the schedule of a name.
func At(store *storage.Store, name string) *Schedule { return &Schedule{store, name} }

// A Note tells who wants something of a schedule, and why. Both are valid UTF-8 without control characters.
type Note struct {
	By  string // 1 to 100 bytes
	Why string // at most 500 bytes; may be empty

	// ID is that of an act. An act that is asked for twice under its ID is done once. "" means a new ID.
	ID string
}

// order returns the ID of an order, of which parts say what it is.
func (n Note) order(parts ...string) string {
	if n.ID == "" {
		return channel.NewID()
	}
	return channel.DerivedID(n.ID, parts...)
}

// These errors say why a schedule can't be used as an operator wants, for errors.Is.
var (
	ErrUnknown  = errors.New("no worker has ever registered it")
	ErrOrphaned = errors.New("no worker has it any more")
)

// Pause keeps the schedule from beginning runs. Due times until Resume are left out; Backfill makes up for them. Runs
// that operators ask for begin all the same.
//
// Pause needs no worker: it holds when it returns, also for what is overdue. Info.Changes has its note, under the ID
// that Pause returns.
func (s *Schedule) Pause(ctx context.Context, n Note) (id string, err error) {
	m := order{ID: n.order(s.name, pause), Schedule: s.name, Do: pause, By: n.By, Why: n.Why}
	if err = m.Check(); err == nil {
		err = s.pause(ctx, m)
	}
	if err != nil {
		return "", fmt.Errorf("schedule: pause %s: %w", storage.Quote(s.name), err)
	}
	return m.ID, nil
}

// pause writes a pause into the document. A message would come after a wake that is overdue.
func (s *Schedule) pause(ctx context.Context, m order) error {
	c, err := channelsTo(s.store, QueueName)
	if err != nil {
		return err
	}
	known := false
	err = documents(c).Update(ctx, s.name, func(v document) (document, bool) {
		if known = v.Definition != (definition{}); known {
			if v.has(m.ID) {
				return v, false
			}
			now := time.Now().UTC().Round(0)
			v.note(now, v.beginPause(now, m))
		}
		return v, known
	})
	if err == nil && !known {
		err = ErrUnknown
	}
	return err
}

// Resume ends the present pause. Due times after it run, or count as missed, also where a worker learns of it later.
//
// Like Run and Backfill, Resume sends a message and returns when that is durable. A worker carries it out, and notes it
// with the note in Info.Changes, under the ID that Resume returns.
func (s *Schedule) Resume(ctx context.Context, n Note) (id string, err error) {
	return s.send(ctx, resume, n, time.Time{}, time.Time{})
}

// Run begins a run now. Where runs must not overlap, it waits until the present one has ended.
func (s *Schedule) Run(ctx context.Context, n Note) (id string, err error) {
	return s.send(ctx, runNow, n, time.Time{}, time.Time{})
}

// Backfill begins a run for each due time from a time to another, whether or not it ran before; at most 1000. It goes
// by the present Spec. Both times have passed. Where runs must not overlap, they run one after another, and those of
// the clock go before.
func (s *Schedule) Backfill(ctx context.Context, from, to time.Time, n Note) (id string, err error) {
	return s.send(ctx, backfill, n, from.UTC(), to.UTC())
}

// send sends an order to the queue of the schedule.
func (s *Schedule) send(ctx context.Context, do string, n Note, from, to time.Time) (id string, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("schedule: %s %s: %w", do, storage.Quote(s.name), err)
		}
	}()
	m := order{Schedule: s.name, Do: do, By: n.By, Why: n.Why, From: from, To: to}
	if err := m.Check(); err != nil {
		return "", err
	}
	d, err := s.read(ctx)
	if err != nil {
		return "", err
	}
	if d.Stopped != nil && (do == runNow || do == backfill) {
		return "", ErrOrphaned
	}
	if do == backfill {
		if err := checkRange(d, from, to, time.Now()); err != nil {
			return "", err
		}
	}
	if d.Paused != nil && do == resume {
		m.Pause = d.Paused.ID
	}
	if m.ID = n.order(s.name, do, m.Pause); d.has(m.ID) {
		return m.ID, nil
	}
	c, err := channelsTo(s.store, d.Queue)
	if err != nil {
		return "", err
	}
	return m.ID, c.Send(ctx, m)
}

// checkRange refuses a backfill that the schedule would refuse.
func checkRange(d document, from, to, now time.Time) error {
	if to.After(now) {
		return fmt.Errorf("%w: %s is still to come; a backfill is for due times that have passed", storage.ErrInvalid, to.Format(time.RFC3339))
	}
	spec, err := d.Definition.read()
	if err != nil {
		return err
	}
	switch n := spec.count(from, to, mostFilled+1); {
	case n == 0:
		return fmt.Errorf("%w: nothing is due then", storage.ErrInvalid)
	case n > mostFilled:
		return fmt.Errorf("%w: more than %d due times; take a part of them at a time", storage.ErrInvalid, mostFilled)
	}
	return nil
}

// channelsTo returns channels for the messages of schedules.
func channelsTo(store *storage.Store, queue string) (*channel.Channels, error) {
	routes, err := channel.NewRoutes(RouteTo(queue))
	if err != nil {
		return nil, err
	}
	return channel.New(store, routes, "/"+collection)
}

// read reads the document.
func (s *Schedule) read(ctx context.Context) (document, error) {
	if err := checkName(s.name); err != nil {
		return document{}, err
	}
	c, err := channelsTo(s.store, QueueName)
	if err != nil {
		return document{}, err
	}
	found, err := documents(c).Get(ctx, s.name, "")
	if err == nil && found.Value.Definition == (definition{}) {
		err = ErrUnknown
	}
	return found.Value, err
}

// Info returns what is known of the schedule.
func (s *Schedule) Info(ctx context.Context) (Info, error) {
	d, err := s.read(ctx)
	if err != nil {
		return Info{Name: s.name}, fmt.Errorf("schedule: info %s: %w", storage.Quote(s.name), err)
	}
	return d.info(s.name, time.Now()), nil
}

// List yields all schedules of a store, by name in byte order. It makes a request for each. A document that can't be
// read is yielded with its name and an error, and the listing goes on. An error of the store is yielded last.
func List(ctx context.Context, store *storage.Store) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		c, err := channelsTo(store, QueueName)
		if err != nil {
			yield(Info{}, fmt.Errorf("schedule: list: %w", err))
			return
		}
		all := documents(c)
		for name, err := range all.Keys(ctx, "", "") {
			if err != nil {
				yield(Info{}, fmt.Errorf("schedule: list: %w", err))
				return
			}
			found, err := all.Get(ctx, name, "")
			switch {
			case err == nil && found.Value.Definition == (definition{}):
				continue // it was deleted meanwhile
			case err != nil:
				err = fmt.Errorf("schedule: list: %w", err)
			}
			ends := errors.Is(err, storage.ErrUnavailable) || errors.Is(err, storage.ErrThrottled) || ctx.Err() != nil
			if !yield(found.Value.info(name, time.Now()), err) || ends {
				return
			}
		}
	}
}
