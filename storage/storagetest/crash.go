package storagetest

import (
	"sync"

	"github.com/millrace-go/millrace/storage"
)

// Moment is where in its last call a process dies.
type Moment int

const (
	// BeforeEffect: the last call does nothing.
	BeforeEffect Moment = iota
	// AfterEffect: the last call has its effect, but nobody learns of it.
	AfterEffect
)

// String names the moment in a test's name or log.
func (m Moment) String() string {
	if m == AfterEffect {
		return "after effect"
	}
	return "before effect"
}

// Fuse tells whether a crash has come, by [Crash] or [Disturb].
type Fuse struct {
	once sync.Once
	c    chan struct{}
}

// Fire ends the process now, as a crash does that no schedule knows of.
func (f *Fuse) Fire() { f.once.Do(func() { close(f.c) }) }

// C is closed when the crash comes.
func (f *Fuse) C() <-chan struct{} { return f.c }

// Fired tells whether the crash has come.
func (f *Fuse) Fired() bool {
	select {
	case <-f.c:
		return true
	default:
		return false
	}
}

// Crash wraps s as a process sees it that dies in its nth storage call. Calls before the nth work. The
// nth fails with storage.ErrUnavailable, before its effect or after. Calls under way at that moment fail
// too, with or without effect, and all later ones fail without. The store below stays as it is, for the
// process that starts next; so don't close the wrapped store.
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
