package sqlite

import (
	"context"
	"iter"
	"time"

	"github.com/millrace-go/millrace/storage/driver"
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
	err := b.s.readers.do(ctx, func(c *conn) (err error) {
		blob, err = b.read(c, key, ifNoneMatch)
		return err
	})
	if err != nil {
		return driver.Blob{}, kinded(err)
	}
	return blob, nil
}

func (b *blobs) read(c *conn, key string, ifNoneMatch driver.ETag) (driver.Blob, error) {
	id, err := b.s.names.lookup(c, nameKey{kindContainer, b.name})
	if err != nil {
		return driver.Blob{}, err
	}
	s := c.stmt(`SELECT etag, body FROM blobs WHERE container = ?1 AND key = ?2`).int(1, id).text(2, key)
	row, err := s.step()
	if err != nil {
		return driver.Blob{}, err
	}
	if !row {
		return driver.Blob{}, driver.ErrNotFound
	}
	defer s.reset()
	etag := s.colInt(0)
	if ifNoneMatch != "" && ifNoneMatch == formatETag(etag) {
		return driver.Blob{}, driver.ErrNotModified
	}
	return driver.Blob{Body: s.colBytes(1), ETag: formatETag(etag)}, nil
}

func (b *blobs) Put(ctx context.Context, key string, body []byte, cond driver.Condition) (driver.ETag, error) {
	b.s.count("put", "blob", b.name)
	var etag driver.ETag
	err := b.s.write(&op{ctx: ctx, size: len(body) + len(key) + 100, run: func(w *writer) (err error) {
		etag, err = w.putBlob(b.name, key, body, cond)
		return err
	}})
	if err != nil {
		return "", kinded(err)
	}
	return etag, nil
}

func (w *writer) putBlob(container, key string, body []byte, cond driver.Condition) (driver.ETag, error) {
	return w.put(kindContainer, container, cond, puts{
		always: `INSERT INTO blobs (container, key, etag, modified, body) VALUES (?1, ?2, ?3, ?4, ?5)
			ON CONFLICT DO UPDATE SET etag = excluded.etag, modified = excluded.modified, body = excluded.body`,
		absent: `INSERT INTO blobs (container, key, etag, modified, body) VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO NOTHING`,
		match:  `UPDATE blobs SET etag = ?3, modified = ?4, body = ?5 WHERE container = ?1 AND key = ?2 AND etag = ?6`,
	}, func(s *stmt, id, etag int64) {
		s.int(1, id).text(2, key).int(3, etag).int(4, micros(w.now)).blob(5, body)
	})
}

func (b *blobs) Delete(ctx context.Context, key string, cond driver.Condition) error {
	b.s.count("delete", "blob", b.name)
	return kinded(b.s.write(&op{ctx: ctx, size: 100, run: func(w *writer) error {
		return w.remove(kindContainer, b.name, cond,
			`SELECT etag FROM blobs WHERE container = ?1 AND key = ?2`,
			`DELETE FROM blobs WHERE container = ?1 AND key = ?2`,
			func(s *stmt, id int64) { s.int(1, id).text(2, key) })
	}}))
}

func (b *blobs) List(ctx context.Context, prefix string) iter.Seq2[driver.BlobInfo, error] {
	return pages(ctx, b.s.readers, prefix,
		func(c *conn, from string) ([]driver.BlobInfo, string, bool, error) {
			b.s.count("list", "blob", b.name)
			return b.page(c, prefix, from)
		})
}

func (b *blobs) page(c *conn, prefix, from string) (page []driver.BlobInfo, next string, more bool, err error) {
	id, err := b.s.names.lookup(c, nameKey{kindContainer, b.name})
	if err != nil || id == 0 {
		return nil, "", false, err
	}
	s := upTo(c.stmt(`SELECT key, etag, length(body), modified FROM blobs WHERE container = ?1 AND key >= ?2 AND key < ?3 ORDER BY key LIMIT ?4`).
		int(1, id).text(2, from), 3, endOf(prefix)).int(4, pageItems)
	for {
		row, err := s.step()
		if err != nil {
			return nil, "", false, err
		}
		if !row {
			return page, next, len(page) == pageItems, nil
		}
		i := driver.BlobInfo{
			Key:      s.colText(0),
			ETag:     formatETag(s.colInt(1)),
			Size:     s.colInt(2),
			Modified: time.UnixMicro(s.colInt(3)),
		}
		page = append(page, i)
		next = i.Key + "\x00"
	}
}

// pages yields the items that page returns, page after page. page returns the items from a key on, the key from which
// the next page begins, and whether there may be one.
func pages[T any](ctx context.Context, r *readers, from string,
	page func(c *conn, from string) (items []T, next string, more bool, err error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		from := from
		for more := true; more; {
			var items []T
			err := r.do(ctx, func(c *conn) (err error) {
				var next string
				items, next, more, err = page(c, from)
				if err == nil {
					from = next
				}
				return err
			})
			if err != nil {
				yield(none, kinded(err))
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
func upTo(s *stmt, i int, end string) *stmt {
	if end == "" {
		return s.blob(i, nil)
	}
	return s.text(i, end)
}
