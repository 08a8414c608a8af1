package ids_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"

	"github.com/millrace-go/millrace/coord/ids"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/azure"
	"github.com/millrace-go/millrace/storage/azure/azuretest"
	"github.com/millrace-go/millrace/storage/sqlite"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// A counterCall is a call on a counter's document.
type counterCall struct {
	op   string // "read", "reserve", "give back" or "raise"
	id   string // no two calls have the same
	n    int64  // the size of a reservation, the next number after giving back, the number to raise past
	etag storage.ETag
}

type counterAnswer struct {
	next  int64 // that was read, or the first of a reservation
	etag  storage.ETag
	given bool
}

type counterState struct {
	next int64 // 0: there is no document
	etag storage.ETag
}

// counterStep is the model: a register whose writes add to it, raise it, or lower it if it is the writer's own.
func counterStep(s counterState, a storagetest.Answer[counterCall, counterAnswer]) []counterState {
	reserved := counterState{max(s.next, 1) + a.In.n, a.Out.etag}
	raised := s
	if s.next <= a.In.n {
		raised = counterState{a.In.n + 1, storage.ETag(a.In.id)}
	}
	given := s
	if s.etag == a.In.etag {
		given = counterState{a.In.n, storage.ETag(a.In.id)}
	}
	switch a.In.op {
	case "reserve":
		if a.Unknown {
			reserved.etag = storage.ETag(a.In.id)
			return []counterState{s, reserved}
		}
		if a.Out.next == max(s.next, 1) {
			return []counterState{reserved}
		}
	case "raise":
		if a.Unknown {
			return []counterState{s, raised}
		}
		return []counterState{raised}
	case "give back":
		if a.Unknown {
			return []counterState{s, given}
		}
		if a.Out.given == (s.etag == a.In.etag) {
			return []counterState{given}
		}
	case "read":
		if a.Out.next == s.next {
			return []counterState{s}
		}
	}
	return nil
}

func TestHistoryOnSQLite(t *testing.T) {
	t.Parallel()
	for seed := range storagetest.Seeds(t, 0, 6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "test.db") + "?wake=off&sync=normal"
			playCounter(t, seed, func() (*storage.Store, error) { return sqlite.Open(t.Context(), path) })
		})
	}
}

func TestHistoryOnAzure(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			place := azuretest.Place(t, azurite, azure.Wipe)
			playCounter(t, seed, func() (*storage.Store, error) { return azure.Open(t.Context(), place) })
		})
	}
}

// playCounter lets four clients, each with a store of its own, make calls. Some calls fail, before their effect or
// after it.
func playCounter(t *testing.T, seed uint64, open func() (*storage.Store, error)) {
	var (
		h       storagetest.History[counterCall, counterAnswer]
		clients sync.WaitGroup
	)
	for client := range 4 {
		s, err := open()
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		r := rand.New(rand.NewPCG(seed, uint64(client)))
		flaky := storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
			switch r.IntN(20) {
			case 0:
				return op.Fail(storage.ErrUnavailable)
			case 1:
				_ = do()
				return op.Fail(storage.ErrUnavailable)
			}
			return do()
		})
		clients.Go(func() {
			p := counterPlayer{Rand: r, store: flaky, doc: ids.NewDoc(flaky, name)}
			for i := range 40 {
				in := p.choose(fmt.Sprintf("%d-%d", client, i))
				h.Record(client, func() []storagetest.Answer[counterCall, counterAnswer] {
					out, err := p.call(t.Context(), in)
					if err != nil && (in.op == "read" || storage.LostRace(err)) {
						return nil // without effect
					}
					return []storagetest.Answer[counterCall, counterAnswer]{{Key: name, In: in, Out: out, Unknown: err != nil}}
				})
			}
		})
	}
	clients.Wait()
	if err := storagetest.CheckHistory(&h, counterStep, t.TempDir()); err != nil {
		t.Error(err)
	}
}

type counterPlayer struct {
	*rand.Rand
	store *storage.Store
	doc   ids.Doc
	first int64 // of the newest reservation
	etag  storage.ETag
}

func (p *counterPlayer) choose(id string) counterCall {
	switch dice := p.IntN(10); {
	case dice < 2:
		return counterCall{op: "read", id: id}
	case dice < 3:
		return counterCall{op: "raise", id: id, n: p.first + p.Int64N(40)}
	case dice < 6 && p.etag != "":
		return counterCall{op: "give back", id: id, n: p.first + p.Int64N(5), etag: p.etag}
	}
	return counterCall{op: "reserve", id: id, n: 5 + p.Int64N(10)}
}

func (p *counterPlayer) call(ctx context.Context, in counterCall) (out counterAnswer, err error) {
	switch in.op {
	case "read":
		out.next, err = p.doc.Read(ctx)
	case "reserve":
		if out.next, out.etag, err = p.doc.Reserve(ctx, in.n); err == nil {
			p.first, p.etag = out.next, out.etag
		}
	case "raise":
		err = ids.Raise(ctx, p.store, name, in.n)
	case "give back":
		out.given, err = p.doc.GiveBack(ctx, in.n, in.etag)
	}
	return out, err
}
