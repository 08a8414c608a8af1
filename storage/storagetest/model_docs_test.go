package storagetest_test

import (
	"context"
	"iter"
	"strings"

	"github.com/millrace-go/millrace/storage"
)

type modelBlobs struct {
	m    *model
	name string
}

func (b modelBlobs) Get(ctx context.Context, key string, ifNoneMatch storage.ETag) (blob storage.Blob, err error) {
	err = b.m.do(ctx, "get", func() error {
		d, err := b.m.get("blobs "+b.name, key)
		switch {
		case err != nil:
			return err
		case b.m.has("get ignores if-none-match"):
		case ifNoneMatch == d.etag || ifNoneMatch != "" && b.m.has("never modified") || ifNoneMatch == "*" && b.m.has("any etag matches the star"):
			return storage.ErrNotModified
		}
		blob = storage.Blob{Body: b.m.copied(d.body, "hands out what it keeps"), ETag: d.etag}
		return nil
	})
	return blob, err
}

func (b modelBlobs) Put(ctx context.Context, key string, body []byte, cond storage.Condition) (etag storage.ETag, err error) {
	err = b.m.do(ctx, "put", func() error {
		etag, err = b.m.put("blobs "+b.name, key, body, cond)
		return err
	})
	return etag, err
}

func (b modelBlobs) Delete(ctx context.Context, key string, cond storage.Condition) error {
	return b.m.do(ctx, "delete", func() error { return b.m.drop("blobs "+b.name, key, cond) })
}

func (b modelBlobs) List(ctx context.Context, prefix, after string) iter.Seq2[storage.BlobInfo, error] {
	shelf := "blobs " + b.name
	match := func(key string) bool {
		if b.m.has("prefixes are patterns") && strings.HasSuffix(prefix, "%") {
			return strings.HasPrefix(key, strings.TrimSuffix(prefix, "%"))
		}
		return strings.HasPrefix(key, prefix)
	}
	return listing(ctx, b.m, 0, func(from string) (infos []storage.BlobInfo, last string) {
		for _, k := range b.m.sorted(shelf, func(k string) bool {
			return match(k) && (k > after || b.m.has("lists from the beginning")) && (k >= from || b.m.has("lists without order", "lists in UTF-16 order", "lists without case"))
		}) {
			d := b.m.docs[shelf][k]
			infos = append(infos, storage.BlobInfo{Key: k, ETag: d.etag, Size: int64(len(d.body)), Modified: d.when})
			if b.m.has("lists quoted etags") {
				infos[len(infos)-1].ETag = `"` + d.etag + `"`
			}
			if last = k; len(infos) == page {
				break
			}
		}
		return infos, last
	})
}

type modelTable struct {
	m    *model
	name string
}

// shelf returns the place of one partition.
func (t modelTable) shelf(partition string) string {
	if t.m.has("partitions flow together") {
		partition = strings.TrimRight(partition, "/")
	}
	return "rows " + t.name + "\x00" + partition
}

func (t modelTable) Get(ctx context.Context, partition, key string) (row storage.Row, err error) {
	err = t.m.do(ctx, "get", func() error {
		d, err := t.m.get(t.shelf(partition), key)
		if err != nil {
			return err
		}
		row = storage.Row{Key: key, Data: t.m.copied(d.body, "hands out what it keeps"), ETag: d.etag}
		return nil
	})
	return row, err
}

func (t modelTable) Put(ctx context.Context, partition, key string, data []byte, cond storage.Condition) (etag storage.ETag, err error) {
	err = t.m.do(ctx, "put", func() error {
		etag, err = t.m.put(t.shelf(partition), key, data, cond)
		return err
	})
	return etag, err
}

func (t modelTable) Delete(ctx context.Context, partition, key string, cond storage.Condition) error {
	return t.m.do(ctx, "delete", func() error { return t.m.drop(t.shelf(partition), key, cond) })
}

func (t modelTable) Query(ctx context.Context, partition string, r storage.RowRange) iter.Seq2[storage.Row, error] {
	shelf := t.shelf(partition)
	match := func(k string) bool {
		switch {
		case k == r.From && t.m.has("query leaves out from"), k == r.To && !t.m.has("query includes to"):
			return false
		case t.m.has("query trims from"):
			return k >= strings.TrimRight(r.From, "\x00") && (r.To == "" || k < r.To)
		}
		return k >= r.From && (r.To == "" || k <= r.To)
	}
	return listing(ctx, t.m, r.Limit, func(from string) (rows []storage.Row, last string) {
		for _, k := range t.m.sorted(shelf, func(k string) bool {
			return match(k) && (k >= from || t.m.has("lists without order", "lists in UTF-16 order", "lists without case"))
		}) {
			d := t.m.docs[shelf][k]
			rows = append(rows, storage.Row{Key: k, Data: t.m.copied(d.body, "hands out what it keeps"), ETag: d.etag})
			if last = k; len(rows) == page {
				break
			}
		}
		return rows, last
	})
}

func (t modelTable) PutBatch(ctx context.Context, partition string, rows []storage.RowPut) error {
	return t.m.do(ctx, "put batch", func() error {
		for _, r := range rows {
			if t.m.has("batches mix") {
				t.m.letIn()
			}
			if _, err := t.m.put(t.shelf(partition), r.Key, r.Data, storage.Condition{}); err != nil {
				return err
			}
		}
		if t.m.has("batch keeps etags") {
			for _, r := range rows {
				t.m.docs[t.shelf(partition)][r.Key].etag = "batch"
			}
		}
		return nil
	})
}

func (t modelTable) DeleteBatch(ctx context.Context, partition string, keys []string) error {
	return t.m.do(ctx, "delete batch", func() error {
		for _, k := range keys {
			if err := t.m.drop(t.shelf(partition), k, storage.Condition{}); err != nil && t.m.has("batch deletes what is there only") {
				return err
			}
		}
		return nil
	})
}
