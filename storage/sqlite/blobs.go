package sqlite

import (
	"context"
	"iter"
	"time"

	"github.com/millrace-go/millrace/storage/driver"
	"github.com/millrace-go/millrace/storage/sqlite/internal/engine"
)

// A listing reads so many entries at a time, or so many bytes of them. Between two pages it holds nothing.
const (
	pageItems = 500
	pageBytes = 1 << 20
)

// blobs implements driver.Blobs.
type blobs struct {
	s    *store
	name string
}

func (b *blobs) Get(ctx context.Context, key string, ifNoneMatch driver.ETag) (driver.Blob, error) {
	b.s.count("get", "blob", b.name)
	var blob driver.Blob
	err := b.s.db.Read(ctx, func(c *engine.Conn) (err error) {
		blob, err = b.read(c, key, ifNoneMatch)
		return err
	})
	if err != nil {
		return driver.Blob{}, err
	}
	return blob, nil
}

func (b *blobs) read(c *engine.Conn, key string, ifNoneMatch driver.ETag) (driver.Blob, error) {
	id, err := b.s.names.lookup(c, nameKey{kindContainer, b.name})
	if err != nil {
		return driver.Blob{}, err
	}
	s := c.Stmt(`SELECT etag, body FROM blobs WHERE container = ?1 AND key = ?2`).Int(1, id).Text(2, key)
	row, err := s.Step()
	if err != nil {
		return driver.Blob{}, err
	}
	if !row {
		return driver.Blob{}, driver.ErrNotFound
	}
	defer s.Reset()
	etag := s.ColInt(0)
	if ifNoneMatch != "" && ifNoneMatch == formatETag(etag) {
		return driver.Blob{}, driver.ErrNotModified
	}
	return driver.Blob{Body: s.ColBytes(1), ETag: formatETag(etag)}, nil
}

func (b *blobs) Put(ctx context.Context, key string, body []byte, cond driver.Condition) (driver.ETag, error) {
	b.s.count("put", "blob", b.name)
	var etag driver.ETag
	err := b.s.write(&engine.Op{Ctx: ctx, Size: len(body) + len(key) + 100}, func(w *tx) (err error) {
		etag, err = w.guarded.putBlob(b.name, key, body, w.now, cond)
		return err
	})
	if err != nil {
		return "", err
	}
	return etag, nil
}

func (g guarded) putBlob(container, key string, body []byte, now time.Time, cond driver.Condition) (driver.ETag, error) {
	return g.put(kindContainer, container, cond, puts{
		always: `INSERT INTO blobs (container, key, etag, modified, body) VALUES (?1, ?2, ?3, ?4, ?5)
			ON CONFLICT DO UPDATE SET etag = excluded.etag, modified = excluded.modified, body = excluded.body`,
		absent: `INSERT INTO blobs (container, key, etag, modified, body) VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO NOTHING`,
		match:  `UPDATE blobs SET etag = ?3, modified = ?4, body = ?5 WHERE container = ?1 AND key = ?2 AND etag = ?6`,
	}, func(s *engine.Stmt, id, etag int64) {
		s.Int(1, id).Text(2, key).Int(3, etag).Int(4, micros(now)).Blob(5, body)
	})
}

func (b *blobs) Delete(ctx context.Context, key string, cond driver.Condition) error {
	b.s.count("delete", "blob", b.name)
	return b.s.write(&engine.Op{Ctx: ctx, Size: 100}, func(w *tx) error {
		return w.guarded.remove(kindContainer, b.name, cond,
			`SELECT etag FROM blobs WHERE container = ?1 AND key = ?2`,
			`DELETE FROM blobs WHERE container = ?1 AND key = ?2`,
			func(s *engine.Stmt, id int64) { s.Int(1, id).Text(2, key) })
	})
}

func (b *blobs) List(ctx context.Context, prefix, after string) iter.Seq2[driver.BlobInfo, error] {
	from := prefix
	if after != "" {
		from = max(prefix, after+"\x00")
	}
	return pages(ctx, b.s.db, from,
		func(c *engine.Conn, from string) ([]driver.BlobInfo, string, bool, error) {
			b.s.count("list", "blob", b.name)
			return b.page(c, prefix, from)
		})
}

func (b *blobs) page(c *engine.Conn, prefix, from string) (page []driver.BlobInfo, next string, more bool, err error) {
	id, err := b.s.names.lookup(c, nameKey{kindContainer, b.name})
	if err != nil || id == 0 {
		return nil, "", false, err
	}
	s := upTo(c.Stmt(`SELECT key, etag, length(body), modified FROM blobs WHERE container = ?1 AND key >= ?2 AND key < ?3 ORDER BY key LIMIT ?4`).
		Int(1, id).Text(2, from), 3, endOf(prefix)).Int(4, pageItems)
	for {
		row, err := s.Step()
		if err != nil {
			return nil, "", false, err
		}
		if !row {
			return page, next, len(page) == pageItems, nil
		}
		i := driver.BlobInfo{
			Key:      s.ColText(0),
			ETag:     formatETag(s.ColInt(1)),
			Size:     s.ColInt(2),
			Modified: time.UnixMicro(s.ColInt(3)),
		}
		page = append(page, i)
		next = i.Key + "\x00"
	}
}

// pages yields the items that page returns, page after page. page returns the items from a key on, the key from which
// the next page begins, and whether there may be one.
func pages[T any](ctx context.Context, db *engine.DB, from string,
	page func(c *engine.Conn, from string) (items []T, next string, more bool, err error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		from := from
		for more := true; more; {
			var items []T
			err := db.Read(ctx, func(c *engine.Conn) (err error) {
				var next string
				items, next, more, err = page(c, from)
				if err == nil {
					from = next
				}
				return err
			})
			if err != nil {
				yield(none, err)
				return
			}
			for _, it := range items {
				if ctx.Err() != nil {
					yield(none, context.Cause(ctx))
					return
				}
				if !yield(it, nil) {
					return
				}
			}
		}
	}
}

// endOf returns the smallest text above all texts that begin with prefix, or "" when there is none.
func endOf(prefix string) string {
	b := []byte(prefix)
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] < 0xff {
			b[i]++
			return string(b[:i+1])
		}
	}
	return ""
}

// upTo binds an upper bound of a key; "" is no bound. In SQLite's order any blob is above all text.
func upTo(s *engine.Stmt, i int, end string) *engine.Stmt {
	if end == "" {
		return s.Blob(i, nil)
	}
	return s.Text(i, end)
}
