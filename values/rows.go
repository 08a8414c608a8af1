package values

import (
	"errors"
	"slices"

	"github.com/millrace-go/millrace/storage"
)

// rowsRead are all rows of the messages whose IDs carry a time from first to last, at the time when they were read.
type rowsRead struct {
	first, last int64
	data        map[string][]byte // nil: none were read
}

// readRows reads together what rows the fold will ask for, in one request in place of one after another, while others
// write the document. What fails here is asked for again by itself.
func (u *unit[V]) readRows() {
	n, r := 0, rowsRead{}
	for _, x := range u.entries {
		if _, found := u.doc.record.find(x); found || x.keyed || u.tooOld(x) || !u.doc.record.mayHaveLeft(x) {
			continue
		}
		if n++; n == 1 {
			r.first, r.last = x.time, x.time
		}
		r.first, r.last = min(r.first, x.time), max(r.last, x.time)
	}
	if n < 2 {
		return
	}
	limit := min(64+16*n, 1000) // a page of Azure's; among more rows than that few would be asked for
	r.data = make(map[string][]byte, n)
	for row, err := range u.c.rows.Query(u.ctx, u.key, storage.RowRange{From: timeKey(r.first), To: timeKey(r.last + 1), Limit: limit}) {
		if err != nil {
			return
		}
		r.data[row.Key] = row.Data
	}
	if len(r.data) < limit {
		u.rows = r
	}
}

// tooOld tells that a message's row may have been forgotten.
func (u *unit[V]) tooOld(x entry) bool {
	return !x.keyed && x.time < u.now.Add(-u.c.cfg.Retention).UnixMilli()
}

// row returns the row of a message that may have left the window.
func (u *unit[V]) row(x entry) (data []byte, found bool, err error) {
	key := x.rowKey()
	if r := &u.rows; r.data != nil && !x.keyed && r.first <= x.time && x.time <= r.last {
		data, found = r.data[key]
		return data, found, nil
	}
	row, err := u.c.rows.Get(u.ctx, u.key, key)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, false, nil
	}
	return row.Data, err == nil, err
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
	rows := make([]storage.RowPut, len(gone))
	for i, x := range gone {
		rows[i] = storage.RowPut{Key: x.rowKey(), Data: slices.Clone(x.content[:])}
	}
	r.forget(gone)
	return &storage.Rows{Table: u.c.name + rowsSuffix, Partition: u.key, Puts: rows}
}
