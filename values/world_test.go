package values_test

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/values"
)

// The domain is the one of worldtest.

type (
	Add     = worldtest.Add
	Added   = worldtest.Added
	Account = worldtest.Account
)

// process is one process of the test: its link to the store, and a collection with its own cache.
type process struct {
	*worldtest.World
	t     testing.TB
	folds atomic.Int64 // how often a Fold was called
}

func newProcess(t testing.TB, s *storage.Store, cfg values.Config[Account]) *process {
	t.Helper()
	return &process{World: worldtest.New(t, s, worldtest.Config{Accounts: cfg}), t: t}
}

var ids atomic.Int64

// newID is a UUIDv7 of now.
func newID() string { return worldtest.IDAt(time.Now(), int(ids.Add(1))) }

// change is a message that adds n and emits an event.
func (p *process) change(id string, n int) values.Change[Account] {
	p.t.Helper()
	e := worldtest.Envelope(id, Add{Amount: n})
	return p.changeOf(&e)
}

func (p *process) changeOf(e *channel.Envelope) values.Change[Account] {
	return values.Change[Account]{Envelope: e, Fold: func(v Account) (Account, []channel.Message, error) {
		p.folds.Add(1)
		var m Add
		if err := json.Unmarshal(e.Data, &m); err != nil {
			return v, nil, err
		}
		return v.Add(m)
	}}
}

// apply ends the deliveries of the changes that were received, and returns the changes' errors.
func (p *process) apply(key string, changes ...values.Change[Account]) []error {
	return errsOf(p.outcomes(key, changes...))
}

func (p *process) outcomes(key string, changes ...values.Change[Account]) []values.Outcome {
	return p.Accounts.Apply(p.t.Context(), key, changes, commitOf(p.Store, changes))
}

// receipts are those of the messages that tests have received, by their envelopes.
var receipts sync.Map // *channel.Envelope to storage.Receipt

// commitOf returns what a worker supplies: it deletes the messages that were received. Without any there is no commit.
func commitOf[V any](s *storage.Store, changes []values.Change[V]) values.Commit {
	claims, received := make([]storage.Claim, len(changes)), 0
	for i, c := range changes {
		if r, ok := receipts.Load(c.Envelope); ok {
			claims[i] = storage.Claim{Queue: "accounts", Receipt: r.(storage.Receipt)}
			received++
		}
	}
	switch received {
	case 0:
		return nil
	case len(changes):
		return worldtest.Commit(s, claims)
	}
	panic("a batch of changes with and without deliveries")
}

func errsOf(outs []values.Outcome) []error {
	errs := make([]error, len(outs))
	for i, o := range outs {
		errs[i] = o.Err
	}
	return errs
}

// applied demands that all changes succeed.
func (p *process) applied(key string, changes ...values.Change[Account]) {
	p.t.Helper()
	for i, err := range p.apply(key, changes...) {
		if err != nil {
			p.t.Fatalf("change %d of %d: %v", i+1, len(changes), err)
		}
	}
}

// send puts a message into the queue of commands.
func (p *process) send(id string, m Add) {
	p.t.Helper()
	e := worldtest.Envelope(id, m)
	body, err := e.Encode()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := p.Store.Queue("accounts").Send(p.t.Context(), []storage.Message{{Body: body}}); err != nil {
		p.t.Fatal(err)
	}
}

const visibility = 30 * time.Second

// receive takes commands as changes that end their deliveries.
func (p *process) receive(ctx context.Context) ([]values.Change[Account], error) {
	ds, err := p.Store.Queue("accounts").Receive(ctx, 100, visibility)
	if err != nil {
		return nil, err
	}
	changes := make([]values.Change[Account], len(ds))
	for i, d := range ds {
		e, err := wire.Decode(d.Body)
		if err != nil {
			p.t.Fatal(err)
		}
		changes[i] = p.changeOf(&e)
		receipts.Store(&e, d.Receipt)
	}
	return changes, nil
}

func (p *process) received(want int) []values.Change[Account] {
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

// idsOf returns the distinct IDs, with how often each came.
func idsOf(es []channel.Envelope) map[string]int {
	m := map[string]int{}
	for _, e := range es {
		m[e.ID]++
	}
	return m
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
	b, err := s.Blobs("accounts").Get(t.Context(), key, "")
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
	for _, err := range s.Table("accounts-applied").Query(t.Context(), key, storage.RowRange{}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
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
func eventID(key, id string) string { return channel.DerivedID(id, "event", "/accounts/"+key, "0") }
