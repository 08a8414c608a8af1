package storagetest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-go/millrace/storage"
)

func raceTests() []test {
	return []test{
		{"concurrent senders lose nothing", concurrentSenders},
		{"competing receivers get each message once", competingReceivers},
		{"one receipt extended by many has one winner", oneExtendWins},
		{"one receipt deleted by many has one winner", oneDeleteWins},
		{"one receipt used in every way has one winner", oneUseWins},
		{"a late holder or the next receiver and never both", lateHolder},
	}
}

// crowd calls f(0) to f(n-1) concurrently and waits for all.
func crowd(n int, f func(i int)) {
	var ready, done sync.WaitGroup
	ready.Add(n)
	for i := range n {
		done.Go(func() {
			ready.Done()
			ready.Wait()
			f(i)
		})
	}
	done.Wait()
}

func concurrentSenders(t *check) {
	q := t.queue()
	var want []string
	for i := range 16 {
		for j := range 6 {
			want = append(want, fmt.Sprintf("%d-%d", i, j))
		}
	}
	crowd(16, func(i int) {
		for j := 0; j < 6; j += 2 {
			if err := q.Send(t.ctx, []storage.Message{
				{Body: fmt.Appendf(nil, "%d-%d", i, j)}, {Body: fmt.Appendf(nil, "%d-%d", i, j+1)},
			}); err != nil {
				t.Errorf("send: %v", err)
			}
		}
	})
	t.same("bodies", bodies(q.take(len(want), hold)), want)
	q.none()
}

func competingReceivers(t *check) {
	q := t.queue()
	competing(t, []*queue{q})
}

// competing lets receivers on all the given views of one queue receive its messages.
func competing(t *check, views []*queue) {
	t.Helper()
	n := max(t.many(200), 60)
	views[0].send(numbered(n)...)
	var mu sync.Mutex
	got := map[string]int{}
	receipts := map[storage.Receipt]bool{}
	limit := time.Now().Add(t.cfg.Patience)
	crowd(8, func(i int) {
		for done := false; !done && time.Now().Before(limit); {
			ds, err := views[i%len(views)].Receive(t.ctx, 1+i%5, hold)
			if err != nil {
				t.Errorf("receive: %v", err)
				return
			}
			mu.Lock()
			for _, d := range ds {
				got[string(d.Body)]++
				if receipts[d.Receipt] || d.Deliveries != 1 {
					t.Errorf("message %s delivered with a used receipt or Deliveries = %d", d.Body, d.Deliveries)
				}
				receipts[d.Receipt] = true
			}
			done = len(got) >= n
			mu.Unlock()
		}
	})
	t.same("bodies", slices.Collect(maps.Keys(got)), numbered(n))
	for b, times := range got {
		if times != 1 {
			t.Errorf("message %s was delivered %d times while it was hidden", b, times)
		}
	}
	views[0].none()
}

// winners counts the calls that returned nil; all others must be stale.
func winners(t *check, n int, f func(i int) error) int {
	t.Helper()
	var won atomic.Int64
	crowd(n, func(i int) {
		switch err := f(i); {
		case err == nil:
			won.Add(1)
		case !errors.Is(err, storage.ErrReceiptStale):
			t.Errorf("got error %v; want a stale receipt", err)
		}
	})
	return int(won.Load())
}

func oneExtendWins(t *check) {
	q := t.queue()
	q.send("body")
	d := q.one(hold)
	if n := winners(t, 16, func(int) error {
		_, err := q.Extend(t.ctx, d.Receipt, hold)
		return err
	}); n != 1 {
		t.Errorf("%d of 16 extended with one receipt; want 1", n)
	}
	q.none()
}

func oneDeleteWins(t *check) {
	q := t.queue()
	q.send("body", "other")
	d := q.one(hold)
	if n := winners(t, 16, func(int) error { return q.Delete(t.ctx, []storage.Receipt{d.Receipt}) }); n != 1 {
		t.Errorf("%d of 16 deleted with one receipt; want 1", n)
	}
	if left := q.rest(); len(left) != 1 {
		t.Errorf("%d messages left; want 1", len(left))
	}
}

func oneUseWins(t *check) {
	for range 5 {
		q := t.queue()
		q.send("body")
		d := q.one(hold)
		if n := winners(t, 12, func(i int) (err error) {
			switch i % 3 {
			case 0:
				_, err = q.Extend(t.ctx, d.Receipt, hold)
			case 1:
				err = q.Rewrite(t.ctx, d.Receipt, nil, hold)
			default:
				err = q.Delete(t.ctx, []storage.Receipt{d.Receipt})
			}
			return err
		}); n != 1 {
			t.Errorf("%d of 12 used one receipt; want 1", n)
		}
		q.none()
	}
}

func lateHolder(t *check) {
	const n = 24
	q := t.queue()
	q.send(numbered(n)...)
	held := q.take(n, t.short())
	t.past(time.Now(), t.short())

	kept := make([]bool, n) // its late holder used it with success
	var mu sync.Mutex
	received := map[string]bool{}
	crowd(n+4, func(i int) {
		if i >= n {
			for range 2 * n / 4 {
				ds, err := q.Receive(t.ctx, 1, hold)
				if err != nil {
					t.Errorf("receive: %v", err)
				}
				mu.Lock()
				for _, b := range bodies(ds) {
					if received[b] {
						t.Errorf("message %s was received twice", b)
					}
					received[b] = true
				}
				mu.Unlock()
			}
			return
		}
		var err error
		switch i % 3 {
		case 0:
			_, err = q.Extend(t.ctx, held[i].Receipt, hold)
		case 1:
			err = q.Rewrite(t.ctx, held[i].Receipt, nil, hold)
		default:
			err = q.Delete(t.ctx, []storage.Receipt{held[i].Receipt})
		}
		if kept[i] = err == nil; err != nil && !errors.Is(err, storage.ErrReceiptStale) {
			t.Errorf("got error %v; want a stale receipt", err)
		}
	})
	for _, b := range q.rest() {
		received[b] = true
	}
	for i, d := range held {
		if both := kept[i] && received[string(d.Body)]; both || kept[i] == received[string(d.Body)] && !t.cfg.Repeats {
			t.Errorf("message %s: kept by its late holder %v, received by another %v; want exactly one", d.Body, kept[i], received[string(d.Body)])
		}
	}
}
