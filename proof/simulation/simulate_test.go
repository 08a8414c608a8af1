// Package simulation holds the promise against everything that may happen, in virtual time.
//
// A run is a world: one store, some worker processes, a web process that sends commands, an operator, and a schedule
// that follows from a seed. Store calls fail before or after their effect, are late, throttled, repeated; receipts become
// stale; processes are cut off from the store, crash and come back, or are stopped and started; some run an older
// version of the program; some commands are sent twice, some fail for a while, some for ever, some kill whoever handles them.
// Channels, workers, handlers, values and views are the real ones, and so is the store.
//
// Then all faults end, the workers empty the queues, and an auditor compares what the store holds with what was sent and
// acknowledged, knowing nothing else. Each of its checks has a name, which is also how a run fails.
//
//	make simulate SEEDS=10000        random schedules, by the thousand
//	make simulate SEED=123           one of them again, with its history
//
// The package consists of tests; make mutants shows that they can fail.
package simulation

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/values"
)

// seeds are those to run: MILLRACE_SEED is one, MILLRACE_SEEDS how many.
func seeds(t *testing.T) (first, n uint64, one bool) {
	t.Helper()
	number := func(name string, otherwise uint64) uint64 {
		text := os.Getenv(name)
		if text == "" {
			return otherwise
		}
		v, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return v
	}
	if os.Getenv("MILLRACE_SEED") != "" {
		return number("MILLRACE_SEED", 0), 1, true
	}
	return 1, number("MILLRACE_SEEDS", 16), false
}

// judge fails the test for what the auditor has found, with the history that led there.
func judge(t *testing.T, w *world, found []finding, again string) {
	t.Helper()
	one := os.Getenv("MILLRACE_SEED") != ""
	if len(found) == 0 && !one {
		return
	}
	for _, f := range found {
		t.Error(f)
	}
	const most = 400
	history := w.history
	if n := len(history); n > most && !one {
		history = append([]string{fmt.Sprintf("… %d lines before; all of them with the command below", n-most)}, history[n-most:]...)
	}
	t.Logf("history:\n%s\nagain: %s", strings.Join(history, "\n"), again)
}

// Random schedules of many faults.
func TestRandomSchedules(t *testing.T) {
	t.Parallel()
	first, n, one := seeds(t)
	var failed atomic.Bool
	for seed := first; seed < first+n; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			if !one {
				t.Parallel()
			}
			if failed.Load() {
				return // what has failed says enough
			}
			w, found := simulate(t, func(epoch time.Time) plan { return draw(seed, epoch) })
			if len(found) > 0 {
				failed.Store(true)
			}
			judge(t, w, found, fmt.Sprintf("make simulate SEED=%d", seed))
		})
	}
}

// One fault, of every kind, in every storage call that a worker makes while one command goes its whole way: into the value
// object, the views, the world outside, and the second command that a reaction sends.
func TestEverySingleFault(t *testing.T) {
	t.Parallel()
	if os.Getenv("MILLRACE_SEED") != "" {
		t.Skip("one random schedule is asked for")
	}
	for _, plain := range []bool{false, true} {
		for _, fault := range storagetest.Faults() {
			for _, pad := range []int{0, 60 << 10} {
				if (pad > 0 || !plain) && os.Getenv("MILLRACE_SEEDS") == "" {
					continue // with the race detector it takes long
				}
				t.Run(fmt.Sprintf("plain=%v/%s/%dbytes", plain, fault, pad), func(t *testing.T) {
					t.Parallel()
					for n, more := 1, true; more; n++ {
						var calls atomic.Int64
						var hit atomic.Bool
						w, found := simulate(t, func(epoch time.Time) plan {
							p := plan{plain: plain, workers: 1, visibility: 15 * time.Second, delay: 20 * time.Second, days: values.Config[day]{Initial: fresh}}
							p.commands = []command{{
								book: book{ID: worldtest.IDAt(epoch, 1), Day: "2030-01-01", Seats: 2, Sort: ordinary, Pad: strings.Repeat("x", pad)}, insist: true,
							}}
							p.schedule = func(op storagetest.Op) storagetest.Fault {
								if calls.Add(1) != int64(n) {
									return storagetest.NoFault
								}
								hit.Store(true)
								return fault
							}
							return p
						})
						judge(t, w, found, "go test ./simulation -run "+t.Name())
						if more = hit.Load(); t.Failed() || n > 500 {
							t.Fatalf("stopped at call %d", n)
						}
					}
				})
			}
		}
	}
}
