package storagetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/millrace-go/millrace/storage"
)

func cancelTests() []test {
	return []test{
		{"before the call", cancelledBefore},
		{"before the call and nothing is written", cancelledNoEffect},
		{"deadline over before the call", deadlineBefore},
		{"after the call changes nothing", cancelledAfter},
		{"while many send", cancelledSends},
		{"while many put", cancelledPuts},
		{"while many receive", cancelledReceives},
	}
}

var errCause = errors.New("the test has had enough")

// cancelled returns a context that has ended with a cause of its own.
func (t *check) cancelled() context.Context {
	ctx, cancel := context.WithCancelCause(t.ctx)
	cancel(errCause)
	return ctx
}

func cancelledBefore(t *check) {
	at := t.target()
	for _, c := range calls(t.s, at) {
		if err := c.do(t.cancelled()); !errors.Is(err, errCause) {
			t.Errorf("%s: got error %v; want one that matches context.Cause", c.name, err)
		}
	}
	t.untouched(t.s, at)
}

func cancelledNoEffect(t *check) {
	at := t.target()
	q := t.queueIn(t.s, at.queue)
	q.send("held")
	d := q.one(hold)
	at.receipt = d.Receipt
	blob := docSet(t, blobDocs{t.s.Blobs(at.container), at.container, at.key}, "body", storage.Condition{})
	row := docSet(t, rowDocs{t.s.Table(at.table), at.table, at.partition, at.key}, "body", storage.Condition{})
	for _, c := range calls(t.s, at) {
		if err := c.do(t.cancelled()); !errors.Is(err, errCause) {
			t.Errorf("%s: got error %v; want one that matches context.Cause", c.name, err)
		}
	}
	docIs(t, blobDocs{t.s.Blobs(at.container), at.container, at.key}, "body", blob)
	docIs(t, rowDocs{t.s.Table(at.table), at.table, at.partition, at.key}, "body", row)
	q.none()
	q.remove(d) // neither extended nor rewritten nor deleted
}

func deadlineBefore(t *check) {
	at := t.target()
	for _, c := range calls(t.s, at) {
		ctx, cancel := context.WithDeadline(t.ctx, time.Now().Add(-time.Second))
		if err := c.do(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: got error %v; want DeadlineExceeded", c.name, err)
		}
		cancel()
	}
	t.untouched(t.s, at)
}

func cancelledAfter(t *check) {
	q, b := t.queue(), t.s.Blobs(t.name("container"))
	each := func(f func(ctx context.Context) error) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.ctx)
		err := f(ctx)
		cancel()
		t.ok(err)
	}
	var ds []storage.Delivery
	var etag storage.ETag
	each(func(ctx context.Context) error { return q.Send(ctx, []storage.Message{{Body: []byte("body")}}) })
	each(func(ctx context.Context) (err error) {
		etag, err = b.Put(ctx, "key", []byte("body"), storage.Condition{})
		return
	})
	t.eventually("the message", func() bool {
		each(func(ctx context.Context) (err error) { ds, err = q.Receive(ctx, 1, hold); return })
		return len(ds) == 1
	})
	t.bytesEqual("body", ds[0].Body, []byte("body"))
	each(func(ctx context.Context) (err error) { ds[0].Receipt, err = q.Extend(ctx, ds[0].Receipt, hold); return })
	q.none()
	q.remove(ds...)
	docIs(t, blobDocs{b, "", "key"}, "body", etag)
}

// disturb lets workers call f, and cancels their contexts during the calls. It overwrites f's slice as soon as f
// has returned, whatever f returned: a cancelled call must keep nothing. It returns the bodies whose call returned
// nil and those whose outcome is unknown.
func disturb(t *check, f func(ctx context.Context, id string, body []byte) error) (done, open []string) {
	t.Helper()
	const rounds, workers, most = 6, 8, 4
	var mu sync.Mutex
	for round := range rounds {
		ctx, cancel := context.WithCancelCause(t.ctx)
		calls := 0
		t.within("calls whose context was cancelled", func() {
			crowd(workers, func(w int) {
				for i := 0; i < most; i++ {
					id := fmt.Sprintf("%d-%d-%d", round, w, i)
					text := id + " " + string(filled(2000, byte(i)))
					body := []byte(text)
					err := f(ctx, id, body)
					scribble(body)
					mu.Lock()
					if calls++; calls == 2+3*round {
						cancel(errCause)
					}
					if err == nil {
						done = append(done, text)
					} else {
						open = append(open, text)
						if !errors.Is(err, errCause) {
							t.Errorf("got error %v; want one that matches context.Cause", err)
						}
					}
					mu.Unlock()
					if err != nil {
						return
					}
				}
			})
		})
		cancel(nil)
	}
	return done, open
}

func cancelledSends(t *check) {
	q := t.queue()
	done, open := disturb(t, func(ctx context.Context, _ string, body []byte) error {
		return q.Send(ctx, []storage.Message{{Body: body}})
	})
	q.send("last") // the store is still usable
	got := q.rest()
	t.outcome(got, append(done, "last"), open)
}

func cancelledPuts(t *check) {
	b := t.s.Blobs(t.name("container"))
	done, open := disturb(t, func(ctx context.Context, id string, body []byte) error {
		_, err := b.Put(ctx, id, body, storage.Condition{IfAbsent: true})
		return err
	})
	_, err := b.Put(t.ctx, "last", []byte("last"), storage.Condition{IfAbsent: true})
	t.ok(err)
	var got []string
	infos, err := collect(t, b.List(t.ctx, ""))
	t.ok(err)
	for _, in := range infos {
		blob, err := b.Get(t.ctx, in.Key, "")
		t.ok(err)
		got = append(got, string(blob.Body))
	}
	t.outcome(got, append(done, "last"), open)
}

func cancelledReceives(t *check) {
	// A failed Receive may have taken a message. The message stays hidden until its visibility ends, but is not lost.
	q := t.queue()
	q.send(numbered(40)...)
	got := map[string]bool{}
	var mu sync.Mutex
	for range 4 {
		ctx, cancel := context.WithCancelCause(t.ctx)
		crowd(5, func(i int) {
			if i == 0 {
				cancel(errCause)
				return
			}
			ds, err := q.Receive(ctx, 2, storage.MinVisibility)
			if err != nil && !errors.Is(err, errCause) {
				t.Errorf("got error %v; want one that matches context.Cause", err)
			}
			if err == nil {
				if err := q.Delete(t.ctx, receipts(ds)); err != nil && !errors.Is(err, storage.ErrReceiptStale) {
					t.Errorf("delete: %v", err)
				}
				mu.Lock()
				defer mu.Unlock()
				for _, b := range bodies(ds) {
					got[b] = true
				}
			}
		})
	}
	t.eventually("all messages", func() bool {
		ds, err := q.Receive(t.ctx, 10, hold)
		t.ok(err)
		for _, b := range bodies(ds) {
			got[b] = true
		}
		return len(got) == 40
	})
}
