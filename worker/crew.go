package worker

import "sync"

// crew runs tasks in the order in which they come, on goroutines of its own, at most limit at a time. There may be
// spare goroutines besides, whose tasks are marked as such. A goroutine ends when no task is left for it, so an idle
// crew costs nothing.
type crew[T any] struct {
	do   func(t T, spare bool)
	work func() // the method run: to start it as a goroutine allocates nothing

	mu           sync.Mutex
	tasks        fifo[T]
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
	for range c.tasks.len() {
		c.start()
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
	for {
		c.mu.Lock()
		if c.tasks.len() == 0 || c.working > c.limit+c.spare {
			c.working--
			c.mu.Unlock()
			return
		}
		t, spare := c.tasks.pop(), c.working > c.limit
		c.mu.Unlock()
		c.do(t, spare)
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
