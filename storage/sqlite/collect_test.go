package sqlite

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/millrace-go/millrace/storage"
)

// A group waits for the callers that were answered last, unless that takes longer than it saves. The ops that came
// meanwhile count on top. Not parallel: with one processor the turns are in order.
func TestCollect(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for _, c := range []struct {
		name              string
		first             *op
		answered, waiting int
		minGroupTime      time.Duration
		want              int // of the first and one that comes after some turns
	}{
		{"after a single caller", &op{}, 1, 0, time.Hour, 1},
		{"after two", &op{}, 2, 0, time.Hour, 2},
		{"after one, while this one came", &op{}, 1, 1, time.Hour, 2},
		{"that is aside, after one alone", &op{aside: true}, 1, 0, time.Hour, 1},
		{"that is aside and came while one was answered", &op{aside: true}, 1, 1, time.Hour, 2},
		{"after none but such", &op{}, 0, 0, time.Hour, 1},
		{"after two, where a commit takes no time", &op{}, 2, 0, 0, 1},
	} {
		w := &writer{s: &store{ops: make(chan *op, 2)}, answered: c.answered, waiting: c.waiting, minGroupTime: c.minGroupTime}
		go func() {
			for range 20 {
				runtime.Gosched()
			}
			w.s.ops <- &op{}
		}()
		group := w.collect(nil, c.first)
		if len(group) != c.want {
			t.Errorf("%s: a group of %d; want %d", c.name, len(group), c.want)
		}
		if len(group) == 1 {
			<-w.s.ops
		}
	}
	full := &writer{s: &store{ops: make(chan *op, maxGroup)}}
	for range maxGroup {
		full.s.ops <- &op{size: 1}
	}
	if n := len(full.collect(nil, &op{})); n != maxGroup {
		t.Errorf("a group of %d; want %d", n, maxGroup)
	}
	full.s.ops <- &op{}
	if n := len(full.collect(nil, &op{size: maxGroupBytes})); n != 1 {
		t.Errorf("a group of %d behind a large one; want it alone", n)
	}
}

// A group tells the next one how many of its callers may come again, and how many ops had come before the answers.
func TestWhoMayCome(t *testing.T) {
	t.Parallel()
	s := openTest(t, "?wake=off")
	send(t, s, "queue", "a")
	d := receive(t, s, "queue", 1)
	release := hold(t, s)
	sent := enqueue(s, func() error { return s.Queue("queue").Send(t.Context(), text("b")) })
	deleted := enqueue(s, func() error { return s.Queue("queue").Delete(t.Context(), []storage.Receipt{d[0].Receipt}) })
	release()
	if err := errors.Join(<-sent, <-deleted, s.Close()); err != nil {
		t.Fatal(err)
	}
	if w := s.writer; w.answered != 1 || w.waiting != 0 || w.minGroupTime <= 0 {
		t.Errorf("answered %d, waiting %d, quick %v; want 1 of a send and a deletion, nobody, some time", w.answered, w.waiting, w.minGroupTime)
	}
}
