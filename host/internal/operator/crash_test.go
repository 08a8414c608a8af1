package operator

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/parttest"
	"github.com/millrace-go/millrace/sample/reservations"
)

// page is how many entries a bulk act settles together.
const page = 128

// sentBack waits until at least n commands have left the poison queue for their own.
func (w *world) sentBack(t *testing.T, n int) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	late := time.After(patience)
	for {
		st, err := w.store.Queue("reservations").Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if int(st.Ready) >= n+page { // so many may be in both queues
			return
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("%d messages are sent back, want %d", st.Ready, n)
		}
	}
}

// retry -all is killed in the middle. The next one finishes the work, and each command is decided exactly once.
func TestRetryIsKilled(t *testing.T) {
	parttest.InTurn(t)
	t.Parallel()
	const n = 1500
	w := newWorld(t, "")
	sent := w.poison(t, n, closed)
	p := w.begin(t, "poison", "retry", "-all")
	w.sentBack(t, 500)
	p.Signal(t, syscall.SIGKILL)
	if code := p.Wait(t); code != -1 {
		t.Fatalf("got exit code %d, want it killed in the middle", code)
	}
	left := len(w.poisoned(t))
	st, err := w.store.Queue("reservations").Stats(t.Context())
	if left == 0 || left > n-500 || err != nil || int(st.Ready) < n-left {
		t.Fatalf("got %d of %d in the poison queue and %d sent back (%v); each must be somewhere", left, n, st.Ready, err)
	}
	t.Logf("%d were left, %d were in both places", left, int(st.Ready)+left-n)
	if r := w.want(t, 0, "poison", "retry", "-all"); !strings.Contains(r.out, fmt.Sprintf("Sent back %d messages.", left)) {
		t.Errorf("got %q, want the %d that were left", r.out, left)
	}
	w.work(t, nil)
	w.drained(t)
	w.audit(t, sent)
	if got := w.poisoned(t); len(got) > 0 {
		t.Errorf("got %d in the poison queue, want none", len(got))
	}
}

// A signal stops a retry between two messages, and the exit code tells.
func TestRetryIsStopped(t *testing.T) {
	t.Parallel()
	const n = 1500
	w := newWorld(t, "")
	w.poison(t, n, closed)
	p := w.begin(t, "poison", "retry", "-all")
	w.sentBack(t, 500)
	p.Signal(t, syscall.SIGINT)
	code, left := p.Wait(t), len(w.poisoned(t))
	st, err := w.store.Queue("reservations").Stats(t.Context())
	if code != 1 || left == 0 || err != nil || int(st.Ready)+left != n {
		t.Errorf("got exit code %d with %d left and %d sent back (%v), want 1 and %d together", code, left, st.Ready, err, n)
	}
	if want := fmt.Sprintf("stopped by a signal after %d of %d messages", n-left, n); !strings.Contains(p.Output(), want) {
		t.Errorf("got %q, want %q", p.Output(), want)
	}
}

// Two operators send everything back while a worker handles it and refuses some of it again and again.
func TestRetryWhileAWorkerRuns(t *testing.T) {
	t.Parallel()
	const n = 200
	w := newWorld(t, "")
	sent := w.poison(t, n, closed)
	stubborn := func(m reservations.MakeReservation) bool { return m.Quantity == 3 }
	stop := w.work(t, func(m reservations.MakeReservation) error {
		if stubborn(m) {
			return handlers.Poison("no chairs", errors.New("three is a crowd"))
		}
		return nil
	})
	var operators sync.WaitGroup
	for range 2 {
		operators.Go(func() {
			for range 3 {
				if r := finish(t, command(w.dir, w.url, "poison", "retry", "-all")); r.code != 0 {
					t.Errorf("got exit code %d: %s", r.code, r.err)
				}
			}
		})
	}
	operators.Wait()
	w.drained(t, "reservations")
	if got := len(w.poisoned(t)); got != n/4 {
		t.Errorf("got %d in the poison queue, want the %d that were refused again", got, n/4)
	}
	if r := w.want(t, 0, "poison", "retry", "-reason", "no chairs"); r.out != fmt.Sprintf("Sent back %d messages.\n", n/4) {
		t.Errorf("got %q", r.out)
	}
	w.drained(t, "reservations")
	stop()
	w.want(t, 0, "poison", "retry", "-all")
	w.work(t, nil)
	w.drained(t)
	w.audit(t, sent)
}
