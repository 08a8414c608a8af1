package values_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/sqlite"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/values"
)

// The tests' domain: a sum that numbers are added to, each with an event.

type sum struct {
	Total int            `json:"total"`
	Notes map[string]int `json:"notes,omitempty"`
}

type plus struct {
	N    int    `json:"n"`
	Note string `json:"note,omitempty"`
}

func (plus) Kind() channel.Kind { return "test.plus.v1" }

type summed struct {
	N    int    `json:"n"`
	Note string `json:"note,omitempty"`
}

func (summed) Kind() channel.Kind { return "test.summed.v1" }

// onEachStore runs a test in virtual time, on a store whose Commit is atomic and on one that commits step by step.
func onEachStore(t *testing.T, test func(t *testing.T, s *storage.Store)) {
	t.Helper()
	t.Run("atomic", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) { test(t, open(t)) })
	})
	t.Run("plain", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) { test(t, storagetest.Plain(open(t))) })
	})
}

func open(t testing.TB) *storage.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "test.db")+"?wake=off&sync=normal")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// process is one process of the test: its link to the store, and a collection with its own cache.
type process struct {
	t     testing.TB
	store *storage.Store
	sums  *values.Collection[sum]
	folds atomic.Int64 // how often a Fold was called
}

func newProcess(t testing.TB, s *storage.Store, cfg values.Config[sum]) *process {
	t.Helper()
	routes, err := channel.NewRoutes(channel.Command[plus]("commands"), channel.Event[summed]("listeners", "others"))
	if err != nil {
		t.Fatal(err)
	}
	channels, err := channel.New(s, routes, "/test")
	if err != nil {
		t.Fatal(err)
	}
	return &process{t: t, store: s, sums: values.New(channels, "sums", cfg)}
}

// idAt is a UUIDv7 of a time.
func idAt(at time.Time, n int) string {
	ms := fmt.Sprintf("%012x", at.UnixMilli())
	return fmt.Sprintf("%s-%s-7000-8000-%012x", ms[:8], ms[8:], n)
}

var ids atomic.Int64

// newID is a UUIDv7 of now.
func newID() string { return idAt(time.Now(), int(ids.Add(1))) }

func envelope(t testing.TB, id string, m plus) channel.Envelope {
	t.Helper()
	data, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return channel.Envelope{ID: id, Source: "/test", Kind: m.Kind(), Time: time.Now(), Data: data}
}

// change is a message that adds n and emits an event.
func (p *process) change(id string, n int) values.Change[sum] {
	p.t.Helper()
	e := envelope(p.t, id, plus{N: n})
	return p.changeOf(&e)
}

func (p *process) changeOf(e *channel.Envelope) values.Change[sum] {
	return values.Change[sum]{Envelope: e, Fold: func(v sum) (sum, []channel.Message, error) {
		p.folds.Add(1)
		var m plus
		if err := json.Unmarshal(e.Data, &m); err != nil {
			return v, nil, err
		}
		v.Total += m.N
		return v, []channel.Message{summed(m)}, nil
	}}
}

// apply ends the deliveries of the changes that were received, and returns the changes' errors.
func (p *process) apply(key string, changes ...values.Change[sum]) []error {
	return errsOf(p.outcomes(key, changes...))
}

func (p *process) outcomes(key string, changes ...values.Change[sum]) []values.Outcome {
	return p.sums.Apply(p.t.Context(), key, changes, commitOf(p.store, changes))
}

// receipts are those of the messages that tests have received, by their envelopes.
var receipts sync.Map // *channel.Envelope to storage.Receipt

// commitOf returns what a worker supplies: it deletes the messages that were received. Without any there is no commit.
func commitOf[V any](s *storage.Store, changes []values.Change[V]) values.Commit {
	received := func(c values.Change[V]) bool { _, ok := receipts.Load(c.Envelope); return ok }
	if !slices.ContainsFunc(changes, received) {
		return nil
	}
	return func(ctx context.Context, work storage.Work, ends []int) (storage.ETag, []values.Ended, error) {
		for _, i := range ends {
			r, ok := receipts.Load(changes[i].Envelope)
			if !ok {
				panic("a batch of changes with and without deliveries")
			}
			work.Delete = append(work.Delete, storage.Claim{Queue: "commands", Receipt: r.(storage.Receipt)})
		}
		done, err := s.Commit(ctx, work)
		ended := make([]values.Ended, len(ends))
		for i, claim := range work.Delete {
			ended[i] = values.Deleted
			if slices.Contains(done.Stale, claim) {
				ended[i] = values.Stale
			}
		}
		return done.ETag, ended, err
	}
}

func errsOf(outs []values.Outcome) []error {
	errs := make([]error, len(outs))
	for i, o := range outs {
		errs[i] = o.Err
	}
	return errs
}

// applied demands that all changes succeed.
func (p *process) applied(key string, changes ...values.Change[sum]) {
	p.t.Helper()
	for i, err := range p.apply(key, changes...) {
		if err != nil {
			p.t.Fatalf("change %d of %d: %v", i+1, len(changes), err)
		}
	}
}

// send puts a message into the queue of commands.
func (p *process) send(id string, m plus) {
	p.t.Helper()
	e := envelope(p.t, id, m)
	body, err := e.Encode()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := p.store.Queue("commands").Send(p.t.Context(), []storage.Message{{Body: body}}); err != nil {
		p.t.Fatal(err)
	}
}

const visibility = 30 * time.Second

// receive takes commands as changes that end their deliveries.
func (p *process) receive(ctx context.Context) ([]values.Change[sum], error) {
	ds, err := p.store.Queue("commands").Receive(ctx, 100, visibility)
	if err != nil {
		return nil, err
	}
	changes := make([]values.Change[sum], len(ds))
	for i, d := range ds {
		e, err := channel.Decode(d.Body)
		if err != nil {
			p.t.Fatal(err)
		}
		changes[i] = p.changeOf(&e)
		receipts.Store(&e, d.Receipt)
	}
	return changes, nil
}

func (p *process) received(want int) []values.Change[sum] {
	p.t.Helper()
	changes, err := p.receive(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	if len(changes) != want {
		p.t.Fatalf("received: got %d messages, want %d", len(changes), want)
	}
	return changes
}

// events takes all events from a listener's queue.
func events(t testing.TB, s *storage.Store, queue string) []channel.Envelope {
	t.Helper()
	var all []channel.Envelope
	for {
		ds, err := s.Queue(queue).Receive(t.Context(), 100, visibility)
		if err != nil {
			t.Fatal(err)
		}
		if len(ds) == 0 {
			return all
		}
		var done []storage.Receipt
		for _, d := range ds {
			e, err := channel.Decode(d.Body)
			if err != nil {
				t.Fatal(err)
			}
			all, done = append(all, e), append(done, d.Receipt)
		}
		if err := s.Queue(queue).Delete(t.Context(), done); err != nil {
			t.Fatal(err)
		}
	}
}

// idsOf returns the distinct IDs, with how often each came.
func idsOf(es []channel.Envelope) map[string]int {
	m := map[string]int{}
	for _, e := range es {
		m[e.ID]++
	}
	return m
}

func total(t testing.TB, c *values.Collection[sum], key string) int {
	t.Helper()
	d, err := c.Get(t.Context(), key, "")
	if err != nil {
		t.Fatal(err)
	}
	return d.Value.Total
}

// record is the part of a stored document that the tests check.
type record struct {
	Version   int    `json:"version"`
	Applied   []byte `json:"applied"`
	Watermark int64  `json:"watermark"`
	Left      bool   `json:"left"`
	Pending   []struct {
		Events []json.RawMessage `json:"events"`
	} `json:"pending"`
	size int
}

const entrySize = 24

func stored(t testing.TB, s *storage.Store, key string) record {
	t.Helper()
	b, err := s.Blobs("sums").Get(t.Context(), key, "")
	if err != nil {
		t.Fatal(err)
	}
	r := record{size: len(b.Body)}
	if err := json.Unmarshal(b.Body, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

func rows(t testing.TB, s *storage.Store, key string) int {
	t.Helper()
	n := 0
	for _, err := range s.Table("sums-applied").Query(t.Context(), key, storage.RowRange{}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

// queued counts what a queue holds, visible or not.
func queued(t testing.TB, s *storage.Store, queue string) int {
	t.Helper()
	st, err := s.Queue(queue).Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return int(st.Ready + st.InFlight + st.Delayed)
}

func wantErr(t testing.TB, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("got error %v, want %v", got, want)
	}
}

func wantInt(t testing.TB, what string, got, want int) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %d, want %d", what, got, want)
	}
}

// once makes a hook that does f instead of the first call of a name, and lets all others pass.
func once(name string, f func(op storagetest.Op, do func() error) error) storagetest.Hook {
	var done atomic.Bool
	return func(_ context.Context, op storagetest.Op, do func() error) error {
		if op.Name == name && done.CompareAndSwap(false, true) {
			return f(op, do)
		}
		return do()
	}
}

// writing is the name of the call that writes a document.
func writing(s *storage.Store) string {
	if s.Atomic() {
		return "commit"
	}
	return "put blob"
}

// everyOther makes a hook that loses the answer of every second call of a name.
func everyOther(name string) storagetest.Hook {
	var n atomic.Int64
	return func(_ context.Context, op storagetest.Op, do func() error) error {
		err := do()
		if op.Name == name && n.Add(1)%2 == 0 {
			return op.Fail(storage.ErrUnavailable)
		}
		return err
	}
}

// eventID is the ID of the first event that a message brings about at the document of a key.
func eventID(key, id string) string { return channel.DerivedID(id, "event", "/sums/"+key, "0") }
