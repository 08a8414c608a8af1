package worker_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/parttest"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/poison"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/values"
	"github.com/millrace-go/millrace/views"
	"github.com/millrace-go/millrace/worker"
)

// newGiveUp makes a lab whose jobs are a reaction by ReactOnce, and which sends what f returns for a job that it gives
// up. All names end in suffix. Accounts take what is sent.
func newGiveUp(t testing.TB, s *storage.Store, suffix string, handle func(ctx context.Context, j job) error, f func(job, handlers.Poisoned) []channel.Message) *lab {
	t.Helper()
	jobs, accounts := "jobs"+suffix, "taken"+suffix // in the order in which a message goes through them
	l := &lab{}
	l.World = worldtest.NewBare(t, s, handlers.Config{Timeout: 10 * time.Second},
		channel.Command[job](jobs), channel.Command[picky](jobs), channel.Command[Add](accounts), channel.Event[Added](), channel.Event[worldtest.Refused]())
	l.Accounts = values.New(l.Channels, accounts, values.Config[Account]{})
	l.poison = poison.At(l.Channels, jobs)
	l.Decide()
	handlers.ReactOnce(l.Registry, jobs, handle)
	handlers.React(l.Registry, jobs, func(context.Context, picky) error { return nil })
	handlers.OnPoison(l.Registry, f, Add{})
	handlers.OnPoison(l.Registry, func(picky, handlers.Poisoned) []channel.Message { return []channel.Message{Add{To: "now", Amount: 1}} }, Add{})
	return l
}

// picky is a message that its own check refuses.
type picky struct {
	N int `json:"n"`
}

func (picky) Kind() channel.Kind { return "test.picky.v1" }

// Check refuses it.
func (picky) Check() error { return errors.New("not this one") }

// giveUp adds one to an account for each job that is given up, and one to another account an hour later.
func giveUp(job, handlers.Poisoned) []channel.Message {
	return []channel.Message{Add{To: "now", Amount: 1}, channel.After(time.Hour, Add{To: "later", Amount: 1})}
}

// deliver lets each message of a queue be received and not handled, n times.
func deliver(t *testing.T, q *storage.Queue, n int) {
	t.Helper()
	for range n {
		ds, err := q.Receive(t.Context(), 32, time.Minute)
		if err != nil || len(ds) == 0 {
			t.Fatalf("got %d messages, %v", len(ds), err)
		}
		for _, d := range ds {
			if _, err := q.Extend(t.Context(), d.Receipt, 0); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Whatever the reason why a message goes to the poison queue, its compensation is sent once. A message that can't be
// decoded has none, and its entry says so.
func TestOnPoisonForEachReason(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		g := newGate(t)
		l := newGiveUp(t, s, "", func(_ context.Context, j job) error {
			switch j.Name {
			case "never":
				return handlers.Poison("never", nil)
			case "hangs":
				g.hang()
			case "fine":
				return nil
			case "kills":
				t.Error("the handler of a message runs that kills its workers")
			}
			return errors.New("no")
		}, giveUp)
		l.sendJobs(t, job{ID: "kills", Name: "kills"}, job{ID: "kills-large", Name: "kills", Body: strings.Repeat("x", 60_000)})
		deliver(t, s.Queue("jobs"), 20)
		l.sendJobs(t, job{ID: "never", Name: "never"}, job{ID: "attempts"}, job{ID: "hangs", Name: "hangs"}, job{ID: "differs", Name: "fine"},
			job{ID: worldtest.IDAt(time.Now().Add(-60*24*time.Hour), 1)}, job{ID: "lost", Body: strings.Repeat("x", 60_000)})
		for _, key := range worldtest.Claims(t, s) {
			if blob, err := s.Blobs("claims").Get(t.Context(), key, ""); err != nil || !strings.Contains(string(blob.Body), "kills-large") {
				if err := s.Blobs("claims").Delete(t.Context(), key, storage.Condition{}); err != nil {
					t.Fatal(err)
				}
			}
		}
		l.sendRaw(t, raw("refused", "test.picky.v1", picky{N: 1}))
		l.sendRaw(t, raw("undecodable", "test.job.v1", []int{1}))
		l.sendRaw(t, raw("unknown", "test.unknown.v1", picky{}))
		l.sendRaw(t, "nonsense")
		l.Start(worker.Config{MaxAttempts: 3, UnknownFor: time.Minute})
		time.Sleep(time.Second)
		l.sendJobs(t, job{ID: "differs", Name: "fine", Body: "other"})
		l.empty(t, 10*time.Second)
		compensated := map[string]int{}
		for _, e := range l.Poisoned("jobs") {
			compensated[e.Reason] += len(e.Emitted)
			if want := map[string]string{"lost": "gone", "undecodable": "the message can't be decoded"}[e.ID]; !strings.Contains(e.Uncompensated, want) || want == "" && e.Uncompensated != "" {
				t.Errorf("%s: uncompensated: got %q, want %q", e.ID, e.Uncompensated, want)
			}
		}
		want := map[string]int{
			"never": 2, handlers.ReasonAttempts: 2, handlers.ReasonHangs: 2, handlers.ReasonDeliveries: 4, handlers.ReasonContentDiffers: 2,
			handlers.ReasonTooOld: 2, handlers.ReasonDataLost: 0, handlers.ReasonRefused: 1, handlers.ReasonUndecodable: 0, handlers.ReasonUnknownKind: 0,
		}
		worldtest.Want(t, "emitted, by reason", fmt.Sprint(compensated), fmt.Sprint(want))
		worldtest.Want(t, "compensated at once", l.Balance("now"), 8)
		worldtest.Want(t, "compensated later", l.Balance("later"), 7)
	})
}

// The entry in the poison queue, the compensation and the end of the message are one unit of work: where the entry
// isn't written, nothing is sent.
func TestOnPoisonIsPartOfTheUnit(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		var down atomic.Bool
		down.Store(true)
		l := newGiveUp(t, storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
			if down.Load() && strings.HasPrefix(op.Resource, "blob poison/") && (op.Name == "commit" || op.Name == "put blob") {
				return op.Fail(storage.ErrUnavailable)
			}
			return do()
		}), "", func(context.Context, job) error { return handlers.Poison("never", nil) }, giveUp)
		l.Start(worker.Config{})
		l.sendJobs(t, job{ID: "a"})
		time.Sleep(5 * time.Minute)
		worldtest.Want(t, "compensated without an entry", l.Balance("now"), 0)
		worldtest.Want(t, "in its queue", worldtest.Queued(t, s, "jobs"), 1)
		down.Store(false)
		l.empty(t, time.Minute)
		worldtest.Want(t, "compensated", l.Balance("now"), 1)
		worldtest.Want(t, "poisoned", len(l.Poisoned("jobs")), 1)
	})
}

// A message that is retried and poisoned again sends the same messages, which are done once. A retry that succeeds
// sends nothing.
func TestOnPoisonAgain(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		var good atomic.Bool
		l := newGiveUp(t, s, "", func(context.Context, job) error {
			if good.Load() {
				return nil
			}
			return errors.New("no")
		}, giveUp)
		l.Start(worker.Config{MaxAttempts: 2})
		l.sendJobs(t, job{ID: "a"})
		l.empty(t, time.Minute)
		first := l.onePoisoned(t)
		for range 2 {
			if err := l.poison.Retry(t.Context(), l.onePoisoned(t).Key); err != nil {
				t.Fatal(err)
			}
			l.empty(t, time.Minute)
			if got := l.onePoisoned(t).Emitted; len(got) != 2 || !slices.Equal(got, first.Emitted) {
				t.Errorf("poisoned again: got IDs %q, want %q", got, first.Emitted)
			}
		}
		good.Store(true)
		if err := l.poison.Retry(t.Context(), first.Key); err != nil {
			t.Fatal(err)
		}
		l.empty(t, time.Minute)
		worldtest.Want(t, "left in the poison queue", len(l.Poisoned("jobs")), 0)
		worldtest.Want(t, "compensated at once", l.Balance("now"), 1)
		worldtest.Want(t, "compensated later", l.Balance("later"), 1)
		worldtest.Want(t, "refused compensations", len(l.Poisoned("taken")), 0)
	})
}

// A function of OnPoison that fails keeps no message out of the poison queue. The log and the entry say why nothing was
// sent, and a retry works as ever.
func TestOnPoisonFails(t *testing.T) {
	parttest.InTurn(t)
	t.Parallel()
	g := newGate(t)
	for name, test := range map[string]struct {
		f    func(job, handlers.Poisoned) []channel.Message
		want string
	}{
		"panics":     {func(job, handlers.Poisoned) []channel.Message { panic("boom") }, "panic: boom"},
		"ends":       {func(job, handlers.Poisoned) []channel.Message { runtime.Goexit(); return nil }, "runtime.Goexit"},
		"hangs":      {func(job, handlers.Poisoned) []channel.Message { time.Sleep(time.Hour); return nil }, "hangs"},
		"undeclared": {func(job, handlers.Poisoned) []channel.Message { return []channel.Message{Added{}} }, "name a value of that type"},
		"too large": {func(job, handlers.Poisoned) []channel.Message {
			return []channel.Message{Add{To: "now", Amount: 1, Note: strings.Repeat("x", 100_000)}, Add{To: "now", Amount: 1, Note: strings.Repeat("x", channel.MaxData)}}
		}, storage.ErrTooLarge.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
				log := worldtest.NewLog()
				var good atomic.Bool
				l := newGiveUp(t, s, "", func(context.Context, job) error {
					if good.Load() {
						return nil
					}
					return handlers.Poison("never", nil)
				}, test.f)
				l.Start(worker.Config{Logger: slog.New(log)})
				l.sendJobs(t, job{ID: "a"})
				l.empty(t, time.Second)
				e := l.onePoisoned(t)
				if !strings.Contains(e.Uncompensated, test.want) || e.Emitted != nil || e.Reason != "never" {
					t.Errorf("got %+v, want that nothing was sent, for %q", e, test.want)
				}
				worldtest.Want(t, "lines", log.Count("ERROR message is in the poison queue", "id=a", "uncompensated=", test.want), 1)
				good.Store(true)
				if err := l.poison.Retry(t.Context(), e.Key); err != nil {
					t.Fatal(err)
				}
				l.empty(t, time.Second)
				worldtest.Want(t, "poisoned after a retry", len(l.Poisoned("jobs")), 0)
				worldtest.Want(t, "compensated", l.Balance("now"), 0)
				worldtest.Want(t, "bodies", len(worldtest.Claims(t, s)), 0)
				time.Sleep(time.Hour) // until the function ends
			})
		})
	}
	g.open()
}

// A message that kills its workers goes to the function of OnPoison alone. If that kills them, too, the message goes to
// the poison queue without it. Messages that are in hand with it are handled.
func TestOnPoisonOfAKiller(t *testing.T) {
	parttest.InTurn(t)
	t.Parallel()
	for _, deadly := range []bool{false, true} {
		t.Run(fmt.Sprintf("deadly=%v", deadly), func(t *testing.T) {
			t.Parallel()
			worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
				var calls, fine atomic.Int64
				newProcess := func(s *storage.Store, die func()) *world {
					l := newGiveUp(t, s, "", func(_ context.Context, j job) error {
						if j.Name == "killer" {
							die()
							return errors.New("dead")
						}
						time.Sleep(200 * time.Millisecond)
						fine.Add(1)
						return nil
					}, func(job, handlers.Poisoned) []channel.Message {
						calls.Add(1)
						if deadly {
							die()
						}
						return []channel.Message{Add{To: "now", Amount: 1}}
					})
					return &l.world
				}
				w := newProcess(s, nil)
				for i := range 20 {
					worldtest.Send(w.World, job{ID: fmt.Sprint("neighbour-", i)})
				}
				worldtest.Send(w.World, job{ID: "killer", Name: "killer"}, job{ID: "killer-2", Name: "killer"})
				restarted(t, s, worker.Config{MaxDeliveries: 10, Visibility: time.Second}, newProcess)
				want, emitted := int64(2), 1 // for each of two
				if deadly {
					want, emitted = 6, 0
				}
				all := w.Poisoned("jobs")
				for _, e := range all {
					if len(e.Emitted) != emitted || deadly != strings.Contains(e.Uncompensated, "went on killing") || e.Reason != handlers.ReasonDeliveries {
						t.Errorf("got %+v, want %d emitted", e, emitted)
					}
				}
				worldtest.Want(t, "poisoned", len(all), 2)
				worldtest.Want(t, "calls", calls.Load(), want)
				worldtest.Want(t, "compensated", w.Balance("now"), 2*emitted)
				if n := fine.Load(); n < 20 {
					t.Errorf("%d neighbours were handled, want 20", n)
				}
			})
		})
	}
}

// The check of a received message may do anything: that ends in a verdict for its message alone.
func TestChecksThatMisbehave(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		w := newBare(t, s, channel.Command[worldtest.Moody]("moods"))
		var fine []string
		handlers.React(w.Registry, "moods", func(_ context.Context, m worldtest.Moody) error { fine = append(fine, m.Mood); return nil })
		q := s.Queue("moods")
		for _, mood := range []string{"panics", "fine", "ends", "hangs", "refuses"} {
			if err := q.Send(t.Context(), []storage.Message{{Body: []byte(raw(mood, "test.moody.v1", worldtest.Moody{Mood: mood}))}}); err != nil {
				t.Fatal(err)
			}
		}
		w.Start(worker.Config{})
		w.empty(t, 10*time.Second)
		worldtest.Want(t, "handled", fmt.Sprint(fine), "[fine]")
		got := map[string]string{}
		for _, e := range w.Poisoned("moods") {
			got[e.ID] = e.Reason
		}
		want := map[string]string{"panics": handlers.ReasonAttempts, "ends": handlers.ReasonAttempts, "hangs": handlers.ReasonHangs, "refuses": handlers.ReasonRefused}
		worldtest.Want(t, "poisoned", fmt.Sprint(got), fmt.Sprint(want))
		time.Sleep(2 * time.Hour) // until the checks end
	})
}

// A reaction that fails until its last attempt knows that one, and compensates by itself.
func TestTheLastAttemptCompensates(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		var got []string
		l := newGiveUp(t, s, "", func(ctx context.Context, j job) error {
			n, most := handlers.Attempt(ctx)
			got = append(got, fmt.Sprintf("%d of %d, delivery %d", n, most, handlers.Deliveries(ctx)))
			if len(got) == 1 {
				return handlers.Later(time.Second, "not yet") // no attempt, but a delivery
			}
			if n < most {
				return errors.New("no")
			}
			return channel.Send(ctx, Add{To: "now", Amount: 1})
		}, giveUp)
		worldtest.Want(t, "deliveries outside of a handler", handlers.Deliveries(t.Context()), 0)
		l.Start(worker.Config{Queues: map[string]worker.QueueConfig{"jobs": {MaxAttempts: 3}}})
		l.sendJobs(t, job{ID: "a"})
		l.empty(t, time.Second)
		worldtest.Want(t, "attempts", fmt.Sprint(got), "[1 of 3, delivery 1 1 of 3, delivery 2 2 of 3, delivery 3 3 of 3, delivery 4]")
		worldtest.Want(t, "compensated", l.Balance("now"), 1)
		worldtest.Want(t, "poisoned", len(l.Poisoned("jobs")), 0)
	})
}

// An event that two of three groups give up, a view and a reaction, is compensated for each of them.
func TestOnPoisonOfAnEvent(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		w := worldtest.New(t, s, worldtest.Config{Groups: []string{"totals", "audits", "mails"}, Routes: []channel.Route{channel.Command[job]("jobs")}})
		views.Project(w.Registry, w.Totals, Added.Subject, func(Total, Added) Total { panic("can't be applied") })
		handlers.ReactOnce(w.Registry, "audits", func(context.Context, Added) error { return handlers.Poison("never", nil) })
		handlers.React(w.Registry, "mails", func(context.Context, Added) error { return nil })
		handlers.OnPoison(w.Registry, func(e Added, why handlers.Poisoned) []channel.Message {
			return []channel.Message{job{Name: why.Queue + ": " + why.Reason, Body: e.To}}
		}, job{})
		worldtest.Send(w, Added{To: "ada"})
		w.Start(worker.Config{MaxAttempts: 2, Consume: []string{"totals", "audits", "mails"}})
		var got []channel.Envelope
		for range 60 {
			time.Sleep(time.Second)
			got = append(got, worldtest.Take(t, s, "jobs")...)
		}
		bodies := strings.Join(worldtest.Bodies(got), "\n")
		worldtest.Want(t, "compensations", bodies, `{"name":"audits: never","body":"ada"}`+"\n"+`{"name":"totals: too many attempts","body":"ada"}`)
		if len(got) == 2 && got[0].ID == got[1].ID {
			t.Error("both compensations have one ID")
		}
	})
}

// A worker dies in its nth storage call, or the call fails, for every n, before or after the call's effect, while it
// gives up a message. Another worker finishes. Then each message that the program sends is handled once, the message is
// in the poison queue and nowhere else, and no handler ran after it was there.
func TestGivingUpWithEveryFault(t *testing.T) {
	t.Parallel()
	crash := func(s *storage.Store, n int64, m storagetest.Moment) (*storage.Store, func() bool) {
		dying, fuse := storagetest.Crash(s, n, m)
		return dying, fuse.Fired
	}
	for name, breakOne := range map[string]fault{"dies": crash, "fails": failOnce} {
		for _, moment := range []storagetest.Moment{storagetest.BeforeEffect, storagetest.AfterEffect} {
			for _, large := range []bool{false, true} {
				if large && name == "fails" {
					continue // the calls are those of the death
				}
				t.Run(fmt.Sprintf("%s/%s/large=%v", name, moment, large), func(t *testing.T) {
					t.Parallel()
					worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
						s = patient(s, 3*time.Second)
						for n := int64(1); giveUpTrial(t, s, breakOne, n, moment, large); n += worldtest.Stride {
							if n > 200 || t.Failed() {
								t.Fatalf("stopped at call %d", n)
							}
						}
					})
				})
			}
		}
	}
}

// A fault breaks the nth call of a store, and reports whether it has.
type fault func(s *storage.Store, n int64, m storagetest.Moment) (broken *storage.Store, fired func() bool)

// failOnce lets the nth call fail, and no other.
func failOnce(s *storage.Store, n int64, m storagetest.Moment) (*storage.Store, func() bool) {
	var calls atomic.Int64
	broken := storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
		if calls.Add(1) != n {
			return do()
		}
		if m == storagetest.AfterEffect {
			_ = do()
		}
		return op.Fail(storage.ErrUnavailable)
	})
	return broken, func() bool { return calls.Load() >= n }
}

// giveUpTrial reports whether the first worker came as far as its nth call.
func giveUpTrial(t *testing.T, s *storage.Store, breakOne fault, n int64, moment storagetest.Moment, large bool) bool {
	suffix := fmt.Sprintf("-%d", n)
	note := ""
	if large {
		note = strings.Repeat("n", 60_000)
	}
	newProcess := func(store *storage.Store) *lab {
		return newGiveUp(t, store, suffix, func(ctx context.Context, _ job) error {
			if counts, err := poison.Count(ctx, s); err != nil || counts["jobs"+suffix] > 0 {
				t.Errorf("call %d: the handler runs although the message is given up (%v)", n, err)
			}
			return errors.New("no")
		}, func(job, handlers.Poisoned) []channel.Message {
			return []channel.Message{Add{To: "now", Amount: 1, Note: note}, channel.After(10*time.Second, Add{To: "later", Amount: 1, Note: note})}
		})
	}
	healthy := newProcess(s)
	healthy.sendJobs(t, job{ID: worldtest.IDAt(time.Now(), int(n)), Body: note})
	left := func() (n int) {
		for _, q := range healthy.Channels.Routes().Queues() {
			n += worldtest.Queued(t, s, q)
		}
		return n
	}
	cfg := worker.Config{Visibility: 3 * time.Second, DrainTimeout: time.Second, MaxAttempts: 2}
	broken, fired := breakOne(s, n, moment)
	stop := newProcess(broken).Start(cfg)
	for !fired() && left() > 0 {
		time.Sleep(100 * time.Millisecond)
	}
	came := fired()
	for began := time.Now(); left() > 0 && time.Since(began) < 20*time.Second; { // a worker that lives goes on
		time.Sleep(time.Second)
	}
	stop() // with or without an error
	stop = healthy.Start(cfg)
	for began := time.Now(); left() > 0; time.Sleep(time.Second) {
		if time.Since(began) > 5*time.Minute {
			t.Fatalf("call %d: the queues don't get empty", n)
		}
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	for _, account := range []string{"now", "later"} {
		if got := healthy.Balance(account); got != 1 {
			t.Errorf("call %d: %s: compensated %d times, want once", n, account, got)
		}
	}
	if all := healthy.Poisoned("jobs" + suffix); len(all) != 1 || len(all[0].Emitted) != 2 || all[0].Reason != handlers.ReasonAttempts {
		t.Errorf("call %d: got poisoned %+v, want the job with what was sent", n, all)
	}
	if all := healthy.Poisoned("taken" + suffix); len(all) != 0 {
		t.Errorf("call %d: got compensations poisoned: %+v", n, all)
	}
	return came
}
