package storagetest

import (
	"sync"

	"github.com/millrace-go/millrace/storage"
)

// Moment is when a process dies in its last call.
type Moment int

const (
	// BeforeEffect: the last call does nothing.
	BeforeEffect Moment = iota
	// AfterEffect: the last call has its effect, but returns no answer.
	AfterEffect
)

// String returns the moment's name for a test's name or log.
func (m Moment) String() string {
	if m == AfterEffect {
		return "after effect"
	}
	return "before effect"
}

// Fuse tells whether a crash by [Crash] or [Disturb] has come.
type Fuse struct {
	once sync.Once
	c    chan struct{}
}

// Fire ends the process now, like a crash that is in no schedule.
func (f *Fuse) Fire() { f.once.Do(func() { close(f.c) }) }

// C is closed when the crash comes.
func (f *Fuse) C() <-chan struct{} { return f.c }

// Fired reports whether the crash has come.
func (f *Fuse) Fired() bool {
	select {
	case <-f.c:
		return true
	default:
		return false
	}
}

// Crash wraps s as seen by a process that dies in its nth storage call:
//
//   - Calls before the nth work.
//   - The nth fails with storage.ErrUnavailable, before its effect or after it.
//   - Calls under way at that moment fail too, with or without effect.
//   - All later calls fail without effect.
//
// The store below stays as it is, for the next process; so don't close the wrapped store.
//
//	for n := int64(1); ; n++ {
//		s := fresh()
//		dying, fuse := storagetest.Crash(s, n, storagetest.AfterEffect)
//		work(dying)
//		if !fuse.Fired() {
//			break // the whole work takes fewer than n calls
//		}
//		work(s) // the next process finishes it
//		audit(s)
//	}
func Crash(s *storage.Store, n int64, m Moment) (*storage.Store, *Fuse) {
	return Disturb(s, Disturbance{Schedule: func(op Op) Fault {
		switch {
		case op.Seq != n:
			return NoFault
		case m == AfterEffect:
			return CrashAfter
		}
		return CrashBefore
	}})
}
