package engine

import (
	"runtime"
	"testing"
	"time"
)

// A group waits for the callers that were answered last, unless that takes longer than it saves. The ops that came
// meanwhile count on top. Not parallel: with one processor the turns are in order.
func TestGatherer(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for _, c := range []struct {
		name              string
		first             *Op
		answered, waiting int
		minGroupTime      time.Duration
		want              int // of the first and one that comes after some turns
	}{
		{"after a single caller", &Op{}, 1, 0, time.Hour, 1},
		{"after two", &Op{}, 2, 0, time.Hour, 2},
		{"after one, while this one came", &Op{}, 1, 1, time.Hour, 2},
		{"that is aside, after one alone", &Op{Aside: true}, 1, 0, time.Hour, 1},
		{"that is aside and came while one was answered", &Op{Aside: true}, 1, 1, time.Hour, 2},
		{"after none but such", &Op{}, 0, 0, time.Hour, 1},
		{"after two, where a commit takes no time", &Op{}, 2, 0, 0, 1},
	} {
		ops := make(chan *Op, 2)
		g := &gatherer{ops: ops, answered: c.answered, waiting: c.waiting, minGroupTime: c.minGroupTime}
		go func() {
			for range 20 {
				runtime.Gosched()
			}
			ops <- &Op{}
		}()
		group := g.gather(nil, c.first)
		if len(group) != c.want {
			t.Errorf("%s: a group of %d; want %d", c.name, len(group), c.want)
		}
		if len(group) == 1 {
			<-ops
		}
	}
}

// A group is bounded in ops and in bytes.
func TestGroupIsBounded(t *testing.T) {
	t.Parallel()
	ops := make(chan *Op, maxGroup)
	g := &gatherer{ops: ops}
	for range maxGroup {
		ops <- &Op{Size: 1}
	}
	if n := len(g.gather(nil, &Op{})); n != maxGroup {
		t.Errorf("a group of %d; want %d", n, maxGroup)
	}
	ops <- &Op{}
	if n := len(g.gather(nil, &Op{Size: maxGroupBytes})); n != 1 {
		t.Errorf("a group of %d behind a large one; want it alone", n)
	}
}

// A group tells the next one how many of its callers may come again, and how many ops had come before the answers.
func TestWhoMayCome(t *testing.T) {
	t.Parallel()
	ops := make(chan *Op, 2)
	g := &gatherer{ops: ops, answered: 7, waiting: 7}
	ops <- &Op{}
	g.answering([]*Op{{}, {Aside: true}, {Late: true}, {}})
	if g.answered != 2 || g.waiting != 1 {
		t.Errorf("answered %d, waiting %d; want the 2 that are not aside, and the 1 that came", g.answered, g.waiting)
	}
}

// The least time follows quick groups at once and slow ones slowly.
func TestLeastTimeOfAGroup(t *testing.T) {
	t.Parallel()
	g := &gatherer{minGroupTime: 32 * time.Millisecond}
	g.took(time.Second)
	if want := 33*time.Millisecond + time.Microsecond; g.minGroupTime != want {
		t.Errorf("after a slow group %v; want %v", g.minGroupTime, want)
	}
	g.took(time.Millisecond)
	if want := time.Millisecond; g.minGroupTime != want {
		t.Errorf("after a quick group %v; want %v", g.minGroupTime, want)
	}
}
