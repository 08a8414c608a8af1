package reservations_test

import (
	"context"
	"fmt"
	"path/filepath"
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

func rows(t *testing.T, l *reservations.Ledger) (all []reservations.ReservationAccepted) {
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
	l := reservations.NewLedger(openStore(t))
	a, b := accepted("reservation-a"), accepted("reservation-b")
	for _, e := range []reservations.ReservationAccepted{a, b, a} {
		if err := l.Accept(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	if got := rows(t, l); len(got) != 2 || got[0] != a || got[1] != b {
		t.Fatalf("accepted: got %+v", got)
	}
	for range 2 {
		if err := l.Cancel(t.Context(), reservations.ReservationCancelled(a)); err != nil {
			t.Fatal(err)
		}
	}
	if got := rows(t, l); len(got) != 1 || got[0] != b {
		t.Fatalf("cancelled: got %+v", got)
	}
}

// TestLedgerInAnyOrder runs two copies of Accept and one of Cancel side by side, in every possible order of their
// storage calls. None may leave a row.
func TestLedgerInAnyOrder(t *testing.T) {
	t.Parallel()
	type turn struct{ go_, done chan struct{} }
	type turnKey struct{}
	store := storagetest.Intercept(openStore(t), func(ctx context.Context, _ storagetest.Op, do func() error) error {
		me, ok := ctx.Value(turnKey{}).(turn)
		if !ok {
			return do()
		}
		<-me.go_
		defer func() { me.done <- struct{}{} }()
		return do()
	})
	l := reservations.NewLedger(store)

	const calls = 3 // the most that each makes
	n := 0
	for schedule := range schedules([]int{calls, calls, calls}) {
		e := accepted(fmt.Sprintf("reservation-%d", n))
		n++
		var turns []turn
		var ended []chan error
		for _, f := range []func(context.Context) error{
			func(ctx context.Context) error { return l.Accept(ctx, e) },
			func(ctx context.Context) error { return l.Accept(ctx, e) },
			func(ctx context.Context) error { return l.Cancel(ctx, reservations.ReservationCancelled(e)) },
		} {
			mine, end := turn{make(chan struct{}), make(chan struct{})}, make(chan error, 1)
			turns, ended = append(turns, mine), append(ended, end)
			go func() { end <- f(context.WithValue(t.Context(), turnKey{}, mine)) }()
		}
		for _, who := range schedule {
			select {
			case turns[who].go_ <- struct{}{}:
				<-turns[who].done
			case err := <-ended[who]: // it needed fewer calls
				if err != nil {
					t.Fatal(err)
				}
				ended[who] <- nil
			}
		}
		for _, end := range ended {
			if err := <-end; err != nil {
				t.Fatal(err)
			}
		}
		if got := rows(t, l); len(got) != 0 {
			t.Fatalf("order %v leaves %+v", schedule, got)
		}
	}
	if want := 1680; n != want { // 9! / (3! 3! 3!)
		t.Errorf("orders: got %d, want %d", n, want)
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
