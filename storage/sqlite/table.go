package sqlite

import (
	"context"
	"iter"

	"github.com/millrace-go/millrace/storage/driver"
	"github.com/millrace-go/millrace/storage/sqlite/internal/engine"
)

// table implements driver.Table.
type table struct {
	s    *store
	name string
}

func (t *table) Get(ctx context.Context, partition, key string) (driver.Row, error) {
	t.s.count("get", "table", t.name)
	var row driver.Row
	err := t.s.db.Read(ctx, func(c *engine.Conn) (err error) {
		row, err = t.read(c, partition, key)
		return err
	})
	if err != nil {
		return driver.Row{}, err
	}
	return row, nil
}

func (t *table) read(c *engine.Conn, partition, key string) (driver.Row, error) {
	id, err := t.s.names.lookup(c, nameKey{kindTable, t.name})
	if err != nil {
		return driver.Row{}, err
	}
	s := c.Stmt(`SELECT etag, data FROM rows WHERE tbl = ?1 AND partition = ?2 AND key = ?3`).Int(1, id).Text(2, partition).Text(3, key)
	row, err := s.Step()
	if err != nil {
		return driver.Row{}, err
	}
	if !row {
		return driver.Row{}, driver.ErrNotFound
	}
	defer s.Reset()
	return driver.Row{Key: key, ETag: formatETag(s.ColInt(0)), Data: s.ColBytes(1)}, nil
}

func (t *table) Put(ctx context.Context, partition, key string, data []byte, cond driver.Condition) (driver.ETag, error) {
	t.s.count("put", "table", t.name)
	var etag driver.ETag
	err := t.s.write(&engine.Op{Ctx: ctx, Size: len(data) + len(key) + 100}, func(w *tx) (err error) {
		etag, err = w.guarded.putRow(t.name, partition, key, data, cond)
		return err
	})
	if err != nil {
		return "", err
	}
	return etag, nil
}

func (g guarded) putRow(name, partition, key string, data []byte, cond driver.Condition) (driver.ETag, error) {
	return g.put(kindTable, name, cond, puts{
		always: `INSERT INTO rows (tbl, partition, key, etag, data) VALUES (?1, ?2, ?3, ?4, ?5)
			ON CONFLICT DO UPDATE SET etag = excluded.etag, data = excluded.data`,
		absent: `INSERT INTO rows (tbl, partition, key, etag, data) VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO NOTHING`,
		match:  `UPDATE rows SET etag = ?4, data = ?5 WHERE tbl = ?1 AND partition = ?2 AND key = ?3 AND etag = ?6`,
	}, func(s *engine.Stmt, id, etag int64) {
		s.Int(1, id).Text(2, partition).Text(3, key).Int(4, etag).Blob(5, data)
	})
}

func (t *table) PutBatch(ctx context.Context, partition string, rows []driver.RowPut) error {
	t.s.count("put batch", "table", t.name)
	return t.s.write(&engine.Op{Ctx: ctx, Size: rowsSize(rows)}, func(w *tx) error { return w.guarded.putRows(t.name, partition, rows) })
}

func rowsSize(rows []driver.RowPut) (size int) {
	for _, r := range rows {
		size += len(r.Data) + len(r.Key) + 100
	}
	return size
}

func (g guarded) putRows(name, partition string, rows []driver.RowPut) error {
	for _, r := range rows {
		if _, err := g.putRow(name, partition, r.Key, r.Data, driver.Condition{}); err != nil {
			return err
		}
	}
	return nil
}

func (t *table) Delete(ctx context.Context, partition, key string, cond driver.Condition) error {
	t.s.count("delete", "table", t.name)
	return t.s.write(&engine.Op{Ctx: ctx, Size: 100}, func(w *tx) error {
		return w.guarded.remove(kindTable, t.name, cond,
			`SELECT etag FROM rows WHERE tbl = ?1 AND partition = ?2 AND key = ?3`,
			`DELETE FROM rows WHERE tbl = ?1 AND partition = ?2 AND key = ?3`,
			func(s *engine.Stmt, id int64) { s.Int(1, id).Text(2, partition).Text(3, key) })
	})
}

// DeleteBatch deletes all or none.
func (t *table) DeleteBatch(ctx context.Context, partition string, keys []string) error {
	t.s.count("delete batch", "table", t.name)
	return t.s.write(&engine.Op{Ctx: ctx, Size: 100 * len(keys)}, func(w *tx) error {
		id, err := w.names.find(kindTable, t.name)
		if err != nil || id == 0 {
			return err
		}
		for _, key := range keys {
			err := w.c.Stmt(`DELETE FROM rows WHERE tbl = ?1 AND partition = ?2 AND key = ?3`).Int(1, id).Text(2, partition).Text(3, key).Run()
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func (t *table) Query(ctx context.Context, partition string, r driver.RowRange) iter.Seq2[driver.Row, error] {
	rows := pages(ctx, t.s.db, r.From,
		func(c *engine.Conn, from string) ([]driver.Row, string, bool, error) {
			t.s.count("query", "table", t.name)
			return t.page(c, partition, from, r.To, r.Limit)
		})
	if r.Limit <= 0 {
		return rows
	}
	return func(yield func(driver.Row, error) bool) {
		n := 0
		for row, err := range rows {
			if !yield(row, err) {
				return
			}
			if n++; n == r.Limit {
				return
			}
		}
	}
}

func (t *table) page(c *engine.Conn, partition, from, to string, limit int) (page []driver.Row, next string, more bool, err error) {
	id, err := t.s.names.lookup(c, nameKey{kindTable, t.name})
	if err != nil || id == 0 {
		return nil, "", false, err
	}
	n := pageItems
	if limit > 0 {
		n = min(n, limit)
	}
	s := upTo(c.Stmt(`SELECT key, etag, data FROM rows WHERE tbl = ?1 AND partition = ?2 AND key >= ?3 AND key < ?4 ORDER BY key LIMIT ?5`).
		Int(1, id).Text(2, partition).Text(3, from), 4, to).Int(5, int64(n))
	bytes := 0
	for bytes < pageBytes {
		row, err := s.Step()
		if err != nil {
			return nil, "", false, err
		}
		if !row {
			return page, next, len(page) == n, nil
		}
		r := driver.Row{Key: s.ColText(0), ETag: formatETag(s.ColInt(1)), Data: s.ColBytes(2)}
		page = append(page, r)
		next = r.Key + "\x00"
		bytes += len(r.Data)
	}
	s.Reset()
	return page, next, true, nil
}
