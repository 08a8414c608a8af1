package process_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/millracetest"
	"github.com/millrace-go/millrace/process"
	"github.com/millrace-go/millrace/process/internal/flow"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/values"
)

// Laws 2 and 8. An agent may do anything: it ends in an outcome of its attempt, and the next one is begun.
func TestAgentsMayDoAnything(t *testing.T) {
	for name, c := range map[string]struct {
		misdeed func(ctx context.Context) (string, error)
		says    string
	}{
		"error":                      {func(context.Context) (string, error) { return "", errors.New("503") }, "503"},
		"panic":                      {func(context.Context) (string, error) { panic("oh") }, "oh"},
		"Goexit":                     {func(context.Context) (string, error) { runtime.Goexit(); return "", nil }, "Goexit"},
		"an error whose text panics": {func(context.Context) (string, error) { return "", badError{} }, "whose text can't be had"},
		"an error around a nil one":  {func(context.Context) (string, error) { return "", errAroundNil() }, "read: "},
		"an error that ends all":     {func(context.Context) (string, error) { return "", quietError{} }, "Goexit"},
		"an error of strange bytes":  {func(context.Context) (string, error) { return "", errors.New("not \xff text") }, "not \uFFFD text"},
		"an error cut in a letter":   {func(context.Context) (string, error) { return "", errors.New("x" + strings.Repeat("ä", 700)) }, "xä"},
		"a hang until its context ends": {func(ctx context.Context) (string, error) {
			<-ctx.Done()
			return "", context.Cause(ctx)
		}, "longer than"},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(c *crew, p *process.Plan[note]) {
				c.undoable(p, "a").Try(20 * time.Second)
				c.do(p, "b").Attempts(1)
			}, func(l *lab) {
				for _, agent := range []string{"a", "undo a"} {
					n := 0
					l.when(agent, func(ctx context.Context) (string, error) {
						if n++; n < 4 {
							return c.misdeed(ctx)
						}
						if got := process.Attempt(ctx); got != 4 {
							l.t.Errorf("%s: attempt: got %d, want 4", agent, got)
						}
						return agent, nil
					})
				}
				l.when("b", c.misdeed)
				l.start("i")
				l.app.Advance(10 * time.Minute)
				l.want("i", process.Aborted, "a")
				l.wantError("i", c.says)
				l.wantJournal("a, a, a, a, b, undo a, undo a, undo a, undo a")
			})
		})
	}
}

// Law 8. An error of the store within an agent is none of the agent's: it spends no attempt, in an undo neither.
func TestTheStoresErrorSpendsNoAttempt(t *testing.T) {
	each(t, func(c *crew, p *process.Plan[note]) {
		c.undoable(p, "a").Attempts(1)
		c.do(p, "b").Attempts(1)
	}, func(l *lab) {
		var mu sync.Mutex
		n := map[string]int{} // under mu
		for _, agent := range []string{"a", "undo a"} {
			l.when(agent, func(ctx context.Context) (string, error) {
				mu.Lock()
				defer mu.Unlock()
				n[agent]++
				if got := process.Attempt(ctx); got != 1 {
					l.t.Errorf("%s: attempt %d, want 1", agent, got)
				}
				switch n[agent] {
				case 1:
					return "", fmt.Errorf("read my rows: %w", storage.ErrUnavailable)
				case 2:
					return "", storage.ErrThrottled
				case 3:
					return "", values.ErrContended
				}
				return agent, nil
			})
		}
		l.when("b", func(context.Context) (string, error) { return "", errors.New("no") })
		l.start("i")
		l.app.Advance(10 * time.Minute)
		l.want("i", process.Aborted, "a")
		l.wantError("i", "no")
		l.wantJournal("a, a, a, a, b, undo a, undo a, undo a, undo a")
		l.wantPoison()
	})
}

// Law 6. An agent that always says Later is asked until its step has ended, and no more.
func TestLaterEndsWithItsStep(t *testing.T) {
	each(t, func(c *crew, p *process.Plan[note]) {
		c.undoable(p, "a").Within(time.Minute)
	}, func(l *lab) {
		l.when("a", func(context.Context) (string, error) { return "", handlers.Later(20*time.Second, "not yet") })
		l.start("i")
		l.app.Advance(2 * time.Minute)
		l.want("i", process.Aborted, "")
		if l.took() == "" {
			l.t.Error("the agent was not asked")
		}
		l.app.Advance(time.Hour)
		l.wantJournal("")
	})
}

// Law 8. An agent that always has an error of the store is called until its step has ended, and no more.
func TestTheStoresErrorEndsWithItsStep(t *testing.T) {
	each(t, func(c *crew, p *process.Plan[note]) {
		c.undoable(p, "a").Within(time.Minute)
	}, func(l *lab) {
		l.when("a", func(context.Context) (string, error) {
			return "", fmt.Errorf("read my rows: %w", storage.ErrUnavailable)
		})
		l.ok(l.notes.Start(l.t.Context(), "i", note{Did: []string{}}))
		l.pass(5 * time.Minute)
		l.want("i", process.Aborted, "")
		if l.took() == "" {
			l.t.Error("the agent was not called")
		}
		l.pass(time.Hour)
		l.wantJournal("")
	})
}

// errAroundNil is an error whose Unwrap returns a nil pointer that is an error. Its Unwrap panics.
func errAroundNil() error { return fmt.Errorf("read: %w", (*os.PathError)(nil)) }

// Law 8. An error whose methods panic spends the attempts that the plan allows, and says what it can.
func TestAnErrorAroundANilPointerIsAnError(t *testing.T) {
	each(t, func(c *crew, p *process.Plan[note]) {
		c.do(p, "read").Attempts(2)
	}, func(l *lab) {
		l.when("read", func(context.Context) (string, error) { return "", errAroundNil() })
		l.start("i")
		l.app.Advance(time.Hour)
		l.want("i", process.Aborted, "")
		l.wantError("i", "read: ")
		l.wantJournal("read, read")
		l.wantPoison()
	})
}

// quietError is an error that ends the goroutine of whoever looks into it.
type quietError struct{}

func (quietError) Error() string { return "quiet" }
func (quietError) Unwrap() error { runtime.Goexit(); return nil }

type badError struct{}

func (badError) Error() string { panic("no text") }

// Law 8. The plan says how often an agent is asked. Refuse and Poison mean never again, Retry chooses the delay, and
// Later spends no attempt.
func TestAttemptsAreCountedByTheDocument(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		asked int
	}{
		"any error": {errors.New("503"), 3},
		"Retry":     {handlers.Retry(10*time.Minute, errors.New("503")), 3},
		"Refuse":    {process.Refuse(errors.New("no money")), 1},
		"Poison":    {handlers.Poison("bad", nil), 1},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(c *crew, p *process.Plan[note]) { c.do(p, "a").Attempts(3) }, func(l *lab) {
				l.when("a", func(context.Context) (string, error) { return "", c.err })
				l.start("i")
				l.app.Advance(25 * time.Minute)
				l.want("i", process.Aborted, "")
				if got := strings.Count(l.took(), "a"); got != c.asked {
					l.t.Errorf("asked %d times, want %d", got, c.asked)
				}
			})
		})
	}
	t.Run("Later", func(t *testing.T) {
		each(t, func(c *crew, p *process.Plan[note]) { c.do(p, "a").Attempts(1) }, func(l *lab) {
			n := 0
			l.when("a", func(ctx context.Context) (string, error) {
				if n++; n < 8 {
					return "", handlers.Later(time.Minute, "closed")
				}
				if got := process.Attempt(ctx); got != 1 {
					l.t.Errorf("attempt: got %d, want 1", got)
				}
				return "a", nil
			})
			l.start("i")
			l.app.Advance(10 * time.Minute)
			l.want("i", process.Completed, "a")
		})
	})
}

// Laws 3 and 9. The key of a step is the same for all attempts, and when the worker dies. Items, undos, other steps,
// other instances and another run have keys of their own.
func TestKeyIsTheSameForAllAttempts(t *testing.T) {
	each(t, func(c *crew, p *process.Plan[note]) {
		c.undoable(p, "a").Undo(func(ctx context.Context, _ note, _ string) error {
			_, err := c.work(ctx, "undo a")
			return err
		})
		process.Each(p, "each", func(note) []string { return []string{"x", "y"} },
			func(ctx context.Context, i string) (string, error) { return c.work(ctx, "item "+i) }, nil)
		c.do(p, "b")
	}, func(l *lab) {
		var mu sync.Mutex
		keys := map[string][]string{} // under mu
		noting := func(name string, then func(n int) error) {
			l.when(name, func(ctx context.Context) (string, error) {
				mu.Lock()
				keys[name+process.ID(ctx)] = append(keys[name+process.ID(ctx)], process.Key(ctx))
				n := len(keys[name+process.ID(ctx)])
				mu.Unlock()
				return name, then(n)
			})
		}
		flaky := func(n int) error {
			switch {
			case n == 1:
				l.app.Kill() // the worker, in the middle
			case n < 4:
				return errors.New("503")
			}
			return nil
		}
		noting("a", flaky)
		noting("undo a", flaky)
		noting("item x", flaky)
		noting("item y", func(int) error { return nil })
		noting("b", func(n int) error { return process.Refuse(errors.New("no")) })
		for _, id := range []string{"i", "j"} {
			l.ok(l.notes.Start(l.t.Context(), id, note{Did: []string{}}))
		}
		l.app.Drain()
		l.app.Advance(10 * time.Minute)
		var distinct []string
		mu.Lock()
		for name, all := range keys {
			if len(slices.Compact(slices.Clone(all))) != 1 || all[0] == "" {
				l.t.Errorf("%s: got the keys %q, want one", name, all)
			}
			distinct = append(distinct, all[0])
		}
		mu.Unlock()
		slices.Sort(distinct)
		if n := len(slices.Compact(distinct)); n != len(keys) || n != 10 {
			l.t.Errorf("got %d keys for %d steps, items and undos of two instances, want 10", n, len(keys))
		}
		l.asked(l.operator("ada", "again").Rerun(l.t.Context(), "i", "01"))
		l.app.Drain()
		l.app.Advance(10 * time.Minute)
		if all := keys["ai"]; len(slices.Compact(slices.Clone(all))) != 2 {
			l.t.Errorf("after another run: got the keys %q of a, want two", all)
		}
	})
}

// told is a command that an agent sends.
type told struct{ What string }

func (told) Kind() channel.Kind { return "test.told.v1" }

// Law 9. The messages that an agent sends have the same IDs in each attempt: they follow from the step's key. Items and
// undos have keys of their own.
func TestWhatAnAgentSendsIsOneMessage(t *testing.T) {
	var mu sync.Mutex
	ids := map[string]map[string]bool{} // by content; under mu
	eachOf(t, func(c *crew) millracetest.Program {
		send := func(ctx context.Context, what string) error {
			if err := channel.Send(ctx, told{what}); err != nil || process.Attempt(ctx) < 3 {
				return errors.Join(errors.New("503"), err)
			}
			return nil
		}
		plan := func(p *process.Plan[note]) {
			process.Do(p, "a", func(ctx context.Context, _ note) (string, error) { return "a", send(ctx, "a "+process.ID(ctx)) }, note.add).
				Undo(func(ctx context.Context, _ note, _ string) error { return send(ctx, "undo "+process.ID(ctx)) })
			process.Each(p, "each", func(note) []string { return []string{"x", "y"} },
				func(ctx context.Context, _ string) (string, error) { return "", send(ctx, "items "+process.ID(ctx)) }, nil)
			c.do(p, "b")
		}
		return millracetest.Program{
			Routes: func() (*channel.Routes, error) {
				return channel.NewRoutes(process.Route(planName), channel.Command[told]("told"))
			},
			Register: func(h *handlers.Registry) error {
				handlers.React(h, "told", func(ctx context.Context, m told) error {
					e, _, _ := channel.Handled(ctx)
					mu.Lock()
					defer mu.Unlock()
					if ids[m.What] == nil {
						ids[m.What] = map[string]bool{}
					}
					ids[m.What][e.ID] = true
					return nil
				})
				return process.Register(h, planName, process.Version(1, plan))
			},
		}
	}, func(l *lab) {
		id := fmt.Sprintf("i-%v", l.steps)
		l.when("b", func(context.Context) (string, error) { return "", process.Refuse(errors.New("no")) })
		l.start(id)
		l.app.Advance(10 * time.Minute)
		l.want(id, process.Aborted, "a")
		mu.Lock()
		defer mu.Unlock()
		for what, n := range map[string]int{"a " + id: 1, "undo " + id: 1, "items " + id: 2} {
			if len(ids[what]) != n {
				l.t.Errorf("%s: %d messages, want %d", what, len(ids[what]), n)
			}
		}
	})
}

// Law 9. The context of an agent ends when its attempt has taken Try, or when the step has taken Within.
func TestContextEndsAtTheEarliestDeadline(t *testing.T) {
	each(t, func(c *crew, p *process.Plan[note]) {
		c.do(p, "a").Try(20 * time.Second).Within(30 * time.Second).Else(func(p *process.Plan[note]) { c.do(p, "else") })
	}, func(l *lab) {
		var took []time.Duration
		l.when("a", func(ctx context.Context) (string, error) {
			began := time.Now()
			<-ctx.Done()
			took = append(took, time.Since(began).Round(time.Second))
			return "", handlers.Retry(time.Second, context.Cause(ctx))
		})
		l.start("i")
		l.app.Advance(time.Minute)
		if want := []time.Duration{20 * time.Second, 9 * time.Second}; !slices.Equal(took, want) {
			l.t.Errorf("attempts took %v, want %v: Try, and what was left of Within", took, want)
		}
		l.want("i", process.Completed, "else")
	})
}

// Law 9. The context of an agent ends when its worker loses the message, and another worker asks again.
func TestContextEndsAtALoss(t *testing.T) {
	each(t, func(c *crew, p *process.Plan[note]) { c.do(p, "a").Try(4 * time.Minute) }, func(l *lab) {
		var n atomic.Int64
		var ended atomic.Bool
		l.when("a", func(ctx context.Context) (string, error) {
			if n.Add(1) == 1 {
				l.app.Kill()
				<-ctx.Done()
				ended.Store(true)
			}
			return "a", nil
		})
		l.start("i")
		l.app.Advance(5 * time.Minute)
		if !ended.Load() {
			l.t.Error("the context of the first run has not ended")
		}
		l.want("i", process.Completed, "a")
		if got := l.took(); got != "a, a" && got != "a, a, a" { // the start may have come again, too, and with it a copy of the begin
			l.t.Errorf("the agents: got %q, want that a ran again", got)
		}
	})
}

// An agent that ignores its context keeps nobody waiting: the deadline of the step ends it, and its late success is
// undone.
func TestAgentThatIgnoresItsContext(t *testing.T) {
	each(t, func(c *crew, p *process.Plan[note]) { c.undoable(p, "a").Try(time.Second).Within(time.Minute) }, func(l *lab) {
		l.when("a", func(context.Context) (string, error) {
			time.Sleep(3 * time.Minute) // in a bubble
			return "a", nil
		})
		l.ok(l.notes.Start(l.t.Context(), "i", note{Did: []string{}}))
		time.Sleep(2 * time.Minute)
		l.want("i", process.Aborted, "")
		l.app.Drain()
		l.want("i", process.Aborted, "")
		l.wantJournal("a, undo a")
	})
}

// Law 8. A begin that kills its workers goes to the poison queue. Then the attempt has failed, and the next one is
// begun. When there is none, what was done is undone.
func TestAgentThatKillsItsWorkers(t *testing.T) {
	each(t, func(c *crew, p *process.Plan[note]) {
		c.undoable(p, "a")
		c.do(p, "b").Attempts(2)
	}, func(l *lab) {
		l.when("b", func(context.Context) (string, error) {
			time.Sleep(time.Second) // in a bubble: other messages are not in the worker's hand any more
			l.app.Kill()
			return "b", nil
		})
		l.start("i")
		l.app.Advance(time.Hour)
		l.want("i", process.Aborted, "a")
		l.wantError("i", "in the poison queue of plan-do: too many deliveries")
		l.wantPoison("plan-do: too many deliveries", "plan-do: too many deliveries")
		got, want := l.took(), "a, "+strings.Repeat("b, ", 2*20)+"undo a" // worker.Config.MaxDeliveries
		// In steps, a begin that a dead worker may not have sent is sent once more. Its copy may come after the undo, too.
		if l.steps && strings.HasPrefix(got, "a, b, b, b, ") {
			got, want = strings.ReplaceAll(got+", ", "b, ", ""), "a, undo a, "
		}
		if got != want {
			l.t.Errorf("the agents: got %q, want %q", got, want)
		}
	})
}

// begins sends a begin of step 01 as an agent's queue may bring it once more: one that was sent before.
func begins(l *lab, b flow.Begin, ago time.Duration) {
	l.t.Helper()
	b.Plan, b.ID, b.Version, b.Path, b.Name, b.Key = planName, "i", 1, "01", "a", "k"
	b.State = jsontext.Value(`{"did":[]}`)
	e, err := wire.Compose(b, "/test", time.Now().Add(-ago))
	l.ok(err)
	packed, err := l.app.Channels().Outbox().Pack(l.t.Context(), e)
	l.ok(err)
	l.ok(l.app.Channels().Outbox().SendPacked(l.t.Context(), packed))
	l.app.Drain()
}

// Law 9. A worker may have sent a begin without another one knowing, which sends it once more when it writes the
// document next. Such a copy is not run where its step, or its undo, has ended.
func TestOldCopyOfABegin(t *testing.T) {
	each(t, func(c *crew, p *process.Plan[note]) {
		c.undoable(p, "a")
		process.Wait(p, "wait", note.goOn)
	}, func(l *lab) {
		l.start("i")
		begins(l, flow.Begin{Attempt: 1}, 2*time.Minute)
		l.wantJournal("a")
		l.ok(l.notes.Cancel(l.t.Context(), "i", "ada", "enough"))
		l.app.Drain()
		l.wantJournal("undo a")
		begins(l, flow.Begin{Attempt: 1, Undo: 1, Result: jsontext.Value(`"a"`)}, 2*time.Minute)
		begins(l, flow.Begin{Attempt: 1}, 2*time.Minute)
		l.wantJournal("")
	})
}

// Law 5. A worker that dies may have done what the step was for. So another one does it again, whatever has become of
// the step, unless the success is known: here the step was cancelled meanwhile, and the success is undone.
func TestBeginOfADeadWorker(t *testing.T) {
	each(t, func(c *crew, p *process.Plan[note]) { c.undoable(p, "a").Within(20 * time.Second) }, func(l *lab) {
		killed := false
		l.when("a", func(context.Context) (string, error) {
			if !killed {
				killed = true
				l.app.Kill()
			}
			return "a", nil
		})
		l.start("i")
		l.app.Advance(time.Minute)
		l.want("i", process.Aborted, "")
		l.wantJournal("a, a, undo a")
	})
}

// Laws 6 and 11. A begin that was put off by Later comes no more after a cancel, while one of a dead worker does.
func TestLaterIsNoDeadWorker(t *testing.T) {
	each(t, func(c *crew, p *process.Plan[note]) { c.undoable(p, "a").Within(time.Hour) }, func(l *lab) {
		l.when("a", func(context.Context) (string, error) { return "", handlers.Later(20*time.Second, "not yet") })
		l.start("i")
		l.app.Advance(time.Minute)
		l.when("a", nil)
		l.ok(l.notes.Cancel(l.t.Context(), "i", "ada", "enough"))
		l.took()
		l.app.Advance(10 * time.Minute)
		l.want("i", process.Canceled, "")
		l.wantJournal("")
	})
}

// Law 11. Of many items that wait for a worker, those that it has not begun when it hears of the cancel don't begin.
func TestCancelStopsWhatWaitsForAWorker(t *testing.T) {
	each(t, func(c *crew, p *process.Plan[note]) {
		process.Each(p, "each", func(note) []int { return make([]int, 200) },
			func(ctx context.Context, _ int) (string, error) {
				_, err := c.work(ctx, "item")
				return "", err
			}, nil)
	}, func(l *lab) {
		l.when("item", func(ctx context.Context) (string, error) {
			select {
			case <-time.After(5 * time.Second):
			case <-ctx.Done():
			}
			return "", nil
		})
		l.ok(l.notes.Start(l.t.Context(), "i", note{Did: []string{}}))
		l.pass(2 * time.Second)
		l.ok(l.notes.Cancel(l.t.Context(), "i", "ada", "enough"))
		l.pass(time.Second)
		begun := strings.Count(l.took(), "item")
		l.app.Advance(5 * time.Minute)
		l.want("i", process.Canceled, "")
		if more := strings.Count(l.took(), "item"); begun == 0 || more > 0 {
			l.t.Errorf("%d items had begun at the cancel, and %d after it; want none", begun, more)
		}
	})
}
