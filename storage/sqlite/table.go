package sqlite

import (
	"context"
	"fmt"
	"iter"

	"github.com/millrace-go/millrace/storage"
)

// table implements storage.Table and storage.BatchTable.
type table struct {
	s       *store
	name    string
	invalid error
}

var _ storage.BatchTable = (*table)(nil)

func tooLarge(n, most int) error {
	return fmt.Errorf("%w: %d bytes; at most %d", storage.ErrTooLarge, n, most)
}

func (t *table) resource(partition, key string) string {
	return "row " + t.name + "/" + storage.Quote(partition) + "/" + storage.Quote(key)
}

func (t *table) check(partition, key string) error {
	if t.invalid != nil {
		return t.invalid
	}
	if err := storage.CheckKey(partition); err != nil {
		return err
	}
	return storage.CheckKey(key)
}

func (t *table) Get(ctx context.Context, partition, key string) (storage.Row, error) {
	err := t.check(partition, key)
	var row storage.Row
	if err == nil {
		err = t.s.readers.do(ctx, func(c *conn) (err error) {
			row, err = t.read(c, partition, key)
			return err
		})
	}
	if err != nil {
		return storage.Row{}, fail("get", t.resource(partition, key), err)
	}
	return row, nil
}

func (t *table) read(c *conn, partition, key string) (storage.Row, error) {
	id, err := t.s.names.lookup(c, nameKey{kindTable, t.name})
	if err != nil {
		return storage.Row{}, err
	}
	s := c.stmt(`SELECT etag, data FROM rows WHERE tbl = ?1 AND partition = ?2 AND key = ?3`).int(1, id).text(2, partition).text(3, key)
	row, err := s.step()
	if err != nil {
		return storage.Row{}, err
	}
	if !row {
		return storage.Row{}, storage.ErrNotFound
	}
	defer s.reset()
	return storage.Row{Key: key, ETag: formatETag(s.colInt(0)), Data: s.colBytes(1)}, nil
}

func (t *table) Put(ctx context.Context, partition, key string, data []byte, cond storage.Condition) (storage.ETag, error) {
	err := t.check(partition, key)
	if err == nil && len(data) > maxRow {
		err = tooLarge(len(data), maxRow)
	}
	if err == nil {
		err = cond.Check()
	}
	var etag storage.ETag
	if err == nil {
		err = t.s.write(&op{ctx: ctx, size: len(data) + len(key) + 100, run: func(w *writer) (err error) {
			etag, err = w.putRow(t.name, partition, key, data, cond)
			return err
		}})
	}
	if err != nil {
		return "", fail("put", t.resource(partition, key), err)
	}
	return etag, nil
}

// putRow writes a row if the condition holds. One statement does both.
func (w *writer) putRow(name, partition, key string, data []byte, cond storage.Condition) (storage.ETag, error) {
	old, ok := parseETag(cond.IfMatch)
	if !ok {
		return "", storage.ErrPrecondition
	}
	id, err := w.nameFor(kindTable, name, cond)
	if err != nil {
		return "", err
	}
	sql, failed := `INSERT INTO rows (tbl, partition, key, etag, data) VALUES (?1, ?2, ?3, ?4, ?5)
		ON CONFLICT DO UPDATE SET etag = excluded.etag, data = excluded.data`, error(nil)
	switch {
	case cond.IfAbsent:
		sql = `INSERT INTO rows (tbl, partition, key, etag, data) VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO NOTHING`
		failed = storage.ErrExists
	case cond.IfMatch != "":
		sql = `UPDATE rows SET etag = ?4, data = ?5 WHERE tbl = ?1 AND partition = ?2 AND key = ?3 AND etag = ?6`
		failed = storage.ErrPrecondition
	}
	etag := newETag()
	s := w.c.stmt(sql).int(1, id).text(2, partition).text(3, key).int(4, etag).blob(5, data)
	if cond.IfMatch != "" {
		s.int(6, old)
	}
	if err := s.run(); err != nil {
		return "", err
	}
	if w.c.changes() == 0 {
		return "", failed
	}
	return formatETag(etag), nil
}

// PutBatch implements storage.BatchTable.
func (t *table) PutBatch(ctx context.Context, partition string, rows []storage.RowPut) error {
	err := t.checkBatch(partition, rows)
	if err == nil && len(rows) > 0 {
		size := 0
		for _, r := range rows {
			size += len(r.Data) + len(r.Key) + 100
		}
		err = t.s.write(&op{ctx: ctx, size: size, run: func(w *writer) error {
			for _, r := range rows {
				if _, err := w.putRow(t.name, partition, r.Key, r.Data, storage.Condition{}); err != nil {
					return err
				}
			}
			return nil
		}})
	}
	if err != nil {
		return fail("put batch", "partition "+t.name+"/"+storage.Quote(partition), err)
	}
	return nil
}

func (t *table) checkBatch(partition string, rows []storage.RowPut) error {
	if t.invalid != nil {
		return t.invalid
	}
	if err := storage.CheckKey(partition); err != nil {
		return err
	}
	if len(rows) > storage.MaxBatchRows {
		return fmt.Errorf("%w: %d rows in a batch; at most %d", storage.ErrInvalid, len(rows), storage.MaxBatchRows)
	}
	seen, bytes := make(map[string]bool, len(rows)), 0
	for i, r := range rows {
		bytes += len(r.Data)
		err := storage.CheckKey(r.Key)
		switch {
		case err != nil:
		case len(r.Data) > maxRow:
			err = tooLarge(len(r.Data), maxRow)
		case bytes > storage.MaxBatchBytes:
			err = fmt.Errorf("%w: more than %d bytes in a batch", storage.ErrInvalid, storage.MaxBatchBytes)
		case seen[r.Key]:
			err = fmt.Errorf("%w: key %s stands there twice", storage.ErrInvalid, storage.Quote(r.Key))
		}
		if err != nil {
			return fmt.Errorf("row %d of %d: %w", i+1, len(rows), err)
		}
		seen[r.Key] = true
	}
	return nil
}

func (t *table) Delete(ctx context.Context, partition, key string, cond storage.Condition) error {
	err := t.check(partition, key)
	if err == nil {
		err = cond.CheckDelete()
	}
	if err == nil {
		err = t.s.write(&op{ctx: ctx, size: 100, run: func(w *writer) error {
			id, err := w.find(kindTable, t.name)
			if err != nil {
				return err
			}
			at := w.c.stmt(`SELECT etag FROM rows WHERE tbl = ?1 AND partition = ?2 AND key = ?3`).int(1, id).text(2, partition).text(3, key)
			if err := guard(at, cond); err != nil {
				return err
			}
			return w.c.stmt(`DELETE FROM rows WHERE tbl = ?1 AND partition = ?2 AND key = ?3`).int(1, id).text(2, partition).text(3, key).run()
		}})
	}
	if err != nil {
		return fail("delete", t.resource(partition, key), err)
	}
	return nil
}

func (t *table) Query(ctx context.Context, partition string, r storage.RowRange) iter.Seq2[storage.Row, error] {
	resource := "partition " + t.name + "/" + storage.Quote(partition)
	invalid := t.invalid
	if invalid == nil {
		invalid = storage.CheckKey(partition)
	}
	rows := pages(ctx, t.s.readers, "query", resource, invalid, r.From,
		func(c *conn, from string) ([]storage.Row, string, bool, error) {
			return t.page(c, partition, from, r.To, r.Limit)
		})
	if r.Limit <= 0 {
		return rows
	}
	return func(yield func(storage.Row, error) bool) {
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

func (t *table) page(c *conn, partition, from, to string, limit int) (page []storage.Row, next string, more bool, err error) {
	id, err := t.s.names.lookup(c, nameKey{kindTable, t.name})
	if err != nil || id == 0 {
		return nil, "", false, err
	}
	n := pageItems
	if limit > 0 {
		n = min(n, limit)
	}
	s := upTo(c.stmt(`SELECT key, etag, data FROM rows WHERE tbl = ?1 AND partition = ?2 AND key >= ?3 AND key < ?4 ORDER BY key LIMIT ?5`).
		int(1, id).text(2, partition).text(3, from), 4, to).int(5, int64(n))
	bytes := 0
	for bytes < pageBytes {
		row, err := s.step()
		if err != nil {
			return nil, "", false, err
		}
		if !row {
			return page, next, len(page) == n, nil
		}
		r := storage.Row{Key: s.colText(0), ETag: formatETag(s.colInt(1)), Data: s.colBytes(2)}
		page = append(page, r)
		next = r.Key + "\x00"
		bytes += len(r.Data)
	}
	s.reset()
	return page, next, true, nil
}
