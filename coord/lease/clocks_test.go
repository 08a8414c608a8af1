package lease_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/coord/lease"
	"github.com/millrace-go/millrace/internal/agreetest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/driver"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// The time that a holder's clock shows doesn't matter. Others take over by the time that passes on their own machines.
func TestClocksThatDiffer(t *testing.T) {
	t.Parallel()
	for _, skew := range []time.Duration{-3 * time.Hour, 0, 3 * time.Hour} {
		t.Run(skew.String(), func(t *testing.T) {
			t.Parallel()
			agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
				link := storagetest.NewLink(skewed(s, func() time.Duration { return skew }))
				l := acquire(t, link.Store)
				if info := wantState(t, s, true, 1); !info.Since.Equal(time.Now().Add(skew)) {
					t.Errorf("its clock shows %v", info.Since)
				}
				time.Sleep(5*ttl + time.Second) // no renewal is under way
				link.Cut()
				begin := time.Now()
				next := acquire(t, s)
				if took := time.Since(begin); took != ttl*7/6 || l.Context().Err() == nil {
					t.Errorf("taken over after %v, want %v", took, ttl*7/6)
				}
				release(t, next)
			})
		})
	}
}

// skewed is the store of a process whose wall clock shows another time: in all that it writes about leases.
func skewed(s *storage.Store, by func() time.Duration) *storage.Store {
	return storage.New(writing{s.Driver(), "leases", func(body []byte) []byte {
		var d map[string]any
		if json.Unmarshal(body, &d) != nil {
			return body
		}
		if since, err := time.Parse(time.RFC3339Nano, fmt.Sprint(d["since"])); err == nil {
			d["since"] = since.Add(by())
		}
		body, _ = json.Marshal(d)
		return body
	}, nil, new(sync.Mutex)})
}

// writing changes what is written to a container, and lets done see each write that had its effect, in their order.
type writing struct {
	driver.Store
	container string
	change    func(body []byte) []byte
	done      func(body []byte)
	one       *sync.Mutex // lets one write with its done go on at a time
}

func (w writing) Blobs(name string) driver.Blobs {
	if name != w.container {
		return w.Store.Blobs(name)
	}
	return writingBlobs{w.Store.Blobs(name), w}
}

type writingBlobs struct {
	driver.Blobs
	w writing
}

func (b writingBlobs) Put(ctx context.Context, key string, body []byte, cond storage.Condition) (storage.ETag, error) {
	if b.w.change != nil {
		body = b.w.change(body)
	}
	b.w.one.Lock()
	defer b.w.one.Unlock()
	etag, err := b.Blobs.Put(ctx, key, body, cond)
	if err == nil && b.w.done != nil {
		b.w.done(body)
	}
	return etag, err
}

// An audit sees the fences of a document's states.
type audit struct {
	mu   sync.Mutex
	last int64 // under mu
}

func (a *audit) see(t *testing.T, body []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var h struct{ Fence int64 }
	line, _, _ := bytes.Cut(body, []byte("\n"))
	if err := json.Unmarshal(line, &h); err != nil || h.Fence < a.last {
		t.Errorf("fence %d was written after %d, %v", h.Fence, a.last, err)
	}
	a.last = max(a.last, h.Fence)
}

// Eight processes hold a lease in turn, and write to one document under it. Calls fail, hang, and have late effects.
// Wall clocks are wrong and jump. Some processes stand still while they hold the lease, longer than its TTL, and the
// clocks of some stand still with them: their contexts stay alive although others have the lease. They go on writing.
// The fences in the document never fall, and a write with success is never lost.
func TestFencedWritesWhileClocksStandStill(t *testing.T) {
	t.Parallel()
	var all tally
	worlds := 0
	t.Run("worlds", func(t *testing.T) {
		for seed := range storagetest.Seeds(t, 0, 2) {
			worlds++
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				agreetest.Virtual(t, func(t *testing.T, s *storage.Store) { standStill(t, s, seed, &all) })
			})
		}
	})
	if worlds > 1 && (all.written < 30 || all.fenced < 5 || all.alive < 5) {
		t.Errorf("the worlds were calm: %d writes with success, %d fenced off, of those %d under a context that was alive", all.written, all.fenced, all.alive)
	}
}

// A tally counts writes. alive are those that were fenced off although their lease's context was alive.
type tally struct {
	mu                     sync.Mutex
	written, fenced, alive int
}

func standStill(t *testing.T, s *storage.Store, seed uint64, all *tally) {
	var (
		a             audit
		holders, late sync.WaitGroup
		mu            sync.Mutex
		written       []string
	)
	s = storage.New(writing{s.Driver(), "docs", nil, func(body []byte) { a.see(t, body) }, new(sync.Mutex)})
	for i := range uint64(8) {
		holders.Go(func() {
			r := rand.New(rand.NewPCG(seed, i))
			mine := weather(skewed(s, func() time.Duration { return rand.N(200*time.Hour) - 100*time.Hour }), rand.New(rand.NewPCG(seed, i+100)), &late)
			for turn := range 3 {
				stands, still := r.IntN(2) == 0, new(atomic.Bool)
				l, err := lease.Acquire(t.Context(), storagetest.Intercept(mine, func(_ context.Context, op storagetest.Op, do func() error) error {
					if stands && still.Load() && op.Name == "put blob" {
						return nil // to the holder it is as if no time passed
					}
					return do()
				}), name, lease.Config{TTL: ttl})
				if err != nil {
					t.Error(err)
					return
				}
				still.Store(true)
				docs := l.Blobs(mine.Blobs("docs"))
				for n := range 4 {
					time.Sleep(time.Duration(r.Int64N(int64(ttl))))
					line := fmt.Sprintf("%d %d-%d-%d\n", l.Fence(), i, turn, n)
					err := appendLine(t.Context(), docs, line, func() { time.Sleep(time.Duration(r.Int64N(int64(2 * time.Second)))) })
					mu.Lock()
					if err == nil {
						written = append(written, line)
					}
					mu.Unlock()
					all.count(err, l.Context().Err() == nil)
				}
				_ = l.Release(t.Context())
			}
		})
	}
	holders.Wait()
	late.Wait()
	d, err := lease.Read(t.Context(), s.Blobs("docs"), key)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range written {
		if strings.Count("\n"+string(d.Content), "\n"+line) != 1 {
			t.Errorf("the line %q isn't there once", line)
		}
	}
}

func (c *tally) count(err error, alive bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil:
		c.written++
	case errors.Is(err, lease.ErrFenced):
		if c.fenced++; alive {
			c.alive++
		}
	}
}

// appendLine adds a line to the document, and pauses between reading and writing.
func appendLine(ctx context.Context, docs *lease.Documents, line string, pause func()) error {
	ctx, cancel := context.WithTimeout(ctx, ttl)
	defer cancel()
	cond := storage.Condition{}
	there, err := docs.Get(ctx, key)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		cond.IfAbsent = true
	case err != nil:
		return err
	default:
		cond.IfMatch = there.ETag
	}
	pause()
	_, err = docs.Put(ctx, key, append(there.Content, line...), cond)
	return err
}
