package scale

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millrace-go/millrace/internal/rate"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/driver"
)

// The behaviour of the azure driver, which is part of the model: see its call.go and open.go.
const (
	maxTries    = 4
	firstDelay  = 200 * time.Millisecond
	atOnce      = 32
	connections = 256 // from one process to each of the three services
	longestSend = 500 * time.Millisecond
	longestLine = 15 * time.Second
)

// limits are an account's limits, in units a second. 0 is no limit.
type limits struct {
	account   float64 // requests
	queue     float64 // messages sent, received, changed and deleted, each counting
	blob      float64 // requests for one blob
	partition float64 // rows of one partition of a table
}

// A latency is lognormal, with rare longer stalls.
type latency struct{ median, p99 time.Duration }

// latencies are assumed: they are not measured.
type latencies struct {
	queue, read, write, table, refused latency
	stall                              time.Duration // added once in stallOnce requests
}

const stallOnce = 1000

// documented are the limits that the service promises, and usual the latencies that are assumed.
func documented() limits { return limits{account: 20_000, queue: 2_000, blob: 3_000, partition: 2_000} }

func usual() latencies {
	ms := time.Millisecond
	return latencies{
		queue: latency{5 * ms, 30 * ms}, read: latency{5 * ms, 30 * ms}, write: latency{10 * ms, 60 * ms},
		table: latency{5 * ms, 30 * ms}, refused: latency{3 * ms, 10 * ms}, stall: 500 * ms,
	}
}

// bucket holds at most one second's tokens. The caller holds service.mu.
type bucket struct {
	rate, tokens float64
	last         time.Time
}

func newBucket(rate float64) *bucket { return &bucket{rate: rate, tokens: rate} }

// open reports that there is a token.
func (b *bucket) open(now time.Time) bool {
	if b.rate == 0 {
		return true
	}
	if d := now.Sub(b.last); d > 0 {
		b.tokens = min(b.rate, b.tokens+d.Seconds()*b.rate)
		b.last = now
	}
	return b.tokens >= 1
}

// take takes n tokens, and may leave a debt: the size of a receive is known only afterwards.
func (b *bucket) take(n float64) { b.tokens -= n }

// service is one account.
type service struct {
	limits  limits
	latency latencies

	mu      sync.Mutex
	chance  *rand.Rand
	account *bucket
	queues  map[string]*queueData
	blobs   map[string]map[string]*blobData
	tables  map[string]map[string]*partition
	serial  uint64
	free    bool  // no limits and no latencies, as before and after a measurement
	lost    int64 // writes whose condition failed
	again   int64 // repeated deliveries
	stores  []*store
}

func newService(seed uint64, l limits, d latencies) *service {
	return &service{
		limits: l, latency: d, chance: rand.New(rand.NewPCG(seed, 7)), account: newBucket(l.account),
		queues: map[string]*queueData{}, blobs: map[string]map[string]*blobData{}, tables: map[string]map[string]*partition{},
	}
}

// requests sums the requests of all processes.
func (s *service) requests() []driver.Requests {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []driver.Requests
	for _, c := range s.stores {
		all = append(all, c.Requests()...)
	}
	return all
}

func (s *service) next() uint64 {
	s.serial++
	return s.serial
}

func (s *service) etag() driver.ETag {
	return driver.ETag(`"` + strconv.FormatUint(s.next(), 36) + `"`)
}

func (s *service) draw(l latency) time.Duration {
	if l.median == 0 || s.free {
		return 0
	}
	const z99 = 2.326
	sigma := math.Log(float64(l.p99)/float64(l.median)) / z99
	d := time.Duration(float64(l.median) * math.Exp(sigma*s.chance.NormFloat64()))
	if s.chance.IntN(stallOnce) == 0 {
		d += s.latency.stall
	}
	return d
}

// store is the account as one process sees it; it implements driver.Store.
type store struct {
	s      *service
	conns  map[string]chan struct{} // by kind
	paces  sync.Map                 // of *rate.Pace by kind and target
	tally  driver.Tally
	closed atomic.Bool
}

func (s *service) open() *storage.Store {
	conns := map[string]chan struct{}{}
	for _, kind := range []string{"queue", "blob", "table"} {
		conns[kind] = make(chan struct{}, connections)
	}
	c := &store{s: s, conns: conns}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stores = append(s.stores, c)
	return storage.New(c)
}

func (c *store) Queue(name string) driver.Queue { return &queue{c, name} }
func (c *store) Blobs(name string) driver.Blobs { return &blobs{c, name} }
func (c *store) Table(name string) driver.Table { return &table{c, name} }

func (c *store) Props() driver.Props {
	return driver.Props{Driver: "azure model", MaxMessage: 48 << 10, MaxBlob: 64 << 20, MaxRow: 48 << 10, MaxReceive: 32, PollInterval: 30 * time.Second, Billed: true}
}

func (c *store) Committer() driver.Committer { return nil }
func (c *store) Listener() driver.Listener   { return nil }
func (c *store) Finder() driver.Finder       { return nil }
func (c *store) Lister() driver.Lister       { return nil }
func (c *store) Peeker() driver.Peeker       { return nil }
func (c *store) Inspector() driver.Inspector { return nil }

// PublicFiles implements driver.Store.
func (c *store) PublicFiles() driver.PublicFiles { return nil }
func (c *store) Files() driver.Files             { return nil }

// Requests implements driver.Store.
func (c *store) Requests() []driver.Requests { return c.tally.Requests() }

func (c *store) Close() error {
	c.closed.Store(true)
	return nil
}

// request is one request of the driver's user, with the driver's repeats of it.
type request struct {
	op, kind, target string
	latency          latency
	once             bool                    // the driver never repeats it
	limit            func() *bucket          // the limit besides the account's; called under service.mu, may return nil
	effect           func() (float64, error) // called under service.mu; the units that it takes from limit
}

// class is the billing class, as in the driver.
func (r request) class() string {
	switch {
	case r.op == "get", r.op == "stats", r.op == "peek":
		return r.kind + " read"
	case r.op == "list", r.op == "query":
		return r.kind + " list"
	case r.op == "delete" && r.kind != "queue":
		return r.kind + " delete"
	case r.op == "put batch", r.op == "delete batch":
		return r.kind + " batch"
	}
	return r.kind + " write"
}

// do makes a request as often as the driver would.
func (c *store) do(ctx context.Context, r request) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case c.closed.Load():
		return fmt.Errorf("%w: the store is closed", driver.ErrUnavailable)
	}
	p := c.pace(r)
	if !c.s.isFree() {
		most := longestLine
		switch {
		case r.op == "send":
			most = longestSend
		case r.kind == "queue" && (r.op == "extend" || r.op == "delete" || r.op == "rewrite"):
			most = 0
		}
		if err := p.Wait(ctx, most); err != nil {
			return err
		}
	}
	for try := 1; ; try++ {
		refused, err := c.ask(ctx, r)
		if refused {
			p.Refused()
		}
		if err != nil || !refused {
			return err
		}
		if r.once || try == maxTries {
			return fmt.Errorf("%w: 503 ServerBusy", driver.ErrThrottled)
		}
		c.s.mu.Lock()
		spread := 0.8 + 0.5*c.s.chance.Float64()
		c.s.mu.Unlock()
		if err := worldtest.Pause(ctx, time.Duration(spread*float64(firstDelay)*float64(int(1)<<try-1))); err != nil {
			return err
		}
	}
}

// pace is the driver's pace for each queue, container and table, and for sends.
func (c *store) pace(r request) *rate.Pace {
	p, _ := c.paces.LoadOrStore(fmt.Sprint(r.kind, r.target, r.op == "send"), new(rate.Pace))
	return p.(*rate.Pace)
}

func (s *service) isFree() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.free
}

// ask makes one request. The effect happens with the answer.
func (c *store) ask(ctx context.Context, r request) (refused bool, err error) {
	select {
	case c.conns[r.kind] <- struct{}{}:
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	defer func() { <-c.conns[r.kind] }()
	s := c.s
	s.mu.Lock()
	now := time.Now()
	var narrow *bucket
	if r.limit != nil {
		narrow = r.limit()
	}
	refused = !s.free && (!s.account.open(now) || narrow != nil && !narrow.open(now))
	wait := s.draw(r.latency)
	if refused {
		wait = s.draw(s.latency.refused)
	} else if !s.free {
		s.account.take(1)
	}
	free := s.free
	s.mu.Unlock()
	c.tally.Add(driver.Request{Op: r.op, Kind: r.kind, Target: r.target, Class: r.class()}, refused)
	if err := worldtest.Pause(ctx, wait); err != nil || refused {
		return refused, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	units, err := r.effect()
	if narrow != nil && !free {
		narrow.take(units)
	}
	return false, err
}

// each calls f for each of n, some at a time, and stops after a failure, as the driver does.
func each(ctx context.Context, n int, f func(ctx context.Context, i int) error) error {
	if n == 1 {
		return f(ctx, 0)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for i := range n {
		g.Go(func() error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return f(ctx, i)
		})
	}
	return g.Wait()
}
