package process_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/internal/parttest"
	"github.com/millrace-go/millrace/millracetest"
	"github.com/millrace-go/millrace/process"
)

// till is the outside of a random run: it takes money each time that it is asked to, and knows what it has given back.
type till struct {
	t    *testing.T
	most int // calls of one key at a time: one for each process

	mu       sync.Mutex
	rng      *rand.Rand
	n        int
	keys     map[string]string // by step
	atWork   map[string]int    // by key
	standing map[string]bool   // receipts that were not given back
}

// pay may fail, and may go on for long after its context has ended.
func (x *till) pay(ctx context.Context, step string) (paid, error) {
	key := process.Key(ctx)
	x.mu.Lock()
	if was, ok := x.keys[step]; ok && was != key {
		x.t.Errorf("law 9: step %s has the keys %s and %s", step, was, key)
	}
	x.keys[step] = key
	if x.atWork[key]++; x.atWork[key] > x.most {
		x.t.Errorf("law 9: %d calls of step %s at a time, in %d processes", x.atWork[key], step, x.most)
	}
	fate, takes := x.rng.IntN(100), time.Duration(x.rng.Int64N(int64(20*time.Minute)))
	x.mu.Unlock()
	if end, ok := ctx.Deadline(); !ok || time.Until(end) > time.Minute {
		x.t.Errorf("law 9: the context of step %s ends at %v", step, end)
	}
	if fate < 60 {
		time.Sleep(takes) // in a bubble
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.atWork[key]--
	if fate%10 < 2 {
		return paid{}, errors.New("503")
	}
	x.n++
	number := fmt.Sprintf("%s %d", step, x.n)
	x.standing[number] = true
	return paid{Number: number}, nil
}

func (x *till) payBack(_ context.Context, _ note, p paid) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.standing, p.Number)
	return nil
}

// Laws 5 and 9, at random: agents hang and succeed late, in one or two processes, in plans of short deadlines and of a
// short retention. In the end each step of an instance that is completed has one effect, and those of others have none.
// MILLRACE_SEED runs one seed, MILLRACE_SEEDS says how many.
func TestAgentsThatHangAtRandom(t *testing.T) {
	parttest.InTurn(t)
	t.Parallel()
	from, to := 1, 20
	if n, err := strconv.Atoi(os.Getenv("MILLRACE_SEEDS")); err == nil {
		to = n
	}
	if n, err := strconv.Atoi(os.Getenv("MILLRACE_SEED")); err == nil {
		from, to = n, n
	}
	for seed := from; seed <= to; seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { hangAtRandom(t, uint64(seed)) })
	}
}

func hangAtRandom(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 9))
	x := &till{t: t, most: 1 + rng.IntN(2), rng: rng, keys: map[string]string{}, atWork: map[string]int{}, standing: map[string]bool{}}
	attempts, within, fails := 1+rng.IntN(4), time.Duration(3+rng.IntN(40))*time.Minute, rng.IntN(2) == 0
	p := millracetest.Plan(planName, func(p *process.Plan[note]) {
		p.Retention(time.Minute)
		for _, step := range []string{"a", "b"} {
			process.Do(p, step, func(ctx context.Context, _ note) (paid, error) { return x.pay(ctx, step) }, func(n note, p paid) note { return n.add(p.Number) }).
				Undo(x.payBack).Attempts(attempts).Within(within)
		}
		process.Then(p, "end", func(n note) note { return n })
		if fails {
			process.Do(p, "no", func(context.Context, note) (struct{}, error) { return struct{}{}, process.Refuse(errors.New("no")) }, nil)
		}
	}, nil)
	p.InSteps = seed%2 == 0
	millracetest.Run(t, p, func(t *testing.T, app *millracetest.App) {
		l := &lab{newCrew(), t, p.InSteps, p, app, process.Open[note](app.Channels(), planName)}
		if x.most == 2 {
			l.another(new(atomic.Bool))
		}
		l.ok(l.notes.Start(t.Context(), "i", note{Did: []string{}}))
		var s process.Snapshot[note]
		for began := time.Now(); !s.Final(); s = l.get("i") {
			if l.pass(10 * time.Minute); time.Since(began) > 12*time.Hour {
				t.Fatalf("it doesn't end:\n%s", l.timeline("i"))
			}
		}
		told := l.timeline("i")
		l.app.Advance(50 * time.Hour)
		_ = l.app.Poison() // begins whose agents hung three times
		x.mu.Lock()
		defer x.mu.Unlock()
		want := map[string]bool{}
		if s.Status == process.Completed {
			for _, number := range s.State.Did {
				want[number] = true
			}
		}
		if fmt.Sprint(x.standing) != fmt.Sprint(want) {
			t.Errorf("law 5: it is %s, and %v stand; want %v\n%s", s.Status, x.standing, want, told)
		}
	})
}
