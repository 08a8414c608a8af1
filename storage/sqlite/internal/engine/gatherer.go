package engine

import (
	"runtime"
	"time"
)

const (
	// maxGroup and maxGroupBytes bound one transaction, and so how long the first caller in it waits for the last. One
	// op may be larger.
	maxGroup      = 512
	maxGroupBytes = 4 << 20

	// maxYields is how often a gatherer lets other goroutines run while no op comes. Then it takes the group as it is.
	maxYields = 1000
)

// A gatherer makes groups of ops. A group of all ops that wait costs the disk little more than a group of half of
// them. So a gatherer also waits for ops that may soon come, as long as that is worth it.
type gatherer struct {
	ops <-chan *Op

	minGroupTime time.Duration // the least time that a group took lately, so about a small group's
	answered     int           // ops of the last group that were not aside
	waiting      int           // ops that had come before the last group was answered
}

// gather makes a group of an op, the ops that wait, and the ops that may soon come. It expects as many more ops as
// callers were answered last, because each may soon send the next. It expects none of them when one op alone was
// answered and none had come meanwhile. Ops that had come before the answers count apart: they are in this group
// already.
func (g *gatherer) gather(group []*Op, o *Op) []*Op {
	bytes, come, expected := 0, 0, g.answered
	if g.answered+g.waiting == 1 {
		expected = 0
	}
	for o != nil {
		group = append(group, o)
		bytes += o.Size
		if !o.isAside() {
			come++
			if len(group) <= g.waiting {
				expected++
			}
		}
		if len(group) == maxGroup || bytes >= maxGroupBytes {
			break
		}
		o = g.next(len(group), come < expected)
	}
	return group
}

// next returns the next op, or nil. While one is expected it lets other goroutines run, as long as an op takes less
// than a group's least time divided by the n callers that wait: each of them loses the time that one more op would
// save. In virtual time none passes meanwhile, so turns are counted too.
func (g *gatherer) next(n int, expected bool) *Op {
	var began time.Time
	for yields := 0; ; yields++ {
		select {
		case o := <-g.ops:
			return o
		default:
		}
		switch {
		case yields == 0:
			began = time.Now()
		case !expected || yields == maxYields || time.Since(began) > g.minGroupTime/time.Duration(n):
			return nil
		}
		runtime.Gosched()
	}
}

// took notes how long a group took, from its first op to its commit.
func (g *gatherer) took(d time.Duration) {
	g.minGroupTime = min(d, g.minGroupTime+g.minGroupTime/32+time.Microsecond)
}

// answering notes a group whose callers are about to be answered.
func (g *gatherer) answering(group []*Op) {
	g.answered, g.waiting = 0, len(g.ops)
	for _, o := range group {
		if !o.isAside() {
			g.answered++
		}
	}
}
