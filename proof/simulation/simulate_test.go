// Package simulation tests the promise against every fault that may happen, in virtual time.
//
// A run is a world: one store, some worker processes, a web process that sends commands, an operator, and a schedule
// that follows from a seed. The faults are:
//
//   - Store calls fail before or after their effect, are late, throttled or repeated.
//   - Receipts become stale.
//   - Processes are cut off from the store, crash and come back, or are stopped and started. Some run an older version
//     of the program.
//   - Some commands are sent twice, some fail for a while, some for ever, and some kill the process that handles them.
//
// Channels, workers, handlers, values and views are the real ones, and so is the store: SQLite, and for the random
// schedules also a Redis server, to which a call takes no virtual time.
//
// Then all faults end, the workers empty the queues, and an auditor compares the store with what was sent and
// acknowledged. It knows nothing else. Each of its checks has a name, under which a run fails.
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

	"github.com/millrace-go/millrace/internal/faulttest"
	"github.com/millrace-go/millrace/internal/parttest"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/values"
)

// seeds are the seeds to run: MILLRACE_SEED is one, MILLRACE_SEEDS how many. Without them there are 16, or 5 with the
// race detector.
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
	ordinarily := uint64(16)
	if worldtest.RaceDetector {
		ordinarily = 5
	}
	return 1, number("MILLRACE_SEEDS", ordinarily), false
}

// judge fails the test for each finding, with the history that led to it.
func judge(t *testing.T, w *world, found []finding, again string) {
	t.Helper()
	one := os.Getenv("MILLRACE_SEED") != ""
	if len(found) == 0 && !one {
		return
	}
	for _, f := range found {
		t.Error(f)
	}
	most := 400
	if one {
		most = 0
	}
	t.Logf("history:\n%s\nagain, with all of it: %s", w.History(most), again)
}

// Random schedules have many faults.
func TestRandomSchedules(t *testing.T) {
	t.Parallel()
	randomSchedules(t, onSQLite)
}

// randomSchedules runs the random schedules, each on a store of its own. place is called outside of virtual time, and
// open in it.
func randomSchedules(t *testing.T, place func(*testing.T) (open func(*testing.T) *storage.Store)) {
	t.Helper()
	first, n, one := seeds(t)
	var failed atomic.Bool
	for seed := first; seed < first+n; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			if !one {
				t.Parallel()
			}
			if failed.Load() {
				return // the failures so far say enough
			}
			w, found := simulateOn(t, place(t), func(epoch time.Time) plan { return draw(seed, epoch) })
			if len(found) > 0 {
				failed.Store(true)
			}
			judge(t, w, found, fmt.Sprintf("make simulate SEED=%d", seed))
		})
	}
}

// Each run has one fault, of every kind, in every storage call of a worker, while one command goes its whole way:
// into the value object, the views, the outside effect, and the second command that a reaction sends. make test, with
// the race detector, has each fault in every tenth call only. make simulate has it in each, or in an eighth of them
// where MILLRACE_PART names one of the eighths.
func TestEverySingleFault(t *testing.T) {
	t.Parallel()
	everySingleFault(t, func(p *plan, epoch time.Time, pad string) {
		p.commands = []command{{book: book{ID: worldtest.IDAt(epoch, 1), Day: "2030-01-01", Seats: 2, Sort: ordinary, Pad: pad}, insist: true}}
	})
}

// The same for the process of two value objects: a decision emits a command for another value object and a message that
// is due later, and the other one's event comes back.
func TestEverySingleFaultOfAProcess(t *testing.T) {
	t.Parallel()
	everySingleFault(t, func(p *plan, epoch time.Time, pad string) {
		p.orders = []open{{ID: worldtest.IDAt(epoch, 1), Order: "order-1", Shelf: "shelf-1", Until: epoch.Add(45 * time.Second), Pad: pad}}
	})
}

const eighths = 8

// everySingleFault runs what fill adds to a plan, with each fault in each call.
func everySingleFault(t *testing.T, fill func(p *plan, epoch time.Time, pad string)) {
	t.Helper()
	if os.Getenv("MILLRACE_SEED") != "" {
		t.Skip("one random schedule is asked for")
	}
	for _, plain := range []bool{false, true} {
		for i, fault := range storagetest.Faults() {
			for _, pad := range []int{0, 60 << 10} {
				if (pad > 0 || !plain) && os.Getenv("MILLRACE_SEEDS") == "" {
					continue // it takes long with the race detector
				}
				t.Run(fmt.Sprintf("plain=%v/%s/%dbytes", plain, fault, pad), func(t *testing.T) {
					t.Parallel()
					first, step := 1, 1
					switch part, named := parttest.Of(t, eighths); {
					case os.Getenv("MILLRACE_SEEDS") == "":
						if worldtest.RaceDetector {
							first, step = 1+i%worldtest.Stride, worldtest.Stride
						}
					case named:
						first, step = 1+(i+part)%eighths, eighths
					}
					for n, more := first, true; more; n += step {
						var calls atomic.Int64
						var hit atomic.Bool
						w, found := simulate(t, func(epoch time.Time) plan {
							p := plan{days: values.Config[day]{Initial: fresh}}
							p.Plan = faulttest.Plan{Plain: plain, Workers: 1, Visibility: 15 * time.Second, Delay: 20 * time.Second}
							fill(&p, epoch, strings.Repeat("x", pad))
							p.Schedule = func(op storagetest.Op) storagetest.Fault {
								if calls.Add(1) != int64(n) {
									return storagetest.NoFault
								}
								hit.Store(true)
								return fault
							}
							return p
						})
						judge(t, w, found, "go test ./proof/simulation -run "+t.Name())
						if more = hit.Load(); t.Failed() || n > 500 {
							t.Fatalf("stopped at call %d", n)
						}
					}
				})
			}
		}
	}
}
