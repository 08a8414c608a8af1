package alert_test

import (
	"context"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/ops/alert"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// Whatever the hook does instead of returning nil, it is called again at the next round, with the same alert, and the
// log says why.
func TestLawWhatIsNotToldIsTriedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		do  func(ctx context.Context) error
		log string
	}{
		"error":  {func(context.Context) error { return errNoServer }, "no mail server"},
		"panic":  {func(context.Context) error { panic("no ink") }, "panic: no ink"},
		"exit":   {func(context.Context) error { runtime.Goexit(); return nil }, "Goexit"},
		"waits":  {func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }, "deadline"},
		"hangs":  {func(context.Context) error { <-time.After(30 * time.Minute); return errNoServer }, "the call hangs"},
		"cancel": {func(context.Context) error { return context.Canceled }, "canceled"},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, s *storage.Store) {
				a := start(t, s, func(ctx context.Context, _ alert.Alert, n int) error {
					if n <= 3 {
						return c.do(ctx)
					}
					return nil
				})
				damage(t, s, "season")
				minutes(20)
				a.want(t, "after three failures", "wrong season")
				if len(a.attempts()) != 4 {
					t.Errorf("the hook was called %d times, want 4", len(a.attempts()))
				}
				for _, x := range a.attempts() {
					if first := a.attempts()[0]; !reflect.DeepEqual(x, first) {
						t.Errorf("the alert of a later try: got %+v, want %+v", x, first)
					}
				}
				if n := a.log.Count("ERROR an alert could not be told", c.log); n != 3 {
					t.Errorf("the log tells of %d failures with %q, want 3: %s", n, c.log, a.log)
				}
				minutes(20) // hanging calls return
				a.quit(t)
			})
		})
	}
}

// Calls that never return don't pile up, and don't keep the process from stopping.
func TestLawHangingCallsAreBounded(t *testing.T) {
	virtual(t, func(t *testing.T, s *storage.Store) {
		var alive, most atomic.Int64
		free := make(chan struct{})
		a := start(t, s, func(context.Context, alert.Alert, int) error {
			most.Store(max(most.Load(), alive.Add(1)))
			<-free
			alive.Add(-1)
			return errNoServer
		})
		damage(t, s, many(3)...)
		minutes(60)
		if n := most.Load(); n != 8 {
			t.Errorf("%d calls hung at once, want 8", n)
		}
		began := time.Now()
		a.quit(t)
		if took := time.Since(began); took > time.Minute {
			t.Errorf("the stop took %v", took)
		}
		close(free)
	})
}

// A finding that is over before its beginning could be told is told at both ends, in this order.
func TestLawTheEndIsToldAfterTheBeginning(t *testing.T) {
	virtual(t, func(t *testing.T, s *storage.Store) {
		var away atomic.Bool
		away.Store(true)
		a := start(t, s, func(context.Context, alert.Alert, int) error {
			if away.Load() {
				return errNoServer
			}
			return nil
		})
		damage(t, s, "season")
		minutes(5)
		mend(t, s, "season")
		minutes(5)
		away.Store(false)
		minutes(5)
		a.want(t, "in the end", "wrong season", "over season")
		a.quit(t)
	})
}

// A hook that fails for one alert doesn't keep the others from being told.
func TestLawAFailureHoldsUpNoOther(t *testing.T) {
	virtual(t, func(t *testing.T, s *storage.Store) {
		a := start(t, s, func(_ context.Context, x alert.Alert, _ int) error {
			if x.Finding.About < "gate-015" {
				return errNoServer
			}
			return nil
		})
		for _, gate := range many(20) {
			damage(t, s, gate)
			minutes(1)
		}
		minutes(20)
		got := a.texts(&a.told)
		slices.Sort(got)
		worldtest.Want(t, "what was told", fmt.Sprint(got), "[wrong gate-015 wrong gate-016 wrong gate-017 wrong gate-018 wrong gate-019]")
		a.quit(t)
	})
}

// A process that can't store that it has told tells nothing again: it stores that later. If it dies before, its
// successor tells once more under the same ID.
func TestLawARepeatHasTheSameID(t *testing.T) {
	for name, dies := range map[string]bool{"the store is away": false, "the process dies": true} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, s *storage.Store) {
				var a *process
				a = start(t, s, func(context.Context, alert.Alert, int) error {
					a.fail(of("alerts"))
					return nil
				})
				b := start(t, s, nil)
				damage(t, s, "season")
				minutes(10)
				a.want(t, "by the first leader", "wrong season")
				if dies {
					a.kill()
					minutes(5)
					b.want(t, "by its successor", "wrong season")
					if was, again := a.all()[0], b.all()[0]; was.ID != again.ID || was.Title() != again.Title() {
						t.Errorf("told %+v, and again %+v; want the same", was, again)
					}
				} else {
					a.fail(nil)
					minutes(10)
					a.want(t, "when the store is back", "wrong season")
					a.quit(t)
					minutes(5)
					b.want(t, "by its successor")
				}
				b.quit(t)
			})
		})
	}
}

// The hook isn't called before the ID is stored.
func TestLawNothingIsToldBeforeItsIDIsStored(t *testing.T) {
	virtual(t, func(t *testing.T, s *storage.Store) {
		a := start(t, s, nil)
		minutes(2) // it has read the document
		a.fail(func(op storagetest.Op) bool { return op.Name == "put blob" && of("alerts")(op) })
		damage(t, s, "season")
		minutes(10)
		if len(a.attempts()) > 0 {
			t.Errorf("tried %+v", a.attempts())
		}
		a.fail(nil)
		minutes(5)
		a.want(t, "afterwards", "wrong season")
		a.quit(t)
	})
}

// A flood is told by a few calls, and so is its end. Each finding is told alone, or counted.
func TestLawAFloodIsNoMailBomb(t *testing.T) {
	virtual(t, func(t *testing.T, s *storage.Store) {
		a := start(t, s, nil)
		flood := many(300)
		damage(t, s, flood...)
		minutes(30)
		want := []string{"wrong gate-000", "wrong gate-001", "wrong gate-002", "wrong gate-003", "wrong gate-004", "wrong gate-005 +294"}
		a.want(t, "of a flood", want...)
		mend(t, s, flood...)
		minutes(30)
		want = append(want, "over gate-000", "over gate-001", "over gate-002", "over gate-003", "over gate-004", "over gate-005 +294")
		a.want(t, "of its end", want...)
		a.quit(t)
	})
}

// Findings that began together end together, whenever that is: there is one alert for those of a round.
func TestLawTheEndOfAFloodIsOne(t *testing.T) {
	virtual(t, func(t *testing.T, s *storage.Store) {
		a := start(t, s, nil)
		damage(t, s, many(20)...)
		minutes(10)
		began := len(a.all())
		mend(t, s, many(20)[10:13]...)
		minutes(10)
		mend(t, s, many(20)[13:15]...)
		minutes(10)
		worldtest.Want(t, "the ends", fmt.Sprint(a.texts(&a.told)[began:]), "[over gate-010 +2 over gate-013 +1]")
		a.quit(t)
	})
}

// A hook that fails for an hour while much begins is called 8 times a round at most, and no more than 500 findings are
// kept. When the hook works again, it tells them by few calls.
func TestLawCallsAndFindingsAreBounded(t *testing.T) {
	virtual(t, func(t *testing.T, s *storage.Store) {
		var away atomic.Bool
		away.Store(true)
		a := start(t, s, func(context.Context, alert.Alert, int) error {
			if away.Load() {
				return errNoServer
			}
			return nil
		})
		all := many(700)
		for i := range 60 {
			damage(t, s, all[10*i:10*i+10]...)
			before := len(a.attempts())
			minutes(1)
			if n := len(a.attempts()) - before; n > 8 {
				t.Fatalf("the hook was called %d times in a round, want 8 at most", n)
			}
		}
		damage(t, s, all[600:]...)
		minutes(5)
		away.Store(false)
		minutes(20)
		n, alone := 0, 0
		for _, x := range a.all() {
			if n += 1 + x.More; x.More == 0 {
				alone++
			}
		}
		if n != 500 || alone != 5 {
			t.Errorf("told %d findings, %d of them alone; want 500 and 5", n, alone)
		}
		if a.log.Count("more is wrong with the store than is told") == 0 {
			t.Errorf("the log doesn't tell that findings were left out: %s", a.log)
		}
		a.quit(t)
	})
}

// An alert in words has what people need.
func TestAlertsInWords(t *testing.T) {
	t.Parallel()
	a := alert.Alert{Since: time.Date(2026, 11, 29, 20, 0, 0, 0, time.UTC), At: time.Date(2026, 11, 29, 20, 9, 0, 0, time.UTC)}
	a.Finding.Text, a.Finding.Fix = "gate season can't be read", "Close it."
	for _, c := range []struct {
		more int
		over bool
		want string
	}{
		{0, false, "Wrong: gate season can't be read\nSince 2026-11-29 20:00"},
		{1, false, "Wrong: gate season can't be read, and 1 more\n"},
		{7, false, "Close it.\n"},
		{7, true, "Over: gate season can't be read, and 7 more\nSince 2026-11-29 20:00"},
		{0, true, "until 2026-11-29 20:09"},
	} {
		if a.More, a.Over = c.more, c.over; !strings.Contains(a.String(), c.want) {
			t.Errorf("got %q, want %q in it", a.String(), c.want)
		}
	}
}
