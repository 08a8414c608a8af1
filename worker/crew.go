package worker

import (
	"slices"
	"sync"
)

// crew runs tasks in the order in which they come, on goroutines of its own, at most limit at a time. There may be
// spare goroutines besides, whose tasks are marked as such. A goroutine ends when no task is left for it, so an idle
// crew costs nothing.
//
// Some of the limit may be reserved. Then lower tasks wait while as many of them run as the rest allows, and other
// tasks overtake them. While there are spare goroutines nothing is reserved, because no handler starts.
//
// Tasks that wait may be taken out, and then run as spare ones, however busy the others are.
type crew[T any] struct {
	do   func(t T, spare bool)
	work func() // the method run: to start it as a goroutine allocates nothing

	reserve int          // of the limit, for tasks that aren't lower
	lower   func(T) bool // nil: nothing is reserved

	mu           sync.Mutex
	tasks        fifo[T]
	held         fifo[T] // lower tasks that others have overtaken; they are older than all of tasks
	lowers       int     // that run
	aside        fifo[T] // for goroutines besides the others
	asides       int     // these goroutines
	limit, spare int
	working      int // goroutines
	all          sync.WaitGroup
}

func newCrew[T any](limit int, do func(t T, spare bool)) *crew[T] {
	c := &crew[T]{do: do, limit: limit}
	c.work = c.run
	return c
}

// push adds a task. It never blocks.
func (c *crew[T]) push(t T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tasks.push(t)
	c.start()
}

// setLimit changes how many tasks run at a time, and how many spare ones besides. Tasks that run go on.
func (c *crew[T]) setLimit(limit, spare int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limit, c.spare = limit, spare
	for range c.tasks.len() + c.held.len() {
		c.start()
	}
}

// review looks again at the tasks that others have overtaken: one of them may be lower no more.
func (c *crew[T]) review() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for range c.held.len() {
		if t := c.held.pop(); c.lower(t) {
			c.held.push(t)
		} else {
			c.tasks.push(t)
			c.start()
		}
	}
}

// start starts a goroutine if there may be another one. The caller holds the mutex.
func (c *crew[T]) start() {
	if c.working < c.limit+c.spare {
		c.working++
		c.all.Add(1)
		go c.work()
	}
}

// run runs tasks until there are none, or until there are too many goroutines.
func (c *crew[T]) run() {
	defer c.all.Done()
	lower := false
	for {
		c.mu.Lock()
		if lower {
			c.lowers--
		}
		var t T
		ok := c.working <= c.limit+c.spare
		if ok {
			t, lower, ok = c.next()
		}
		if !ok {
			c.working--
			c.mu.Unlock()
			return
		}
		spare := c.working > c.limit
		c.mu.Unlock()
		c.do(t, spare)
	}
}

// next takes out the oldest task that may run. The caller holds the mutex.
func (c *crew[T]) next() (t T, lower, ok bool) {
	if c.lower == nil {
		if c.tasks.len() == 0 {
			return t, false, false
		}
		return c.tasks.pop(), false, true
	}
	open := c.spare > 0 || c.lowers < c.limit-kept(c.reserve, c.limit)
	if open && c.held.len() > 0 {
		return c.counted(c.held.pop())
	}
	for c.tasks.len() > 0 {
		t := c.tasks.pop()
		if open || !c.lower(t) {
			return c.counted(t)
		}
		c.held.push(t)
	}
	return t, false, false
}

// counted counts a task that begins.
func (c *crew[T]) counted(t T) (_ T, lower, ok bool) {
	if lower = c.lower(t); lower {
		c.lowers++
	}
	return t, lower, true
}

// any reports that f is true of a task that waits.
func (c *crew[T]) any(f func(T) bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.held.all(), f) || slices.ContainsFunc(c.tasks.all(), f)
}

// takeOut splits each task that waits into what is taken out, and returns that. A task that stays keeps its place.
func (c *crew[T]) takeOut(split func(T) (out []T, stays bool)) (all []T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range []*fifo[T]{&c.held, &c.tasks} { // in the order in which they came
		f.takeOut(func(t T) bool {
			out, stays := split(t)
			all = append(all, out...)
			return !stays
		})
	}
	return all
}

// runSpare runs tasks as spare ones, at once, on up to so many goroutines besides the others.
func (c *crew[T]) runSpare(most int, ts []T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range ts {
		c.aside.push(t)
	}
	for range min(c.aside.len(), most-c.asides) {
		c.asides++
		c.all.Add(1)
		go c.runAside()
	}
}

func (c *crew[T]) runAside() {
	defer c.all.Done()
	for {
		c.mu.Lock()
		if c.aside.len() == 0 {
			c.asides--
			c.mu.Unlock()
			return
		}
		t := c.aside.pop()
		c.mu.Unlock()
		c.do(t, true)
	}
}

// wait waits until all goroutines have ended. Nothing may be pushed meanwhile.
func (c *crew[T]) wait() { c.all.Wait() }

// fifo is a queue in memory. Its memory grows with what it holds, and not with what went through it.
type fifo[T any] struct {
	items []T
	head  int // items before it are gone
}

func (f *fifo[T]) len() int { return len(f.items) - f.head }

// all returns the items, oldest first. They hold until the next call.
func (f *fifo[T]) all() []T { return f.items[f.head:] }

// takeOut takes out the items of which out is true, and returns them. The others keep their order.
func (f *fifo[T]) takeOut(out func(T) bool) (taken []T) {
	for range f.len() {
		if t := f.pop(); out(t) {
			taken = append(taken, t)
		} else {
			f.push(t)
		}
	}
	return taken
}

func (f *fifo[T]) push(t T) {
	if len(f.items) == cap(f.items) && f.head > len(f.items)/2 {
		n := copy(f.items, f.items[f.head:])
		clear(f.items[n:])
		f.items, f.head = f.items[:n], 0
	}
	f.items = append(f.items, t)
}

// pop takes the oldest item out. There must be one.
func (f *fifo[T]) pop() T {
	var none T
	t := f.items[f.head]
	f.items[f.head] = none // else it would be kept
	f.head++
	if f.head == len(f.items) {
		f.items, f.head = f.items[:0], 0
	}
	return t
}
