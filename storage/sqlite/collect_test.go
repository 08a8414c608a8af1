package sqlite

import (
	"runtime"
	"testing"
	"time"
)

// A group waits for those who were answered last, and as many more as came meanwhile, unless that takes longer than it saves.
// Not parallel: with one processor the turns are in order.
func TestCollect(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for _, c := range []struct {
		name              string
		first             *op
		answered, waiting int
		quick             time.Duration
		want              int // of the first and one that comes after some turns
	}{
		{"after a single caller", &op{}, 1, 0, time.Hour, 1},
		{"after two", &op{}, 2, 0, time.Hour, 2},
		{"after one, while this one came", &op{}, 1, 1, time.Hour, 2},
		{"that is aside, after one", &op{aside: true}, 1, 0, time.Hour, 2},
		{"after none but such", &op{}, 0, 0, time.Hour, 1},
		{"after two, where a commit takes no time", &op{}, 2, 0, 0, 1},
	} {
		w := &writer{s: &store{ops: make(chan *op, 2)}, answered: c.answered, waiting: c.waiting, quick: c.quick}
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
