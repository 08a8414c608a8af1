package once_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/handling/verdict"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// unsure is a message of ReactOnce whose effect may have happened, in one process or in several.
type unsure struct {
	*testing.T
	id   string
	runs int
	end  func(ctx context.Context) error // of each run
}

func newUnsure(t *testing.T) *unsure {
	return &unsure{T: t, id: worldtest.IDAt(time.Now(), 0)}
}

// process is a process that handles the message. retried is an operator's decision, or empty.
func (u *unsure) process(s *storage.Store) func(retried string) verdict.Verdict {
	guarded := guard(s, "mails", func(ctx context.Context) error {
		u.runs++
		return u.end(ctx)
	})
	return func(retried string) verdict.Verdict {
		e := envelope(u.id, "test.added.v1", "{}")
		e.Retried = retried
		return verdict.Judge(guarded(wire.WithHandling(u.Context(), e, "mails", nil)))
	}
}

func (u *unsure) want(what string, v verdict.Verdict, want verdict.Action, runs int) {
	u.Helper()
	if v.Action != want || want == verdict.ToPoison && !v.OutcomeUnknown() || u.runs != runs {
		u.Errorf("%s: got %+v after %d runs; want action %v after %d", what, v, u.runs, want, runs)
	}
}

// unknown ends a run whose effect may have happened.
func unknown() error {
	return verdict.Poison(verdict.ReasonOutcomeUnknown, errors.New("no answer"))
}

// A process whose store fails knows that an effect may have happened, and runs no copy of it. When the store is back,
// the others know, too, before any of them takes the note over. An operator's decision runs the effect again.
func TestOnceKnowsAnUnknownOutcomeThatCannotBeNoted(t *testing.T) {
	t.Parallel()
	for _, outage := range []time.Duration{time.Second, time.Minute, time.Hour} {
		t.Run(outage.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := worldtest.OpenStore(t, worldtest.Virtual)
				var away atomic.Bool
				sick := storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
					if away.Load() {
						return op.Fail(storage.ErrUnavailable)
					}
					return do()
				})
				u := newUnsure(t)
				u.end = func(context.Context) error { away.Store(true); return unknown() }
				first, other := u.process(sick), u.process(sick)
				u.want("the first", first(""), verdict.ToPoison, 1)
				time.Sleep(outage)
				u.want("a copy while the store is away", first(""), verdict.ToPoison, 1)
				away.Store(false)
				u.want("a copy when the store is back", first(""), verdict.ToPoison, 1)
				v := other("")
				for began := time.Now(); v.Action == verdict.HandBack && time.Since(began) < time.Hour; v = other("") {
					time.Sleep(v.After)
				}
				u.want("a copy in another process", v, verdict.ToPoison, 1)
				u.end = func(context.Context) error { return nil }
				u.want("an operator's decision", first("a"), verdict.Done, 2)
				u.want("a copy of what is done", first(""), verdict.Done, 2)
			})
		})
	}
}

// A process whose store fails knows that an effect has happened, and runs no copy of it. When the store is back, the
// others know, too.
func TestOnceKnowsASuccessThatCannotBeNoted(t *testing.T) {
	t.Parallel()
	for _, outage := range []time.Duration{20 * time.Second, time.Minute, time.Hour} {
		t.Run(outage.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var away atomic.Bool
				sick := storagetest.Intercept(worldtest.OpenStore(t, worldtest.Virtual), func(_ context.Context, op storagetest.Op, do func() error) error {
					if away.Load() {
						return op.Fail(storage.ErrUnavailable)
					}
					return do()
				})
				u := newUnsure(t)
				u.end = func(context.Context) error { away.Store(true); return nil }
				first, other := u.process(sick), u.process(sick)
				u.want("the first", first(""), verdict.Unavailable, 1)
				time.Sleep(outage)
				u.want("a copy while the store is away", first(""), verdict.Done, 1)
				away.Store(false)
				v := other("")
				for began := time.Now(); v.Action == verdict.HandBack && time.Since(began) < time.Hour; v = other("") {
					time.Sleep(v.After)
				}
				u.want("a copy in another process", v, verdict.Done, 1)
			})
		})
	}
}

// The success of a run that goes on after the end of its context is noted when it comes.
func TestOnceOfAGivenUpRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := worldtest.OpenStore(t, worldtest.Virtual)
		id := channel.NewID()
		var effect counted
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := runOnce(ctx, s, "mails", id, func(ctx context.Context) error {
			time.Sleep(time.Hour)
			return effect.do(ctx)
		})
		if err != nil {
			t.Errorf("the run that was given up: %v", err)
		}
		if err := runOnce(t.Context(), s, "mails", id, effect.do); err != nil {
			t.Errorf("a copy of what is done: %v", err)
		}
		effect.want(t, 1)
	})
}

// A run whose note another process has taken over says itself that its effect may have happened. Its process runs no
// copy of it, although the other one takes the note back.
func TestOnceKnowsAnUnknownOutcomeOfATakenNote(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := worldtest.OpenStore(t, worldtest.Virtual)
		table := s.Table("once")
		u := newUnsure(t)
		u.end = func(ctx context.Context) error {
			key := notes(t, s, "mails")[0]
			if _, err := table.Put(context.WithoutCancel(ctx), "mails", key, []byte(`{"holder":"other","beat":1}`), storage.Condition{}); err != nil {
				t.Error(err)
			}
			<-ctx.Done() // a renewal has found the other one
			return unknown()
		}
		first := u.process(s)
		u.want("the first", first(""), verdict.ToPoison, 1)
		if err := table.Delete(t.Context(), "mails", notes(t, s, "mails")[0], storage.Condition{}); err != nil {
			t.Fatal(err)
		}
		u.end = func(context.Context) error { return nil }
		u.want("a copy", first(""), verdict.ToPoison, 1)
		time.Sleep(time.Minute)
		u.want("a copy in another process", u.process(s)(""), verdict.ToPoison, 1)
	})
}
