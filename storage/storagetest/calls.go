package storagetest

import (
	"context"

	"github.com/millrace-go/millrace/storage"
)

// target holds the names that calls act on.
type target struct {
	queue     string
	receipt   storage.Receipt
	container string
	table     string
	partition string
	key       string // of the blob and of the row
}

// target returns unused names.
func (t *check) target() target {
	return target{queue: t.name("queue"), receipt: "none", container: t.name("container"), table: t.name("table"), partition: "partition", key: "key"}
}

// A call is one method of the ports with its arguments.
type call struct {
	name  string
	where func(target) string // the resource it acts on
	keyed bool                // it takes a key, which the store checks
	do    func(ctx context.Context) error
}

// calls lists all calls of a store.
func calls(s *storage.Store, at target) []call {
	queue := func(x target) string { return x.queue }
	container := func(x target) string { return x.container }
	table := func(x target) string { return x.table }
	q, b, tab := s.Queue(at.queue), s.Blobs(at.container), s.Table(at.table)
	body := []byte(secret)
	var none storage.Condition
	all := []call{
		{"send", queue, false, func(ctx context.Context) error { return q.Send(ctx, []storage.Message{{Body: body}}) }},
		{"receive", queue, false, func(ctx context.Context) error { _, err := q.Receive(ctx, 1, hold); return err }},
		{"extend", queue, false, func(ctx context.Context) error { _, err := q.Extend(ctx, at.receipt, hold); return err }},
		{"rewrite", queue, false, func(ctx context.Context) error { return q.Rewrite(ctx, at.receipt, body, 0) }},
		{"delete", queue, false, func(ctx context.Context) error { return q.Delete(ctx, []storage.Receipt{at.receipt}) }},
		{"stats", queue, false, func(ctx context.Context) error { _, err := q.Stats(ctx); return err }},
		{"get blob", container, true, func(ctx context.Context) error { _, err := b.Get(ctx, at.key, ""); return err }},
		{"put blob", container, true, func(ctx context.Context) error { _, err := b.Put(ctx, at.key, body, none); return err }},
		{"delete blob", container, true, func(ctx context.Context) error { return b.Delete(ctx, at.key, none) }},
		{"list blobs", container, false, func(ctx context.Context) error { return lastError(b.List(ctx, "")) }},
		{"get row", table, true, func(ctx context.Context) error { _, err := tab.Get(ctx, at.partition, at.key); return err }},
		{"put row", table, true, func(ctx context.Context) error {
			_, err := tab.Put(ctx, at.partition, at.key, body, none)
			return err
		}},
		{"delete row", table, true, func(ctx context.Context) error { return tab.Delete(ctx, at.partition, at.key, none) }},
		{"query", table, false, func(ctx context.Context) error {
			return lastError(tab.Query(ctx, at.partition, storage.RowRange{}))
		}},
		{"commit rows", table, true, func(ctx context.Context) error {
			_, err := s.Commit(ctx, storage.Work{Rows: &storage.Rows{Table: at.table, Partition: at.partition, Puts: []storage.RowPut{{Key: "good"}, {Key: at.key, Data: body}}}})
			return err
		}},
		{"commit write", container, true, func(ctx context.Context) error {
			_, err := s.Commit(ctx, storage.Work{Write: &storage.Write{Container: at.container, Key: at.key, Body: body}})
			return err
		}},
		{"commit send", queue, false, func(ctx context.Context) error {
			_, err := s.Commit(ctx, storage.Work{Send: []storage.Send{{Queue: at.queue, Message: storage.Message{Body: body}}}})
			return err
		}},
		{"commit delete", queue, false, func(ctx context.Context) error {
			_, err := s.Commit(ctx, storage.Work{Delete: []storage.Claim{{Queue: at.queue, Receipt: at.receipt}}})
			return err
		}},
		{"put rows", table, true, func(ctx context.Context) error {
			return tab.PutBatch(ctx, at.partition, []storage.RowPut{{Key: "good"}, {Key: at.key, Data: body}})
		}},
		{"delete rows", table, true, func(ctx context.Context) error {
			return tab.DeleteBatch(ctx, at.partition, []string{"good", at.key})
		}},
	}
	if s.Finds() {
		all = append(all, call{"find", queue, true, func(ctx context.Context) error { _, err := q.Find(ctx, at.key); return err }})
	}
	if s.Driver().Peeker() != nil {
		all = append(all, call{"peek", queue, false, func(ctx context.Context) error { return lastError(q.Peek(ctx)) }})
	}
	return all
}

// lastError reads a listing to its end.
func lastError[T any](seq func(yield func(T, error) bool)) error {
	var last error
	for _, err := range seq {
		last = err
	}
	return last
}

// untouched fails the test if at's names were ever written to.
func (t *check) untouched(s *storage.Store, at target) {
	t.Helper()
	t.queueIn(s, at.queue).gone()
	infos, err := collect(t, s.Blobs(at.container).List(t.ctx, ""))
	t.ok(err)
	rows, err := collect(t, s.Table(at.table).Query(t.ctx, at.partition, storage.RowRange{}))
	t.ok(err)
	if len(infos) != 0 || len(rows) != 0 {
		t.Errorf("%d blob(s) and %d row(s) were written", len(infos), len(rows))
	}
}
