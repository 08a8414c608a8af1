package settings_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/settings"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// Law: a node runs the version in force. One that can't keeps its last and says so, and runs it once it can.
func TestANodeThatCanNotRunWhatIsInForceKeepsItsLast(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "key")
	virtual(t, func(t *testing.T, s *storage.Store) {
		a, l := node(t, s, settings.Config{Name: "a"}), ledger(t, s)
		propose(t, a, 60)
		force := settings.Patch{Set: map[string]jsonText{"seats": jsonText("80"), "half": jsonText("40"), "key": encode(t, "file:"+path)}, Force: true}
		e, err := l.Set(t.Context(), ada, force)
		must(t, err)
		time.Sleep(time.Second)
		wantSeats(t, 60, a)
		nodes, err := l.Nodes(t.Context())
		must(t, err)
		for _, fault := range []string{a.State().Fault, nodes[0].Fault, e.Reasons[0].Why} {
			if !strings.Contains(fault, "no such file") {
				t.Errorf("got fault %q", fault)
			}
		}
		must(t, os.WriteFile(path, []byte(hidden), 0o600))
		time.Sleep(poll)
		wantSeats(t, 80, a)
		if st := a.State(); st.Fault != "" || a.Now().Key.Value() != hidden {
			t.Errorf("got %+v", st)
		}
	})
}

// A change whose proposer and nodes have all died ends with the next one, which then is made.
func TestAnAbandonedChangeEndsWithTheNextOne(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		link := storagetest.NewLink(s)
		dead := node(t, link.Store, settings.Config{Name: "dead", Patience: time.Minute})
		dead.Changing(func(context.Context, shop, shop) error { <-t.Context().Done(); return nil })
		ctx, die := context.WithCancelCause(t.Context())
		killed := errors.New("killed")
		time.AfterFunc(time.Second, func() { die(killed) })
		_, err := dead.Propose(ctx, ada, seats(60))
		wantErr(t, err, killed, "version 1 is still being checked")
		link.Cut()
		began := time.Now()
		l := ledger(t, s)
		_, err = l.Set(t.Context(), ada, settings.Patch{Set: map[string]jsonText{"seats": jsonText("70")}})
		wantErr(t, err, settings.ErrRefused, "no program that has these settings runs")
		if took := time.Since(began); took > 3*poll+2*time.Second {
			t.Errorf("it took %v", took)
		}
		c := current(t, s)
		if c.Candidate != 0 || len(c.Ended) != 2 || c.Ended[1].Result != settings.Refused {
			t.Errorf("got %+v", c)
		}
	})
}

// A row with a name and a reason as large as a row can be ends in a document that can be written and read.
func TestAHostileRowIsShortened(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		a := node(t, s, settings.Config{Name: "a"})
		long := strings.Repeat("x\x1b", 1500)
		row, err := json.Marshal(settings.Node{ID: "x", Name: long, Poll: 30_000, Verdict: &settings.Verdict{Version: 1, Why: long}})
		must(t, err)
		_, err = s.Table("settings").Put(t.Context(), name, "x", row, storage.Condition{})
		must(t, err)
		_, err = s.Table("settings").Put(t.Context(), name, "junk", []byte("junk"), storage.Condition{})
		must(t, err)
		_, err = a.Propose(t.Context(), ada, seats(60))
		wantErr(t, err, settings.ErrRefused)
		r := current(t, s).Ended[0].Reasons
		if len(r) != 1 || len(r[0].Node) != 100 || len(r[0].Why) != 300 || strings.Contains(r[0].Node+r[0].Why, "\x1b") {
			t.Errorf("got reasons %+v", r)
		}
		time.Sleep(4 * poll)
		propose(t, a, 60) // both rows are silent, so they count no more
		wantSeats(t, 60, a)
	})
}

// A stuck is settings whose Check can hang.
type stuck struct {
	On bool `json:"on"`
}

var stuckChecks struct {
	calls atomic.Int64
	end   chan struct{} // what hangs returns then
}

func (s stuck) Check() error {
	if s.On {
		stuckChecks.calls.Add(1)
		<-stuckChecks.end
	}
	return nil
}

// Law: whatever Check does ends in a no. One that hangs is not called again at each look, so no goroutines gather, and
// the node runs the version when Check returns.
func TestACheckThatHangsIsNotCalledAtEachLook(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		stuckChecks.end = make(chan struct{})
		a, err := settings.Open(t.Context(), s, name, stuck{}, settings.Config{})
		must(t, err)
		defer func() { must(t, a.Close(t.Context())) }()
		_, err = ledger(t, s).Set(t.Context(), ada, settings.Patch{Set: map[string]jsonText{"on": jsonText("true")}, Force: true})
		must(t, err)
		time.Sleep(20 * poll)
		if calls := stuckChecks.calls.Load(); calls > 2 || a.State().Fault == "" {
			t.Errorf("%d calls of Check, want at most one to ask and one to run; %+v", calls, a.State())
		}
		close(stuckChecks.end)
		time.Sleep(2 * poll)
		if st := a.State(); st.Version != 1 || st.Fault != "" || !a.Now().On {
			t.Errorf("got %+v", st)
		}
	})
}

// Law: nothing comes into force that a live node says no to, and a node that thinks for longer than the silence of a
// dead one is alive.
func TestLawASlowNoIsANo(t *testing.T) {
	t.Parallel()
	for _, c := range []settings.Config{{Poll: time.Second}, {Poll: 10 * time.Second, Patience: time.Minute}} {
		virtual(t, func(t *testing.T, s *storage.Store) {
			a := node(t, s, c)
			b := node(t, s, c)
			b.Changing(func(context.Context, shop, shop) error {
				time.Sleep(4 * c.Poll)
				return errors.New("no")
			})
			time.Sleep(c.Poll)
			if _, err := a.Propose(t.Context(), ada, seats(60)); !errors.Is(err, settings.ErrRefused) {
				t.Errorf("poll %v: got %v, want refused", c.Poll, err)
			}
			time.Sleep(4 * c.Poll)
			wantSeats(t, 40, a, b)
		})
	}
}

// Law: nobody waits for a node that has closed, also if it stops while it writes its row to a store that is slow and
// does later what it was told, although the call was cut off.
func TestARowThatIsWrittenAtTheStopIsRemoved(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		begun := make(chan bool)
		var armed atomic.Bool
		var row storage.Row // as it is written again
		slow := storagetest.Intercept(s, func(ctx context.Context, op storagetest.Op, do func() error) error {
			if op.Name != "put row" || !armed.CompareAndSwap(true, false) {
				return do()
			}
			close(begun)
			select {
			case <-time.After(time.Second):
				return do()
			case <-ctx.Done():
				time.AfterFunc(time.Second, func() {
					if _, err := s.Table("settings").Put(t.Context(), name, row.Key, row.Data, storage.Condition{}); err != nil {
						t.Error(err)
					}
				})
				return context.Cause(ctx)
			}
		})
		a := node(t, slow, settings.Config{Name: "a"})
		for r, err := range s.Table("settings").Query(t.Context(), name, storage.RowRange{}) {
			must(t, err)
			row = r
		}
		armed.Store(true)
		<-begun
		must(t, a.Close(t.Context()))
		time.Sleep(5 * time.Second)
		if nodes, err := ledger(t, s).Nodes(t.Context()); err != nil || len(nodes) != 0 {
			t.Errorf("got nodes %+v, %v", nodes, err)
		}
	})
}
