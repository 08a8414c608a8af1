package values_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/values"
)

// thing is an event that can hold values that can't be encoded.
type thing struct{ X any }

func (thing) Kind() channel.Kind { return "test.added.v1" }

// stray is an event without a route.
type stray struct{}

func (stray) Kind() channel.Kind { return "test.stray.v1" }

// explosive panics when it is encoded.
type explosive struct{}

func (explosive) MarshalJSON() ([]byte, error) { panic("boom") }

// twice encodes to an object that has a member twice.
type twice struct{}

func (twice) MarshalJSON() ([]byte, error) { return []byte(`{"a":1,"a":2}`), nil }

// bag is a value that can hold values that can't be encoded.
type bag map[string]any

// newSmall narrows the largest blob of a store.
func newSmall(s *storage.Store, max int) *storage.Store {
	return storagetest.WithProps(s, func(p *storage.Props) { p.MaxBlob = max })
}

// A message whose value or event can't be encoded, is too large or has no route fails alone, before anything is
// done. The other messages of the fold go through.
func TestBadContentFailsAlone(t *testing.T) {
	t.Parallel()
	for _, bad := range []struct {
		name   string
		value  any             // put into the document
		event  channel.Message // emitted
		within string          // of the error's text
	}{
		{"event can't be encoded", nil, thing{func() {}}, "func"},
		{"event panics", nil, thing{explosive{}}, "boom"},
		{"event isn't sound JSON", nil, thing{twice{}}, "duplicate"},
		{"event too large", nil, thing{strings.Repeat("x", channel.MaxData)}, "too large"},
		{"event without a route", nil, stray{}, "route"},
		{"no event", nil, nil, ""},
		{"value can't be encoded", func() {}, Added{}, "func"},
		{"value panics", explosive{}, Added{}, "boom"},
		{"value isn't sound JSON", twice{}, Added{}, "duplicate"},
		{"value too large", strings.Repeat("x", 5000), Added{}, "too large"},
	} {
		t.Run(bad.name, func(t *testing.T) {
			t.Parallel()
			worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
				if bad.event == nil || bad.value != nil {
					s = newSmall(s, 4000)
				}
				p := newProcess(t, s, values.Config[Account]{})
				bags := values.New(p.Channels, "bags", values.Config[bag]{Initial: func(string) bag { return bag{} }})
				for range 5 {
					p.send(newID(), Add{Amount: 1})
				}
				changes := make([]values.Change[bag], 0, 5)
				for i, c := range p.received(5) {
					changes = append(changes, values.Change[bag]{
						Envelope: c.Envelope,
						Fold: func(b bag) (bag, []channel.Message, error) {
							b[fmt.Sprint("n", i)] = 1
							if i != 2 {
								return b, []channel.Message{Added{Amount: i}}, nil
							}
							if bad.value != nil {
								b["bad"] = bad.value
							}
							return b, []channel.Message{Added{Amount: i}, bad.event}, nil
						},
					})
				}
				for i, err := range errsOf(bags.Apply(t.Context(), "k", changes, commitOf(s, changes))) {
					switch {
					case i != 2 && err != nil:
						t.Errorf("message %d: %v", i, err)
					case i == 2 && (err == nil || !strings.Contains(err.Error(), bad.within)):
						t.Errorf("bad message: got error %v, want one with %q", err, bad.within)
					}
				}
				d, err := bags.Get(t.Context(), "k", "")
				if err != nil {
					t.Fatal(err)
				}
				if len(d.Value) != 4 || d.Version != 4 || d.Value["n2"] != nil {
					t.Errorf("got %v, version %d; want the four others", d.Value, d.Version)
				}
				worldtest.Want(t, "events", len(idsOf(worldtest.Take(t, s, "totals"))), 4)
				worldtest.Want(t, "commands left", worldtest.Queued(t, s, "accounts"), 1)
			})
		})
	}
}

// A message that fails in a fold fails alone, whatever it did to the value before: to a map that it shares with the
// others, or to the document in memory.
func TestFailingFoldLeavesNoTrace(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		c := collectionOf(t, s, values.Config[noted]{Initial: func(string) noted { return noted{Notes: map[string]int{}} }})
		note := func(name string, fail func() error) values.Change[noted] {
			e := worldtest.Envelope(newID(), Add{})
			return values.Change[noted]{Envelope: &e, Fold: func(v noted) (noted, []channel.Message, error) {
				v.N++
				v.Notes[name]++
				delete(v.Notes, "precious")
				if fail != nil {
					return v, []channel.Message{Added{Note: name}}, fail()
				}
				v.Notes["precious"] = 1
				return v, []channel.Message{Added{Note: name}}, nil
			}}
		}
		apply := func(changes ...values.Change[noted]) []error { return errsOf(c.Apply(t.Context(), "k", changes, nil)) }
		refused := errors.New("refused")
		fails := func() error { return refused }
		panics := func() error { panic("scribbled") }
		check := func(want map[string]int) {
			t.Helper()
			d, err := c.Get(t.Context(), "k", "")
			if err != nil {
				t.Fatal(err)
			}
			if fmt.Sprint(d.Value.Notes) != fmt.Sprint(want) {
				t.Errorf("notes: got %v, want %v", d.Value.Notes, want)
			}
		}
		errs := apply(note("bad", fails), note("a", nil), note("bad", panics), note("b", nil), note("bad", fails))
		for i, err := range errs {
			if bad := i%2 == 0; bad != (err != nil) {
				t.Errorf("message %d: got error %v", i, err)
			}
		}
		worldtest.WantErr(t, errs[0], refused)
		check(map[string]int{"a": 1, "b": 1, "precious": 1})
		worldtest.WantErr(t, apply(note("bad", fails))[0], refused) // on the document that is in memory
		worldtest.WantErr(t, apply(note("c", nil))[0], nil)
		check(map[string]int{"a": 1, "b": 1, "c": 1, "precious": 1})
		worldtest.Want(t, "events", len(idsOf(worldtest.Take(t, s, "totals"))), 3)
	})
}

// One message several times in one batch is applied once; with other content it is refused.
func TestDuplicatesInOneBatch(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		p := newProcess(t, s, values.Config[Account]{})
		id := newID()
		for range 3 {
			p.send(id, Add{Amount: 1})
		}
		p.send(id, Add{Amount: 2})
		p.send("key", Add{Amount: 10})
		p.send("key", Add{Amount: 10})
		refused := 0
		changes := p.received(6)
		for _, err := range p.apply("k", changes...) {
			if err != nil {
				worldtest.WantErr(t, err, values.ErrContentDiffers)
				refused++
			}
		}
		if refused != 1 && refused != 3 {
			t.Errorf("refused: got %d, want 1 or 3, by what came first", refused)
		}
		if got := p.Balance("k"); got != 11 && got != 12 {
			t.Errorf("total: got %d, want 11 or 12", got)
		}
		worldtest.Want(t, "commands left", worldtest.Queued(t, s, "accounts"), refused)
		worldtest.Want(t, "events", len(worldtest.Take(t, s, "totals")), 2)
	})
}

// After a failure, with or without effect, the documents in memory are right.
func TestFailedCallsLeaveNoWrongMemory(t *testing.T) {
	t.Parallel()
	for _, effect := range []bool{false, true} {
		t.Run(fmt.Sprintf("effect=%v", effect), func(t *testing.T) {
			t.Parallel()
			worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
				names := []string{writing(s), "send", "get blob", "put row", "put rows", "query"}
				for _, name := range names {
					key := "k-" + strings.ReplaceAll(name, " ", "-")
					var armed atomic.Bool
					p := newProcess(t, storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
						if op.Name != name || !armed.CompareAndSwap(true, false) {
							return do()
						}
						if effect {
							do()
						}
						return op.Fail(storage.ErrUnavailable)
					}), values.Config[Account]{Window: 2})
					want := map[string]bool{}
					for i := range 20 {
						time.Sleep(time.Second)
						armed.Store(i%4 == 3)
						id := newID()
						err := p.apply(key, p.change(id, 1))[0]
						armed.Store(false)
						if i%2 == 1 && err != nil {
							p.applied(key, p.change(newID(), 1)) // another message first
							want[fmt.Sprint(i, "other")] = true
						}
						p.applied(key, p.change(id, 1))
						want[id] = true
						worldtest.Want(t, fmt.Sprintf("balance after failed %s", name), p.Balance(key), len(want))
					}
				}
			})
		})
	}
}

// A document that a process wrote last is not read again; the least used document is evicted.
func TestMemoryOfDocuments(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		var calls storagetest.Calls
		p := newProcess(t, storagetest.Intercept(s, calls.Hook), values.Config[Account]{Cache: 2})
		for range 5 {
			p.applied("a", p.change(newID(), 1))
			p.applied("b", p.change(newID(), 1))
		}
		worldtest.Want(t, "reads", calls.Count("get blob"), 2)
		p.applied("c", p.change(newID(), 1)) // a is evicted
		p.applied("b", p.change(newID(), 1))
		worldtest.Want(t, "reads", calls.Count("get blob"), 3)
		p.applied("a", p.change(newID(), 1))
		worldtest.Want(t, "reads", calls.Count("get blob"), 4)
		worldtest.Want(t, "balance of a", p.Balance("a"), 6)
		worldtest.Want(t, "balance of b", p.Balance("b"), 6)
	})
}

// Races are bounded: after MaxRaces repeats the messages are handed back, not applied.
func TestContended(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		rival := newProcess(t, s, values.Config[Account]{})
		tries := 0
		p := newProcess(t, storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
			if op.Name == writing(s) {
				tries++
				rival.applied("k", rival.change(newID(), 1))
			}
			return do()
		}), values.Config[Account]{MaxRaces: 3})
		c := p.change(newID(), 100)
		refused := errors.New("refused")
		bad := p.change(newID(), 1)
		bad.Fold = func(v Account) (Account, []channel.Message, error) { return v, nil, refused }
		commits := 0
		outs := p.Accounts.Apply(t.Context(), "k", []values.Change[Account]{bad, c}, func(ctx context.Context, work storage.Work, ends []int) (storage.ETag, []values.Ended, error) {
			if commits++; !slices.Equal(ends, []int{1}) {
				t.Errorf("commit %d ends the deliveries %v; want that of the other message alone", commits, ends)
			}
			_, err := p.Store.Commit(ctx, work)
			return "", nil, err
		})
		worldtest.WantErr(t, outs[1].Err, values.ErrContended)
		if outs[0].Err == nil || outs[0].Ended != values.StillThere || outs[1].Ended != values.StillThere {
			t.Errorf("got outcomes %+v; want an error for both, and no delivery ended", outs)
		}
		worldtest.Want(t, "tries", tries, 1+3)
		worldtest.Want(t, "commits", commits, 1+3)
		worldtest.Want(t, "balance", p.Balance("k"), 4)
	})
}

// The wait after a lost race ends with the caller's context.
func TestRaceEndsWithTheContext(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		rival := newProcess(t, s, values.Config[Account]{})
		ctx, cancel := context.WithCancelCause(t.Context())
		stop := errors.New("stop")
		p := newProcess(t, storagetest.Intercept(s, once(writing(s), func(_ storagetest.Op, do func() error) error {
			rival.applied("k", rival.change(newID(), 1))
			err := do()
			cancel(stop)
			return err
		})), values.Config[Account]{})
		worldtest.WantErr(t, p.Accounts.Apply(ctx, "k", []values.Change[Account]{p.change(newID(), 1)}, nil)[0].Err, stop)
		worldtest.Want(t, "balance", p.Balance("k"), 1)
	})
}

// A document that can't be read fails its messages and is left as it is.
func TestUnreadableDocument(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := worldtest.OpenStore(t, worldtest.Virtual)
		p := newProcess(t, s, values.Config[Account]{})
		for _, body := range []string{"", "x", `{"value":5}`, `{"value":{},"applied":"AAAA"}`, `{"value":{},"pending":[{"message":"AA"}]}`, `{"version":-1,"value":{}}`, `{"version":1}`} {
			if _, err := s.Blobs("accounts").Put(t.Context(), "k", []byte(body), storage.Condition{}); err != nil {
				t.Fatal(err)
			}
			if err := p.apply("k", p.change(newID(), 1))[0]; err == nil {
				t.Errorf("document %q: got no error", body)
			}
			if _, err := p.Accounts.Get(t.Context(), "k", ""); err == nil {
				t.Errorf("document %q: Get: got no error", body)
			}
			b, err := s.Blobs("accounts").Get(t.Context(), "k", "")
			if err != nil || string(b.Body) != body {
				t.Errorf("document %q became %q, %v", body, b.Body, err)
			}
		}
	})
}
