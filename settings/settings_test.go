package settings_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
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
			"panic: boo":                     func(context.Context) error { panic("boo") },
			"runtime.Goexit":                 func(context.Context) error { runtime.Goexit(); return nil },
			"has not returned within 5s":     func(ctx context.Context) error { <-ctx.Done(); <-t.Context().Done(); return nil },
			"nil pointer dereference":        func(context.Context) error { var p *shop; return errors.New(fmt.Sprint(p.Seats)) },
			"this program: context canceled": func(context.Context) error { return context.Canceled },
			"b: this program: <nil>":         func(context.Context) error { return typedNil },
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

// Law: losing the store changes nothing and stops nothing. The node says how old its knowledge is.
func TestLosingTheStoreChangesNothing(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		l := storagetest.NewLink(s)
		a, far := node(t, s, settings.Config{Name: "a"}), node(t, l.Store, settings.Config{Name: "far"})
		propose(t, a, 60)
		time.Sleep(poll)
		l.Cut()
		time.Sleep(4 * poll)
		wantSeats(t, 60, far)
		if age := far.State().Age; age < 3*poll || far.State().Fault != "" {
			t.Errorf("got %+v", far.State())
		}
		propose(t, a, 80) // a node that is cut off is passed over as dead
		wantSeats(t, 60, far)
		l.Restore()
		time.Sleep(poll + time.Second)
		wantSeats(t, 80, a, far)
		if age := far.State().Age; age > poll {
			t.Errorf("after the return its knowledge is %v old", age)
		}
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

// Law: every change has who, when, why, and what it was before, and can be undone by its number.
func TestEveryChangeHasWhoWhenWhyAndCanBeUndone(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		a, l := node(t, s, settings.Config{Name: "a"}), ledger(t, s)
		began := time.Now()
		propose(t, a, 60)
		time.Sleep(time.Hour)
		_, err := a.Propose(t.Context(), settings.By("bob", ""), func(s *shop) { s.Seats, s.Half, s.Mail.Rate = 80, 40, 5 })
		must(t, err)
		var got []string
		for v, err := range l.History(t.Context()) {
			must(t, err)
			got = append(got, fmt.Sprintf("%d on %d by %q why %q after %v: %s", v.Number, v.Base, v.By, v.Why, v.At.Sub(began).Round(time.Hour), changed(v.Changes)))
		}
		want := []string{
			`2 on 1 by "bob" why "" after 1h0m0s: half 30→40, mail.rate –→5, seats 60→80`,
			`1 on 0 by "ada" why "Black Friday" after 0s: half –→30, seats –→60`,
		}
		if !slices.Equal(got, want) {
			t.Errorf("got history\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		back := func(to int64, wantVersion int64, wantSeatsNow int) {
			t.Helper()
			e, err := l.Back(t.Context(), to, ada)
			must(t, err)
			if e.Version != wantVersion || e.Result != settings.InForce {
				t.Errorf("back to %d: got %+v, want version %d", to, e, wantVersion)
			}
			time.Sleep(time.Second)
			wantSeats(t, wantSeatsNow, a)
		}
		back(1, 3, 60)
		if a.Now().Mail.Rate != 10 {
			t.Errorf("the default rate is %d", a.Now().Mail.Rate)
		}
		back(2, 4, 80)
		back(-1, 5, 60) // before version 4, which is 2, there was 1
		back(-1, 6, 40) // before that the defaults
		v, err := l.Version(t.Context(), 6)
		if err != nil || v.BackTo == nil || *v.BackTo != 0 || v.Base != 5 {
			t.Errorf("got %+v, %v", v, err)
		}
		_, err = l.Back(t.Context(), -1, ada)
		wantErr(t, err, storage.ErrNotFound, "the programs' defaults are in force")
		back(5, 7, 60)
		d, err := l.Difference(t.Context(), 2, 7)
		if err != nil || changed(d) != "half 40→30, mail.rate 5→–, seats 80→60" {
			t.Errorf("got %s, %v", changed(d), err)
		}
	})
}

// changed is a list of changes for people.
func changed(all []settings.Change) string {
	var parts []string
	for _, c := range all {
		from, to := string(c.From), string(c.To)
		if from == "" {
			from = "–"
		}
		if to == "" {
			to = "–"
		}
		parts = append(parts, fmt.Sprintf("%s %s→%s", c.Path, from, to))
	}
	return strings.Join(parts, ", ")
}

// Nobody can go back to a version that was refused, nor to one that never was.
func TestBackGoesOnlyWhereItWas(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		l := ledger(t, s)
		_, err := l.Back(t.Context(), -1, ada)
		wantErr(t, err, storage.ErrNotFound, "nobody has ever set anything")
		a := node(t, s, settings.Config{Name: "a"})
		a.Changing(func(_ context.Context, _, to shop) error {
			if to.Seats == 13 {
				return errors.New("bad luck")
			}
			return nil
		})
		_, err = a.Propose(t.Context(), ada, seats(13))
		wantErr(t, err, settings.ErrRefused, "bad luck")
		for i := range 60 { // more than the document remembers
			propose(t, a, 20+2*i)
		}
		_, err = l.Back(t.Context(), 1, ada)
		wantErr(t, err, settings.ErrNever)
		_, err = l.Back(t.Context(), 99, ada)
		wantErr(t, err, settings.ErrNever)
		e, err := l.Back(t.Context(), 2, ada)
		must(t, err)
		time.Sleep(time.Second)
		wantSeats(t, 20, a)
		if e.Version != 62 || len(current(t, s).Ended) != 50 {
			t.Errorf("got %+v, and %d endings", e, len(current(t, s).Ended))
		}
	})
}

// Going back asks nobody, and drops a change that is being checked.
func TestBackWaitsForNobody(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		a, b := node(t, s, settings.Config{Name: "a"}), node(t, s, settings.Config{Name: "b", Patience: time.Minute})
		propose(t, a, 60)
		propose(t, a, 80)
		hang := make(chan struct{})
		b.Changing(func(context.Context, shop, shop) error { <-hang; return nil })
		done := make(chan error, 1)
		go func() { _, err := a.Propose(t.Context(), ada, seats(90)); done <- err }()
		synctest.Wait()
		_, err := ledger(t, s).Back(t.Context(), -1, ada)
		must(t, err)
		wantErr(t, <-done, settings.ErrDropped)
		wantSeats(t, 60, a)
		close(hang)
		time.Sleep(time.Second)
		wantSeats(t, 60, a, b)
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
		_, err := a.Propose(t.Context(), ada, func(s *shop) { s.Workers, s.Mail.Rate = 8, 80 })
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
		nodes, err := ledger(t, s).Nodes(t.Context())
		if err != nil || len(nodes) != 1 || !slices.Equal(nodes[0].Waiting, []string{"workers"}) {
			t.Errorf("got %+v, %v", nodes, err)
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

// A document that is empty, damaged or lost is never a value. Going back to a version replaces it.
func TestAnUnreadableDocumentIsNeverAValue(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		a, blobs, l := node(t, s, settings.Config{Name: "a"}), s.Blobs("settings"), ledger(t, s)
		propose(t, a, 60)
		want, wantNumber := 60, int64(1)
		for _, body := range []string{"", "{}", "null", "junk", `{"epoch":99,"last":0,"stable":0,"values":[]}`, `{"epoch":99,"last":1,"stable":1,"values":{},"more":1}`, "deleted"} {
			if body == "deleted" {
				must(t, blobs.Delete(t.Context(), "shop/current", storage.Condition{}))
			} else {
				_, err := blobs.Put(t.Context(), "shop/current", []byte(body), storage.Condition{})
				must(t, err)
			}
			time.Sleep(2 * poll)
			wantSeats(t, want, a)
			if a.State().Fault == "" {
				t.Errorf("%q: no fault", body)
			}
			_, err := settings.Open(t.Context(), s, name, defaults(), settings.Config{})
			wantErr(t, err, storage.ErrInvalid, "-to VERSION")
			_, err = settings.Open(t.Context(), s, name, defaults(), settings.Config{Offline: true})
			wantErr(t, err, storage.ErrInvalid)
			_, err = a.Propose(t.Context(), ada, seats(70))
			wantErr(t, err, storage.ErrInvalid)
			_, err = l.Back(t.Context(), -1, ada)
			wantErr(t, err, storage.ErrInvalid)
			e, err := l.Back(t.Context(), wantNumber, ada)
			must(t, err)
			time.Sleep(2 * poll)
			wantSeats(t, want, a)
			if st := a.State(); st.Fault != "" || st.Version != e.Version {
				t.Errorf("after %q and the repair: %+v, want version %d", body, st, e.Version)
			}
			want += 2
			wantNumber = propose(t, a, want)
		}
	})
}

// A node starts without the store from its cache, which holds what it has applied and nothing that was refused.
func TestANodeStartsFromItsCache(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "shop.settings")
	virtual(t, func(t *testing.T, s *storage.Store) {
		l := storagetest.NewLink(s)
		a := node(t, l.Store, settings.Config{Name: "a", Cache: path})
		propose(t, a, 60)
		a.Changing(func(context.Context, shop, shop) error { return errors.New("no") })
		_, err := a.Propose(t.Context(), ada, seats(80))
		wantErr(t, err, settings.ErrRefused)
		must(t, a.Close(t.Context()))
		l.Cut()
		began := time.Now()
		again := node(t, l.Store, settings.Config{Name: "again", Cache: path})
		wantSeats(t, 60, again)
		if st := again.State(); st.Source != settings.FromCache || st.Version != 1 || st.Fault == "" || time.Since(began) > 11*time.Second {
			t.Errorf("after %v: %+v", time.Since(began), st)
		}
		_, err = settings.Open(t.Context(), l.Store, name, defaults(), settings.Config{})
		wantErr(t, err, storage.ErrUnavailable, "there is no cache")
		off := node(t, l.Store, settings.Config{Offline: true})
		wantSeats(t, 40, off)
		l.Restore()
		time.Sleep(2 * poll)
		wantSeats(t, 60, again, off)
		if st := again.State(); st.Source != settings.FromStore || st.Fault != "" {
			t.Errorf("got %+v", st)
		}
	})
}

// A store without the settings that a node has applied was replaced: the node keeps its own, and says so.
func TestAnEmptyStoreIsNoDefault(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "shop.settings")
	virtual(t, func(t *testing.T, s *storage.Store) {
		a := node(t, s, settings.Config{Name: "a", Cache: path})
		propose(t, a, 60)
		must(t, a.Close(t.Context()))
		for info, err := range s.Blobs("settings").List(t.Context(), "") {
			must(t, err)
			must(t, s.Blobs("settings").Delete(t.Context(), info.Key, storage.Condition{}))
		}
		again := node(t, s, settings.Config{Name: "again", Cache: path})
		time.Sleep(poll)
		wantSeats(t, 60, again)
		if st := again.State(); st.Source != settings.FromCache || !strings.Contains(st.Fault, "delete the node's cache") {
			t.Errorf("got %+v", st)
		}
	})
}

// A field that a program doesn't have is a no, never ignored: at a change, and at a start.
func TestAFieldThatAProgramDoesNotHaveIsRefused(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		type newer struct {
			shop
			Music string `json:"music"`
		}
		b, err := settings.Open(t.Context(), s, name, newer{shop: defaults()}, settings.Config{Name: "b"})
		must(t, err)
		defer func() { must(t, b.Close(t.Context())) }()
		a := node(t, s, settings.Config{Name: "a"})
		play := func(s *newer) { s.Music = "jazz" }
		_, err = b.Propose(t.Context(), ada, play)
		wantErr(t, err, settings.ErrRefused, `a: this program: `, `unknown member "music": this program doesn't have it: it is older or newer than the change, or the name is misspelt`)
		_, err = b.Propose(t.Context(), ada, func(s *newer) { s.Seats, s.Half = 60, 30 }) // the old program need not know of music
		must(t, err)
		time.Sleep(time.Second)
		wantSeats(t, 60, a)
		must(t, a.Close(t.Context()))
		_, err = b.Propose(t.Context(), ada, play)
		must(t, err)
		_, err = settings.Open(t.Context(), s, name, defaults(), settings.Config{})
		wantErr(t, err, storage.ErrInvalid, "version 3 is in force, and this program can't run it", `"music"`)
		_, err = ledger(t, s).Set(t.Context(), ada, settings.Patch{Unset: []string{"music"}})
		must(t, err)
		wantSeats(t, 60, node(t, s, settings.Config{Name: "again"}))
	})
}

// A member of a map that is deleted is deleted, although the defaults have it.
func TestWhatIsDeletedStaysDeleted(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		d := defaults()
		d.Tags = map[string]int{"window": 4, "door": 2}
		n, err := settings.Open(t.Context(), s, name, d, settings.Config{})
		must(t, err)
		defer func() { must(t, n.Close(t.Context())) }()
		_, err = n.Propose(t.Context(), ada, func(s *shop) { delete(s.Tags, "door"); s.Tags["bar"] = 7; s.Mail.Rate = 0 })
		must(t, err)
		if now := n.Now(); len(now.Tags) != 2 || now.Tags["window"] != 4 || now.Tags["bar"] != 7 || now.Mail.Rate != 0 {
			t.Errorf("got %+v", now)
		}
		_, err = ledger(t, s).Set(t.Context(), ada, settings.Patch{Unset: []string{"tags.door", "mail", "tags.nothing", "no.thing"}})
		must(t, err)
		time.Sleep(time.Second)
		if now := n.Now(); now.Tags["door"] != 2 || now.Mail.Rate != 10 {
			t.Errorf("got %+v", now)
		}
	})
}
