package settings_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/settings"
	"github.com/millrace-go/millrace/storage"
)

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
		wantErr(t, err, storage.ErrNotFound, "there is no version 99")
		e, err := l.Back(t.Context(), 2, ada)
		must(t, err)
		time.Sleep(time.Second)
		wantSeats(t, 20, a)
		if e.Version != 62 || len(current(t, s).Ended) != 50 {
			t.Errorf("got %+v, and %d endings", e, len(current(t, s).Ended))
		}
	})
}

// Going back asks nobody. It drops a change that is being checked, and else goes to what was in force before.
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
		e, err := ledger(t, s).Back(t.Context(), -1, settings.By("bob", "wrong"))
		must(t, err)
		if e.Version != 3 || e.Result != settings.Dropped || !slices.Equal(e.Reasons, []settings.Refusal{{Node: "bob", Why: "wrong"}}) {
			t.Errorf("got %+v", e)
		}
		wantErr(t, <-done, settings.ErrDropped)
		wantSeats(t, 80, a)
		_, err = ledger(t, s).Back(t.Context(), -1, ada)
		must(t, err)
		close(hang)
		time.Sleep(time.Second)
		wantSeats(t, 60, a, b)
	})
}
