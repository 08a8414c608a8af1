package storagetest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/millrace-go/millrace/storage"
)

func closeTests() []test {
	return []test{
		{"twice", closeTwice},
		{"by many at once", closeByMany},
		{"ends every later call", closeEnds},
		{"within a listing", closeInListing},
		{"with calls under way", closeUnderWay},
	}
}

func closeTwice(t *check) {
	s := t.own()
	t.queueIn(s, "queue").send("body")
	t.ok(s.Close())
	t.ok(s.Close())
	t.ok(t.own().Close()) // a store that was never used
}

func closeByMany(t *check) {
	s := t.own()
	t.queueIn(s, "queue").send("body")
	t.within("Close by many", func() {
		crowd(8, func(int) {
			if err := s.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		})
	})
}

func closeEnds(t *check) {
	s := t.own()
	at := t.target()
	q := t.queueIn(s, at.queue)
	q.send("held", "ready")
	at.receipt = q.one(hold).Receipt
	list := calls(s, at) // their Queue, Blobs and Table were made before Close
	t.ok(s.Close())
	for _, c := range append(list, calls(s, at)...) {
		t.within(c.name+" after Close", func() {
			if err := c.do(t.ctx); !errors.Is(err, storage.ErrUnavailable) {
				t.Errorf("%s after Close: got error %v; want %v", c.name, err, storage.ErrUnavailable)
			}
		})
	}
	if p := s.Props(); p.Driver == "" {
		t.Error("Props is empty after Close")
	}
}

func closeInListing(t *check) {
	s := t.own()
	b := s.Blobs("container")
	for i := range 5 {
		_, err := b.Put(t.ctx, fmt.Sprint(i), nil, storage.Condition{})
		t.ok(err)
	}
	t.within("Close within a listing", func() {
		failed := 0
		for _, err := range b.List(t.ctx, "") {
			if failed > 0 {
				t.Error("the listing goes on after its error")
			}
			if err != nil {
				failed++
				continue
			}
			if err := s.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		}
	})
}

func closeUnderWay(t *check) {
	s := t.own()
	var mu sync.Mutex
	var acked []string
	sent := 0
	closing := make(chan struct{})
	t.within("calls under way at Close", func() {
		crowd(9, func(w int) {
			if w == 8 {
				<-closing
				if err := s.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
				return
			}
			for i := range 25 {
				id := fmt.Sprintf("%d-%d", w, i)
				err := s.Queue("queue").Send(t.ctx, []storage.Message{{Body: []byte(id)}})
				mu.Lock()
				if err == nil {
					acked = append(acked, id)
				}
				if sent++; sent == 20 {
					close(closing)
				}
				mu.Unlock()
			}
		})
	})
	for _, c := range calls(s, t.target()) {
		if err := c.do(context.WithoutCancel(t.ctx)); !errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("%s after Close: got error %v; want %v", c.name, err, storage.ErrUnavailable)
		}
	}
	if !t.cfg.Durable {
		return
	}
	found := map[string]int{}
	for _, b := range t.queueIn(t.again(s), "queue").rest() {
		found[b]++
	}
	for _, id := range acked {
		if found[id] != 1 {
			t.Errorf("message %s was acknowledged while closing and is there %d times", id, found[id])
		}
	}
}
