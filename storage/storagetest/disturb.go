package storagetest

import (
	"context"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/millrace-go/millrace/storage"
)

// Fault is a disturbance of one storage call. A store, or the network to it, may cause each of them without
// breaking a law of the ports.
type Fault int

const (
	// NoFault: the call runs undisturbed.
	NoFault Fault = iota
	// FailBefore: the call fails with storage.ErrUnavailable and has no effect.
	FailBefore
	// FailAfter: the call has its effect, then fails with storage.ErrUnavailable, so that the outcome is unknown.
	FailAfter
	// Throttle: the call fails with storage.ErrThrottled and has no effect.
	Throttle
	// DelayBefore: the call reaches the store late.
	DelayBefore
	// DelayAfter: the call's answer comes late.
	DelayAfter
	// Repeat: the call takes effect twice, as when a driver repeats a request whose answer was lost. Of a receive,
	// only the second answer arrives. Repeat fits send and receive, where a repeat shows.
	Repeat
	// Release ends a visibility early. Other processes can receive a receive's messages at once as well. The receipts
	// of an extend, rewrite, delete or commit are stale when it reaches the store.
	Release
	// Partition: this call and all others of the process fail. Calls under way have an unknown outcome. Calls that
	// begin within [Disturbance].Outage have no effect.
	Partition
	// CrashBefore ends the process: this call and all later ones have no effect. Calls under way have an unknown
	// outcome.
	CrashBefore
	// CrashAfter is CrashBefore after the call's effect.
	CrashAfter
)

// Faults lists all faults but NoFault.
func Faults() []Fault {
	return []Fault{FailBefore, FailAfter, Throttle, DelayBefore, DelayAfter, Repeat, Release, Partition, CrashBefore, CrashAfter}
}

// String returns the fault's name for a test's name or history.
func (f Fault) String() string {
	return [...]string{"no fault", "fail before", "fail after", "throttle", "delay before", "delay after", "repeat", "release",
		"partition", "crash before", "crash after"}[f]
}

// Fits reports whether the fault makes a difference to the call.
func (f Fault) Fits(op Op) bool {
	switch f {
	case Repeat:
		return op.Name == "send" || op.Name == "receive"
	case Release:
		return op.release != nil
	}
	return true
}

// Disturbance is how [Disturb] treats a store.
type Disturbance struct {
	// Schedule returns the fault of a call; a fault that doesn't fit the call is ignored. It is called concurrently.
	// Defaults to none.
	Schedule func(Op) Fault

	// Delay is the delay of a late call or answer. Defaults to 1 minute.
	Delay time.Duration

	// Outage is how long a partition lasts. Defaults to 2 minutes.
	Outage time.Duration

	// Trace is called after each call. It is called concurrently. Defaults to none.
	Trace func(op Op, f Fault, err error)
}

// Disturb wraps s as seen by one process, and disturbs the process's calls by a schedule. Another process on the
// same store needs a wrapping of its own. The fuse tells when the schedule has ended this process. The store below
// stays as it is, so don't close the wrapped store.
//
// Without a schedule it does nothing.
func Disturb(s *storage.Store, d Disturbance) (*storage.Store, *Fuse) {
	if d.Delay == 0 {
		d.Delay = time.Minute
	}
	if d.Outage == 0 {
		d.Outage = 2 * time.Minute
	}
	x := &disturbed{cfg: d, fuse: &Fuse{c: make(chan struct{})}}
	return Intercept(s, x.hook), x.fuse
}

type disturbed struct {
	cfg  Disturbance
	fuse *Fuse

	mu     sync.Mutex
	cut    time.Time // the process is partitioned until then; under mu
	outage int       // partitions so far; under mu
}

func (x *disturbed) hook(ctx context.Context, op Op, do func() error) error {
	fault := NoFault
	if x.cfg.Schedule != nil && !x.fuse.Fired() {
		if fault = x.cfg.Schedule(op); !fault.Fits(op) {
			fault = NoFault
		}
	}
	err := x.call(ctx, op, fault, do)
	if x.cfg.Trace != nil {
		x.cfg.Trace(op, fault, err)
	}
	return err
}

func (x *disturbed) call(ctx context.Context, op Op, fault Fault, do func() error) error {
	switch fault {
	case CrashBefore, CrashAfter:
		if fault == CrashAfter {
			_ = do() // its answer is lost in any case
		}
		x.fuse.Fire()
		return op.Fail(storage.ErrUnavailable)
	case Partition:
		x.mu.Lock()
		x.cut = time.Now().Add(x.cfg.Outage)
		x.outage++
		x.mu.Unlock()
	}
	outage, cut := x.partition()
	if cut || x.fuse.Fired() {
		return op.Fail(storage.ErrUnavailable)
	}
	err := x.disturb(ctx, op, fault, do)
	if now, _ := x.partition(); now != outage || x.fuse.Fired() {
		return op.Fail(storage.ErrUnavailable)
	}
	return err
}

// partition returns the number of partitions so far, and whether one is under way.
func (x *disturbed) partition() (int, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.outage, time.Now().Before(x.cut)
}

func (x *disturbed) disturb(ctx context.Context, op Op, fault Fault, do func() error) error {
	switch fault {
	case FailBefore:
		return op.Fail(storage.ErrUnavailable)
	case Throttle:
		return op.Fail(storage.ErrThrottled)
	case DelayBefore:
		if err := x.late(ctx, op); err != nil {
			return err
		}
	case Release:
		if op.Name != "receive" {
			op.release(ctx)
		}
	case Repeat:
		if err := do(); err != nil {
			return err
		}
	}
	err := do()
	switch {
	case fault == FailAfter:
		return op.Fail(storage.ErrUnavailable)
	case fault == DelayAfter:
		if late := x.late(ctx, op); late != nil {
			return late
		}
	case fault == Release && op.Name == "receive" && err == nil:
		op.release(ctx)
	}
	return err
}

// late waits for the delay, or until the caller gives up or the process ends.
func (x *disturbed) late(ctx context.Context, op Op) error {
	t := time.NewTimer(x.cfg.Delay)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
	case <-x.fuse.c:
	}
	return op.Fail(storage.ErrUnavailable)
}

// Seeded is a schedule in which each call has the given chances, by fault, from 0 to 1. The fault of the nth call
// of an operation on a resource depends on the seed alone, whatever other calls run at the same time.
func Seeded(seed uint64, chances map[Fault]float64) func(Op) Fault {
	type call struct{ name, resource string }
	var (
		mu sync.Mutex
		n  = map[call]uint64{}
	)
	faults := make([]Fault, 0, len(chances))
	for f := range chances {
		faults = append(faults, f)
	}
	slices.Sort(faults)
	return func(op Op) Fault {
		at := call{op.Name, op.Resource}
		mu.Lock()
		n[at]++
		nth := n[at]
		mu.Unlock()
		h := fnv.New64a()
		h.Write([]byte(op.Name + " " + op.Resource))
		dice := rand.New(rand.NewPCG(seed^h.Sum64(), nth)).Float64()
		for _, f := range faults {
			if !f.Fits(op) {
				continue
			}
			if dice -= chances[f]; dice < 0 {
				return f
			}
		}
		return NoFault
	}
}
