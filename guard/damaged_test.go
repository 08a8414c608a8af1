package guard_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/millrace-go/millrace/guard"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/worker"
)

// damage writes what can't be read over the document of a guard.
func damage(t *testing.T, s *storage.Store) {
	t.Helper()
	if _, err := s.Blobs("guards").Put(t.Context(), "smtp", []byte(`{"epoch":`), storage.Condition{}); err != nil {
		t.Fatal(err)
	}
}

// outages returns the breakers that are open by their documents.
func outages(t *testing.T, s *storage.Store) []guard.Status {
	t.Helper()
	found, err := guard.Outages(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// Again and again the document is damaged while the service is away, also during probes, and a process starts that has
// never read another one. There is one call at a time, and no more than the pauses allow. When the service is back, all
// call again, and the document can be read.
func TestLaw1ADamagedDocumentOpensNothing(t *testing.T) {
	for name, limit := range map[string]func(*storage.Store) *storage.Store{
		"with rings":    func(s *storage.Store) *storage.Store { return s },
		"without rings": storagetest.Plain,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := limit(worldtest.OpenStore(t, worldtest.Virtual))
				away := &service{took: 5 * time.Second}
				all := []member{join(t, s), join(t, s)}
				for _, m := range all {
					trip(t, m.Guard)
				}
				time.Sleep(6 * time.Second) // all have agreed
				away.set(errDown)
				ctx, end := context.WithCancel(t.Context())
				var calling sync.WaitGroup
				keepCalling := func(m member) {
					calling.Go(func() {
						for n := 0; ctx.Err() == nil; n++ {
							_ = m.Do(handling(t, id(n), 1), away.call)
							time.Sleep(100 * time.Millisecond)
						}
					})
				}
				for _, m := range all {
					keepCalling(m)
				}
				for range 8 {
					time.Sleep(7300 * time.Millisecond)
					damage(t, s)
					m := join(t, s)
					time.Sleep(100 * time.Millisecond) // it has read the document
					all = append(all, m)
					keepCalling(m)
				}
				time.Sleep(time.Minute)
				calls, _, most := away.counted()
				if most > 1 || calls < 5 || calls > 25 {
					t.Errorf("%d calls while the service was away, %d at a time", calls, most)
				}
				if found := outages(t, s); len(found) != 1 || found[0].Damaged || !found[0].All {
					t.Errorf("the document says %+v", found)
				}
				away.set(nil)
				time.Sleep(2 * time.Minute)
				for i, m := range all {
					if m.Open() {
						t.Errorf("process %d makes no calls", i)
					}
				}
				if found := outages(t, s); len(found) > 0 {
					t.Errorf("the document says %+v", found)
				}
				end()
				calling.Wait()
				for _, m := range all {
					m.leave(t)
				}
			})
		})
	}
}

// A service works, and the document of its guard is damaged. That is told, and a process that starts calls soon: also
// where the document can't be written, and where it is damaged all the time.
func TestLaw7ADamagedDocumentStopsNobodyForEver(t *testing.T) {
	for name, c := range map[string]struct {
		readOnly, again bool
		within          time.Duration
	}{
		"once":                 {within: 15 * time.Second},
		"can't be written":     {readOnly: true, within: 15 * time.Second},
		"damaged all the time": {again: true, within: 150 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				plain := worldtest.OpenStore(t, worldtest.Virtual)
				s := storagetest.Intercept(plain, func(_ context.Context, op storagetest.Op, do func() error) error {
					if c.readOnly && op.Name == "put blob" {
						return op.Fail(storage.ErrUnavailable)
					}
					return do()
				})
				damage(t, plain)
				if found := outages(t, s); len(found) != 1 || !found[0].Damaged || !found[0].Open || found[0].Name != "smtp" {
					t.Errorf("a damaged document is told as %+v", found)
				}
				log := worldtest.NewLog()
				g := once(guard.New("smtp", guard.Config{Logger: slog.New(log)}))
				limiter, err := g.Limiter(t.Context(), worker.Consumer{Store: s})
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(100 * time.Millisecond)
				worldtest.WantErr(t, g.Do(handling(t, id(1), 1), ends(nil)), guard.ErrOpen)
				if st := g.Status(); !st.Open || !st.All || st.Damaged != c.readOnly {
					t.Errorf("the status is %+v", st)
				}
				begin := time.Now()
				for n := 0; g.Do(handling(t, id(n), 1), ends(nil)) != nil; n++ {
					time.Sleep(100 * time.Millisecond)
					if c.again && n%25 == 0 {
						damage(t, plain)
					}
					if time.Since(begin) > c.within {
						t.Fatalf("no call in %v", c.within)
					}
				}
				if n := log.Count("ERROR the document can't be read", "guard=smtp"); n < 1 || n > 1 && !c.again {
					t.Errorf("%d lines tell of it", n)
				}
				for range 100 {
					_ = g.Do(handling(t, id(1), 1), ends(nil))
				}
				time.Sleep(10 * time.Second)
				if found := outages(t, s); !c.readOnly && len(found) > 0 || g.Open() {
					t.Errorf("in the end the document is told as %+v, open: %v", found, g.Open())
				}
				worldtest.Want(t, "damaged", g.Status().Damaged, c.readOnly)
				if err := limiter.Leave(t.Context()); err != nil && !errors.Is(err, storage.ErrUnavailable) {
					t.Error(err)
				}
			})
		})
	}
}

// A process that knows for how long the service asks to wait keeps that in the document that it mends.
func TestLaw9ADamagedDocumentForgetsNoPause(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := worldtest.OpenStore(t, worldtest.Virtual)
		a, b := join(t, s), join(t, s)
		begin := time.Now()
		_ = a.Do(handling(t, id(1), 1), asks(600))
		time.Sleep(time.Minute)
		damage(t, s)
		time.Sleep(10 * time.Second)
		blob, err := s.Blobs("guards").Get(t.Context(), "smtp", "")
		var mended struct {
			Open  bool
			Pause time.Duration
		}
		if err == nil {
			err = json.Unmarshal(blob.Body, &mended)
		}
		if left := mended.Pause * time.Millisecond; err != nil || !mended.Open || left < 520*time.Second || left > 540*time.Second {
			t.Fatalf("the document is %s, %v", blob.Body, err)
		}
		c := join(t, s)
		time.Sleep(100 * time.Millisecond)
		for n := 0; time.Since(begin) < 599*time.Second; n++ {
			for _, m := range []member{a, b} {
				if !m.refused(t, n) {
					t.Fatalf("a call after %v", time.Since(begin))
				}
			}
			time.Sleep(time.Second)
		}
		for _, m := range []member{a, b, c} {
			m.leave(t)
		}
	})
}

// A process whose breaker alone has opened dies. The next process that starts removes its report, and asks nothing any
// more. The report of one that lives stays, and opens nothing for the others.
func TestLaw4ReportsOfTheDeadAreRemoved(t *testing.T) {
	for name, alive := range map[string]bool{"it lives": true, "it has died": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				var calls storagetest.Calls
				s := storagetest.Intercept(worldtest.OpenStore(t, worldtest.Virtual), calls.Hook)
				link := storagetest.NewLink(s)
				well, ill := join(t, s), join(t, link.Store)
				ctx, end := context.WithCancel(t.Context())
				var calling sync.WaitGroup
				keepCalling := func(m member, err error) {
					calling.Go(func() {
						for n := 0; ctx.Err() == nil; n++ {
							_ = m.Do(handling(t, id(n), 1), ends(err))
							time.Sleep(time.Second)
						}
					})
				}
				keepCalling(well, nil)
				time.Sleep(time.Second)
				trip(t, ill.Guard)
				time.Sleep(10 * time.Second)
				if found := outages(t, s); len(found) != 1 || found[0].All {
					t.Fatalf("the document says %+v", found)
				}
				if alive {
					keepCalling(ill, errDown)
				} else {
					link.Cut()
					ill.leave(t)
				}
				late := join(t, s)
				keepCalling(late, nil)
				for range 300 {
					time.Sleep(time.Second)
					if well.Open() || late.Open() {
						t.Fatal("the report of one process stops the others")
					}
				}
				found := outages(t, s)
				if alive && (len(found) != 1 || found[0].All) || !alive && len(found) > 0 {
					t.Errorf("the document says %+v", found)
				}
				before := calls.Count("get blob", "put blob")
				time.Sleep(time.Hour)
				if n := calls.Count("get blob", "put blob") - before; !alive && n > 0 {
					t.Errorf("%d requests in an hour", n)
				}
				end()
				calling.Wait()
				well.leave(t)
				late.leave(t)
				if alive {
					ill.leave(t)
				}
			})
		})
	}
}
