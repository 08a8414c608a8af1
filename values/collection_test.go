package values_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/values"
)

// With many writers in several processes every message counts once.
func TestManyWriters(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		const processes, goroutines, each, keys = 3, 4, 15, 3
		want := map[string]int{}
		var wg sync.WaitGroup
		for i := range processes {
			p := newProcess(t, s, values.Config[Account]{Window: 8})
			for j := range goroutines {
				r := rand.New(rand.NewPCG(uint64(i), uint64(j)))
				todo := map[string]string{}
				for n := range each {
					key := fmt.Sprintf("k-%d", r.IntN(keys))
					todo[fmt.Sprintf("%s-%d-%d-%d", newID()[:23], i, j, n)] = key
					want[key] += 1
				}
				wg.Go(func() {
					for id, key := range todo {
						for {
							err := p.apply(key, p.change(id, 1))[0]
							if err == nil {
								break
							}
							if !errors.Is(err, values.ErrContended) {
								t.Error(err)
								return
							}
						}
					}
				})
			}
		}
		wg.Wait()
		check := newProcess(t, s, values.Config[Account]{})
		for key, n := range want {
			worldtest.Want(t, "balance of "+key, check.Balance(key), n)
		}
		worldtest.Want(t, "events", len(idsOf(worldtest.Take(t, s, "totals"))), processes*goroutines*each)
	})
}

func TestGet(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		p := newProcess(t, s, values.Config[Account]{Initial: func(key string) Account { return Account{Balance: len(key)} }})
		d, err := p.Accounts.Get(t.Context(), "four", "")
		if err != nil || d.Value.Balance != 4 || d.Version != 0 || d.Emitted != 0 || d.ETag != "" {
			t.Errorf("before the first write: got %+v, %v; want the initial value", d, err)
		}
		p.applied("four", p.change(newID(), 3))
		d, err = p.Accounts.Get(t.Context(), "four", "")
		if err != nil || d.Value.Balance != 7 || d.Version != 1 || d.Emitted != 1 || d.ETag == "" {
			t.Errorf("after it: got %+v, %v; want 7, version 1", d, err)
		}
		_, err = p.Accounts.Get(t.Context(), "four", d.ETag)
		worldtest.WantErr(t, err, storage.ErrNotModified)
		p.applied("four", p.change(newID(), 1))
		d, err = p.Accounts.Get(t.Context(), "four", d.ETag)
		if err != nil || d.Value.Balance != 8 {
			t.Errorf("after another: got %+v, %v; want 8", d, err)
		}
		_, err = p.Accounts.Get(t.Context(), "", "")
		worldtest.WantErr(t, err, storage.ErrInvalid)
	})
}

func TestKeys(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		p := newProcess(t, s, values.Config[Account]{})
		want := []string{"2026-12-24", "a/b", "ä", "z z"}
		for _, key := range want {
			p.applied(key, p.change(newID(), 1))
		}
		var got []string
		for key, err := range p.Accounts.Keys(t.Context(), "", "") {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, key)
		}
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		for range p.Accounts.Keys(t.Context(), "", "") {
			break
		}
		failing := newProcess(t, storagetest.Intercept(s, once("list blobs", func(op storagetest.Op, _ func() error) error { return op.Fail(storage.ErrUnavailable) })), values.Config[Account]{})
		for _, err := range failing.Accounts.Keys(t.Context(), "", "") {
			worldtest.WantErr(t, err, storage.ErrUnavailable)
		}
		if got, want := p.Accounts.Source("a/b c"), "/accounts/a%2Fb%20c"; got != want {
			t.Errorf("source: got %s, want %s", got, want)
		}
	})
}

func TestUpdate(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		rival := newProcess(t, s, values.Config[Account]{})
		id := newID()
		p := newProcess(t, storagetest.Intercept(s, once("put blob", func(_ storagetest.Op, do func() error) error {
			rival.applied("k", rival.change(id, 1))
			return do()
		})), values.Config[Account]{MaxRaces: 1})
		calls := 0
		double := func(v Account) (Account, bool) { calls++; v.Balance = 2*v.Balance + 5; return v, true }
		if err := p.Accounts.Update(t.Context(), "k", double); err != nil {
			t.Fatal(err)
		}
		worldtest.Want(t, "calls with one lost race", calls, 2)
		worldtest.Want(t, "balance", p.Balance("k"), 7)
		rival.applied("k", rival.change(id, 1), rival.change(newID(), 1)) // the rival's memory is outdated
		worldtest.Want(t, "total: the replay record is kept", p.Balance("k"), 8)

		before := stored(t, s, "k").Version
		if err := p.Accounts.Update(t.Context(), "k", func(v Account) (Account, bool) { return Account{}, false }); err != nil {
			t.Fatal(err)
		}
		worldtest.Want(t, "version after no change", stored(t, s, "k").Version, before)

		contended := newProcess(t, s, values.Config[Account]{MaxRaces: 2})
		err := contended.Accounts.Update(t.Context(), "k", func(v Account) (Account, bool) {
			rival.applied("k", rival.change(newID(), 0))
			return v, true
		})
		worldtest.WantErr(t, err, values.ErrContended)
	})
}

func TestDelete(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		p, other := newProcess(t, s, values.Config[Account]{}), newProcess(t, s, values.Config[Account]{})
		p.applied("k", p.change(newID(), 1))
		other.applied("k", other.change(newID(), 1))
		if err := p.Accounts.Delete(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		worldtest.WantErr(t, p.Accounts.Delete(t.Context(), "k"), storage.ErrNotFound)
		worldtest.Want(t, "balance", p.Balance("k"), 0)
		other.applied("k", other.change(newID(), 5)) // remembers the deleted one
		p.applied("k", p.change(newID(), 5))
		worldtest.Want(t, "balance of the new document", p.Balance("k"), 10)
	})
}

func TestCheck(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		channels := worldtest.New(t, worldtest.OpenStore(t, worldtest.Virtual), worldtest.Config{}).Channels
		for name, ok := range map[string]bool{"accounts": true, "abc": true, "": false, "ab": false, "Accounts": false, strings.Repeat("x", 42): true, "a--b": false, strings.Repeat("x", 50): false} {
			c := values.New(channels, name, values.Config[Account]{})
			if err := c.Check(); ok != (err == nil) {
				t.Errorf("name %q: got %v", name, err)
			}
			if c.Name() != name {
				t.Errorf("name: got %q, want %q", c.Name(), name)
			}
		}
	})
}

// A collection may not have the name of a container of the framework: both would write into it.
func TestNamesThatTheFrameworkKeeps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		channels := worldtest.New(t, worldtest.OpenStore(t, worldtest.Virtual), worldtest.Config{}).Channels
		for _, name := range []string{"counters", "claims", "leases", "gates", "settings", "guards", "programs", "poison", "schedules", "spool"} {
			c := values.New(channels, name, values.Config[Account]{})
			if err := c.Check(); !errors.Is(err, storage.ErrInvalid) || !strings.Contains(err.Error(), "none of claims, counters, ") {
				t.Errorf("name %q: got %v, want the names that the framework keeps", name, err)
			}
			_, read := c.Get(t.Context(), "ada", "")
			for what, err := range map[string]error{"get": read, "delete": c.Delete(t.Context(), "ada"), "insert": c.Insert(t.Context(), "ada", Account{})} {
				if !errors.Is(err, storage.ErrInvalid) {
					t.Errorf("name %q: %s: got %v, want that it is refused", name, what, err)
				}
			}
			if err := values.NewKept(wire.Inside{}, channels, name, values.Config[Account]{}).Check(); err != nil {
				t.Errorf("name %q, of the framework itself: got %v", name, err)
			}
		}
	})
}

// A value that is a nil pointer, map or slice is stored as null and comes back.
func TestNilValues(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		channels := worldtest.New(t, s, worldtest.Config{}).Channels
		e, f := worldtest.Envelope(newID(), Add{}), worldtest.Envelope(newID(), Add{Amount: 1})
		clear := values.Change[*Account]{Envelope: &e, Fold: func(*Account) (*Account, []channel.Message, error) { return nil, nil, nil }}
		failing := values.Change[*Account]{Envelope: &f, Fold: func(v *Account) (*Account, []channel.Message, error) {
			if v != nil {
				t.Errorf("got %+v, want nil", v)
			}
			return v, nil, errors.New("no")
		}}
		for range 2 {
			c := values.New(channels, "nils", values.Config[*Account]{})
			errs := errsOf(c.Apply(t.Context(), "k", []values.Change[*Account]{clear, failing}, nil))
			if errs[0] != nil || errs[1] == nil {
				t.Errorf("got errors %v", errs)
			}
		}
		d, err := values.New(channels, "nils", values.Config[*Account]{}).Get(t.Context(), "k", "")
		if err != nil || d.Value != nil || d.Version != 1 {
			t.Errorf("got %+v, %v; want nil, version 1", d, err)
		}
	})
}

// A refusal by a remembered document is checked again when another process has changed the document since.
func TestRefusalLooksAgain(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		here, there := newProcess(t, s, values.Config[Account]{}), newProcess(t, s, values.Config[Account]{})
		refuse := errors.New("nothing there yet")
		id := newID()
		ship := here.change(id, 1)
		fold := ship.Fold
		ship.Fold = func(v Account) (Account, []channel.Message, error) {
			if v.Balance == 0 {
				return v, nil, refuse
			}
			return fold(v)
		}
		worldtest.WantErr(t, here.apply("k", ship)[0], refuse)
		there.applied("k", there.change(newID(), 10))
		if err := here.apply("k", ship)[0]; err != nil {
			t.Errorf("after the other process's change: got %v, want it applied", err)
		}
	})
}
