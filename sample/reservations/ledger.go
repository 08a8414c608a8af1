package reservations

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"github.com/millrace-go/millrace/storage"
)

// Ledger keeps the accepted reservations as rows of the table "reservations" (partition: date, row: the reservation's
// [Key]), for the staff who prepare an evening. A cancelled reservation has no row.
//
// ReservationCancelled may arrive before its ReservationAccepted, and both may come again. So a cancellation leaves a
// mark in a table of its own, and each side first writes, and then reads what the other may have written:
//
//   - Accept puts the row, and deletes it if there is a mark.
//   - Cancel puts the mark, and then deletes the row.
//
// The later of the two sees the other's write. So in any order, and after any crash and repeat, a cancelled
// reservation has no row and an accepted one has. A reservation is cancelled at most once and never comes back, so
// the mark stays. It holds nothing personal.
type Ledger struct {
	rows, cancelled *storage.Table
}

// NewLedger returns the ledger in a store.
func NewLedger(s *storage.Store) *Ledger {
	return &Ledger{rows: s.Table("reservations"), cancelled: s.Table("cancellations")}
}

// Accept records an accepted reservation.
func (l *Ledger) Accept(ctx context.Context, e ReservationAccepted) error {
	data, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	if _, err := l.rows.Put(ctx, e.Date, Key(e.ID), data, storage.Condition{}); err != nil {
		return fmt.Errorf("ledger: record: %w", err)
	}
	switch _, err := l.cancelled.Get(ctx, e.Date, Key(e.ID)); {
	case errors.Is(err, storage.ErrNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("ledger: look for a cancellation: %w", err)
	}
	return l.remove(ctx, e.Date, e.ID)
}

// Cancel removes a cancelled reservation, for good.
func (l *Ledger) Cancel(ctx context.Context, e ReservationCancelled) error {
	if _, err := l.cancelled.Put(ctx, e.Date, Key(e.ID), []byte("{}"), storage.Condition{}); err != nil {
		return fmt.Errorf("ledger: mark a cancellation: %w", err)
	}
	return l.remove(ctx, e.Date, e.ID)
}

func (l *Ledger) remove(ctx context.Context, date, id string) error {
	err := l.rows.Delete(ctx, date, Key(id), storage.Condition{})
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return fmt.Errorf("ledger: remove: %w", err)
	}
	return nil
}

// On yields the accepted reservations of a date, by key.
func (l *Ledger) On(ctx context.Context, date string) iter.Seq2[ReservationAccepted, error] {
	return func(yield func(ReservationAccepted, error) bool) {
		for row, err := range l.rows.Query(ctx, date, storage.RowRange{}) {
			var e ReservationAccepted
			if err == nil {
				err = json.Unmarshal(row.Data, &e)
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}
