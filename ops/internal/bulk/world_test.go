package bulk_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/audit"
	"github.com/millrace-go/millrace/ops/internal/bulk"
	"github.com/millrace-go/millrace/ops/internal/poisoned"
	"github.com/millrace-go/millrace/poison"
	"github.com/millrace-go/millrace/storage"
)

const queue = worldtest.Accounts

type poisonEntry = poisoned.Entry

// A lab is a store with poison messages, and a desk at which operators ask for acts.
type lab struct {
	*worldtest.World
	desk *act.Desk
}

func newLab(t testing.TB, s *storage.Store) *lab {
	t.Helper()
	desk, err := act.Open(t.Context(), s, act.Program{})
	if err != nil {
		t.Fatal(err)
	}
	return &lab{worldtest.New(t, s, worldtest.Config{}), desk}
}

// entry is a poison message of a queue, as a worker would have written it.
func entry(queue, id, reason string) poison.Entry {
	body, err := (&channel.Envelope{ID: id, Source: "/test", Kind: worldtest.AddKind, Data: []byte(`{"to":"a","amount":1}`), Attempts: 5}).Encode()
	if err != nil {
		panic(err)
	}
	return poison.Entry{Key: "k-" + id, Queue: queue, Reason: reason, Error: "no", Attempts: 5, First: time.Now(), Last: time.Now(), ID: id, Kind: worldtest.AddKind, Body: body}
}

func put(t testing.TB, s *storage.Store, all ...poison.Entry) {
	t.Helper()
	var g errgroup.Group
	g.SetLimit(64)
	for _, e := range all {
		g.Go(func() error {
			body, err := json.Marshal(e)
			if err == nil {
				_, err = s.Blobs("poison").Put(t.Context(), e.Queue+"/"+e.Key, body, storage.Condition{})
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
}

func ids(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("m%05d", i))
	}
	return all
}

// poison puts messages into the poison queue, and returns their IDs.
func (l *lab) poison(t testing.TB, n int) []string {
	t.Helper()
	var all []poison.Entry
	for _, id := range ids(n) {
		all = append(all, entry(queue, id, "bad"))
	}
	put(t, l.Store, all...)
	return ids(n)
}

// ask asks for an act.
func (l *lab) ask(t testing.TB, verb string, f bulk.Filter) bulk.Act {
	t.Helper()
	c := act.NewCall(l.desk, "ada", nil)
	c.ID, c.Why = audit.NewID(), "mended"
	_, err := audit.Of(l.Store).Begin(t.Context(), audit.Entry{ID: c.ID, Who: "ada", Act: "poison " + verb})
	if err != nil {
		t.Fatal(err)
	}
	a, err := bulk.Ask(t.Context(), c, verb, f)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// driver is that of another process, with small pages.
func driver(t testing.TB, s *storage.Store, name string) *bulk.Driver {
	t.Helper()
	routes, err := channel.NewRoutes()
	if err != nil {
		t.Fatal(err)
	}
	c, err := channel.New(s, routes, act.Source)
	if err != nil {
		t.Fatal(err)
	}
	return &bulk.Driver{Channels: c, Name: name, Page: 4}
}

// follow does an act to its end.
func follow(t testing.TB, d *bulk.Driver, id string) bulk.Act {
	t.Helper()
	a, err := d.Follow(context.WithoutCancel(t.Context()), id, bulk.Follower{})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// sent takes the messages out of the queue, and returns their sorted IDs.
func (l *lab) sent(t testing.TB) (all []string) {
	t.Helper()
	for _, e := range worldtest.Take(t, l.Store, queue) {
		if e.Attempts != 0 || e.Retried == "" {
			t.Errorf("message %s came with its history: %+v", e.ID, e)
		}
		all = append(all, e.ID)
	}
	slices.Sort(all)
	return all
}

// left are the sorted IDs in the poison queue.
func (l *lab) left() (all []string) {
	for _, e := range l.Poisoned(queue) {
		all = append(all, e.ID)
	}
	slices.Sort(all)
	return all
}

func wantIDs(t testing.TB, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// ended checks that the act, the audit log and the store say that all is done.
func (l *lab) ended(t testing.TB, id string, state bulk.State, done int) bulk.Act {
	t.Helper()
	a, err := bulk.Get(t.Context(), l.Store, id)
	if err != nil || !a.Over() || a.State != state || a.Done != done || a.Driver != "" {
		t.Errorf("got %+v, %v; want %s with %d done", a, err, state, done)
	}
	e, err := audit.Of(l.Store).Get(t.Context(), id)
	if err != nil || !e.Done() || e.Result != a.Result() || e.Failed != (a.Failed > 0) || !strings.Contains(e.Result, fmt.Sprintf(" %d of ", done)) {
		t.Errorf("the audit log has %+v, %v; want its end with %q", e, err, a.Result())
	}
	for info, err := range l.Store.Blobs("bulk").List(t.Context(), "chosen/") {
		t.Errorf("%s is left, %v", info.Key, err)
	}
	return a
}
