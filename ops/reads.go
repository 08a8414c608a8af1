package ops

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/millrace-go/millrace/ops/act"
)

const (
	readFor    = 2 * time.Second  // how long what was read counts
	lookFor    = 10 * time.Second // how long what the programs have published counts
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
}

// A kept is the result of an act that only reads.
type kept struct {
	told *told
	err  error
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

// read does a request that only reads, or tells what that told within the last two seconds. key names the request.
func (x *reads) read(ctx context.Context, key string, r *act.Request) (*told, error) {
	if r.Noted() {
		return nil, act.Usage("this is done by a form alone, because the audit log has it")
	}
	x.mu.Lock()
	if k := x.kept[key]; k != nil && time.Since(k.told.At) < readFor {
		x.mu.Unlock()
		return k.told, k.err
	}
	x.mu.Unlock()
	got, err, _ := x.flights.Do(key, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readWithin) // other viewers wait for it, too
		defer cancel()
		desk, err := x.current(ctx)
		if err != nil {
			return nil, err
		}
		t := &told{At: time.Now()}
		err = r.Do(ctx, act.NewCall(desk, "", t))
		if errors.Is(err, act.ErrWrong) {
			err = nil // the page tells what is wrong
		}
		t.link(r.Act)
		x.keep(key, &kept{t, err})
		return t, err
	})
	t, _ := got.(*told)
	return t, err
}

// forget forgets what was read before an act.
func (x *reads) forget() {
	x.mu.Lock()
	defer x.mu.Unlock()
	clear(x.kept)
}

// keep keeps a result, and forgets those whose time is over.
func (x *reads) keep(key string, k *kept) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for old, was := range x.kept {
		if time.Since(was.told.At) >= readFor || len(x.kept) >= mostReads {
			delete(x.kept, old)
		}
	}
	x.kept[key] = k
}
