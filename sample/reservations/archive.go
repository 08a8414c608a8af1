package reservations

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/files/valet"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/views"
)

// Evening is the value object that is kept of a date for good. It names nobody.
type Evening struct {
	Date      string  `json:"date"`
	Guests    int     `json:"guests"`
	Tables    []Table `json:"tables,omitempty"` // the reservations that were kept
	Cancelled int     `json:"cancelled"`        // reservations
	Rejected  int     `json:"rejected"`         // reservations
}

// Table is a reservation of an evening.
type Table struct {
	Number string `json:"number"` // 1042-9
	Seats  int    `json:"seats"`
}

// Keep takes the first command and no other: when a repeat comes, the ledger may be empty.
func (e Evening) Keep(m KeepEvening) (Evening, []channel.Message, error) {
	if e.Date == "" {
		e = Evening(m)
	}
	return e, []channel.Message{EveningKept{Date: m.Date}}, nil
}

// Archive keeps the evening of a date, and then deletes all that is stored of its reservations: rows of the ledger,
// receipts, requests and menu wishes. Only the [Capacity] stays, closed and empty.
//
//	DateArchived ─▶ Archive.Keep ─▶ KeepEvening ─▶ Evening.Keep ─▶ EveningKept ─▶ Archive.Forget
//
// Any step may be the last of a worker, and two workers may do the same at once. Nothing is deleted before the evening
// is written. A late acceptance puts a row and then looks for the evening; Forget reads the rows after it is written.
// So the acceptance sees the evening, or Forget sees the row. The rows go last, because they say what else there is.
type Archive struct {
	ledger   *Ledger
	statuses *views.View[Status]
	requests *storage.Blobs
	wishes   wishes
}

// NewArchive returns the archive of a store. Files may be nil where there are no menu wishes.
func NewArchive(c *channel.Channels, files *valet.Valet) *Archive {
	s := c.Store()
	return &Archive{ledger: NewLedger(s, nil), statuses: Statuses(c), requests: s.Blobs("requests"), wishes: wishes{files}}
}

// Keep sends what the ledger knows of a date to its evening.
func (a *Archive) Keep(ctx context.Context, e DateArchived) error {
	evening, _, err := a.read(ctx, e.Date)
	if err != nil {
		return fmt.Errorf("archive: read: %w", err)
	}
	return channel.Send(ctx, KeepEvening(evening))
}

// Forget deletes what is stored of a date's reservations. A repeat ends what a worker has left.
func (a *Archive) Forget(ctx context.Context, e EveningKept) error {
	_, rows, err := a.read(ctx, e.Date)
	if err != nil {
		return fmt.Errorf("archive: read: %w", err)
	}
	if err := a.wishes.forget(ctx, e.Date, "the date is archived"); err != nil {
		return fmt.Errorf("archive: %w", err)
	}
	for _, keys := range rows {
		for _, key := range keys {
			if err := a.forget(ctx, key); err != nil {
				return fmt.Errorf("archive: forget: %w", err)
			}
		}
	}
	for table, keys := range rows {
		if err := table.DeleteRows(ctx, e.Date, keys); err != nil {
			return fmt.Errorf("archive: clear the ledger: %w", err)
		}
	}
	return nil
}

// read returns what the ledger knows of a date, and the keys of its reservations by table.
func (a *Archive) read(ctx context.Context, date string) (e Evening, rows map[*storage.Table][]string, err error) {
	e.Date, rows = date, map[*storage.Table][]string{}
	for _, table := range []*storage.Table{a.ledger.rows, a.ledger.cancelled, a.ledger.rejected} {
		for row, err := range table.Query(ctx, date, storage.RowRange{}) {
			if err != nil {
				return e, nil, err
			}
			rows[table] = append(rows[table], row.Key)
			if table != a.ledger.rows {
				continue
			}
			var r ReservationNumbered
			if err := json.Unmarshal(row.Data, &r); err != nil {
				return e, nil, err
			}
			e.Guests += r.Quantity
			e.Tables = append(e.Tables, Table{Number: r.Number, Seats: r.Quantity})
		}
	}
	e.Cancelled, e.Rejected = len(rows[a.ledger.cancelled]), len(rows[a.ledger.rejected])
	return e, rows, nil
}

// forget deletes a reservation's receipt and request.
func (a *Archive) forget(ctx context.Context, key string) error {
	if err := a.statuses.Delete(ctx, key); err != nil {
		return err
	}
	if err := a.requests.Delete(ctx, key, storage.Condition{}); err != nil && !errors.Is(err, storage.ErrNotFound) {
		return err
	}
	return nil
}
