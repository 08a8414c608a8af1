package values_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/driver"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/values"
)

// A trail is a document that lists the messages which changed it, in their order.
type trail []string

type trailCall struct {
	op      string // "apply" or "get"
	message string
}

type trailAnswer struct {
	seen    []string // of a get; or of the Fold of an apply that counts: one of these, if it does
	version uint64   // of a get
}

type trailEvent = storagetest.Answer[trailCall, trailAnswer]

// trailStep is a value object that does one thing at a time. A message is appended to the trail if it isn't in it, by a
// Fold that sees all messages before it.
func trailStep(s string, a trailEvent) []string {
	switch {
	case a.In.op == "get":
		if a.Out.seen[0] == s && a.Out.version == uint64(strings.Count(s, " ")) {
			return []string{s}
		}
	case strings.Contains(s, a.In.message+" "):
		return []string{s}
	case slices.Contains(a.Out.seen, s):
		return []string{s + a.In.message + " "}
	case a.Unknown: // it takes effect later, or never
		return []string{s}
	}
	return nil
}

func (v trail) String() string {
	var b strings.Builder
	for _, message := range v {
		b.WriteString(message + " ")
	}
	return b.String()
}

// Processes apply messages to few documents at the same time, some of them twice and in several processes. Some answers
// of the store get lost, and the message comes again. The results must be those of one process that does one thing at a
// time.
func TestHistories(t *testing.T) {
	t.Parallel()
	for name, wrap := range map[string]func(*storage.Store) *storage.Store{
		"atomic": func(s *storage.Store) *storage.Store { return s },
		"plain":  storagetest.Plain,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			if err := storagetest.CheckHistory(trails(t, seed, wrap), trailStep, os.TempDir()); err != nil {
				t.Error(err)
			}
		})
	}
}

// The test must recognise a store that breaks its laws.
func TestHistoriesCatchABadStore(t *testing.T) {
	t.Parallel()
	for name, b := range map[string]bad{
		"puts whatever the condition": {put: func(b driver.Blobs, ctx context.Context, key string, body []byte, _ storage.Condition) (storage.ETag, error) {
			return b.Put(ctx, key, body, storage.Condition{})
		}},
		"loses documents": {put: func(b driver.Blobs, ctx context.Context, key string, body []byte, cond storage.Condition) (storage.ETag, error) {
			if rand.IntN(10) == 0 {
				return "0123456789abcdef", nil
			}
			return b.Put(ctx, key, body, cond)
		}},
		"loses rows": {put: driver.Blobs.Put, noRows: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := error(nil)
			for seed := uint64(0); err == nil && seed < 5; seed++ {
				h := trails(t, seed, func(s *storage.Store) *storage.Store {
					b.Store = storagetest.Plain(s).Driver()
					return storage.New(b)
				})
				err = storagetest.CheckHistory(h, trailStep, t.TempDir())
			}
			if err == nil {
				t.Error("not caught")
			}
			t.Log(err)
		})
	}
}

// bad is a store that puts documents in another way, and perhaps no rows.
type bad struct {
	driver.Store
	put    func(b driver.Blobs, ctx context.Context, key string, body []byte, cond storage.Condition) (storage.ETag, error)
	noRows bool
}

type badBlobs struct {
	driver.Blobs
	bad
}

type badTable struct {
	driver.Table
	bad
}

func (x bad) Blobs(name string) driver.Blobs { return badBlobs{x.Store.Blobs(name), x} }
func (x bad) Table(name string) driver.Table { return badTable{x.Store.Table(name), x} }

func (b badBlobs) Put(ctx context.Context, key string, body []byte, cond storage.Condition) (storage.ETag, error) {
	return b.put(b.Blobs, ctx, key, body, cond)
}

func (t badTable) Put(ctx context.Context, partition, key string, data []byte, cond storage.Condition) (storage.ETag, error) {
	if t.noRows {
		return "0123456789abcdef", nil
	}
	return t.Table.Put(ctx, partition, key, data, cond)
}

func (t badTable) PutBatch(ctx context.Context, partition string, rows []storage.RowPut) error {
	if t.noRows {
		return nil
	}
	return t.Table.PutBatch(ctx, partition, rows)
}

// trails lets four processes work on two documents of one file.
func trails(t *testing.T, seed uint64, wrap func(*storage.Store) *storage.Store) *storagetest.History[trailCall, trailAnswer] {
	t.Helper()
	const turns = 25
	var (
		h    storagetest.History[trailCall, trailAnswer]
		all  sync.WaitGroup
		mu   sync.Mutex
		sent = map[string][]string{} // by key; under mu
		path = filepath.Join(t.TempDir(), "test.db") + "?wake=off&sync=normal"
	)
	for n := range 4 {
		x := newTrailer(t, &h, n, path, seed, wrap)
		all.Go(func() {
			for i := range turns {
				key := fmt.Sprintf("key-%d", i%2)
				if x.IntN(4) == 0 || i >= turns-2 {
					x.get(key)
					continue
				}
				messages := []string{newID(), newID(), newID()}[:1+x.IntN(3)]
				mu.Lock()
				if before := sent[key]; len(before) > 0 && x.IntN(2) == 0 {
					messages[0] = before[x.IntN(len(before))]
				}
				sent[key] = append(sent[key], messages...)
				mu.Unlock()
				x.apply(key, messages)
			}
		})
	}
	all.Wait()
	return &h
}

// A trailer is one process.
type trailer struct {
	*rand.Rand
	t      *testing.T
	h      *storagetest.History[trailCall, trailAnswer]
	n      int
	trails *values.Collection[trail]
}

func newTrailer(t *testing.T, h *storagetest.History[trailCall, trailAnswer], n int, path string, seed uint64, wrap func(*storage.Store) *storage.Store) trailer {
	t.Helper()
	faults := storagetest.Seeded(seed+uint64(n), map[storagetest.Fault]float64{storagetest.FailBefore: 0.03, storagetest.FailAfter: 0.05})
	disturbed, _ := storagetest.Disturb(wrap(worldtest.OpenAt(t, path)), storagetest.Disturbance{Schedule: faults})
	// The window is small, so that rows recognise messages as well. There are enough races for each process to win one.
	trails := values.New(worldtest.New(t, disturbed, worldtest.Config{}).Channels, "trails", values.Config[trail]{Window: 2, MaxRaces: 100})
	return trailer{rand.New(rand.NewPCG(seed, uint64(n))), t, h, n, trails}
}

func (x trailer) get(key string) {
	x.h.Record(x.n, func() []trailEvent {
		d, err := x.trails.Get(x.t.Context(), key, "")
		if err != nil {
			return nil
		}
		return []trailEvent{{Key: key, In: trailCall{op: "get"}, Out: trailAnswer{seen: []string{d.Value.String()}, version: d.Version}}}
	})
}

// apply applies messages, and repeats those with an unknown outcome.
func (x trailer) apply(key string, messages []string) {
	x.h.Record(x.n, func() []trailEvent {
		events, changes := make([]trailEvent, len(messages)), make([]values.Change[trail], len(messages))
		left, folded := make([]int, len(messages)), make([]string, len(messages))
		for i, id := range messages {
			e := worldtest.Envelope(id, Add{Note: id})
			left[i], folded[i], events[i] = i, "never", trailEvent{Key: key, In: trailCall{op: "apply", message: id}, Unknown: true}
			changes[i] = values.Change[trail]{Envelope: &e, Fold: func(v trail) (trail, []channel.Message, error) {
				folded[i] = v.String()
				return append(slices.Clip(v), id), []channel.Message{Added{Note: id}}, nil
			}}
		}
		for tries := 0; tries < 5 && len(left) > 0; tries++ {
			var batch []values.Change[trail]
			for _, i := range left {
				batch = append(batch, changes[i])
			}
			errs, failed := errsOf(x.trails.Apply(x.t.Context(), key, batch, nil)), []int(nil)
			for j, i := range left {
				events[i].Out.seen = append(events[i].Out.seen, folded[i])
				if events[i].Unknown = errs[j] != nil; events[i].Unknown {
					failed = append(failed, i)
				}
			}
			left = failed
		}
		return events
	})
}
