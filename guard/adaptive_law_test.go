package guard

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/millrace-go/millrace/guard/internal/breaker"
	"github.com/millrace-go/millrace/internal/parttest"
)

// crowd is a service that does so many calls at a time, and those who call it whenever their limits let them. The other
// calls wait in its queue. It plays an hour in a second.
type crowd struct {
	rand    *rand.Rand
	now     time.Time
	workers int
	slower  float64 // calls take so many times as long
	time    func(*rand.Rand) float64
	running int
	queue   []served
	ends    ending
	callers []*caller
	done    int
	took    time.Duration // of all calls that were done, with the time in the queue
}

// caller is a process.
type caller struct {
	*adaptive
	clock time.Duration // by which its wall clock is wrong
	most  int           // calls at a time that it has work for
	done  int
}

// served is a call.
type served struct {
	by          *caller
	began, ends time.Time
	timer       func() // nil: it is a call
}

type ending []served

func (e ending) Len() int           { return len(e) }
func (e ending) Less(i, j int) bool { return e[i].ends.Before(e[j].ends) }
func (e ending) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *ending) Push(x any)        { *e = append(*e, x.(served)) }
func (e *ending) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

const ownTime = 20 * time.Millisecond // the mean

// The times of calls have one mean, and coefficients of variation of 0, 1 and 1.5.
var ownTimes = map[string]func(*rand.Rand) float64{
	"deterministic": func(*rand.Rand) float64 { return 1 },
	"exponential":   (*rand.Rand).ExpFloat64,
	"bimodal": func(r *rand.Rand) float64 {
		if r.IntN(10) == 0 {
			return 5.5
		}
		return 0.5
	},
}

func newCrowd(t *testing.T, workers int, times string) *crowd {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	return &crowd{rand: r, now: time.Unix(1e9, 0).Add(rand.N(time.Hour)), workers: workers, slower: 1, time: ownTimes[times]}
}

// join lets so many processes call, one after the other.
func (c *crowd) join(t *testing.T, n int) {
	for range n {
		c.add(t)
		c.play(time.Duration(c.rand.Int64N(int64(5 * time.Second))))
	}
}

// add adds a process.
func (c *crowd) add(t *testing.T) {
	a, err := newAdaptive(Adaptive{Least: 1, Most: 64}, c.now, func() {})
	if err != nil {
		t.Fatal(err)
	}
	a.after = func(d time.Duration, f func()) { heap.Push(&c.ends, served{ends: c.now.Add(d), timer: f}) }
	c.callers = append(c.callers, &caller{adaptive: a, most: 64})
}

// play lets a time pass. It returns the part of the service that was used, and how many times as long as by itself a
// call took.
func (c *crowd) play(d time.Duration) (used, longer float64) {
	c.done, c.took = 0, 0
	for _, p := range c.callers {
		p.done = 0
	}
	until := c.now.Add(d)
	c.fill()
	for len(c.ends) > 0 && c.ends[0].ends.Before(until) {
		call := heap.Pop(&c.ends).(served)
		c.now = call.ends
		if call.timer != nil {
			call.timer()
			c.fill()
			continue
		}
		c.running--
		c.done++
		c.took += c.now.Sub(call.began)
		call.by.done++
		call.by.end(call.began.Add(call.by.clock), c.now.Add(call.by.clock), breaker.Success, false)
		c.fill()
	}
	c.now = until
	own := ownTime.Seconds() * c.slower
	return float64(c.done) * own / float64(c.workers) / d.Seconds(), c.took.Seconds() / float64(max(c.done, 1)) / own
}

// fill begins all calls that can begin.
func (c *crowd) fill() {
	for more := true; more; {
		more = false
		for _, i := range c.rand.Perm(len(c.callers)) {
			if p := c.callers[i]; p.busy < min(p.allowed(), p.most) {
				p.begin(c.now.Add(p.clock))
				c.queue = append(c.queue, served{by: p, began: c.now})
				more = true
			}
		}
	}
	for c.running < c.workers && len(c.queue) > 0 {
		call := c.queue[0]
		c.queue = c.queue[1:]
		c.running++
		call.ends = c.now.Add(time.Duration(c.slower * c.time(c.rand) * float64(ownTime)))
		heap.Push(&c.ends, call)
	}
}

// want fails the test if calls took longer than they may, or the service was used for less than 90 % of the time. Where
// calls differ, a single run of few processes may use less: what they measure is then chance.
func (c *crowd) want(t *testing.T, what string, d time.Duration, longer float64) {
	t.Helper()
	used := 0.9
	if c.time(c.rand) != 1 {
		used = 0.5
	}
	u, l := c.play(d)
	least := c.callers[0].done
	for _, p := range c.callers {
		least = min(least, p.done)
	}
	t.Logf("%s: %.0f %% used, calls of %.2f times their own time, limits of %d, least part %.2f", what, 100*u, l, c.limits(), float64(least*len(c.callers))/float64(max(c.done, 1)))
	if u < used || l > longer {
		t.Errorf("%s: %.0f %% used, want %.0f %%; calls of %.2f times their own time, want %.2f", what, 100*u, 100*used, l, longer)
	}
}

// limits returns the sum of all.
func (c *crowd) limits() (sum int) {
	for _, p := range c.callers {
		sum += p.within(p.limit)
	}
	return sum
}

// eachCrowd runs a test with each kind of times, and services of several sizes, called by one or more processes.
func eachCrowd(t *testing.T, sizes [][2]int, test func(t *testing.T, c *crowd, processes int)) {
	for times := range ownTimes {
		for _, n := range sizes {
			t.Run(fmt.Sprintf("%s %d by %d", times, n[0], n[1]), func(t *testing.T) {
				t.Parallel()
				test(t, newCrowd(t, n[0], times), n[1])
			})
		}
	}
}

// Under a backlog the service has work all the time, and its queue stays short, for one process and for many.
func TestLaw12AnAdaptiveLimitFindsWhatTheServiceDoes(t *testing.T) {
	parttest.InTurn(t)
	eachCrowd(t, [][2]int{{1, 1}, {8, 2}, {8, 8}, {16, 4}}, func(t *testing.T, c *crowd, n int) {
		c.join(t, (n+1)/2)
		c.play(time.Minute)
		c.join(t, n/2)
		c.play(2 * time.Minute)
		c.want(t, "with a backlog", 2*time.Minute, 4)
		for _, p := range c.callers {
			if p.done < c.done/n/20 {
				t.Errorf("a process has made %d calls of %d", p.done, c.done)
			}
		}
	})
}

// The limits follow a service whose calls take three times as long, and that does a quarter as much, and back.
func TestLaw12AnAdaptiveLimitFollowsTheService(t *testing.T) {
	parttest.InTurn(t)
	eachCrowd(t, [][2]int{{8, 1}, {8, 4}}, func(t *testing.T, c *crowd, n int) {
		c.join(t, n)
		c.play(time.Minute)
		can := c.workers
		for _, then := range []struct {
			slower  float64
			workers int
		}{{3, can}, {1, can}, {1, can / 4}, {1, can}} {
			c.slower, c.workers = then.slower, then.workers
			c.play(2 * time.Minute)
			c.want(t, fmt.Sprintf("%d calls of %v times the time", then.workers, then.slower), time.Minute, 6)
		}
	})
}

// A service that takes five times as long is used again within a minute, although its probes are rare: the least limit
// measures, too.
func TestLaw12AnAdaptiveLimitSoonFollowsASlowerService(t *testing.T) {
	for workers := 6; workers <= 10; workers++ {
		c := newCrowd(t, workers, "deterministic")
		c.join(t, 1)
		c.play(time.Minute)
		c.slower = 5
		c.play(45 * time.Second)
		c.want(t, "soon", 30*time.Second, 3)
	}
}

// A time that was measured while others overloaded the service doesn't stay.
func TestLaw12AnAdaptiveLimitRecoversFromAnOverload(t *testing.T) {
	parttest.InTurn(t)
	eachCrowd(t, [][2]int{{8, 1}, {8, 4}}, func(t *testing.T, c *crowd, n int) {
		c.join(t, n+1)
		others := c.callers[0]
		others.bounds.Least = 64
		others.allow(64, c.now)
		c.play(90 * time.Second)
		others.most = 0
		c.play(4 * time.Minute)
		c.callers = c.callers[1:]
		c.want(t, "without the others", time.Minute, 4)
	})
}

// Processes with wrong clocks measure more than the service needs. But they use the service, and each has its part.
func TestLaw12WrongClocksOnlyMakeAnAdaptiveLimitHigher(t *testing.T) {
	eachCrowd(t, [][2]int{{8, 8}}, func(t *testing.T, c *crowd, n int) {
		c.join(t, n)
		for _, p := range c.callers {
			p.clock = time.Duration(c.rand.Int64N(int64(time.Hour)))
			p.probed = p.probed.Add(p.clock)
			p.since = p.since.Add(p.clock)
		}
		c.play(time.Minute)
		c.want(t, "with wrong clocks", 2*time.Minute, 40)
		for _, p := range c.callers {
			if p.done < c.done/n/20 {
				t.Errorf("a process has made %d calls of %d", p.done, c.done)
			}
		}
	})
}

// A wall clock that jumps by an hour, and calls that took an hour because the process stood still, are forgotten soon.
func TestLaw12AnAdaptiveLimitOutlivesAJumpAndAPause(t *testing.T) {
	parttest.InTurn(t)
	eachCrowd(t, [][2]int{{8, 1}}, func(t *testing.T, c *crowd, _ int) {
		c.join(t, 1)
		p := c.callers[0]
		for _, at := range []time.Duration{0, time.Minute} {
			c.play(at)
			for _, jump := range []time.Duration{time.Hour, -time.Hour} {
				p.probed = p.probed.Add(-jump) // as if the clock had jumped
				c.play(time.Second)
				probes := p.probes
				c.play(time.Minute)
				if p.probes < probes+2 {
					t.Errorf("%d probes in a minute after a jump of %v", p.probes-probes, jump)
				}
			}
			for i := range c.ends {
				c.ends[i].ends = c.ends[i].ends.Add(time.Hour)
			}
			c.play(time.Hour + 3*time.Minute)
			c.want(t, "after a pause", time.Minute, 3)
		}
	})
}

// A process that stands still in its first calls soon knows how long a call takes.
func TestLaw12AnAdaptiveLimitOutlivesAPauseAtItsBeginning(t *testing.T) {
	eachCrowd(t, [][2]int{{8, 1}}, func(t *testing.T, c *crowd, _ int) {
		c.add(t)
		c.play(0)
		for i := range c.ends {
			c.ends[i].ends = c.ends[i].ends.Add(time.Hour)
		}
		c.play(time.Hour + 3*time.Minute)
		c.want(t, "after a pause at the beginning", time.Minute, 3)
	})
}

// Calls that take minutes stop no others, whether they began before a probe or in it.
func TestLaw12LongCallsStopNoProbe(t *testing.T) {
	eachCrowd(t, [][2]int{{8, 1}}, func(t *testing.T, c *crowd, _ int) {
		c.join(t, 1)
		c.play(2 * time.Minute)
		p := c.callers[0]
		long := min(4, p.within(p.limit)/2)
		for range long { // they need no place of the service
			p.begin(c.now)
		}
		for range 5 {
			probes := p.probes
			if c.play(time.Minute); p.probes < probes+2 {
				t.Errorf("%d probes in a minute beside %d long calls", p.probes-probes, long)
			}
		}
	})
}

// Calls that are fewer than the limit say nothing against it, and don't raise it.
func TestLaw12AnAdaptiveLimitThatDoesNotBindStays(t *testing.T) {
	eachCrowd(t, [][2]int{{8, 1}}, func(t *testing.T, c *crowd, _ int) {
		c.join(t, 1)
		c.play(2 * time.Minute)
		c.callers[0].most = 2
		c.play(20 * time.Second) // a round or a probe has begun before
		before := c.limits()
		c.play(10 * time.Minute)
		if after := c.limits(); after != before {
			t.Errorf("a limit of %d with 2 calls at a time, %d before", after, before)
		}
	})
}

// Calls that fail, and calls while the breaker isn't closed, don't move the limit.
func TestLaw12FailuresDoNotMoveAnAdaptiveLimit(t *testing.T) {
	c := newCrowd(t, 8, "exponential")
	c.join(t, 1)
	c.play(2 * time.Minute)
	p := c.callers[0]
	limit, base := p.limit, p.base
	for range 10_000 {
		told, away := breaker.Failure, false
		switch c.rand.IntN(3) {
		case 0:
			told = breaker.Neutral
		case 1:
			told, away = breaker.Success, true
		}
		p.begin(c.now)
		began := c.now
		c.now = c.now.Add(rand.N(time.Second))
		p.end(began, c.now, told, away)
	}
	if p.limit != limit || p.base != base {
		t.Errorf("a limit of %v and a time of %v; before %v and %v", p.limit, p.base, limit, base)
	}
}
