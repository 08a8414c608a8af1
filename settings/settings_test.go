package settings_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/settings"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// Where the store rings a change is everywhere at once. Where it doesn't, within a poll and two seconds.
func TestAChangeIsEverywhereAtOnceOrWithinAPoll(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		over func(*storage.Store) *storage.Store
		most time.Duration
	}{"rung": {func(s *storage.Store) *storage.Store { return s }, 0}, "silent": {silent, poll + 2*time.Second}} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			virtual(t, func(t *testing.T, s *storage.Store) {
				s = c.over(s)
				a, b := node(t, s, settings.Config{Name: "a"}), node(t, s, settings.Config{Name: "b"})
				time.Sleep(time.Minute)
				began, seen := time.Now(), make(chan time.Duration, 1)
				b.Changed(func(from, to shop) {
					if from.Seats != 40 || to.Seats != 60 {
						t.Errorf("changed from %+v to %+v", from, to)
					}
					seen <- time.Since(began)
				})
				if v := propose(t, a, 60); v != 1 {
					t.Errorf("got version %d, want 1", v)
				}
				wantSeats(t, 60, a)
				// The proposer looks 20 ms, 40 ms and so on after its proposal, in case it has to end it.
				if took := <-seen; took > c.most+100*time.Millisecond {
					t.Errorf("it took %v, want %v at most", took, c.most)
				}
				wantSeats(t, 60, a, b)
				if st := b.State(); st.Version != 1 || st.Source != settings.FromStore || st.Fault != "" || st.Age > poll {
					t.Errorf("got %+v", st)
				}
			})
		})
	}
}

// Law: a value that was not decoded, checked and agreed to by every live node is in force nowhere.
func TestNothingAppliesBeforeEveryLiveNodeAgrees(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		a, b, c := node(t, s, settings.Config{Name: "a"}), node(t, s, settings.Config{Name: "b"}), node(t, s, settings.Config{Name: "c"})
		asked, answer := make(chan struct{}), make(chan error)
		c.Changing(func(_ context.Context, from, to shop) error {
			if from.Seats == to.Seats {
				t.Error("asked about no change")
			}
			asked <- struct{}{}
			return <-answer
		})
		for _, no := range []error{errors.New("guests sit there"), nil} {
			done := make(chan error, 1)
			go func() { _, err := a.Propose(t.Context(), ada, seats(60)); done <- err }()
			<-asked
			time.Sleep(3 * time.Second)
			wantSeats(t, 40, a, b, c)
			if cur := current(t, s); cur.Candidate == 0 {
				t.Errorf("got %+v, want a candidate", cur)
			}
			answer <- no
			err := <-done
			time.Sleep(2 * time.Second)
			if no != nil {
				wantErr(t, err, settings.ErrRefused, "c: this program: guests sit there")
				wantSeats(t, 40, a, b, c)
				continue
			}
			must(t, err)
			wantSeats(t, 60, a, b, c)
		}
	})
}

// Whatever a node's code does, it ends in an answer.
func TestWhateverCheckAndChangingDoIsAnAnswer(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		a, b := node(t, s, settings.Config{Name: "a"}), node(t, s, settings.Config{Name: "b"})
		var does atomic.Pointer[func(context.Context) error]
		b.Changing(func(ctx context.Context, _, _ shop) error { return (*does.Load())(ctx) })
		var typedNil *storage.Error
		for want, f := range map[string]func(context.Context) error{
			"panic: boo":                        func(context.Context) error { panic("boo") },
			"runtime.Goexit":                    func(context.Context) error { runtime.Goexit(); return nil },
			"has not returned within 5s":        func(ctx context.Context) error { <-ctx.Done(); <-t.Context().Done(); return nil },
			"nil pointer dereference":           func(context.Context) error { var p *shop; return errors.New(fmt.Sprint(p.Seats)) },
			"this program: context canceled":    func(context.Context) error { return context.Canceled },
			"this program: a nil *driver.Error": func(context.Context) error { return typedNil },
		} {
			does.Store(&f)
			_, err := a.Propose(t.Context(), ada, seats(60))
			wantErr(t, err, settings.ErrRefused, want)
			wantSeats(t, 40, a, b)
		}
		for want, change := range map[string]func(*shop){
			"seats is negative":              seats(-2),
			"panic: the number of the beast": seats(666),
			"panic: oh":                      func(*shop) { panic("oh") },
			"Goexit":                         func(*shop) { runtime.Goexit() },
			"as version 0":                   func(*shop) {},
		} {
			if _, err := a.Propose(t.Context(), ada, change); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got error %v, want %q", err, want)
			}
		}
		if c := current(t, s); c.Version != 0 || c.Candidate != 0 {
			t.Errorf("got %+v, want the defaults", c)
		}
	})
}

// Law: a snapshot is whole and never changes. Half is that of the same version as Seats.
func TestASnapshotIsWholeAndNeverChanges(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		a := node(t, s, settings.Config{Name: "a"})
		first := a.Now()
		stop, readers := make(chan struct{}), sync.WaitGroup{}
		for range 4 {
			readers.Go(func() {
				for {
					if now := a.Now(); now.Half != now.Seats/2 {
						t.Errorf("a mix: %+v", *now)
					}
					select {
					case <-stop:
						return
					default:
						time.Sleep(time.Millisecond)
					}
				}
			})
		}
		for i := range 10 {
			propose(t, a, 100+2*i)
			_, err := a.Propose(t.Context(), ada, func(s *shop) {
				if s.Tags == nil {
					s.Tags = map[string]int{}
				}
				s.Tags[fmt.Sprint(i)] = i
			})
			must(t, err)
		}
		close(stop)
		readers.Wait()
		if first.Seats != 40 || first.Tags != nil || len(a.Now().Tags) != 10 {
			t.Errorf("the first snapshot is %+v, the last one %+v", *first, *a.Now())
		}
	})
}

// Law: a node's epoch only grows while it runs, and nobody applies a version that was refused or dropped.
func TestEpochsOnlyGrow(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		a := node(t, s, settings.Config{Name: "a"})
		propose(t, a, 60)
		backup, err := s.Blobs("settings").Get(t.Context(), "shop/current", "")
		must(t, err)
		propose(t, a, 80)
		before := a.State().Epoch
		_, err = s.Blobs("settings").Put(t.Context(), "shop/current", backup.Body, storage.Condition{})
		must(t, err)
		time.Sleep(2 * poll)
		wantSeats(t, 80, a)
		if st := a.State(); st.Epoch != before || !strings.Contains(st.Fault, "was a backup restored? Then restart the node") {
			t.Errorf("got %+v, want epoch %d and advice", st, before)
		}
		_, err = a.Propose(t.Context(), ada, seats(90))
		wantErr(t, err, settings.ErrRefused, "was a backup restored?")
		must(t, a.Close(t.Context()))
		wantSeats(t, 60, node(t, s, settings.Config{Name: "again"}))
	})
}

// A node that has just died is waited for, until its row has been the same for three polls. One that has closed isn't.
func TestADeadNodeHoldsUpAChangeForThreePolls(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		l := storagetest.NewLink(s)
		a, dead, gone := node(t, s, settings.Config{Name: "a"}), node(t, l.Store, settings.Config{Name: "dead"}), node(t, s, settings.Config{Name: "gone"})
		must(t, gone.Close(t.Context()))
		propose(t, a, 60)
		time.Sleep(time.Second)
		l.Cut()
		began := time.Now()
		propose(t, a, 80)
		if took := time.Since(began); took < poll || took > 3*poll+2*time.Second {
			t.Errorf("it took %v, want until %v", took, 3*poll)
		}
		wantSeats(t, 60, dead)
	})
}

// A forced change comes into force whatever the nodes say, and the ending names those that were passed over.
func TestForceNamesThoseThatArePassedOver(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		l := ledger(t, s)
		force := settings.Patch{Set: map[string]jsonText{"seats": jsonText("60"), "half": jsonText("30")}}
		_, err := l.Set(t.Context(), ada, force)
		wantErr(t, err, settings.ErrRefused, "no program that has these settings runs")
		force.Force = true
		e, err := l.Set(t.Context(), ada, force)
		if err != nil || e.Result != settings.Forced || len(e.Reasons) != 0 {
			t.Errorf("got %+v, %v", e, err)
		}
		a, no, mute := node(t, s, settings.Config{Name: "a"}), node(t, s, settings.Config{Name: "no"}), node(t, s, settings.Config{Name: "mute", Patience: time.Minute})
		wantSeats(t, 60, a, no, mute)
		no.Changing(func(context.Context, shop, shop) error { return errors.New("not now") })
		mute.Changing(func(context.Context, shop, shop) error { <-t.Context().Done(); return nil })
		force.Set["seats"], force.Set["half"] = jsonText("80"), jsonText("40")
		began := time.Now()
		e, err = l.Set(t.Context(), ada, force)
		want := []settings.Refusal{{Node: "mute", Why: "it has not answered"}, {Node: "no", Why: "this program: not now"}}
		if err != nil || e.Result != settings.Forced || !slices.Equal(e.Reasons, want) {
			t.Errorf("got %+v, %v; want %+v", e, err, want)
		}
		if took := time.Since(began); took < 10*time.Second || took > 12*time.Second {
			t.Errorf("it took %v, want 10s", took)
		}
		if kept := current(t, s).Ended[0]; !slices.Equal(kept.Reasons, want) {
			t.Errorf("the document has %+v", kept)
		}
		time.Sleep(time.Second)
		wantSeats(t, 80, a, no)
	})
}

// A setting with the tag waits for the restart. The others don't, and a node that can't run them together says no.
func TestASettingThatNeedsARestartWaits(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		a := node(t, s, settings.Config{Name: "a"})
		e, err := a.Propose(t.Context(), ada, func(s *shop) { s.Workers, s.Mail.Rate = 8, 80 })
		must(t, err)
		select {
		case <-a.Restart():
		default:
			t.Error("nothing waits")
		}
		if now, st := a.Now(), a.State(); now.Workers != 2 || now.Mail.Rate != 80 || !slices.Equal(st.Waiting, []string{"workers"}) {
			t.Errorf("got %+v, %+v", now, st)
		}
		_, err = a.Propose(t.Context(), ada, func(s *shop) { s.Workers, s.Seats = 1, 1 })
		if err == nil || !strings.Contains(err.Error(), "until its restart, because workers can't change before: more workers than seats") {
			t.Errorf("got %v", err)
		}
		if row := rowOf(t, s, e.Epoch); !slices.Equal(row.Waiting, []string{"workers"}) {
			t.Errorf("got %+v", row)
		}
		again := node(t, s, settings.Config{Name: "again"})
		if now, st := again.Now(), again.State(); now.Workers != 8 || len(st.Waiting) != 0 {
			t.Errorf("after its restart: %+v, %+v", now, st)
		}
		select {
		case <-again.Restart():
			t.Error("it waits for a restart")
		default:
		}
	})
}

// rowOf returns the row of the only node, once the node has written it with an epoch. A node runs a change, and Propose
// returns, before the node writes its row.
func rowOf(t *testing.T, s *storage.Store, epoch int64) settings.Node {
	t.Helper()
	for began := time.Now(); ; time.Sleep(time.Second) {
		nodes, err := ledger(t, s).Nodes(t.Context())
		switch {
		case err != nil || len(nodes) != 1:
			t.Fatalf("got nodes %+v, %v; want one", nodes, err)
		case nodes[0].Epoch >= epoch:
			return nodes[0]
		case time.Since(began) > 2*poll:
			t.Fatalf("got %+v, want epoch %d", nodes[0], epoch)
		}
	}
}

// Two that propose at once have both their effect, one after the other.
func TestProposalsAreMadeOneAfterTheOther(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		var all sync.WaitGroup
		nodes := []*settings.Settings[shop]{node(t, s, settings.Config{Name: "a"}), node(t, s, settings.Config{Name: "b"})}
		for i := range 8 {
			all.Go(func() {
				_, err := nodes[i%2].Propose(t.Context(), ada, func(s *shop) { s.Mail.Rate++ })
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		time.Sleep(time.Second)
		for _, n := range nodes {
			if n.Now().Mail.Rate != 18 {
				t.Errorf("got rate %d, want 10 and 8", n.Now().Mail.Rate)
			}
		}
	})
}

// A function given to Changed that hangs or panics holds up nobody. It is called with what it knew and what is newest.
func TestWhateverChangedDoes(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		a := node(t, s, settings.Config{Name: "a"})
		var mu sync.Mutex
		got := map[string][]string{}
		hang := make(chan struct{})
		observe := func(who string, does func()) {
			a.Changed(func(from, to shop) {
				mu.Lock()
				got[who] = append(got[who], fmt.Sprintf("%d→%d", from.Seats, to.Seats))
				mu.Unlock()
				does()
			})
		}
		observe("hangs", func() { <-hang })
		observe("panics", func() { panic("boo") })
		observe("exits", runtime.Goexit)
		observe("returns", func() {})
		for _, n := range []int{50, 60, 70} {
			propose(t, a, n)
			synctest.Wait()
		}
		close(hang)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		all := []string{"40→50", "50→60", "60→70"}
		for who, want := range map[string][]string{"hangs": {"40→50", "50→70"}, "panics": all, "exits": all, "returns": all} {
			if !slices.Equal(got[who], want) {
				t.Errorf("the one that %s got %v, want %v", who, got[who], want)
			}
		}
	})
}

// A node that is closed proposes nothing, and says so at once: nobody would run the change for it.
func TestAClosedNodeProposesNothing(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		a := node(t, s, settings.Config{Name: "a"})
		propose(t, a, 60)
		must(t, a.Close(t.Context()))
		_, err := a.Propose(ctx, ada, seats(70))
		wantErr(t, err, storage.ErrUnavailable, "were closed")
		if c := current(t, s); c.Version != 1 || len(c.Ended) != 1 {
			t.Errorf("got %+v, want nothing proposed", c)
		}
	})
}
