package throttle

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/millrace-go/millrace/storage"
)

// MostLevel is the highest level.
const MostLevel = 3

// A Level says how much a program leaves out, so that the rest gets done: 0 is nothing, and 3 all that it can do
// without. Somebody sets it, such as an operator by a live setting, and [Level.Follow] raises it further while queues
// are too long. The zero Level is 0. Its methods may be called concurrently.
//
//	if level.Off(1) {
//		return page // without recommendations
//	}
//
// Package worker/limiters lets a queue wait.
type Level struct {
	now atomic.Int32

	mu      sync.Mutex
	hand    int           // as it was set; under mu
	pressed int           // what the queues ask for; under mu
	changed chan struct{} // closed when the level changes; nil while nobody watches; under mu
}

// Now returns the level.
func (l *Level) Now() int { return int(l.now.Load()) }

// Off reports that a thing is left out that is left out from some level on, 1 to 3. It takes a nanosecond or two.
func (l *Level) Off(from int) bool { return int(l.now.Load()) >= from }

// Set changes the level, or the least that it is while it follows queues. A level that is none is storage.ErrInvalid,
// and changes nothing.
func (l *Level) Set(level int) error {
	if err := CheckLevel(level); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hand = level
	l.settle()
	return nil
}

// press changes what the queues ask for.
func (l *Level) press(level int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pressed = level
	l.settle()
}

// pressure returns what the queues ask for.
func (l *Level) pressure() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pressed
}

// settle puts the higher of both into force, under the mutex.
func (l *Level) settle() {
	level := max(l.hand, l.pressed)
	if int(l.now.Swap(int32(level))) != level && l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

// Watch returns the level, and a channel that is closed when it changes.
func (l *Level) Watch() (level int, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	return int(l.now.Load()), l.changed
}

// CheckLevel says what is wrong with a level.
func CheckLevel(level int) error {
	if level < 0 || level > MostLevel {
		return fmt.Errorf("%w: the level is %d; want 0 to %d", storage.ErrInvalid, level, MostLevel)
	}
	return nil
}
