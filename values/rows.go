package values

import (
	"context"
	"errors"
	"slices"

	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/storage"
)

// readRows reads the rows that the fold will ask for, a page at a time instead of one by one, which would give others
// more time to write the document. u.rows then has each row's data (a row is never empty), or nil if there is no row. A
// row that lies too far from the others, or that could not be read, is read by itself later.
func (u *unit[V]) readRows() {
	var keys []string
	for _, x := range u.entries {
		if _, found := u.doc.record.find(x); found || x.known || x.keyed || u.tooOld(x) || !u.doc.record.mayHaveLeft(x) {
			continue
		}
		keys = append(keys, x.rowKey())
	}
	if len(keys) < 2 {
		return
	}
	slices.Sort(keys)
	u.rows = make(map[string][]byte, len(keys))
	to := keys[len(keys)-1] + "-" // just after the last key
	const page = 1000             // rows in an answer of Azure
	for limit := min(64+16*len(keys), page); len(keys) > 1 && limit >= 64; {
		var last string
		n, found := 0, make(map[string][]byte)
		for row, err := range u.c.rows.Query(u.ctx, u.key, storage.RowRange{From: keys[0], To: to, Limit: limit}) {
			if err != nil {
				return
			}
			n, last = n+1, row.Key
			found[row.Key] = row.Data
		}
		if n < limit {
			last = to
		}
		known, _ := slices.BinarySearch(keys, last+"-")
		for _, key := range keys[:known] {
			u.rows[key] = found[key]
		}
		keys = keys[known:]
		// When a page has many rows of others, it is cheaper to read each row by itself. Where requests are billed, a page
		// costs four of them, however long. On one machine the amount that is read counts (BenchmarkLate).
		worth := 4
		if !u.c.billed {
			worth = limit / 32
		}
		if known < worth {
			limit /= 4
		}
	}
}

// tooOld reports that a message's row may have been deleted.
func (u *unit[V]) tooOld(x entry) bool { return x.before(u.now.Add(-u.c.cfg.Retention)) }

// row returns the row of a message that may have left the window.
func (u *unit[V]) row(x entry) (data []byte, found bool, err error) {
	if data, known := u.rows[x.rowKey()]; known {
		return data, data != nil, nil
	}
	return x.findRow(u.ctx, u.c.rows, u.key)
}

// findRow looks for the row of an entry.
func (x entry) findRow(ctx context.Context, t *storage.Table, key string) (data []byte, found bool, err error) {
	if !x.keyed {
		row, err := t.Get(ctx, key, x.rowKey())
		if errors.Is(err, storage.ErrNotFound) {
			return nil, false, nil
		}
		return row.Data, err == nil, err
	}
	for row, err := range t.Query(ctx, key, x.keyedRow()) {
		if err != nil {
			return nil, false, err
		}
		data, found = row.Data, true // the last is the latest
	}
	return data, found, nil
}

// age takes the oldest entries out of the record when the window is full, and returns the rows that they become.
func (u *unit[V]) age(committed int) *storage.Rows {
	r := &u.doc.record
	if r.len() <= 2*u.c.cfg.Window {
		return nil
	}
	gone := r.leaving(committed, u.c.cfg.Window)
	if len(gone) == 0 {
		return nil
	}
	rows := make([]storage.RowPut, 0, len(gone))
	for _, x := range gone {
		if x.keyed { // first, so that no row is without the one that ends it
			rows = append(rows, storage.RowPut{Key: x.endKey(u.c.cfg.Retention)})
		}
		rows = append(rows, storage.RowPut{Key: x.rowKey(), Data: slices.Clone(x.content[:])})
	}
	r.forget(gone)
	return &storage.Rows{Table: u.c.name + rowsSuffix, Partition: u.key, Puts: rows}
}

// put adds a row to those that are put beside the document. A later one of the same key takes the place of an earlier.
func (u *unit[V]) put(r wire.Row) {
	if u.beside == nil {
		u.beside = &storage.Rows{Table: r.Table, Partition: r.Partition}
	}
	puts := slices.DeleteFunc(u.beside.Puts, func(p storage.RowPut) bool { return p.Key == r.Key })
	u.beside.Puts = append(puts, storage.RowPut{Key: r.Key, Data: r.Data})
}
