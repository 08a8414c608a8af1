package keylock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/coord/keylock"
	"github.com/millrace-go/millrace/internal/agreetest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/azure"
	"github.com/millrace-go/millrace/storage/azure/azuretest"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// A step is a call on the turn of a key: "take", "save", "end" (both with the number of the next one to be done), or
// "lost", when a context ended by itself.
type step struct {
	op    string
	fence int64
	done  uint64
	doubt bool // of an end: it may be written or not
}

// line is the queue of a key: who has the turn, and how many are done.
type line struct {
	held  bool
	fence int64
	done  uint64
}

// next is the model: one holder at a time, with growing fences, and each begins with what the one before it has left.
func (l line) next(a storagetest.Answer[step, step]) []line {
	switch after, out := l, a.Out; {
	case out.op == "take" && !l.held && out.fence > l.fence && out.done == l.done:
		after.held, after.fence = true, out.fence
		return []line{after}
	case out.op == "save" && l.held && out.fence == l.fence:
		after.done = out.done
		if out.doubt {
			return []line{l, after}
		}
		return []line{after}
	case out.op == "lost" && l.held && out.fence == l.fence:
		after.held = false
		return []line{after}
	case out.op == "end" && l.held && out.fence == l.fence:
		after.held = false
		written := after
		written.done = out.done
		if out.doubt {
			return []line{after, written}
		}
		return []line{written}
	}
	return nil
}

// A player takes turns of some keys, and does one thing in each.
type player struct {
	n     int
	turns *keylock.Turns
	h     *storagetest.History[step, step]
	r     *rand.Rand
	seen  *sync.WaitGroup
}

func (p *player) record(key string, do func() step) {
	p.h.Record(p.n, func() []storagetest.Answer[step, step] {
		return []storagetest.Answer[step, step]{{Key: key, Out: do()}}
	})
}

func (p *player) play(times int, pause time.Duration) {
	for range times {
		key := fmt.Sprint("key-", p.r.IntN(2))
		p.h.Record(p.n, func() []storagetest.Answer[step, step] {
			x, err := p.turns.Take(context.Background(), key, nil)
			if err != nil {
				return nil
			}
			p.seen.Go(func() { p.hold(key, x, time.Duration(p.r.Int64N(int64(4*pause)))) })
			return []storagetest.Answer[step, step]{{Key: key, Out: step{op: "take", fence: x.Fence(), done: x.State().Done}}}
		})
		p.seen.Wait()
		time.Sleep(time.Duration(p.r.Int64N(int64(pause))))
	}
}

// hold holds a turn for a while, and may save a state before. The end of its context is seen at once.
func (p *player) hold(key string, x *keylock.Turn, for_ time.Duration) {
	var over atomic.Bool // the end of the context is no loss
	context.AfterFunc(x.Context(), func() {
		if over.CompareAndSwap(false, true) {
			p.record(key, func() step { return step{op: "lost", fence: x.Fence()} })
		}
	})
	s := x.State()
	if p.r.IntN(3) == 0 {
		p.record(key, func() step {
			s.Done++
			err := x.Save(context.Background(), s)
			return step{op: "save", fence: x.Fence(), done: s.Done, doubt: err != nil}
		})
	}
	timer := time.NewTimer(for_)
	defer timer.Stop()
	select {
	case <-x.Context().Done():
	case <-timer.C:
	}
	if !over.CompareAndSwap(false, true) {
		_ = x.End(context.Background(), s) // as a worker does; it may free the key
		return
	}
	p.record(key, func() step {
		s.Done++
		err := x.End(context.Background(), s)
		return step{op: "end", fence: x.Fence(), done: s.Done, doubt: err != nil}
	})
}

func check(t *testing.T, h *storagetest.History[step, step], least int) {
	t.Helper()
	taken := 0
	for _, a := range h.Answers() {
		if a.Out.op == "take" {
			taken++
		}
	}
	if taken < least {
		t.Errorf("only %d turns were taken", taken)
	}
	if err := storagetest.CheckHistory(h, line.next, t.ArtifactDir()); err != nil {
		t.Error(err)
	}
}

// Processes whose calls are slow, fail, are lost, are late, hang and stand still take turns. Each key is a queue: one
// holder at a time, with growing fences, and each goes on where the one before it ended.
func TestLaw1TheHistoryOfTurns(t *testing.T) {
	t.Parallel()
	for seed := range storagetest.Seeds(t, 0, 4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
				h := &storagetest.History[step, step]{}
				var all, late sync.WaitGroup
				w := agreetest.Weather{Odds: 14, Slow: 2 * time.Second, Late: 40 * time.Second, Pause: 60 * time.Second}
				for n := range 5 {
					r := rand.New(rand.NewPCG(seed, uint64(n)))
					p := &player{n: n, turns: newTurns(t, w.Over(s, r, &late)), h: h, r: rand.New(rand.NewPCG(seed+1, uint64(n))), seen: new(sync.WaitGroup)}
					all.Go(func() { p.play(25, 10*time.Second) })
				}
				all.Wait()
				time.Sleep(10 * time.Minute) // calls that stood still return
				late.Wait()
				check(t, h, 8)
			})
		})
	}
}

// On Azure turns are the same.
func TestHistoryOnAzure(t *testing.T) {
	t.Parallel()
	s, err := azure.Open(t.Context(), azuretest.Start(t).Account(t).ConnectionString())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	h := &storagetest.History[step, step]{}
	var all sync.WaitGroup
	for n := range 4 {
		p := &player{n: n, turns: newTurns(t, s), h: h, r: rand.New(rand.NewPCG(1, uint64(n))), seen: new(sync.WaitGroup)}
		all.Go(func() { p.play(12, 5*time.Millisecond) })
	}
	all.Wait()
	check(t, h, 5)
	for x, err := range keylock.List(t.Context(), s, group, "") {
		if err != nil || x.Held {
			t.Errorf("got %+v, %v; want all ended", x, err)
		}
	}
	if err := s.Table("turns").Delete(t.Context(), group, "key-0", storage.Condition{IfMatch: "x"}); err == nil || errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("a guarded deletion: got %v", err)
	}
}

// The model refuses what must not be.
func TestTheModelOfTurns(t *testing.T) {
	t.Parallel()
	held := line{held: true, fence: 3, done: 2}
	free := line{fence: 3, done: 2}
	for name, c := range map[string]struct {
		from line
		out  step
		want int
	}{
		"two holders":     {held, step{op: "take", fence: 4, done: 2}, 0},
		"an old fence":    {free, step{op: "take", fence: 3, done: 2}, 0},
		"an old state":    {free, step{op: "take", fence: 4, done: 1}, 0},
		"a turn":          {free, step{op: "take", fence: 4, done: 2}, 1},
		"an end":          {held, step{op: "end", fence: 3, done: 3}, 1},
		"another's end":   {held, step{op: "end", fence: 2, done: 3}, 0},
		"a doubtful end":  {held, step{op: "end", fence: 3, done: 3, doubt: true}, 2},
		"a save":          {held, step{op: "save", fence: 3, done: 3}, 1},
		"a doubtful save": {held, step{op: "save", fence: 3, done: 3, doubt: true}, 2},
		"a late save":     {free, step{op: "save", fence: 3, done: 3}, 0},
		"a second ending": {free, step{op: "lost", fence: 3}, 0},
	} {
		if got := c.from.next(storagetest.Answer[step, step]{Out: c.out}); len(got) != c.want {
			t.Errorf("%s: got %v, want %d states", name, got, c.want)
		}
	}
}
