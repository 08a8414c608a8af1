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

func (b modelBlobs) do(ctx context.Context, op, key string, check func() error, f func() error) error {
	return b.m.do(ctx, op, "blob "+b.name+"/"+storage.Quote(key), func() error {
		if err := storage.CheckName(b.name); err != nil {
			return err
		}
		if err := storage.CheckKey(key); err != nil && !b.m.has("takes any key") {
			return err
		}
		return check()
	}, f)
}

func noCheck() error { return nil }

func (b modelBlobs) Get(ctx context.Context, key string, ifNoneMatch storage.ETag) (blob storage.Blob, err error) {
	err = b.do(ctx, "get blob", key, noCheck, func() error {
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
	err = b.do(ctx, "put blob", key, func() error {
		if len(body) > b.m.Props().MaxBlob {
			return storage.ErrTooLarge
		}
		return cond.Check()
	}, func() error {
		etag, err = b.m.put("blobs "+b.name, key, body, cond)
		return err
	})
	return etag, err
}

func (b modelBlobs) Delete(ctx context.Context, key string, cond storage.Condition) error {
	return b.do(ctx, "delete blob", key, cond.Check, func() error { return b.m.drop("blobs "+b.name, key, cond) })
}

func (b modelBlobs) List(ctx context.Context, prefix string) iter.Seq2[storage.BlobInfo, error] {
	shelf := "blobs " + b.name
	match := func(key string) bool {
		if b.m.has("prefixes are patterns") && strings.HasSuffix(prefix, "%") {
			return strings.HasPrefix(key, strings.TrimSuffix(prefix, "%"))
		}
		return strings.HasPrefix(key, prefix)
	}
	check := func() error { return storage.CheckName(b.name) }
	return listing(ctx, b.m, "list blobs", "container "+b.name, check, 0, func(from string) (infos []storage.BlobInfo, last string) {
		for _, k := range b.m.sorted(shelf, func(k string) bool {
			return match(k) && (k >= from || b.m.has("lists without order", "lists in UTF-16 order", "lists without case"))
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

func (t modelTable) do(ctx context.Context, op, partition, key string, check func() error, f func() error) error {
	return t.m.do(ctx, op, "row "+t.name+"/"+storage.Quote(partition)+"/"+storage.Quote(key), func() error {
		for _, err := range []error{storage.CheckName(t.name), storage.CheckKey(partition), storage.CheckKey(key)} {
			if err != nil && !t.m.has("takes any key") {
				return err
			}
		}
		return check()
	}, f)
}

// shelf keeps one partition.
func (t modelTable) shelf(partition string) string {
	if t.m.has("partitions flow together") {
		partition = strings.TrimRight(partition, "/")
	}
	return "rows " + t.name + "\x00" + partition
}

func (t modelTable) Get(ctx context.Context, partition, key string) (row storage.Row, err error) {
	err = t.do(ctx, "get row", partition, key, noCheck, func() error {
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
	err = t.do(ctx, "put row", partition, key, func() error {
		if len(data) > t.m.Props().MaxRow {
			return storage.ErrTooLarge
		}
		return cond.Check()
	}, func() error {
		etag, err = t.m.put(t.shelf(partition), key, data, cond)
		return err
	})
	return etag, err
}

func (t modelTable) Delete(ctx context.Context, partition, key string, cond storage.Condition) error {
	return t.do(ctx, "delete row", partition, key, cond.Check, func() error { return t.m.drop(t.shelf(partition), key, cond) })
}

func (t modelTable) Query(ctx context.Context, partition string, r storage.RowRange) iter.Seq2[storage.Row, error] {
	shelf := t.shelf(partition)
	check := func() error {
		if err := storage.CheckName(t.name); err != nil {
			return err
		}
		return storage.CheckKey(partition)
	}
	match := func(k string) bool {
		switch {
		case k == r.From && t.m.has("query leaves out from"), k == r.To && !t.m.has("query includes to"):
			return false
		case t.m.has("query trims from"):
			return k >= strings.TrimRight(r.From, "\x00") && (r.To == "" || k < r.To)
		}
		return k >= r.From && (r.To == "" || k <= r.To)
	}
	return listing(ctx, t.m, "query", "partition "+t.name+"/"+partition, check, r.Limit, func(from string) (rows []storage.Row, last string) {
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
	seen := map[string]bool{}
	bad := func(r storage.RowPut) error {
		if seen[r.Key] && !t.m.has("batch takes a key twice") {
			return storage.ErrInvalid
		}
		seen[r.Key] = true
		if len(r.Data) > t.m.Props().MaxRow {
			return storage.ErrTooLarge
		}
		return storage.CheckKey(r.Key)
	}
	return t.do(ctx, "put rows", partition, "batch", func() error {
		if len(rows) > storage.MaxBatchRows {
			return storage.ErrInvalid
		}
		for i, r := range rows {
			if err := bad(r); err != nil {
				if t.m.has("batch writes what is good") {
					t.m.mu.Lock()
					for _, r := range rows[:i] {
						_, _ = t.m.put(t.shelf(partition), r.Key, r.Data, storage.Condition{})
					}
					t.m.mu.Unlock()
				}
				return err
			}
		}
		return nil
	}, func() error {
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
