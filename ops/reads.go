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
)

const (
	readFor    = 2 * time.Second       // how long what was read counts
	slowRead   = 50 * time.Millisecond // and what takes longer is slow
	slowFor    = 30 * time.Second      // how long what was read slowly is shown while it is read again
	lookFor    = 10 * time.Second      // how long what the programs have published counts
	readWithin = 15 * time.Second
	mostReads  = 200 // that are kept
)

// reads are what was read just now. All viewers share them.
type reads struct {
	desk *act.Desk // as it was opened

	flights singleflight.Group

	mu     sync.Mutex
	looked time.Time
	now    *act.Desk // looked then
	kept   map[string]*kept
	acts   int // that were done. A read from before the last of them doesn't count any more
}

// A kept is the result of an act that only reads.
type kept struct {
	told *told
	err  error
	took time.Duration
}

// current returns a desk that knows what the programs have published lately. It is the caller's own.
func (x *reads) current(ctx context.Context) (*act.Desk, error) {
	x.mu.Lock()
	now := x.now
	if time.Since(x.looked) > lookFor {
		now = nil
	}
	x.mu.Unlock()
	if now == nil {
		fresh, err, _ := x.flights.Do("desk", func() (any, error) {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readWithin) // other viewers wait for it, too
			defer cancel()
			d := *x.desk
			if err := d.Look(ctx); err != nil {
				return nil, err
			}
			x.mu.Lock()
			defer x.mu.Unlock()
			x.now, x.looked = &d, time.Now()
			return x.now, nil
		})
		if err != nil {
			return nil, err
		}
		now = fresh.(*act.Desk)
	}
	own := *now
	return &own, nil
}

// read does a request that only reads, or tells what that told within the last two seconds. A large store is read
// slowly: then a viewer gets what was read up to half a minute ago, and the store is read again meanwhile. key names
// the request.
func (x *reads) read(ctx context.Context, key string, r *act.Request) (*told, error) {
	if r.Noted() || r.Role() != act.Viewer { // all viewers share what was read
		return nil, act.Usage("this is done by a form alone, because the audit log has it")
	}
	x.mu.Lock()
	k, acts := x.kept[key], x.acts
	x.mu.Unlock()
	old := time.Duration(0)
	if k != nil {
		if old = time.Since(k.told.At); old < readFor {
			return k.told, k.err
		}
	}
	// A viewer who comes after an act doesn't wait for a read that was begun before the act.
	reading := x.flights.DoChan(fmt.Sprint(acts, " ", key), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readWithin) // other viewers wait for it, too
		defer cancel()
		desk, err := x.current(ctx)
		if err != nil {
			return nil, err
		}
		t := &told{At: time.Now()}
		err = contain.Apart(func() error { return r.Do(ctx, act.NewCall(desk, "", t)) }) // a panic here would end the process
		if errors.Is(err, act.ErrWrong) {
			err = nil // the page tells what is wrong
		}
		t.link(r.Act)
		x.keep(key, acts, &kept{t, err, time.Since(t.At)})
		return t, err
	})
	if k != nil && k.err == nil && k.took >= slowRead && old < slowFor {
		return k.told, nil
	}
	got := <-reading
	t, _ := got.Val.(*told)
	return t, got.Err
}

// forget forgets what was read before an act.
func (x *reads) forget() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.acts++
	clear(x.kept)
}

// keep keeps a result that was begun after so many acts, and forgets those whose time is over.
func (x *reads) keep(key string, acts int, k *kept) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if acts != x.acts {
		return
	}
	for old, was := range x.kept {
		if time.Since(was.told.At) >= slowFor || len(x.kept) >= mostReads {
			delete(x.kept, old)
		}
	}
	x.kept[key] = k
}
