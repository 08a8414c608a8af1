package lanes_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/lanes"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/worker"
)

// brief is a handler that takes so long for each message.
func brief(d time.Duration) func(buy) time.Duration { return func(buy) time.Duration { return d } }

// Every message is handled, whatever fails while messages are moved, whenever workers stop, and however the number of
// lanes changes meanwhile.
func TestNothingIsLostOverMovesAndCrashes(t *testing.T) {
	t.Parallel()
	for name, inner := range map[string]func(*storage.Store) *storage.Store{
		"atomic": func(s *storage.Store) *storage.Store { return s },
		"plain":  storagetest.Plain,
	} {
		for seed := range storagetest.Seeds(t, 3, 1) {
			t.Run(fmt.Sprintf("%s, seed %d", name, seed), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { movesAndCrashes(t, inner, seed) })
			})
		}
	}
}

func movesAndCrashes(t *testing.T, inner func(*storage.Store) *storage.Store, seed uint64) {
	raw := openStore(t)
	var mu sync.Mutex
	faults, plan := rand.New(rand.NewPCG(seed, 4)), rand.New(rand.NewPCG(seed, 5))
	odds := 10 + plan.IntN(30)
	var calm atomic.Bool
	failing := storagetest.Intercept(inner(raw), func(_ context.Context, op storagetest.Op, do func() error) error {
		mu.Lock()
		before, after := faults.IntN(odds) == 0, faults.IntN(odds) == 0
		mu.Unlock()
		if calm.Load() || op.Name == "stats" {
			return do()
		}
		if before {
			return op.Fail(storage.ErrUnavailable)
		}
		if err := do(); err != nil || !after {
			return err
		}
		return op.Fail(storage.ErrUnavailable) // it was done, and nobody knows
	})
	priorities := []channel.Priority{channel.High, channel.Normal, channel.Low}
	moved, sent := false, 0
	var last *shop
	shops := make([]*shop, 0, 4)
	for range 4 {
		routes := []channel.Route{channel.Lanes(purchases, 2+plan.IntN(7)), channel.Priorities(purchases)}
		s, sender := newShop(t, failing, routes...), newShop(t, raw, routes...)
		shops, last = append(shops, s), s
		stop := s.work(worker.Config{Concurrency: 1 + plan.IntN(8), Visibility: 10 * time.Second}, brief(20*time.Millisecond))
		for i := range 20 {
			ctx := channel.WithPriority(t.Context(), priorities[plan.IntN(len(priorities))])
			many, few := 20+plan.IntN(40), 1+plan.IntN(3)
			sender.send(ctx, "noisy", fmt.Sprintf("noisy/%d/%d", time.Now().UnixNano(), i), many)
			sender.send(ctx, fmt.Sprint("tenant-", i), fmt.Sprintf("quiet/%d/%d", time.Now().UnixNano(), i), few)
			sent += many + few
			time.Sleep(time.Duration(plan.IntN(100)) * time.Millisecond)
			moved = moved || sender.left("purchases-slow") > 0
		}
		stop()
	}
	calm.Store(true)
	defer last.work(worker.Config{}, brief(0))()
	last.until(func() bool {
		done := map[string]bool{}
		for _, s := range shops {
			s.mu.Lock()
			for id := range s.handled {
				done[id] = true
			}
			s.mu.Unlock()
		}
		return len(done) >= sent
	})
	if !moved {
		t.Error("no message was moved, so this test proves nothing")
	}
}

// moved reports whether a document of noisy tenants was written.
func (s *shop) moved() int {
	b, err := s.store.Blobs("lanes").Get(s.t.Context(), purchases, "")
	if err != nil {
		return 0
	}
	return len(b.Body)
}

// flooded returns a shop whose slow lane has n messages, at least, and whose lanes have none.
func flooded(t *testing.T, n int, routes ...channel.Route) *shop {
	t.Helper()
	s := newShop(t, openStore(t), routes...)
	stop := s.work(worker.Config{Concurrency: 4}, brief(10*time.Millisecond))
	for i := 0; s.left("purchases-slow") < int64(n); i++ {
		if i > 1000 {
			t.Fatal("the slow lane doesn't fill")
		}
		s.send(t.Context(), "noisy", fmt.Sprintf("noisy/%d", i), 100)
		time.Sleep(100 * time.Millisecond)
	}
	stop()
	return s
}

// The slow lane gets one turn in eight while others wait, and all turns else.
func TestTheSlowLaneIsServed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := flooded(t, 1000, channel.Lanes(purchases, 8))
		for i := range 100 {
			s.send(t.Context(), fmt.Sprint("tenant-", i), fmt.Sprintf("quiet/%d", i), 20)
		}
		noisy := s.count("noisy")
		stop := s.work(worker.Config{Concurrency: 4}, brief(10*time.Millisecond))
		defer stop()
		s.until(func() bool { return s.count("quiet") >= 700 })
		quiet := s.count("quiet")
		if n := s.count("noisy") - noisy; n < quiet/14 || n > quiet/4 {
			t.Errorf("%d messages of the slow lane beside %d others; want one in eight", n, quiet)
		}
		s.until(func() bool { return s.count("quiet") >= 2000 })
		noisy = s.count("noisy")
		began := time.Now()
		s.until(func() bool { return s.count("noisy") >= noisy+200 })
		if took := time.Since(began); took > time.Second { // 4 handlers of 10 ms: half a second
			t.Errorf("200 messages of the slow lane took %v while nobody else waited", took)
		}
	})
}

// filled returns the lanes of a queue that have messages.
func (s *shop) filled() (names []string) {
	for _, name := range (lanes.Queue{Lanes: 1, Priorities: true}).Names(purchases) {
		if s.left(name) > 0 {
			names = append(names, name)
		}
	}
	return names
}

// All messages of a tenant are in one lane. Messages without a tenant are spread by their IDs.
func TestTheLaneIsByTenantWhereOneIsSet(t *testing.T) {
	t.Parallel()
	s := newShop(t, openStore(t), channel.Lanes(purchases, 8))
	s.send(t.Context(), "north", "north", 100)
	if got := s.filled(); len(got) != 1 {
		t.Errorf("a tenant is in lanes %v; want one", got)
	}
	s.send(t.Context(), "", "nobody", 100)
	if got := s.filled(); len(got) != 8 {
		t.Errorf("messages without a tenant are in lanes %v; want all 8", got)
	}
	s = newShop(t, openStore(t), channel.Lanes(purchases, 8))
	for i := range 200 {
		s.send(t.Context(), fmt.Sprint("tenant-", i), fmt.Sprint("m", i), 1)
	}
	if got := s.filled(); len(got) != 8 {
		t.Errorf("200 tenants are in lanes %v; want all 8", got)
	}
}

// With 8 lanes in the place of 4, about half of the tenants move, and only into the new lanes.
func TestAChangeOfLanesMovesFewTenants(t *testing.T) {
	t.Parallel()
	lane := func(tenant string, n int) string {
		s := newShop(t, openStore(t), channel.Lanes(purchases, n))
		s.send(t.Context(), tenant, "m", 1)
		return s.filled()[0]
	}
	old := map[string]bool{"purchases": true, "purchases-lane-1": true, "purchases-lane-2": true, "purchases-lane-3": true}
	for i := range 12 {
		before, after := lane(fmt.Sprint("t", i), 4), lane(fmt.Sprint("t", i), 8)
		if before != after && old[after] {
			t.Errorf("tenant %d moves from %s to %s", i, before, after)
		}
	}
}

// While all priorities wait, 8 of High and 4 of Normal are handled for each of Low.
func TestLowKeepsAFloor(t *testing.T) {
	t.Parallel()
	for name, routes := range map[string][]channel.Route{
		"without lanes": {channel.Priorities(purchases)},
		"with lanes":    {channel.Priorities(purchases), channel.Lanes(purchases, 8)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newShop(t, openStore(t), routes...)
				for i := range 100 { // tenants, of which none is noisy
					for p, name := range map[channel.Priority]string{channel.High: "high", channel.Normal: "normal", channel.Low: "low"} {
						s.send(channel.WithPriority(t.Context(), p), fmt.Sprint("tenant-", i), fmt.Sprint(name, "/", i), 10)
					}
				}
				stop := s.work(worker.Config{Concurrency: 4}, brief(10*time.Millisecond))
				defer stop()
				s.until(func() bool { return s.count("") >= 650 })
				high, normal, low := s.count("high"), s.count("normal"), s.count("low")
				if low < 650/20 || normal < 3*low || high < 3*normal/2 {
					t.Errorf("%d of High, %d of Normal, %d of Low; want some 400, 200, 50", high, normal, low)
				}
				s.wait(3000)
			})
		})
	}
}

// A message that a handler sends has the priority of the handled one, and its tenant.
func TestPriorityIsPassedOn(t *testing.T) {
	t.Parallel()
	s := newShop(t, openStore(t), channel.Priorities(purchases))
	s.send(channel.WithPriority(t.Context(), channel.High), "north", "m", 3)
	if got := s.filled(); len(got) != 1 || got[0] != "purchases-high" {
		t.Errorf("messages of high priority are in %v", got)
	}
}

// A tenant that is alone gets all handlers, in whatever lane it is.
func TestLanesAreWorkConserving(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t, openStore(t), channel.Lanes(purchases, 8), channel.Priorities(purchases))
		s.send(channel.WithPriority(t.Context(), channel.Low), "alone", "m", 800)
		stop := s.work(worker.Config{Concurrency: 8}, brief(10*time.Millisecond))
		defer stop()
		began := time.Now()
		s.wait(800)
		if took := time.Since(began); took > 1500*time.Millisecond {
			t.Errorf("took %v; with all 8 handlers it is 1 s", took)
		}
	})
}

// Messages of several tenants for one document are folded together, as without lanes.
func TestFoldingStaysWhole(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		calls := new(storagetest.Calls)
		store := storagetest.Intercept(storagetest.Plain(openStore(t)), calls.Hook)
		w := worldtest.New(t, store, worldtest.Config{Routes: []channel.Route{channel.Lanes(worldtest.Accounts, 8)}})
		w.Decide()
		for i := range 64 {
			ctx := channel.WithTrace(t.Context(), channel.Trace{Tenant: fmt.Sprint("tenant-", i)})
			if err := w.Channels.Send(ctx, worldtest.Add{Key: fmt.Sprint("add-", i), To: "a", Amount: 1}); err != nil {
				t.Fatal(err)
			}
		}
		before := calls.Count("put blob")
		run, err := worker.New(w.Registry, worker.Config{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- run.Run(ctx) }()
		for run.Handled(worldtest.Accounts) < 64 {
			time.Sleep(10 * time.Millisecond)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if n := calls.Count("put blob") - before; n == 0 || n > 16 {
			t.Errorf("%d writes for 64 messages of one document", n)
		}
		if b := w.Balance("a"); b != 64 {
			t.Errorf("balance %d, want 64", b)
		}
	})
}

// Messages that were sent with another number of lanes, or without any, are handled.
func TestLaneChangesDrain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := openStore(t)
		routes := map[string][]channel.Route{
			"none": nil, "sixteen": {channel.Lanes(purchases, 16)}, "two": {channel.Lanes(purchases, 2)},
			"priorities": {channel.Priorities(purchases)},
		}
		for name, r := range routes {
			s := newShop(t, store, r...)
			for i := range 40 {
				s.send(t.Context(), fmt.Sprint("tenant-", i), fmt.Sprintf("%s/%d", name, i), 1)
			}
		}
		s := newShop(t, store, channel.Lanes(purchases, 2))
		stop := s.work(worker.Config{}, brief(time.Millisecond))
		defer stop()
		s.wait(160)
		late := newShop(t, store, channel.Lanes(purchases, 16)) // a program of the old version still sends
		for i := range 40 {
			late.send(t.Context(), fmt.Sprint("tenant-", i), fmt.Sprintf("late/%d", i), 1)
		}
		s.wait(200)
		if got := s.filled(); len(got) > 0 {
			t.Errorf("messages are left in %v", got)
		}
	})
}

// Without lanes there is no other store between a program and its own.
func TestOffByDefaultCostsNothing(t *testing.T) {
	t.Parallel()
	store := openStore(t)
	if s := newShop(t, store); s.channels.Store() != store {
		t.Error("channels without lanes have another store than the one that they were given")
	}
	calls := new(storagetest.Calls)
	counted := storagetest.Intercept(store, calls.Hook)
	other, err := lanes.Over(counted, lanes.Config{Queues: map[string]lanes.Queue{"laned": {Lanes: 8}}, Read: bodyMark})
	if err != nil {
		t.Fatal(err)
	}
	q := other.Queue("plain")
	if err := q.Send(t.Context(), []storage.Message{{Body: []byte("m")}}); err != nil {
		t.Fatal(err)
	}
	if ds, err := q.Receive(t.Context(), 1, time.Minute); err != nil || len(ds) != 1 || strings.Contains(string(ds[0].Receipt), "~") {
		t.Errorf("got %v, %v; want the message with its own receipt", ds, err)
	}
	if n := calls.Count("send") + calls.Count("receive"); n != 2 {
		t.Errorf("%d calls; want the two that were made", n)
	}
}

// Where requests are billed, an idle queue with lanes costs what one without lanes costs.
func TestIdleLanesCostWhatOneQueueCosts(t *testing.T) {
	t.Parallel()
	receives := func(routes ...channel.Route) (n int) {
		synctest.Test(t, func(t *testing.T) {
			calls := new(storagetest.Calls)
			billed := storagetest.WithProps(storagetest.Plain(openStore(t)), func(p *storage.Props) { p.Billed, p.PollInterval = true, 30*time.Second })
			s := newShop(t, storagetest.Intercept(billed, calls.Hook), routes...)
			stop := s.work(worker.Config{}, brief(0))
			defer stop()
			time.Sleep(time.Hour)
			before := calls.Count("receive")
			time.Sleep(4 * time.Hour)
			n = calls.Count("receive") - before
			s.send(t.Context(), "north", "m", 1) // by a process that can't ring
			s.wait(1)
		})
		return n
	}
	one, eight := receives(), receives(channel.Lanes(purchases, 8))
	if one == 0 || eight > one*11/10 {
		t.Errorf("%d receives in four idle hours with lanes, %d without", eight, one)
	}
}

// The requests of lanes count as those of their queue. None is lost, and other queues keep theirs.
func TestRequestsOfLanesAreTheirQueues(t *testing.T) {
	t.Parallel()
	s := newShop(t, storagetest.Plain(openStore(t)), channel.Lanes(purchases, 8))
	s.send(t.Context(), "", "nobody", 100)
	if err := s.store.Queue("others").Send(t.Context(), []storage.Message{{Body: []byte("x")}}); err != nil {
		t.Fatal(err)
	}
	sum := func(store *storage.Store) (all int64, sends map[string]int64, sorts int) {
		sends = map[string]int64{}
		list := store.Requests()
		for _, r := range list {
			all += r.Count
			if r.Op == "send" && r.Kind == "queue" {
				sends[r.Target] += r.Count
			}
		}
		return all, sends, len(list)
	}
	inner, lanesOnly, innerSorts := sum(s.store)
	all, sends, sorts := sum(s.channels.Store())
	if len(lanesOnly) != 9 || all != inner {
		t.Fatalf("got sends to %v and %d requests in all; want 8 lanes, another queue, and %d", lanesOnly, all, inner)
	}
	if len(sends) != 2 || sends[purchases] < 8 || sends["others"] != 1 || sorts != innerSorts-7 {
		t.Errorf("got sends to %v in %d sorts of requests; want those of all lanes as %s", sends, sorts, purchases)
	}
}

// A full lane hides no other lane from a reader who looks at the first messages.
func TestPeekTakesTurnsOverLanes(t *testing.T) {
	t.Parallel()
	s := newShop(t, openStore(t), channel.Lanes(purchases, 8))
	s.send(t.Context(), "north", "north", 100)
	s.send(t.Context(), "", "nobody", 100)
	tenants, n := map[bool]int{}, 0
	for m, err := range s.channels.Store().Queue(purchases).Peek(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		tenants[strings.Contains(string(m.Body), `"north"`)]++
		if n++; n == 32 {
			break
		}
	}
	if tenants[true] == 0 || tenants[false] < 16 {
		t.Errorf("of the first %d messages %d are of the tenant who sent 100; want some, and most of others", n, tenants[true])
	}
}
