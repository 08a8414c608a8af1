package worker_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/worker"
)

// A sharer is a worker's process: its handlers, and what it has of the store, which can be cut off.
type sharer struct {
	*lab
	dead atomic.Bool
	stop func() error
}

func newSharer(t *testing.T, s storage.Store, name string, consumers int, handle func(ctx context.Context, j job) error) *sharer {
	t.Helper()
	x := &sharer{}
	x.lab = newLab(t, storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
		if x.dead.Load() {
			return op.Fail(storage.ErrUnavailable)
		}
		return do()
	}), handle)
	x.stop = x.start(t, worker.Config{Name: name, Consumers: map[string]int{"jobs": consumers}})
	return x
}

func nothing(context.Context, job) error { return nil }

// consumers tells which of some workers have handled something since they were asked last.
func consumers(t *testing.T, all []*sharer, before []int) (who []int) {
	t.Helper()
	for i, x := range all {
		if n := len(x.called()); n > before[i] {
			who = append(who, i)
			before[i] = n
		}
	}
	return who
}

// As many workers as are asked for consume a queue; others follow them when they stop, or die.
func TestSharedQueue(t *testing.T) {
	for _, most := range []int{1, 2} {
		t.Run(fmt.Sprint(most), func(t *testing.T) {
			onEachStore(t, func(t *testing.T, s storage.Store) {
				var all []*sharer
				for i := range 4 {
					all = append(all, newSharer(t, s, fmt.Sprintf("w%d", i), most, func(context.Context, job) error {
						time.Sleep(time.Second) // so that nobody takes all
						return nil
					}))
				}
				sender := newLab(t, s, nothing)
				before := make([]int, len(all))
				round := func(want int) []int {
					t.Helper()
					sender.sendJobs(t, make([]job, 200)...)
					sender.empty(t, time.Second)
					who := consumers(t, all, before)
					if len(who) != want {
						t.Fatalf("workers %v consume, want %d of them", who, want)
					}
					return who
				}
				time.Sleep(time.Minute)
				who := round(most)
				if err := all[who[0]].stop(); err != nil {
					t.Fatal(err)
				}
				time.Sleep(10 * time.Second) // a beat
				next := round(most)
				dead := all[next[0]]
				dead.dead.Store(true)
				time.Sleep(time.Minute)
				last := round(most)
				for _, i := range last {
					if all[i] == dead || i == who[0] {
						t.Errorf("worker %d consumes, which has stopped or is dead", i)
					}
				}
				total := 0
				for _, n := range before {
					total += n
				}
				wantInt(t, "runs of handlers", total, 600)
				dead.dead.Store(false)
			})
		})
	}
}

// Who leaves a queue to others finishes what it has begun, however long that takes, and may consume it again meanwhile.
func TestHandOver(t *testing.T) {
	onEachStore(t, func(t *testing.T, s storage.Store) {
		var cut atomic.Int64
		handle := func(ctx context.Context, j job) error {
			if j.Name != "long" {
				return nil
			}
			select {
			case <-time.After(10 * time.Minute):
			case <-ctx.Done():
				cut.Add(1)
			}
			return ctx.Err()
		}
		a := newSharer(t, s, "a", 1, handle)
		time.Sleep(time.Minute)
		a.sendJobs(t, job{Name: "long"})
		time.Sleep(time.Minute)
		var b *sharer
		for i := 0; b == nil; i++ { // until one comes that is preferred
			x := newSharer(t, s, fmt.Sprintf("b%d", i), 1, handle)
			time.Sleep(30 * time.Second)
			x.sendJobs(t, job{Name: "short"})
			time.Sleep(40 * time.Second)
			if len(x.called()) > 0 {
				b = x
			} else if err := x.stop(); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.stop(); err != nil {
			t.Fatal(err)
		}
		n := len(a.called())
		a.sendJobs(t, job{Name: "short"})
		time.Sleep(time.Minute)
		wantInt(t, "handled by the first, which still has a long one", len(a.called()), n+1)
		a.empty(t, time.Minute)
		wantInt(t, "handlers that were cut off", int(cut.Load()), 0)
		long := 0
		for _, c := range a.called() {
			if c.job.Name == "long" {
				long++
			}
		}
		wantInt(t, "runs of the long handler", long, 1)
	})
}

// A worker that can't start is no member afterwards.
func TestNoMemberWithoutAStart(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := openStore(t)
		w := newWorld(t, storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
			if op.Name == "stats" && strings.Contains(op.Resource, "totals") {
				return op.Fail(storage.ErrUnavailable)
			}
			return do()
		}))
		all := map[string]int{"commands": 1, "totals": 1, "reactions": 1}
		wk, err := worker.New(w.store, w.registry, worker.Config{Consumers: all})
		if err != nil {
			t.Fatal(err)
		}
		if err := wk.Run(t.Context()); err == nil {
			t.Error("it ran")
		}
		for queue := range all {
			for row, err := range s.Table("members").Query(t.Context(), queue, storage.RowRange{}) {
				t.Errorf("%s is a member of %s: %v", row.Key, queue, err)
			}
		}
	})
}
