package lease_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-go/millrace/coord/lease"
	"github.com/millrace-go/millrace/internal/agreetest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/azure"
	"github.com/millrace-go/millrace/storage/azure/azuretest"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// Eight processes acquire the lease again and again, while calls succeed or fail. Some die while they hold it.
func TestOneAtATime(t *testing.T) {
	t.Parallel()
	for seed := range storagetest.Seeds(t, 0, 8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
				var (
					seen          watch
					law           fenceLaw
					holders, late sync.WaitGroup
				)
				s = storage.New(writing{s.Driver(), "leases", nil, func(body []byte) { law.see(t, body) }, new(sync.Mutex)})
				for i := range uint64(8) {
					holders.Go(func() {
						r := rand.New(rand.NewPCG(seed, i))
						mine := s
						if seed > 0 {
							mine = weather(s, rand.New(rand.NewPCG(i, seed)), &late)
						}
						for range 4 {
							link := storagetest.NewLink(mine)
							l, err := lease.Acquire(t.Context(), link.Store, name, lease.Config{TTL: ttl})
							if err != nil {
								t.Error(err)
								return
							}
							seen.see(t, l)
							select {
							case <-l.Context().Done():
							case <-time.After(time.Duration(r.Int64N(int64(2 * ttl)))):
							}
							if r.IntN(3) == 0 {
								link.Cut()
								<-l.Context().Done()
								wantCause(t, l, lease.ErrLost)
							}
							_ = l.Release(t.Context())
						}
					})
				}
				holders.Wait()
				late.Wait()
				if n := len(seen.leases); n != 32 || law.fence < 32 || seed == 0 && law.fence > 32 {
					t.Errorf("the lease was had %d times, want 32; the last fence is %d", n, law.fence)
				}
			})
		})
	}
}

// In the states of a lease's blob, each holder has the fence of the one before it, plus 1. All states with one fence
// belong to one acquisition.
type fenceLaw struct {
	fence int64
	id    string
}

func (a *fenceLaw) see(t *testing.T, body []byte) {
	var d struct {
		ID    string
		Fence int64
	}
	if err := json.Unmarshal(body, &d); err != nil {
		t.Error(err)
	}
	next := d.Fence == a.fence+1 && d.ID != ""
	if same := d.Fence == a.fence && (d.ID == a.id || d.ID == ""); !next && !same {
		t.Errorf("fence %d of %q was written after %d of %q", d.Fence, d.ID, a.fence, a.id)
	}
	if next {
		a.fence, a.id = d.Fence, d.ID
	}
}

func TestAHolderDies(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		link := storagetest.NewLink(s)
		dead := acquire(t, link.Store)
		link.Cut()
		begin := time.Now()
		next := acquire(t, s)
		if got, want := time.Since(begin), ttl*7/6; got != want {
			t.Errorf("taken over after %v, want %v", got, want)
		}
		wantCause(t, dead, lease.ErrLost)
		if dead.Fence() != 1 || next.Fence() != 2 {
			t.Errorf("fences %d and %d, want 1 and 2", dead.Fence(), next.Fence())
		}
		link.Restore()
		release(t, dead) // it must not release the next holder's lease
		time.Sleep(3 * ttl)
		if err := next.Context().Err(); err != nil {
			t.Errorf("a lease that is renewed ended: %v", err)
		}
		release(t, next)
	})
}

// However calls fail, the context ends before another process gets the lease.
func TestTheStoreIsUnreachable(t *testing.T) {
	t.Parallel()
	for way, fail := range map[string]func(ctx context.Context, over chan struct{}) error{
		"refuses":         func(context.Context, chan struct{}) error { return storage.ErrUnavailable },
		"hangs":           func(ctx context.Context, _ chan struct{}) error { <-ctx.Done(); return context.Cause(ctx) },
		"hangs for good":  func(_ context.Context, over chan struct{}) error { <-over; return storage.ErrUnavailable },
		"refuses content": func(context.Context, chan struct{}) error { return storage.ErrInvalid },
	} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
				over := make(chan struct{})
				var last time.Time // when the last successful call began
				l := acquire(t, storagetest.Intercept(s, func(ctx context.Context, op storagetest.Op, do func() error) error {
					if op.Seq > 5 {
						return fail(ctx, over)
					}
					last = time.Now()
					time.Sleep(time.Second)
					return do()
				}))
				var seen watch
				seen.see(t, l)
				next := acquire(t, s)
				seen.see(t, next)
				<-l.Context().Done()
				wantCause(t, l, lease.ErrLost)
				if took := time.Since(last); took < ttl {
					t.Errorf("taken over after %v", took)
				}
				close(over)
				release(t, l)
				release(t, next)
			})
		})
	}
}

func TestTheContextEndsInTime(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		link := storagetest.NewLink(s)
		begin := time.Now()
		l := acquire(t, link.Store)
		time.Sleep(ttl/3 + time.Second) // one renewal, at ttl/3
		link.Cut()
		<-l.Context().Done()
		if got, want := time.Since(begin), ttl/3+ttl*5/6; got != want {
			t.Errorf("ended after %v, want %v", got, want)
		}
		release(t, l)
	})
}

// A renewal is done, but its answer is lost. When the holder learns that it was done, others may have watched its
// result for long, so it proves nothing.
func TestAnOldWriteProvesNothing(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		begin := time.Now()
		learnt := 0
		l := acquire(t, storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
			switch {
			case op.Seq < 3:
				return do()
			case op.Seq == 3:
				_ = do()
			case time.Since(begin) > ttl/2 && learnt < 2: // a write that loses the race, and the read that tells why
				learnt++
				return do()
			}
			return op.Fail(storage.ErrUnavailable)
		}))
		<-l.Context().Done()
		wantCause(t, l, lease.ErrLost)
		if got, want := time.Since(begin), ttl*5/6; got != want || learnt != 2 {
			t.Errorf("ended after %v, want %v; %d calls went through", got, want, learnt)
		}
		release(t, l)
	})
}

// A holder never overwrites another process's write.
func TestSomebodyElseHasIt(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		ctx, cancel := context.WithCancel(t.Context())
		old, err := lease.Acquire(ctx, s, name, lease.Config{TTL: ttl})
		if err != nil {
			t.Fatal(err)
		}
		cancel() // and no release
		l := acquire(t, s)
		if err := old.Release(ctx); err != nil {
			t.Error(err)
		}
		time.Sleep(ttl)
		if err := l.Context().Err(); err != nil {
			t.Errorf("the release of another lease ended it: %v", err)
		}

		const hands = `{"holder":"hands","id":"x","fence":9,"ttl":3000}`
		blobs := s.Blobs("leases")
		tag, err := blobs.Put(t.Context(), name, []byte(hands), storage.Condition{})
		if err != nil {
			t.Fatal(err)
		}
		select {
		case <-l.Context().Done():
			wantCause(t, l, lease.ErrLost)
		case <-time.After(ttl):
			t.Error("it is still held")
		}
		release(t, l)
		if b, err := blobs.Get(t.Context(), name, ""); err != nil || b.ETag != tag {
			t.Errorf("it was written over: %s, %v", b.Body, err)
		}
	})
}

// Any one call fails, before its effect or after it: nothing is lost, and the lease is free in the end.
func TestAnyCallFails(t *testing.T) {
	t.Parallel()
	for _, moment := range []storagetest.Moment{storagetest.BeforeEffect, storagetest.AfterEffect} {
		for way, get := range map[string]func(context.Context, *storage.Store, string, lease.Config) (*lease.Lease, error){"acquire": lease.Acquire, "try": lease.Try} {
			t.Run(fmt.Sprintf("%s/%s", way, moment), func(t *testing.T) {
				t.Parallel()
				hit := true
				for n := int64(1); hit; n++ {
					hit = false
					agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
						l, err := get(t.Context(), storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
							if op.Seq != n {
								return do()
							}
							hit = true
							if moment == storagetest.AfterEffect {
								_ = do()
							}
							return op.Fail(storage.ErrUnavailable)
						}), name, lease.Config{TTL: ttl})
						if err != nil {
							t.Fatal(err)
						}
						time.Sleep(2*ttl - time.Second)
						if err := context.Cause(l.Context()); err != nil {
							t.Errorf("it ended: %v", err)
						}
						release(t, l)
						next, err := lease.Try(t.Context(), s, name, lease.Config{})
						if err != nil {
							t.Fatal(err)
						}
						if l.Fence() != 1 || next.Fence() != 2 {
							t.Errorf("fence %d after %d, want 2 after 1", next.Fence(), l.Fence())
						}
						release(t, next)
					})
					if t.Failed() {
						t.Fatalf("stopped at call %d", n)
					}
					if !hit && n < 8 {
						t.Fatalf("there were %d calls only", n)
					}
				}
			})
		}
	}
}

// A process dies in its nth call, before its effect or after it. The next process gets the lease, and never holds
// it at the same time.
func TestDeathInAnyCall(t *testing.T) {
	t.Parallel()
	for _, moment := range []storagetest.Moment{storagetest.BeforeEffect, storagetest.AfterEffect} {
		for _, while := range []string{"holding", "releasing"} {
			for n := int64(1); n < 7; n++ {
				t.Run(fmt.Sprintf("%s/%s/%d", while, moment, n), func(t *testing.T) {
					t.Parallel()
					agreetest.Virtual(t, func(t *testing.T, s *storage.Store) { dieAt(t, s, n, moment, while == "holding") })
				})
			}
		}
	}
}

func dieAt(t *testing.T, s *storage.Store, n int64, moment storagetest.Moment, holding bool) {
	dying, fuse := storagetest.Crash(s, n, moment)
	ctx, cancel := context.WithTimeout(t.Context(), 2*ttl)
	defer cancel()
	var seen watch
	l, err := lease.Acquire(ctx, dying, name, lease.Config{TTL: ttl})
	switch {
	case err != nil:
		if !errors.Is(err, context.DeadlineExceeded) || n > 2 {
			t.Error(err)
		}
	case holding:
		seen.see(t, l)
		<-fuse.C()
	default:
		seen.see(t, l)
		if err := l.Release(ctx); (fuse.Fired() && n < 4) != (err != nil) { // the fourth call tells of the release
			t.Errorf("released with %v", err)
		}
	}
	if want := holding || n < 5; fuse.Fired() != want {
		t.Errorf("died: %v, want %v", fuse.Fired(), want)
	}
	begin := time.Now()
	next := acquire(t, s)
	seen.see(t, next)
	if took := time.Since(begin); took > 2*ttl {
		t.Errorf("taken over after %v", took)
	}
	release(t, next)
}

func TestRelease(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		var calls storagetest.Calls
		ctx, cancel := context.WithCancelCause(t.Context())
		l, err := lease.Acquire(ctx, storagetest.Intercept(s, calls.Hook), name, lease.Config{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = lease.Try(ctx, s, name, lease.Config{})
		if !errors.Is(err, lease.ErrHeld) || !strings.Contains(err.Error(), name) {
			t.Errorf("Try of a lease that is held: %v", err)
		}
		end := errors.New("over")
		cancel(end)
		wantCause(t, l, end)
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() {
				if err := l.Release(ctx); err != nil { // although ctx has ended
					t.Error(err)
				}
			})
		}
		both.Wait()
		if n := calls.Count("put blob"); n != 2 || calls.Count("delete blob") != 0 {
			t.Errorf("wrote %d times, want an acquisition and a release", n)
		}
		next, err := lease.Try(t.Context(), s, name, lease.Config{})
		if err != nil || next.Fence() != 2 {
			t.Fatalf("after the release: %v, %v", next, err)
		}
		release(t, next)
		wantCause(t, next, context.Canceled)
	})
}

func TestAReleaseThatFails(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		link := storagetest.NewLink(s)
		l := acquire(t, link.Store)
		link.Cut()
		begin := time.Now()
		if err := l.Release(t.Context()); !errors.Is(err, storage.ErrUnavailable) || time.Since(begin) > ttl/3 {
			t.Errorf("released with %v in %v", err, time.Since(begin))
		}
		link.Restore()
		release(t, l)
		next, err := lease.Try(t.Context(), s, name, lease.Config{})
		if err != nil {
			t.Fatal(err)
		}
		release(t, next)
	})
}

func TestTheContextEndsWhileWaiting(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		l := acquire(t, s)
		end := errors.New("over")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 3*ttl+time.Second, end)
		defer cancel()
		begin := time.Now()
		if _, err := lease.Acquire(ctx, s, name, lease.Config{}); !errors.Is(err, end) || time.Since(begin) != 3*ttl+time.Second {
			t.Errorf("waiting ended with %v after %v", err, time.Since(begin))
		}
		if _, err := lease.Try(ctx, s, name, lease.Config{}); !errors.Is(err, end) {
			t.Errorf("Try under a context that has ended: %v", err)
		}
		release(t, l)
	})
}

func TestFaults(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		blobs := s.Blobs("leases")
		for key, body := range map[string]string{"text": "x", "no-fence": `{"id":"a","ttl":5}`, "no-ttl": `{"id":"a","fence":1}`, "long-ttl": `{"id":"a","fence":1,"ttl":9e17}`} {
			if _, err := blobs.Put(t.Context(), key, []byte(body), storage.Condition{}); err != nil {
				t.Fatal(err)
			}
			if _, err := lease.Acquire(t.Context(), s, key, lease.Config{}); !errors.Is(err, storage.ErrInvalid) || !strings.Contains(err.Error(), key) {
				t.Errorf("a blob that is no lease: %v", err)
			}
		}
		for _, c := range []struct {
			name string
			ttl  time.Duration
			want []string
		}{
			{name: "", want: []string{"key"}},
			{name: "a\nb", ttl: time.Second, want: []string{"key", "TTL"}},
			{name: name, ttl: -ttl, want: []string{"TTL"}},
			{name: name, ttl: 25 * time.Hour, want: []string{"TTL"}},
			{name: name, ttl: ttl + 1, want: []string{"TTL"}},
		} {
			_, err := lease.Try(t.Context(), s, c.name, lease.Config{TTL: c.ttl})
			if !errors.Is(err, storage.ErrInvalid) {
				t.Errorf("%q, %v: %v", c.name, c.ttl, err)
				continue
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q, %v: %v; want a word about %s", c.name, c.ttl, err, w)
				}
			}
		}
		if _, err := blobs.Get(t.Context(), name, ""); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("something was written: %v", err)
		}
	})
}

var azurite = sync.OnceValues(azuretest.Launch)

// This test uses real requests and real time: a process waits, gets the lease, dies, and is followed by another.
func TestOnAzure(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for a TTL to pass")
	}
	t.Parallel()
	s, err := azure.Open(t.Context(), azuretest.Place(t, azurite, azure.Wipe))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	const ttl = 3 * time.Second
	get := func(s *storage.Store, holder string) *lease.Lease {
		l, err := lease.Acquire(t.Context(), s, name, lease.Config{TTL: ttl, Holder: holder})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	var seen watch
	a := get(s, "a")
	seen.see(t, a)
	if _, err := lease.Try(t.Context(), s, name, lease.Config{}); !errors.Is(err, lease.ErrHeld) || !strings.Contains(err.Error(), `"a"`) {
		t.Errorf("Try of what a holds: %v", err)
	}
	release(t, a)
	link := storagetest.NewLink(s)
	b := get(link.Store, "b")
	seen.see(t, b)
	link.Cut()
	c := get(s, "c")
	seen.see(t, c)
	wantCause(t, b, lease.ErrLost)
	select { // long enough to need renewals
	case <-c.Context().Done():
		t.Errorf("c's lease ended: %v", context.Cause(c.Context()))
	case <-time.After(ttl):
	}
	release(t, c)
	if c.Fence() != 3 {
		t.Errorf("c has fence %d, want 3", c.Fence())
	}
}
