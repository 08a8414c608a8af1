package settings_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/settings"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// An older shop has no tags.
type older struct {
	Seats int             `json:"seats"`
	Half  int             `json:"half"`
	Mail  mail            `json:"mail"`
	Key   settings.Secret `json:"key"`
}

// A stopper holds up the writes that would settle a candidate, until it lets them through.
type stopper struct {
	agreed atomic.Bool   // the node has said yes, so its next write of the document settles
	once   sync.Once     // closes holds
	holds  chan struct{} // closed when a write is held up
	goesOn chan struct{} // closed when it goes on
}

func (x *stopper) over(s *storage.Store) *storage.Store {
	return storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
		if op.Name == "put blob" && op.Resource == "blob settings/"+name+"/current" && x.agreed.Load() {
			x.once.Do(func() { close(x.holds) })
			<-x.goesOn
		}
		return do()
	})
}

// proposed lets a node propose tags through a stopper. It returns when all have said yes, and the change is about to
// come into force; and then what ends it.
func proposed(t *testing.T, s *storage.Store) (a *settings.Settings[shop], end func() error) {
	t.Helper()
	x := &stopper{holds: make(chan struct{}), goesOn: make(chan struct{})}
	a = node(t, x.over(s), settings.Config{Name: "a"})
	a.Changing(func(context.Context, shop, shop) error { x.agreed.Store(true); return nil })
	ended := make(chan error, 1)
	go func() {
		_, err := a.Propose(t.Context(), ada, func(s *shop) { s.Tags = map[string]int{"window": 1} })
		ended <- err
	}()
	<-x.holds
	return a, func() error { close(x.goesOn); return <-ended }
}

// A node starts after the answers to a candidate were counted, and before the candidate comes into force. It is asked
// all the same, and its no counts.
func TestLawANodeThatStartsBeforeAChangeSettlesIsAsked(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		a, end := proposed(t, s)
		late, err := settings.Open(t.Context(), s, name, older{Seats: 40, Half: 20}, settings.Config{Name: "late"})
		must(t, err)
		err = end()
		wantErr(t, err, settings.ErrRefused, "late", `unknown member "tags"`)
		if now := a.Now(); now.Tags != nil {
			t.Errorf("law: nothing is in force before every live node agrees: a runs %+v", now)
		}
		time.Sleep(2 * poll)
		if st := late.State(); st.Fault != "" || st.Version != 0 {
			t.Errorf("got %+v", st)
		}
		must(t, late.Close(t.Context()))
	})
}

// The same for a node that comes back after a silence in which its row was removed.
func TestLawANodeThatComesBackBeforeAChangeSettlesIsAsked(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		link := storagetest.NewLink(s)
		late, err := settings.Open(t.Context(), link.Store, name, older{Seats: 40, Half: 20}, settings.Config{Name: "late", Poll: time.Second})
		must(t, err)
		link.Cut()
		time.Sleep(time.Second)
		other := node(t, s, settings.Config{Name: "b"}) // it removes the row
		for {
			nodes, err := ledger(t, s).Nodes(t.Context())
			must(t, err)
			if len(nodes) == 1 {
				break
			}
			time.Sleep(poll)
		}
		must(t, other.Close(t.Context()))
		a, end := proposed(t, s)
		link.Restore()
		for late.State().Age > 2*time.Second {
			time.Sleep(time.Second / 4)
		}
		err = end()
		wantErr(t, err, settings.ErrRefused, "late", `unknown member "tags"`)
		if now := a.Now(); now.Tags != nil {
			t.Errorf("law: nothing is in force before every live node agrees: a runs %+v", now)
		}
		must(t, late.Close(t.Context()))
	})
}

// A node whose start meets a change that has just come into force begins with that, or not at all.
func TestLawANodeThatStartsWhileAChangeSettlesBeginsWithIt(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		for _, value := range []string{"80", "-1"} {
			a := node(t, s, settings.Config{Name: "a"})
			force := settings.Patch{Set: map[string]json.RawMessage{"seats": json.RawMessage(value), "half": json.RawMessage("40")}, Force: true}
			var done atomic.Bool
			during := storagetest.Intercept(s, func(ctx context.Context, op storagetest.Op, do func() error) error {
				if op.Name == "put row" && !done.Swap(true) { // it has read the document by now
					_, err := ledger(t, s).Set(t.Context(), ada, force)
					must(t, err)
				}
				return do()
			})
			late, err := settings.Open(t.Context(), during, name, defaults(), settings.Config{Name: "late"})
			if value == "-1" {
				if err == nil {
					t.Fatal("a node starts although it can't run what is in force")
				}
				if nodes, err := ledger(t, s).Nodes(t.Context()); err != nil || len(nodes) != 1 {
					t.Errorf("got nodes %+v, %v; want only the other one", nodes, err)
				}
				return
			}
			must(t, err)
			if now := late.Now().Seats; now != 80 || late.State().Epoch != current(t, s).Epoch {
				t.Errorf("got %d seats and %+v", now, late.State())
			}
			must(t, errors.Join(late.Close(t.Context()), a.Close(t.Context())))
		}
	})
}
