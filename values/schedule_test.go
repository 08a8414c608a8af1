package values_test

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/values"
)

// Random schedules have messages with wrong clocks and keys, each sent up to three times, and large and small events.
// Several processes are restarted. Calls fail before or after their effect, and time passes. In the end each message
// counts once, and its event was sent, always the same.
func TestRandomSchedules(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) { schedule(t, s, rand.New(rand.NewPCG(seed, 7))) })
		})
	}
}

// A dice gives the same result for the nth call of an operation on a resource, whatever else runs at the same time.
type dice struct {
	seed uint64
	mu   sync.Mutex
	n    map[string]uint64
}

func (d *dice) throw(op storagetest.Op) float64 {
	what := op.Name + " " + op.Resource
	d.mu.Lock()
	d.n[what]++
	n := d.n[what]
	d.mu.Unlock()
	h := fnv.New64a()
	h.Write([]byte(what))
	return rand.New(rand.NewPCG(d.seed^h.Sum64(), n)).Float64()
}

func schedule(t *testing.T, s *storage.Store, r *rand.Rand) {
	const messages, keys = 60, 2
	cfg := values.Config[Account]{Window: 3, Cache: 1 + r.IntN(3), PendingAfter: time.Minute}
	trouble := 0.15
	faulty := func() *process {
		d := &dice{seed: r.Uint64(), n: map[string]uint64{}}
		return newProcess(t, storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
			switch x := d.throw(op); {
			case x < trouble/2:
				return op.Fail(storage.ErrUnavailable)
			case x < trouble:
				do()
				return op.Fail(storage.ErrUnavailable)
			}
			return do()
		}), cfg)
	}
	processes := []*process{faulty(), faulty(), faulty()}
	healthy := newProcess(t, s, cfg)
	note := map[string]string{} // of the event, by its ID
	keyOf := func(id string) string { return fmt.Sprintf("k-%d", len(id)*7%5+int(id[len(id)-1])%keys) }
	want := map[string]int{}
	var all []string
	for i := range messages {
		id := worldtest.IDAt(time.Now().Add(time.Duration(r.IntN(41)-20)*24*time.Hour), i)
		if r.IntN(5) == 0 {
			id = fmt.Sprintf("key-%d", i)
		}
		all = append(all, id)
		m := Add{Amount: i, Note: fmt.Sprint(i)}
		if r.IntN(10) == 0 {
			m.Note = fmt.Sprintf("%020000d", i)
		}
		want[keyOf(id)] += i
		note[eventID(keyOf(id), id)] = m.Note
		for range 1 + r.IntN(3) {
			healthy.send(id, m)
		}
	}
	seen := map[string]uint64{}
	sequences := map[string]string{}
	collect := func() {
		for _, e := range worldtest.Take(t, s, "totals") {
			var m Added
			if err := json.Unmarshal(e.Data, &m); err != nil || m.Note != note[e.ID] {
				t.Errorf("event %s: got another note than its message's, error %v", e.ID, err)
			}
			if old, ok := seen[e.ID]; ok && old != e.Sequence {
				t.Errorf("event %s has sequences %d and %d", e.ID, old, e.Sequence)
			}
			at := fmt.Sprint(e.Source, e.Sequence)
			if old, ok := sequences[at]; ok && old != e.ID {
				t.Errorf("events %s and %s are both number %s", old, e.ID, at)
			}
			seen[e.ID], sequences[at] = e.Sequence, e.ID
		}
	}
	for round := 0; worldtest.Queued(t, s, "accounts") > 0; round++ {
		if round > 300 {
			trouble = 0
		}
		if round > 1000 {
			t.Fatal("it doesn't end")
		}
		if r.IntN(5) == 0 {
			processes[r.IntN(3)] = faulty()
		}
		ds, err := healthy.receive(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		r.Shuffle(len(ds), func(i, j int) { ds[i], ds[j] = ds[j], ds[i] })
		if r.IntN(3) == 0 {
			time.Sleep(time.Duration(r.IntN(90)) * time.Second) // some receipts are stale now
		}
		for len(ds) > 0 {
			n := 1 + r.IntN(min(8, len(ds)))
			batch := map[string][]values.Change[Account]{}
			for _, c := range ds[:n] {
				k := keyOf(c.Envelope.ID)
				batch[k] = append(batch[k], c)
			}
			ds = ds[n:]
			p := processes[r.IntN(3)]
			for k, changes := range batch {
				p.apply(k, changes...)
			}
		}
		collect()
		time.Sleep(time.Duration(r.IntN(60)) * time.Second)
	}
	trouble = 0
	for _, id := range all { // late copies of everything
		e := worldtest.Envelope(id, Add{})
		e.Kind = "test.other.v1"
		worldtest.WantErr(t, healthy.apply(keyOf(id), healthy.changeOf(&e))[0], values.ErrContentDiffers)
	}
	time.Sleep(10 * time.Minute)
	for k := range want { // the next writer sends the pending events
		p := newProcess(t, s, cfg)
		id := newID()
		e := worldtest.Envelope(id, Add{})
		note[eventID(k, id)] = ""
		p.applied(k, p.changeOf(&e))
	}
	collect()
	for id := range note {
		if _, ok := seen[id]; !ok {
			t.Errorf("event %s was never sent", id)
		}
	}
	worldtest.Want(t, "distinct events", len(seen), len(note))
	for k, n := range want {
		worldtest.Want(t, "balance of "+k, healthy.Balance(k), n)
	}
}
