package storagetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/millrace-go/millrace/storage"
)

// A History is the concurrent calls of clients, and their answers. [CheckHistory] tells whether a correct store
// could give them. The zero History is empty.
type History[I, O any] struct {
	clock atomic.Int64 // counts the beginnings and ends of calls in their order

	mu    sync.Mutex
	calls []recorded[I, O] // under mu
}

// An Answer is a call as seen by one object.
type Answer[I, O any] struct {
	Key     string // the object; "" for all objects
	In      I
	Out     O
	Unknown bool // the call may take effect now, later or never; Out is meaningless
}

type recorded[I, O any] struct {
	Answer[I, O]
	client     int // from 0
	begin, end int64
}

// Record lets a client make a call, which returns each object's answer.
func (h *History[I, O]) Record(client int, do func() []Answer[I, O]) {
	begin := h.clock.Add(1)
	answers := do()
	end := h.clock.Add(1)
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range answers {
		h.calls = append(h.calls, recorded[I, O]{a, client, begin, end})
	}
}

// Answers lists the calls with a known outcome, in any order.
func (h *History[I, O]) Answers() []Answer[I, O] {
	h.mu.Lock()
	defer h.mu.Unlock()
	var known []Answer[I, O]
	for _, c := range h.calls {
		if !c.Unknown {
			known = append(known, c.Answer)
		}
	}
	return known
}

// operations returns the calls of each object. A call of unknown outcome never ends, so that its effect may come at
// any time after its beginning. If it comes after all other calls, it has no effect on them. In the picture such a
// call has a line of its own.
func (h *History[I, O]) operations() map[string][]porcupine.Operation {
	h.mu.Lock()
	defer h.mu.Unlock()
	lines, of := 0, map[string][]porcupine.Operation{}
	for _, c := range h.calls {
		if lines = max(lines, c.client+1); c.Key != "" {
			of[c.Key] = nil
		}
	}
	never := h.clock.Load() + 1
	for _, c := range h.calls {
		op := porcupine.Operation{ClientId: c.client, Call: c.begin, Output: c.Answer, Return: c.end}
		if c.Unknown {
			op.ClientId, op.Return = lines, never
			lines++
		}
		for key := range of {
			if c.Key == key || c.Key == "" {
				of[key] = append(of[key], op)
			}
		}
	}
	return of
}

// historyTime is the checker's time limit for one object.
const historyTime = 30 * time.Second

// CheckHistory looks for an order of an object's calls in which the object could have given their answers one by
// one. In that order, a call that ended before another began comes first.
//
// step returns the states that an answer may leave an object of state s in; none, if the object can't answer so in that
// state. step is pure, and objects begin with the zero S.
//
// The error names the objects without such an order, and a file in folder with a picture.
func CheckHistory[S comparable, I, O any](h *History[I, O], step func(s S, a Answer[I, O]) []S, folder string) error {
	nondeterministic := porcupine.NondeterministicModel{
		Init: func() []any { return []any{*new(S)} },
		Step: func(s, _, a any) []any {
			var next []any
			for _, n := range step(s.(S), a.(Answer[I, O])) {
				next = append(next, n)
			}
			return next
		},
		DescribeOperation: func(_, a any) string {
			if a := a.(Answer[I, O]); !a.Unknown {
				return fmt.Sprintf("%+v → %+v", a.In, a.Out)
			}
			return fmt.Sprintf("%+v → ?", a.(Answer[I, O]).In)
		},
		DescribeState: func(s any) string { return fmt.Sprintf("%+v", s) },
	}
	model := nondeterministic.ToModel()
	of := h.operations()
	if known := len(h.Answers()); 2*known <= len(h.calls) {
		return fmt.Errorf("history of %d objects: %d of %d calls have a known outcome, too few to tell anything", len(of), known, len(h.calls))
	}
	for _, key := range slices.Sorted(maps.Keys(of)) {
		verdict, info := porcupine.CheckOperationsVerbose(model, of[key], historyTime)
		if verdict == porcupine.Ok {
			continue
		}
		why := "no order of the calls explains the answers"
		if verdict == porcupine.Unknown {
			why = fmt.Sprintf("not decided within %v", historyTime)
		}
		picture, err := os.CreateTemp(folder, "millrace-history-*.html")
		if err == nil {
			why += "; see " + picture.Name()
			err = errors.Join(porcupine.Visualize(model, info, picture), picture.Close())
		}
		return errors.Join(fmt.Errorf("history of %s, %d calls: %s", storage.Quote(key), len(of[key]), why), err)
	}
	return nil
}

// RunHistories checks that the documents and messages of a store are linearizable. It opens a place several times,
// like several processes. Each makes some dozens of concurrent calls on a few documents, and on one queue. Some
// calls are cancelled, some fail, and some lose their answers. Then it calls CheckHistory: a document is a register
// whose writes are guarded by ETags, and a message has at most one holder at a time.
func RunHistories(t *testing.T, cfg Config) {
	t.Helper()
	cfg, err := cfg.validate()
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Reopen == nil {
		t.Fatal("storagetest: histories need Config.Reopen")
	}
	stores := []*storage.Store{openStore(t, cfg)}
	for range 3 {
		s := cfg.Reopen(t, stores[0])
		t.Cleanup(func() { s.Close() })
		stores = append(stores, s)
	}
	for kind, play := range plays() {
		t.Run(kind, func(t *testing.T) {
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			if err := play(t.Context(), stores, seed, os.TempDir()); err != nil {
				t.Error(err)
			}
		})
	}
}

// A play lets a player for each store make calls, and returns what is wrong with their history.
type play func(ctx context.Context, stores []*storage.Store, seed uint64, folder string) error

// turns is the number of calls of each player. Checking a history can take a time exponential in its size.
const turns = 50

func plays() map[string]play {
	return map[string]play{"blobs": playBlobs, "commits": playCommits, "rows": playRows, "queue": playQueue}
}

// A player is one client in a play.
type player struct {
	*rand.Rand
	n      int // its number
	store  *storage.Store
	steady bool          // its calls are not disturbed
	last   time.Duration // how long its last call took
}

// together runs a player for each store concurrently.
func together(stores []*storage.Store, seed uint64, plays func(p *player)) {
	crowd(len(stores), func(n int) {
		p := &player{Rand: rand.New(rand.NewPCG(seed, uint64(n))), n: n}
		seeded := Seeded(seed+uint64(n), map[Fault]float64{FailBefore: 0.02, FailAfter: 0.03})
		p.store, _ = Disturb(stores[n], Disturbance{Schedule: func(op Op) Fault {
			if p.steady {
				return NoFault
			}
			return seeded(op)
		}})
		plays(p)
	})
}

// call makes a call, and sometimes gives it up at about the time of its end. It returns the kind of the call's
// error: "ok" for none, "" for an unknown outcome.
func (p *player) call(ctx context.Context, do func(ctx context.Context) error) string {
	if !p.steady && p.IntN(15) == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, rand.N(2*p.last+1))
		defer cancel()
	}
	begin := time.Now()
	err := do(ctx)
	p.last = time.Since(begin)
	if err == nil {
		return "ok"
	}
	for _, kind := range []error{storage.ErrNotFound, storage.ErrNotModified, storage.ErrExists, storage.ErrPrecondition, storage.ErrReceiptStale} {
		if errors.Is(err, kind) {
			return kind.Error()
		}
	}
	for _, kind := range []error{storage.ErrUnavailable, storage.ErrThrottled, context.DeadlineExceeded} {
		if errors.Is(err, kind) {
			return ""
		}
	}
	return err.Error() // no model allows it
}
