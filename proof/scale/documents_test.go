package scale

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/millrace-go/millrace/storage/driver"
)

const (
	pageOfBlobs = 5000
	pageOfRows  = 1000
)

type blobData struct {
	body     []byte
	etag     driver.ETag
	modified time.Time
	bucket   *bucket
}

// blobs implements driver.Blobs.
type blobs struct {
	c    *store
	name string
}

func (b *blobs) request(op, key string, l latency, effect func(container map[string]*blobData) error) request {
	return request{
		op: op, kind: "blob", target: b.name, latency: l,
		limit: func() *bucket {
			if x := b.c.s.blobs[b.name][key]; x != nil {
				return x.bucket
			}
			return nil
		},
		effect: func() (float64, error) { return 1, effect(b.c.s.blobs[b.name]) },
	}
}

func (b *blobs) Get(ctx context.Context, key string, ifNoneMatch driver.ETag) (driver.Blob, error) {
	var got driver.Blob
	err := b.c.do(ctx, b.request("get", key, b.c.s.latency.read, func(container map[string]*blobData) error {
		x := container[key]
		switch {
		case x == nil:
			return driver.ErrNotFound
		case ifNoneMatch != "" && x.etag == ifNoneMatch:
			return driver.ErrNotModified
		}
		got = driver.Blob{Body: slices.Clone(x.body), ETag: x.etag}
		return nil
	}))
	return got, err
}

func (b *blobs) Put(ctx context.Context, key string, body []byte, cond driver.Condition) (driver.ETag, error) {
	var etag driver.ETag
	err := b.c.do(ctx, b.request("put", key, b.c.s.latency.write, func(container map[string]*blobData) error {
		x := container[key]
		var now driver.ETag
		if x != nil {
			now = x.etag
		}
		if err := b.c.s.holds(cond, now); err != nil {
			return err
		}
		etag = b.c.s.etag()
		if x == nil {
			if container == nil {
				container = map[string]*blobData{}
				b.c.s.blobs[b.name] = container
			}
			x = &blobData{bucket: newBucket(b.c.s.limits.blob)}
			container[key] = x
		}
		x.body, x.etag, x.modified = bytes.Clone(body), etag, time.Now()
		return nil
	}))
	return etag, err
}

// holds returns why a write's condition fails when now is the stored ETag. The caller holds mu.
func (s *service) holds(cond driver.Condition, now driver.ETag) error {
	switch {
	case cond.IfAbsent && now != "":
		s.lost++
		return driver.ErrExists
	case cond.IfMatch != "" && cond.IfMatch != now:
		s.lost++
		return driver.ErrPrecondition
	}
	return nil
}

func (b *blobs) Delete(ctx context.Context, key string, cond driver.Condition) error {
	return b.c.do(ctx, b.request("delete", key, b.c.s.latency.write, func(container map[string]*blobData) error {
		x := container[key]
		if x == nil {
			return driver.ErrNotFound
		}
		if err := b.c.s.holds(cond, x.etag); err != nil {
			return err
		}
		delete(container, key)
		return nil
	}))
}

func (b *blobs) List(ctx context.Context, prefix, after string) iter.Seq2[driver.BlobInfo, error] {
	return pages(ctx, pageOfBlobs, func(from string, most int) (page []driver.BlobInfo, next string, err error) {
		err = b.c.do(ctx, b.request("list", "", b.c.s.latency.read, func(container map[string]*blobData) error {
			for _, key := range slices.Sorted(maps.Keys(container)) {
				if !strings.HasPrefix(key, prefix) || key < from || key <= after {
					continue
				}
				if len(page) == most {
					next = key
					break
				}
				x := container[key]
				page = append(page, driver.BlobInfo{Key: key, ETag: x.etag, Size: int64(len(x.body)), Modified: x.modified})
			}
			return nil
		}))
		return page, next, err
	})
}

// pages yields the results of read, page by page.
func pages[T any](ctx context.Context, most int, read func(from string, most int) ([]T, string, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		for from := ""; ; {
			page, next, err := read(from, most)
			if err != nil {
				yield(none, err)
				return
			}
			for _, x := range page {
				if err := ctx.Err(); err != nil {
					yield(none, context.Cause(ctx))
					return
				}
				if !yield(x, nil) {
					return
				}
			}
			if from = next; from == "" {
				return
			}
		}
	}
}

// partition has rows in the order of their keys.
type partition struct {
	bucket *bucket
	rows   []driver.Row
}

func (p *partition) find(key string) (int, bool) {
	if p == nil {
		return 0, false
	}
	return slices.BinarySearchFunc(p.rows, key, func(r driver.Row, key string) int { return strings.Compare(r.Key, key) })
}

// table implements driver.Table.
type table struct {
	c    *store
	name string
}

// at returns a partition, and makes it for a write. The caller holds service.mu.
func (t *table) at(key string, write bool) *partition {
	p := t.c.s.tables[t.name][key]
	if p == nil && write {
		if t.c.s.tables[t.name] == nil {
			t.c.s.tables[t.name] = map[string]*partition{}
		}
		p = &partition{bucket: newBucket(t.c.s.limits.partition)}
		t.c.s.tables[t.name][key] = p
	}
	return p
}

func (t *table) request(op, key string, write bool, effect func(p *partition) (float64, error)) request {
	return request{
		op: op, kind: "table", target: t.name, latency: t.c.s.latency.table,
		limit: func() *bucket {
			if p := t.at(key, false); p != nil {
				return p.bucket
			}
			return nil
		},
		effect: func() (float64, error) { return effect(t.at(key, write)) },
	}
}

func (t *table) Get(ctx context.Context, in, key string) (driver.Row, error) {
	var row driver.Row
	err := t.c.do(ctx, t.request("get", in, false, func(p *partition) (float64, error) {
		i, ok := p.find(key)
		if !ok {
			return 1, driver.ErrNotFound
		}
		row = p.rows[i]
		row.Data = slices.Clone(row.Data)
		return 1, nil
	}))
	return row, err
}

func (t *table) Put(ctx context.Context, in, key string, data []byte, cond driver.Condition) (driver.ETag, error) {
	var etag driver.ETag
	err := t.c.do(ctx, t.request("put", in, true, func(p *partition) (float64, error) {
		var now driver.ETag
		if i, ok := p.find(key); ok {
			now = p.rows[i].ETag
		}
		if err := t.c.s.holds(cond, now); err != nil {
			return 1, err
		}
		etag = t.set(p, key, data)
		return 1, nil
	}))
	return etag, err
}

func (t *table) set(p *partition, key string, data []byte) driver.ETag {
	row := driver.Row{Key: key, Data: bytes.Clone(data), ETag: t.c.s.etag()}
	if i, ok := p.find(key); ok {
		p.rows[i] = row
	} else {
		p.rows = slices.Insert(p.rows, i, row)
	}
	return row.ETag
}

func (t *table) Delete(ctx context.Context, in, key string, cond driver.Condition) error {
	return t.c.do(ctx, t.request("delete", in, false, func(p *partition) (float64, error) {
		i, ok := p.find(key)
		if !ok {
			return 1, driver.ErrNotFound
		}
		if err := t.c.s.holds(cond, p.rows[i].ETag); err != nil {
			return 1, err
		}
		p.rows = slices.Delete(p.rows, i, i+1)
		return 1, nil
	}))
}

func (t *table) Query(ctx context.Context, in string, r driver.RowRange) iter.Seq2[driver.Row, error] {
	left := r.Limit
	return pages(ctx, pageOfRows, func(from string, most int) (page []driver.Row, next string, err error) {
		if r.Limit > 0 {
			most = min(most, left)
		}
		err = t.c.do(ctx, t.request("query", in, false, func(p *partition) (float64, error) {
			if p == nil {
				return 1, nil
			}
			i, _ := p.find(max(from, r.From))
			for ; i < len(p.rows) && (r.To == "" || p.rows[i].Key < r.To); i++ {
				if len(page) == most {
					next = p.rows[i].Key
					break
				}
				row := p.rows[i]
				row.Data = slices.Clone(row.Data)
				page = append(page, row)
			}
			return max(1, float64(len(page))), nil
		}))
		if left -= len(page); left == 0 && r.Limit > 0 {
			next = ""
		}
		return page, next, err
	})
}

func (t *table) PutBatch(ctx context.Context, in string, rows []driver.RowPut) error {
	return t.c.do(ctx, t.request("put batch", in, true, func(p *partition) (float64, error) {
		for _, r := range rows {
			t.set(p, r.Key, r.Data)
		}
		return float64(len(rows)), nil
	}))
}

// DeleteBatch is one request, which is refused when a row isn't there. Then each row is deleted by itself.
func (t *table) DeleteBatch(ctx context.Context, in string, keys []string) error {
	err := t.c.do(ctx, t.request("delete batch", in, false, func(p *partition) (float64, error) {
		for _, key := range keys {
			if _, ok := p.find(key); !ok {
				return float64(len(keys)), driver.ErrNotFound
			}
		}
		for _, key := range keys {
			i, _ := p.find(key)
			p.rows = slices.Delete(p.rows, i, i+1)
		}
		return float64(len(keys)), nil
	}))
	if !errors.Is(err, driver.ErrNotFound) {
		return err
	}
	for _, key := range keys {
		if err := t.Delete(ctx, in, key, driver.Condition{}); err != nil && !errors.Is(err, driver.ErrNotFound) {
			return err
		}
	}
	return nil
}
