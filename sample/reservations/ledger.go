package reservations

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/coord/ids"
	"github.com/millrace-go/millrace/storage"
)

// Ledger keeps the accepted reservations as rows of the table "reservations" (partition: date, row: the reservation's
// [Key]), for the staff who prepare an evening, and numbers them. A cancelled reservation has no row.
//
// ReservationCancelled may arrive before its ReservationAccepted, and both may come again. So a cancellation leaves a
// mark in a table of its own, and each side first writes, and then reads what the other may have written:
//
//   - Accept puts the row, and deletes it if there is a mark.
//   - Cancel puts the mark, and then deletes the row.
//
// The later of the two sees the other's write. So in any order, and after any crash and repeat, a cancelled
// reservation has no row and an accepted one has. A reservation is cancelled at most once and never comes back, so
// the mark stays until the date is archived. It holds nothing personal. So does the mark of a rejected reservation,
// which is for the archive alone.
//
// [Archive] ends a date in the same way: it writes the evening, and then deletes the rows. Accept looks for the evening
// after it has put a row, if the day is over.
//
// The row has the reservation's number, so a repeat finds the number that was given. The table "numbers" has the [Key]
// by number. Its rows are never replaced and never deleted: no number is ever given to a second reservation, even if
// the counter is an old one from a backup. A reservation that was cancelled before it got its number gets none.
type Ledger struct {
	rows, cancelled, rejected, byNumber *storage.Table
	evenings                            *storage.Blobs
	numbers                             *ids.Sequence
}

// NewLedger returns the ledger in a store. Only Accept and Record need numbers.
func NewLedger(s *storage.Store, numbers *ids.Sequence) *Ledger {
	return &Ledger{
		rows: s.Table("reservations"), cancelled: s.Table("cancellations"), rejected: s.Table("rejections"), byNumber: s.Table("numbers"),
		evenings: s.Blobs("evenings"), numbers: numbers,
	}
}

// Accept records an accepted reservation, and tells its number to the person.
func (l *Ledger) Accept(ctx context.Context, e ReservationAccepted) error {
	numbered, err := l.Record(ctx, e)
	if err != nil || numbered.Number == "" {
		return err
	}
	return channel.Send(ctx, numbered)
}

// Record keeps an accepted reservation under a number. A repeat returns the same number, and none if the reservation
// was cancelled meanwhile.
func (l *Ledger) Record(ctx context.Context, e ReservationAccepted) (ReservationNumbered, error) {
	row, etag, err := l.put(ctx, e)
	if err != nil {
		return ReservationNumbered{}, fmt.Errorf("ledger: record: %w", err)
	}
	switch gone, err := l.gone(ctx, e); {
	case err != nil:
		return ReservationNumbered{}, fmt.Errorf("ledger: look for a cancellation: %w", err)
	case gone:
		return ReservationNumbered{}, l.remove(ctx, e.Date, e.ID, "")
	}
	switch owner, err := l.claim(ctx, row.Number, Key(e.ID)); {
	case err != nil:
		return ReservationNumbered{}, fmt.Errorf("ledger: number: %w", err)
	case owner != Key(e.ID):
		taken := fmt.Errorf("ledger: No. %s is another reservation's: the counter is too low. See \"millrace ids raise\"", row.Number)
		return ReservationNumbered{}, errors.Join(taken, l.remove(ctx, e.Date, e.ID, etag)) // the next try takes another number
	}
	return row, nil
}

// gone reports whether a reservation was cancelled, or its date archived. A date that isn't over everywhere on Earth
// can't be archived, and costs no look.
func (l *Ledger) gone(ctx context.Context, e ReservationAccepted) (bool, error) {
	_, err := l.cancelled.Get(ctx, e.Date, Key(e.ID))
	if errors.Is(err, storage.ErrNotFound) && e.Date < time.Now().UTC().Add(-12*time.Hour).Format(time.DateOnly) {
		_, err = l.evenings.Get(ctx, e.Date, "")
	}
	if errors.Is(err, storage.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// put returns the reservation's row: the one that is there, or a new one with the next number.
func (l *Ledger) put(ctx context.Context, e ReservationAccepted) (row ReservationNumbered, etag storage.ETag, err error) {
	n, err := l.numbers.Next(ctx)
	if err != nil {
		return row, "", err
	}
	row = ReservationNumbered{ID: e.ID, Date: e.Date, Name: e.Name, Email: e.Email, Quantity: e.Quantity, Number: ids.Format(n)}
	data, err := json.Marshal(row)
	if err != nil {
		return row, "", err
	}
	for {
		etag, err = l.rows.Put(ctx, e.Date, Key(e.ID), data, storage.Condition{IfAbsent: true})
		if !storage.LostRace(err) {
			return row, etag, err
		}
		before, err := l.rows.Get(ctx, e.Date, Key(e.ID))
		if err == nil {
			err = json.Unmarshal(before.Data, &row)
		}
		if !errors.Is(err, storage.ErrNotFound) { // else it was deleted just now
			return row, before.ETag, err
		}
	}
}

// claim returns the key of the reservation that a number belongs to: the given one, if it is the first.
func (l *Ledger) claim(ctx context.Context, number, key string) (owner string, err error) {
	_, err = l.byNumber.Put(ctx, number, numberRow, []byte(key), storage.Condition{IfAbsent: true})
	if !storage.LostRace(err) {
		return key, err
	}
	return Numbered(ctx, l.byNumber, number)
}

// numberRow is the row's key in a partition that is a number.
const numberRow = "key"

// Numbered returns the [Key] of the reservation with a number from the table "numbers"; storage.ErrNotFound if there is
// none.
func Numbered(ctx context.Context, numbers *storage.Table, number string) (key string, err error) {
	row, err := numbers.Get(ctx, number, numberRow)
	return string(row.Data), err
}

// Cancel removes a cancelled reservation, for good.
func (l *Ledger) Cancel(ctx context.Context, e ReservationCancelled) error {
	if _, err := l.cancelled.Put(ctx, e.Date, Key(e.ID), []byte("{}"), storage.Condition{}); err != nil {
		return fmt.Errorf("ledger: mark a cancellation: %w", err)
	}
	return l.remove(ctx, e.Date, e.ID, "")
}

// Reject marks a rejected reservation.
func (l *Ledger) Reject(ctx context.Context, e ReservationRejected) error {
	if _, err := l.rejected.Put(ctx, e.Date, Key(e.ID), []byte("{}"), storage.Condition{}); err != nil {
		return fmt.Errorf("ledger: mark a rejection: %w", err)
	}
	return nil
}

// remove deletes a row, with an etag that version of it only.
func (l *Ledger) remove(ctx context.Context, date, id string, etag storage.ETag) error {
	err := l.rows.Delete(ctx, date, Key(id), storage.Condition{IfMatch: etag})
	if err != nil && !errors.Is(err, storage.ErrNotFound) && !storage.LostRace(err) {
		return fmt.Errorf("ledger: remove: %w", err)
	}
	return nil
}

// On yields the accepted reservations of a date, by key.
func (l *Ledger) On(ctx context.Context, date string) iter.Seq2[ReservationNumbered, error] {
	return Guests(ctx, l.rows, date)
}

// Guests yields the accepted reservations of a date from the table "reservations", by key.
func Guests(ctx context.Context, reservations *storage.Table, date string) iter.Seq2[ReservationNumbered, error] {
	return func(yield func(ReservationNumbered, error) bool) {
		for row, err := range reservations.Query(ctx, date, storage.RowRange{}) {
			var e ReservationNumbered
			if err == nil {
				err = json.Unmarshal(row.Data, &e)
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}
