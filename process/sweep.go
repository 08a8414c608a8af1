package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/process/internal/flow"
	"github.com/millrace-go/millrace/storage"
)

const (
	sweepEvery = 10 * time.Minute
	overdue    = 5 * time.Minute // that an alarm may be late before it is asked about
	maxNudges  = 500             // of a sweep
	readEvery  = 24 * time.Hour  // all documents are read once in this time, as far as maxRead allows
	maxRead    = 500             // documents of a sweep
)

// swept is the row that makes one sweep of many that are asked for at a time.
type swept struct {
	At   time.Time `json:"at"`             // the latest that has begun
	By   string    `json:"by"`             // ID of its message
	Read time.Time `json:"read"`           // when reading all documents has begun last
	From string    `json:"from,omitempty"` // the document that was read last, if that goes on
}

// sweeper is the supervisor of a plan's instances.
type sweeper struct {
	keeper *keeper
	log    *slog.Logger
}

// sweep asks the instances whose alarm is overdue to look at themselves, mends what the index has wrong, and asks for
// the next sweep. Of several sweeps for one time only the first does anything, so any number of programs may ask for
// them.
func (s *sweeper) sweep(ctx context.Context, e *channel.Envelope, m flow.Sweep) ([]channel.Message, error) {
	rows := s.keeper.store.Table(s.keeper.plan + plansSuffix)
	now := time.Now().UTC()
	switch {
	case ahead(m.At, now):
		m.At = now.Truncate(sweepEvery)
	case m.At.After(now):
		now = m.At
	}
	last, cond, mine, err := claimSweep(ctx, rows, e.ID, m.At, now)
	if err != nil || !mine {
		return nil, err
	}
	asks, err := s.overdue(ctx, now)
	if err != nil {
		return nil, err
	}
	before := last
	more, err := s.read(ctx, &last, now)
	if err != nil {
		return nil, err
	}
	if last != before {
		if _, err := putSwept(ctx, rows, last, cond); err != nil && !storage.LostRace(err) {
			return nil, err
		}
	}
	next := m.At.Truncate(sweepEvery).Add(sweepEvery) // the same for all chains, of which one goes on
	if now.After(next) {                              // all programs were down for a while
		next = now.Truncate(sweepEvery).Add(sweepEvery)
	}
	return append(append(asks, more...), channel.At(next, flow.Sweep{Plan: s.keeper.plan, At: next})), nil
}

// ahead reports that the time of a sweep is by a clock that was ahead: no sweep is asked for so long before.
func ahead(at, now time.Time) bool { return at.Sub(now) > 2*sweepEvery }

// claimSweep notes that a sweep begins. It is not mine if another one for the same time, or a later one, has begun.
// That one asks for the next.
func claimSweep(ctx context.Context, rows *storage.Table, id string, at, now time.Time) (last swept, cond storage.Condition, mine bool, err error) {
	for {
		last = swept{}
		row, err := rows.Get(ctx, sweepRows, "last")
		cond = storage.Condition{IfMatch: row.ETag}
		switch {
		case errors.Is(err, storage.ErrNotFound):
			cond = storage.Condition{IfAbsent: true}
		case err != nil:
			return last, cond, false, err
		default:
			if err := json.Unmarshal(row.Data, &last); err != nil {
				return last, cond, false, fmt.Errorf("process: what the last sweep has noted: %w", err)
			}
		}
		if !last.At.Before(at) && !ahead(last.At, now) { // it may have begun before, and died
			return last, cond, last.At.Equal(at) && last.By == id, nil
		}
		last.At, last.By = at, id
		etag, err := putSwept(ctx, rows, last, cond)
		if storage.LostRace(err) {
			continue
		}
		return last, storage.Condition{IfMatch: etag}, err == nil, err
	}
}

func putSwept(ctx context.Context, rows *storage.Table, s swept, cond storage.Condition) (storage.ETag, error) {
	data, err := json.Marshal(s)
	if err != nil {
		return "", err
	}
	return rows.Put(ctx, sweepRows, "last", data, cond)
}

// overdue looks at the instances whose row in the index says that their alarm is overdue.
func (s *sweeper) overdue(ctx context.Context, now time.Time) (asks []channel.Message, err error) {
	seen := found{at: time.Now(), open: map[Status]int{}}
	for row, err := range s.keeper.store.Table(s.keeper.plan+indexSuffix).Query(ctx, openRows, storage.RowRange{}) {
		if err != nil {
			return nil, err
		}
		x := Entry{ID: row.Key}
		known := json.Unmarshal(row.Data, &x) == nil
		seen.open[x.Status]++
		if known && (x.Due.IsZero() || x.Due.After(now.Add(-overdue))) {
			continue
		}
		seen.overdue++
		if len(asks) >= maxNudges {
			continue
		}
		more, err := s.look(ctx, row.Key, now)
		if err != nil {
			return nil, err
		}
		asks = append(asks, more...)
	}
	s.keeper.meters.swept.found(s.keeper.plan, seen)
	return asks, nil
}

// read looks at some documents, whatever the index says of them, in the order of their IDs.
func (s *sweeper) read(ctx context.Context, last *swept, now time.Time) (asks []channel.Message, err error) {
	if last.From == "" {
		if now.Sub(last.Read).Abs() < readEvery {
			return nil, nil
		}
		last.Read = now
	}
	n := 0
	for b, err := range s.keeper.store.Blobs(s.keeper.plan).List(ctx, "") {
		if err != nil {
			return nil, err
		}
		if b.Key <= last.From {
			continue
		}
		if n == maxRead {
			return asks, nil
		}
		more, err := s.look(ctx, b.Key, now)
		if err != nil {
			return nil, err
		}
		n, last.From, asks = n+1, b.Key, append(asks, more...)
	}
	last.From = ""
	return asks, nil
}

// document returns the document of an instance, whose row it brings up to date, or of a part, which has none.
func (s *sweeper) document(ctx context.Context, id string) (flow.Instance, error) {
	if strings.Contains(id, "/") {
		d, err := s.keeper.instances.Get(ctx, id, "")
		return d.Value, err
	}
	return s.keeper.refresh(ctx, id, true)
}

// look brings an instance's row in the index up to date, unless it is, and returns what the instance is asked. One
// whose document or row is at fault is logged: the sweep goes on with the others.
func (s *sweeper) look(ctx context.Context, id string, now time.Time) ([]channel.Message, error) {
	d, err := s.document(ctx, id)
	if err != nil && ctx.Err() == nil && !errors.Is(err, storage.ErrUnavailable) && !errors.Is(err, storage.ErrThrottled) {
		s.log.LogAttrs(ctx, slog.LevelError, "a sweep can't look at an instance; it goes on with the others",
			slog.String("plan", s.keeper.plan), slog.String("instance", id), slog.Any("error", err))
		return nil, nil
	}
	late := func(x time.Time) bool { return !x.IsZero() && x.Before(now.Add(-overdue)) }
	nudge := late(d.Alarm) && !d.Status.Final() && d.Status != Init || late(d.Purge)
	if err != nil || !nudge {
		return nil, err
	}
	return []channel.Message{flow.Act{Plan: s.keeper.plan, ID: id, Do: flow.ActNudge, By: "sweep"}}, nil
}
