package worker

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// A crew runs tasks in order, as many at a time as its limit says, which may rise and fall while tasks run.
func TestCrew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var begun []int
		var running atomic.Int64
		finish := make(chan struct{})
		c := newCrew(2, func(i int, _ bool) {
			mu.Lock()
			begun = append(begun, i)
			mu.Unlock()
			running.Add(1)
			<-finish
			running.Add(-1)
		})
		want := func(what string, n int64) {
			t.Helper()
			if synctest.Wait(); running.Load() != n {
				t.Errorf("%s: %d run, want %d", what, running.Load(), n)
			}
		}
		for i := range 100 {
			c.push(i)
		}
		want("at first", 2)
		c.setLimit(10, 0)
		want("after the limit rose", 10)
		c.setLimit(3, 0)
		want("after the limit fell", 10)
		for range 7 {
			finish <- struct{}{}
		}
		want("when the others have ended", 3)
		finish <- struct{}{}
		want("when one more has ended", 3)
		c.setLimit(0, 0)
		for range 3 {
			finish <- struct{}{}
		}
		want("without a limit", 0)
		c.setLimit(1000, 0)
		want("in the end", 89)
		close(finish)
		c.wait()
		if len(begun) != 100 || begun[0]+begun[1] != 1 {
			t.Errorf("%d tasks began, the first ones %v", len(begun), begun[:2])
		}
		if c.working != 0 {
			t.Errorf("%d goroutines are left", c.working)
		}
	})
}

// One goroutine runs the tasks in the order in which they came.
func TestCrewKeepsOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		last := -1
		c := newCrew(1, func(i int, _ bool) {
			if i != last+1 {
				t.Errorf("%d came after %d", i, last)
			}
			last = i
		})
		for i := range 5000 {
			c.push(i)
		}
		c.wait()
		if last != 4999 {
			t.Errorf("the last was %d", last)
		}
	})
}

// However often spare goroutines come and go, no more tasks than the limit run that are not marked as spare.
func TestSpareGoroutines(t *testing.T) {
	t.Parallel()
	var own, most, spares atomic.Int64
	c := newCrew(3, func(_ int, spare bool) {
		if spare {
			spares.Add(1)
			runtime.Gosched()
			return
		}
		n := own.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		runtime.Gosched()
		own.Add(-1)
	})
	for i := range 20_000 {
		c.push(i)
		if i%10 == 0 {
			c.setLimit(3, i/10%2*8)
		}
	}
	c.wait()
	if most.Load() > 3 || spares.Load() == 0 {
		t.Errorf("%d ran at a time within the limit of 3, and %d on spare goroutines", most.Load(), spares.Load())
	}
}

// A queue in memory doesn't grow with what went through it, and keeps nothing that was taken out.
func TestFifo(t *testing.T) {
	t.Parallel()
	var f fifo[*int]
	next, want := 0, 0
	for round := range 10_000 {
		for range 1 + round%3 {
			n := next
			f.push(&n)
			next++
		}
		for range min(f.len(), 2+round%2) {
			if got := *f.pop(); got != want {
				t.Fatalf("got %d, want %d", got, want)
			}
			want++
		}
	}
	if f.len() != next-want || cap(f.items) > 64 {
		t.Errorf("%d items are left, want %d; room for %d", f.len(), next-want, cap(f.items))
	}
	for i, p := range f.items[:cap(f.items)] {
		if p != nil && (i < f.head || i >= len(f.items)) {
			t.Errorf("item %d is kept", i)
		}
	}
}

// A task costs no allocation.
func TestCrewAllocatesNothing(t *testing.T) {
	done := make(chan struct{})
	c := newCrew(4, func(struct{}, bool) { done <- struct{}{} })
	c.push(struct{}{})
	<-done
	if n := testing.AllocsPerRun(1000, func() { c.push(struct{}{}); <-done }); n > 0 {
		t.Errorf("a task allocates %v times", n)
	}
	c.wait()
}

// Lower tasks wait for those of their own that run, others overtake them, and all begin in order otherwise. A task that
// is lower no more goes on, and so do all where nothing starts.
func TestCrewReserves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		begun := ""
		finish := map[string]chan struct{}{}
		for _, x := range "abcdefABC" {
			finish[string(x)] = make(chan struct{})
		}
		raised := map[string]bool{}
		c := newCrew(3, func(x string, _ bool) {
			mu.Lock()
			begun += x
			mu.Unlock()
			<-finish[x]
		})
		c.reserve, c.lower = 1, func(x string) bool { return x >= "a" && !raised[x] }
		want := func(what, tasks string) {
			t.Helper()
			if synctest.Wait(); !sameLetters(begun, tasks) {
				t.Errorf("%s: %s began, want %s", what, begun, tasks)
			}
		}
		for _, x := range "abcdA" {
			c.push(string(x))
		}
		want("at first", "abA")
		c.push("B")
		close(finish["A"])
		want("when an urgent one has ended", "abAB")
		close(finish["a"])
		want("when a lower one has ended", "abABc")
		raised["d"] = true
		c.push("e")
		close(finish["B"])
		want("when another one is urgent", "abABc")
		c.review()
		want("after a review", "abABcd")
		c.push("f")
		c.setLimit(3, 2)
		want("with spare goroutines", "abABcdef")
		for _, x := range "bcdef" {
			close(finish[string(x)])
		}
		c.wait()
		if c.lowers != 0 || c.working != 0 {
			t.Errorf("%d lower ones run, %d goroutines are left", c.lowers, c.working)
		}
	})
}

func sameLetters(a, b string) bool {
	return slices.Equal(slices.Sorted(slices.Values([]byte(a))), slices.Sorted(slices.Values([]byte(b))))
}

// Without a reserve nothing is asked about a message.
func TestLawReserveCostsNothingUnlessUsed(t *testing.T) {
	t.Parallel()
	g := newGround(t, Config{}, func(context.Context, errand) error { return nil })
	if h := newTestHand(g); h.backlog.crew.lower != nil {
		t.Error("tasks are sorted by priority without a reserve")
	}
	low := []byte(`{"id":"a","priorityclass":"low"}`)
	if (Reserve{}).keepsOut(low) || !(Reserve{High: 1}).keepsOut(low) {
		t.Error("a message without a reserve is kept out, or one with it isn't")
	}
}
