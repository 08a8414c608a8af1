package ops

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/millrace-go/millrace/internal/contain"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/storage"
)

const (
	readFor    = 2 * time.Second       // how long what was read counts
	slowRead   = 10 * time.Millisecond // and what takes longer is slow
	slowFor    = 30 * time.Second      // how long what was read slowly is shown while it is read again
	pageFirst  = 50 * time.Millisecond // and how long the read leaves the processors to the page
	lookFor    = 10 * time.Second      // how long what the programs have published counts
	groupsFor  = time.Minute           // how long groups of poison messages count: they cost a request for each message
	readWithin = 15 * time.Second
	atOnce     = 16       // requests that the store is read for together; others wait
	mostReads  = 200      // that are kept
	mostKept   = 32 << 20 // and so many bytes of them, about
)

// timesOf are how long a result of an act counts, and how long it is shown while the store is read again.
func timesOf(a *act.Act) (counts, shown time.Duration) {
	if a.Noun == "poison" && a.Verb == "groups" {
		return groupsFor, 2 * groupsFor
	}
	return readFor, slowFor
}

// reads are what was read just now. All viewers share them.
type reads struct {
	desk *act.Desk // as it was opened

	flights singleflight.Group
	slots   chan struct{} // one is taken by each flight that reads the store

	mu     sync.Mutex
	looked time.Time
	now    *act.Desk // looked then
	kept   map[string]*kept
	size   int // of what is kept
	acts   int // that were done. A read from before the last of them doesn't count any more
}

func newReads(desk *act.Desk) *reads {
	return &reads{desk: desk, slots: make(chan struct{}, atOnce), kept: map[string]*kept{}}
}

// A kept is the result of an act that only reads.
type kept struct {
	told *told
	err  error
	took time.Duration
	size int

	counts, shown time.Duration // from told.At on
}

// known is what was looked at lately, or nil.
func (x *reads) known() *act.Desk {
	x.mu.Lock()
	defer x.mu.Unlock()
	if time.Since(x.looked) > lookFor {
		return nil
	}
	return x.now
}

// fresh is what was read just now, after so many acts, or nil.
func (x *reads) fresh(key string, acts int) *kept {
	x.mu.Lock()
	defer x.mu.Unlock()
	if k := x.kept[key]; k != nil && x.acts == acts && time.Since(k.told.At) < k.counts {
		return k
	}
	return nil
}

// current returns a desk that knows what the programs have published lately. It is the caller's own.
func (x *reads) current(ctx context.Context) (*act.Desk, error) {
	now := x.known()
	if now == nil {
		looking := x.flights.DoChan("desk", func() (any, error) {
			if now := x.known(); now != nil { // another viewer's flight has just ended
				return now, nil
			}
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readWithin) // other viewers wait for it, too
			defer cancel()
			d := *x.desk
			if err := contain.Apart(func() error { return d.Look(ctx) }); err != nil {
				return nil, err
			}
			x.mu.Lock()
			defer x.mu.Unlock()
			x.now, x.looked = &d, time.Now()
			return x.now, nil
		})
		select {
		case fresh := <-looking:
			if fresh.Err != nil {
				return nil, fresh.Err
			}
			now = fresh.Val.(*act.Desk)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	own := *now
	return &own, nil
}

// read does a request that only reads, or tells what that told within the last two seconds. A large store is read
// slowly: then a viewer gets what was read up to half a minute ago, and the store is read again meanwhile. key names
// the request. A viewer who leaves waits no longer, and the others still get what is read.
func (x *reads) read(ctx context.Context, key string, r *act.Request) (*told, error) {
	if r.Noted() || r.Role() != act.Viewer { // all viewers share what was read
		return nil, act.Usage("this is done by a form alone, because the audit log has it")
	}
	x.mu.Lock()
	k, acts := x.kept[key], x.acts
	x.mu.Unlock()
	old := time.Duration(0)
	if k != nil {
		if old = time.Since(k.told.At); old < k.counts {
			return k.told, k.err
		}
	}
	again := k != nil && k.err == nil && k.took >= slowRead && old < k.shown
	// A viewer who comes after an act doesn't wait for a read that was begun before the act.
	reading := x.flights.DoChan(fmt.Sprint(acts, " ", key), func() (any, error) {
		if k := x.fresh(key, acts); k != nil { // another viewer's flight has just ended
			return k.told, k.err
		}
		if again {
			<-time.After(pageFirst)
		}
		return x.fly(context.WithoutCancel(ctx), key, acts, r)
	})
	if again {
		return k.told, nil
	}
	select {
	case got := <-reading:
		t, _ := got.Val.(*told)
		return t, got.Err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// fly reads the store for all viewers who wait, once few other flights do. The result was begun after so many acts.
func (x *reads) fly(ctx context.Context, key string, acts int, r *act.Request) (*told, error) {
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	select {
	case x.slots <- struct{}{}:
		defer func() { <-x.slots }()
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: too much else is being read; look again", storage.ErrUnavailable)
	}
	desk, err := x.current(ctx)
	if err != nil {
		return nil, err
	}
	t := newTold(desk, r)
	err = contain.Apart(func() error { return r.Do(ctx, act.NewCall(desk, "", t)) }) // a panic here would end the process
	if errors.Is(err, act.ErrWrong) {
		err = nil // the page tells what is wrong
	}
	t.link(r.Act)
	k := &kept{told: t, err: err, took: time.Since(t.At), size: t.size()}
	if k.counts, k.shown = timesOf(r.Act); err != nil { // soon it may be well
		k.counts = readFor
	}
	x.keep(key, acts, k)
	return t, err
}

// forget forgets what was read before an act.
func (x *reads) forget() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.acts++
	clear(x.kept)
	x.size = 0
}

// keep keeps a result that was begun after so many acts. It forgets those whose time is over, and the oldest ones where
// there are too many.
func (x *reads) keep(key string, acts int, k *kept) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if acts != x.acts || k.size > mostKept {
		return
	}
	x.drop(key)
	for old, was := range x.kept {
		if time.Since(was.told.At) >= was.shown {
			x.drop(old)
		}
	}
	for len(x.kept) >= mostReads || x.size+k.size > mostKept {
		oldest := ""
		for name, was := range x.kept {
			if oldest == "" || was.told.At.Before(x.kept[oldest].told.At) {
				oldest = name
			}
		}
		x.drop(oldest)
	}
	x.kept[key] = k
	x.size += k.size
}

// drop forgets a result. mu is held.
func (x *reads) drop(key string) {
	if k := x.kept[key]; k != nil {
		x.size -= k.size
		delete(x.kept, key)
	}
}
