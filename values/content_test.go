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
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/values"
)

// thing is an event that can hold values that can't be encoded.
type thing struct{ X any }

func (thing) Kind() channel.Kind { return "test.summed.v1" }

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
		{"value can't be encoded", func() {}, summed{}, "func"},
		{"value panics", explosive{}, summed{}, "boom"},
		{"value isn't sound JSON", twice{}, summed{}, "duplicate"},
		{"value too large", strings.Repeat("x", 5000), summed{}, "too large"},
	} {
		t.Run(bad.name, func(t *testing.T) {
			t.Parallel()
			onEachStore(t, func(t *testing.T, s *storage.Store) {
				if bad.event == nil || bad.value != nil {
					s = newSmall(s, 4000)
				}
				p := newProcess(t, s, values.Config[sum]{})
				routes, err := channel.NewRoutes(channel.Event[summed]("listeners"))
				if err != nil {
					t.Fatal(err)
				}
				channels, err := channel.New(s, routes, "/test")
				if err != nil {
					t.Fatal(err)
				}
				bags := values.New(channels, "bags", values.Config[bag]{Initial: func(string) bag { return bag{} }})
				for range 5 {
					p.send(newID(), plus{N: 1})
				}
				changes := make([]values.Change[bag], 0, 5)
				for i, c := range p.received(5) {
					changes = append(changes, values.Change[bag]{
						Envelope: c.Envelope,
						Fold: func(b bag) (bag, []channel.Message, error) {
							b[fmt.Sprint("n", i)] = 1
							if i != 2 {
								return b, []channel.Message{summed{N: i}}, nil
							}
							if bad.value != nil {
								b["bad"] = bad.value
							}
							return b, []channel.Message{summed{N: i}, bad.event}, nil
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
				wantInt(t, "events", len(idsOf(events(t, s, "listeners"))), 4)
				wantInt(t, "commands left", queued(t, s, "commands"), 1)
			})
		})
	}
}

// A message that fails in a fold fails alone, whatever it did to the value before: to a map that it shares with the
// others, or to the document in memory.
func TestFailingFoldLeavesNoTrace(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, s *storage.Store) {
		p := newProcess(t, s, values.Config[sum]{Initial: func(string) sum { return sum{Notes: map[string]int{}} }})
		note := func(name string, fail func() error) values.Change[sum] {
			c := p.change(newID(), 0)
			c.Fold = func(v sum) (sum, []channel.Message, error) {
				v.Total++
				v.Notes[name]++
				delete(v.Notes, "precious")
				if fail != nil {
					return v, []channel.Message{summed{Note: name}}, fail()
				}
				v.Notes["precious"] = 1
				return v, []channel.Message{summed{Note: name}}, nil
			}
			return c
		}
		refused := errors.New("refused")
		fails := func() error { return refused }
		panics := func() error { panic("scribbled") }
		check := func(want map[string]int) {
			t.Helper()
			d, err := p.sums.Get(t.Context(), "k", "")
			if err != nil {
				t.Fatal(err)
			}
			if fmt.Sprint(d.Value.Notes) != fmt.Sprint(want) {
				t.Errorf("notes: got %v, want %v", d.Value.Notes, want)
			}
		}
		errs := p.apply("k", note("bad", fails), note("a", nil), note("bad", panics), note("b", nil), note("bad", fails))
		for i, err := range errs {
			if bad := i%2 == 0; bad != (err != nil) {
				t.Errorf("message %d: got error %v", i, err)
			}
		}
		wantErr(t, errs[0], refused)
		check(map[string]int{"a": 1, "b": 1, "precious": 1})
		wantErr(t, p.apply("k", note("bad", fails))[0], refused) // on the document that is in memory
		p.applied("k", note("c", nil))
		check(map[string]int{"a": 1, "b": 1, "c": 1, "precious": 1})
		wantInt(t, "events", len(idsOf(events(t, s, "listeners"))), 3)
	})
}

// One message several times in one batch is applied once; with other content it is refused.
func TestDuplicatesInOneBatch(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, s *storage.Store) {
		p := newProcess(t, s, values.Config[sum]{})
		id := newID()
		for range 3 {
			p.send(id, plus{N: 1})
		}
		p.send(id, plus{N: 2})
		p.send("key", plus{N: 10})
		p.send("key", plus{N: 10})
		refused := 0
		changes := p.received(6)
		for _, err := range p.apply("k", changes...) {
			if err != nil {
				wantErr(t, err, values.ErrContentDiffers)
				refused++
			}
		}
		if refused != 1 && refused != 3 {
			t.Errorf("refused: got %d, want 1 or 3, by what came first", refused)
		}
		if got := total(t, p.sums, "k"); got != 11 && got != 12 {
			t.Errorf("total: got %d, want 11 or 12", got)
		}
		wantInt(t, "commands left", queued(t, s, "commands"), refused)
		wantInt(t, "events", len(events(t, s, "listeners")), 2)
	})
}

// After a failure, with or without effect, the documents in memory are right.
func TestFailedCallsLeaveNoWrongMemory(t *testing.T) {
	t.Parallel()
	for _, effect := range []bool{false, true} {
		t.Run(fmt.Sprintf("effect=%v", effect), func(t *testing.T) {
			t.Parallel()
			onEachStore(t, func(t *testing.T, s *storage.Store) {
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
					}), values.Config[sum]{Window: 2})
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
						wantInt(t, fmt.Sprintf("total after failed %s", name), total(t, p.sums, key), len(want))
					}
				}
			})
		})
	}
}

// A document that a process wrote last is not read again; the least used document is evicted.
func TestMemoryOfDocuments(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, s *storage.Store) {
		var calls storagetest.Calls
		p := newProcess(t, storagetest.Intercept(s, calls.Hook), values.Config[sum]{Cache: 2})
		for range 5 {
			p.applied("a", p.change(newID(), 1))
			p.applied("b", p.change(newID(), 1))
		}
		wantInt(t, "reads", calls.Count("get blob"), 2)
		p.applied("c", p.change(newID(), 1)) // a is evicted
		p.applied("b", p.change(newID(), 1))
		wantInt(t, "reads", calls.Count("get blob"), 3)
		p.applied("a", p.change(newID(), 1))
		wantInt(t, "reads", calls.Count("get blob"), 4)
		wantInt(t, "total of a", total(t, p.sums, "a"), 6)
		wantInt(t, "total of b", total(t, p.sums, "b"), 6)
	})
}

// Races are bounded: after MaxRaces repeats the messages are handed back, not applied.
func TestContended(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, s *storage.Store) {
		rival := newProcess(t, s, values.Config[sum]{})
		tries := 0
		p := newProcess(t, storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
			if op.Name == writing(s) {
				tries++
				rival.applied("k", rival.change(newID(), 1))
			}
			return do()
		}), values.Config[sum]{MaxRaces: 3})
		c := p.change(newID(), 100)
		refused := errors.New("refused")
		bad := p.change(newID(), 1)
		bad.Fold = func(v sum) (sum, []channel.Message, error) { return v, nil, refused }
		commits := 0
		outs := p.sums.Apply(t.Context(), "k", []values.Change[sum]{bad, c}, func(ctx context.Context, work storage.Work, ends []int) (storage.ETag, []values.Ended, error) {
			if commits++; !slices.Equal(ends, []int{1}) {
				t.Errorf("commit %d ends the deliveries %v; want that of the other message alone", commits, ends)
			}
			_, err := p.store.Commit(ctx, work)
			return "", nil, err
		})
		wantErr(t, outs[1].Err, values.ErrContended)
		if outs[0].Err == nil || outs[0].Ended != values.StillThere || outs[1].Ended != values.StillThere {
			t.Errorf("got outcomes %+v; want an error for both, and no delivery ended", outs)
		}
		wantInt(t, "tries", tries, 1+3)
		wantInt(t, "commits", commits, 1+3)
		wantInt(t, "total", total(t, p.sums, "k"), 4)
	})
}

// The wait after a lost race ends with the caller's context.
func TestRaceEndsWithTheContext(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, s *storage.Store) {
		rival := newProcess(t, s, values.Config[sum]{})
		ctx, cancel := context.WithCancelCause(t.Context())
		stop := errors.New("stop")
		p := newProcess(t, storagetest.Intercept(s, once(writing(s), func(_ storagetest.Op, do func() error) error {
			rival.applied("k", rival.change(newID(), 1))
			err := do()
			cancel(stop)
			return err
		})), values.Config[sum]{})
		wantErr(t, p.sums.Apply(ctx, "k", []values.Change[sum]{p.change(newID(), 1)}, nil)[0].Err, stop)
		wantInt(t, "total", total(t, p.sums, "k"), 1)
	})
}

// A document that can't be read fails its messages and is left as it is.
func TestUnreadableDocument(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		p := newProcess(t, s, values.Config[sum]{})
		for _, body := range []string{"", "x", `{"value":5}`, `{"value":{},"applied":"AAAA"}`, `{"value":{},"pending":[{"message":"AA"}]}`, `{"version":-1,"value":{}}`, `{"version":1}`} {
			if _, err := s.Blobs("sums").Put(t.Context(), "k", []byte(body), storage.Condition{}); err != nil {
				t.Fatal(err)
			}
			if err := p.apply("k", p.change(newID(), 1))[0]; err == nil {
				t.Errorf("document %q: got no error", body)
			}
			if _, err := p.sums.Get(t.Context(), "k", ""); err == nil {
				t.Errorf("document %q: Get: got no error", body)
			}
			b, err := s.Blobs("sums").Get(t.Context(), "k", "")
			if err != nil || string(b.Body) != body {
				t.Errorf("document %q became %q, %v", body, b.Body, err)
			}
		}
	})
}
