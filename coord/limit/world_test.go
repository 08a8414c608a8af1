package limit_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/coord/limit"
	"github.com/millrace-go/millrace/internal/agreetest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

const (
	name = "smtp"
	ttl  = 20 * time.Second
)

func newRate(t *testing.T, s *storage.Store, perSecond float64, cfg limit.Config) *limit.Rate {
	t.Helper()
	r, err := limit.NewRate(s, name, perSecond, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func newSlots(t *testing.T, s *storage.Store, n int) *limit.Slots {
	t.Helper()
	slots, err := limit.NewSlots(s, name, n, limit.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return slots
}

// busy keeps taking permits for a while, and returns how many.
func busy(r *limit.Rate, d time.Duration) (n int) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		wait, ok := r.Take()
		if ok {
			n++
			continue
		}
		time.Sleep(min(wait, time.Until(end)))
	}
	return n
}

// process is one that makes calls while it has work.
type process struct {
	link *storagetest.Link
	rate *limit.Rate
	end  context.CancelFunc

	mu   sync.Mutex
	work int       // that waits
	more chan bool // capacity 1: there is work
}

// fleet is processes that share a rate.
type fleet struct {
	t       *testing.T
	limit   float64
	store   *storage.Store
	r       *rand.Rand
	odds    int // one call of a store in so many fails before its effect, and one after it
	most    int // processes at a time
	running sync.WaitGroup
	asked   atomic.Int64 // requests

	mu    sync.Mutex
	calls []time.Time // under mu
	live  []*process
}

func (f *fleet) start() {
	ctx, end := context.WithCancel(f.t.Context())
	p := &process{end: end, more: make(chan bool, 1)}
	var mu sync.Mutex
	seeded := rand.New(rand.NewPCG(f.r.Uint64(), 0))
	roll := func() int { mu.Lock(); defer mu.Unlock(); return seeded.IntN(f.odds) }
	p.link = storagetest.NewLink(storagetest.Intercept(f.store, func(_ context.Context, op storagetest.Op, do func() error) error {
		f.asked.Add(1)
		time.Sleep(time.Duration(1+roll()%10) * time.Millisecond)
		switch roll() {
		case 0:
			return op.Fail(storage.ErrUnavailable)
		case 1:
			_ = do()
			return op.Fail(storage.ErrUnavailable)
		}
		return do()
	}))
	p.rate = newRate(f.t, p.link.Store, f.limit, limit.Config{Strict: true})
	f.live = append(f.live, p)
	f.most = max(f.most, len(f.live))
	f.running.Go(func() { f.run(ctx, p) })
}

func (f *fleet) run(ctx context.Context, p *process) {
	for {
		p.mu.Lock()
		work := p.work
		p.mu.Unlock()
		if work == 0 {
			select {
			case <-p.more:
				continue
			case <-ctx.Done():
				return
			}
		}
		if p.rate.Wait(ctx) != nil {
			return
		}
		now := time.Now()
		p.mu.Lock()
		p.work--
		p.mu.Unlock()
		f.mu.Lock()
		f.calls = append(f.calls, now)
		f.mu.Unlock()
	}
}

// give brings a process work.
func (p *process) give(n int) {
	if n == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.work += n
	select {
	case p.more <- true:
	default:
	}
}

// kill ends a process without a word.
func (f *fleet) kill(i int) {
	f.live[i].link.Cut()
	f.live[i].end()
	f.live = slices.Delete(f.live, i, i+1)
}

// stop ends all, and waits for their goroutines.
func (f *fleet) stop() {
	for len(f.live) > 0 {
		f.kill(0)
	}
	f.running.Wait()
	time.Sleep(4 * ttl)
	synctest.Wait()
}

// sum is the sum of all shares in force.
func (f *fleet) sum() (sum float64) {
	for _, p := range f.live {
		sum += p.rate.Share()
	}
	return sum
}

// backlog is the work that waits.
func (f *fleet) backlog() (n int) {
	for _, p := range f.live {
		p.mu.Lock()
		n += p.work
		p.mu.Unlock()
	}
	return n
}

func inWorld(t *testing.T, f func(t *testing.T, s *storage.Store)) {
	t.Helper()
	t.Parallel()
	agreetest.Virtual(t, f)
}
