package reservations_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/sample/reservations"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/sqlite"
	"github.com/millrace-go/millrace/storage/storagetest"
)

func openStore(t *testing.T) *storage.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "test.db")+"?wake=off&sync=normal")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func accepted(id string) reservations.ReservationAccepted {
	return reservations.ReservationAccepted{ID: id, Date: "2026-12-24", Name: "Ada", Email: "ada@example.org", Quantity: 2}
}

func rows(t *testing.T, l *reservations.Ledger) (all []reservations.ReservationNumbered) {
	t.Helper()
	for e, err := range l.On(t.Context(), "2026-12-24") {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

func TestLedger(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	l := reservations.NewLedger(s, numbers(t, s))
	a, b := accepted("reservation-a"), accepted("reservation-b")
	var numbered []reservations.ReservationNumbered
	for _, e := range []reservations.ReservationAccepted{a, b, a} {
		n, err := l.Record(t.Context(), e)
		if err != nil || n.ID != e.ID || n.Name != e.Name || n.Email != e.Email || n.Quantity != e.Quantity {
			t.Fatalf("got %+v (%v), want %+v with a number", n, err, e)
		}
		numbered = append(numbered, n)
	}
	if numbered[0].Number != "1-3" || numbered[1].Number != "2-1" || numbered[2] != numbered[0] {
		t.Fatalf("numbers: got %+v, want 1 and 2, and the same for a repeat", numbered)
	}
	if got := rows(t, l); !slices.Equal(got, numbered[:2]) {
		t.Fatalf("accepted: got %+v", got)
	}
	for range 2 {
		if err := l.Cancel(t.Context(), reservations.ReservationCancelled(a)); err != nil {
			t.Fatal(err)
		}
	}
	if got := rows(t, l); !slices.Equal(got, numbered[1:2]) {
		t.Fatalf("cancelled: got %+v", got)
	}
	// A repeat finds the cancellation. The number stays the cancelled reservation's.
	if n, err := l.Record(t.Context(), a); err != nil || n.Number != "" || len(rows(t, l)) != 1 {
		t.Errorf("accepted again: got %+v (%v), want nothing", n, err)
	}
	if key, err := reservations.Numbered(t.Context(), s.Table("numbers"), "1-3"); err != nil || key != reservations.Key(a.ID) {
		t.Errorf("number of the cancelled one: got key %q (%v)", key, err)
	}
}

// After the restore of an old counter no number is given a second time. The error names the number, and the next try
// takes another one.
func TestNoNumberTwiceAfterARestore(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	first, err := reservations.NewLedger(s, numbers(t, s)).Record(t.Context(), accepted("reservation-a"))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Blobs("counters").Delete(t.Context(), "reservations", storage.Condition{}); err != nil {
		t.Fatal(err)
	}
	l := reservations.NewLedger(s, numbers(t, s))
	if n, err := l.Record(t.Context(), accepted("reservation-b")); err == nil || !strings.Contains(err.Error(), "No. "+first.Number) {
		t.Errorf("got %+v (%v), want an error about No. %s", n, err, first.Number)
	}
	if got := rows(t, l); len(got) != 1 || got[0] != first {
		t.Errorf("rows: got %+v, want the first", got)
	}
	n, err := l.Record(t.Context(), accepted("reservation-b"))
	if err != nil || n.Number == first.Number {
		t.Errorf("the next try: got %+v (%v)", n, err)
	}
	if key, err := reservations.Numbered(t.Context(), s.Table("numbers"), first.Number); err != nil || key != reservations.Key(first.ID) {
		t.Errorf("No. %s: got key %q (%v), want that of the first", first.Number, key, err)
	}
}

// TestLedgerInAnyOrder runs two copies of Record and one of Cancel side by side, in every possible order of their
// first storage calls. None may leave a row, and no two numbers may come out.
func TestLedgerInAnyOrder(t *testing.T) {
	t.Parallel()
	file := openStore(t)
	store, interleave := turns(file)
	l := reservations.NewLedger(store, numbers(t, file))

	n := 0
	for order := range schedules([]int{4, 4, 2}) {
		e := accepted(fmt.Sprintf("reservation-%d", n))
		n++
		var got [2]reservations.ReservationNumbered
		record := func(i int) func(context.Context) error {
			return func(ctx context.Context) (err error) { got[i], err = l.Record(ctx, e); return err }
		}
		interleave(t, order, record(0), record(1), func(ctx context.Context) error { return l.Cancel(ctx, reservations.ReservationCancelled(e)) })
		if left := rows(t, l); len(left) != 0 {
			t.Fatalf("order %v leaves %+v", order, left)
		}
		if a, b := got[0].Number, got[1].Number; a != "" && b != "" && a != b {
			t.Fatalf("order %v gives No. %s and No. %s", order, a, b)
		}
	}
	if want := 3150; n != want { // 10! / (4! 4! 2!)
		t.Errorf("orders: got %d, want %d", n, want)
	}
}

// turns returns a store, and a function that runs others side by side: their storage calls are made in the given order,
// and those that are left one function after the other.
func turns(file *storage.Store) (store *storage.Store, interleave func(t *testing.T, order []int, all ...func(context.Context) error)) {
	type turn struct{ go_, done chan struct{} }
	type turnKey struct{}
	store = storagetest.Intercept(file, func(ctx context.Context, _ storagetest.Op, do func() error) error {
		me, ok := ctx.Value(turnKey{}).(turn)
		if !ok {
			return do()
		}
		<-me.go_
		defer func() { me.done <- struct{}{} }()
		return do()
	})
	return store, func(t *testing.T, order []int, all ...func(context.Context) error) {
		t.Helper()
		var turns []turn
		var ended []chan error
		for _, f := range all {
			mine, end := turn{make(chan struct{}), make(chan struct{})}, make(chan error, 1)
			turns, ended = append(turns, mine), append(ended, end)
			go func() { end <- f(context.WithValue(t.Context(), turnKey{}, mine)) }()
		}
		take := func(who int) (more bool) {
			select {
			case turns[who].go_ <- struct{}{}:
				<-turns[who].done
				return true
			case err := <-ended[who]: // it needed fewer calls
				if err != nil {
					t.Fatal(err)
				}
				ended[who] <- nil
				return false
			}
		}
		for _, who := range order {
			take(who)
		}
		for who := range turns {
			for take(who) {
			}
		}
	}
}

// schedules yields all orders in which each participant has its number of turns.
func schedules(turns []int) func(yield func([]int) bool) {
	var order []int
	var next func(yield func([]int) bool) bool
	next = func(yield func([]int) bool) bool {
		more := false
		for who := range turns {
			if turns[who] == 0 {
				continue
			}
			more = true
			turns[who]--
			order = append(order, who)
			ok := next(yield)
			order = order[:len(order)-1]
			turns[who]++
			if !ok {
				return false
			}
		}
		return more || yield(order)
	}
	return func(yield func([]int) bool) { next(yield) }
}
