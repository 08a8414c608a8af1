package once_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/handling/verdict"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

const (
	noteDead = 35 * time.Second // so long a worker sees a note unchanged before it takes it over
	noteLook = 10 * time.Second // the longest time until a copy comes again
)

// A process dies between the effect and the note. A worker that has seen the note unchanged for long enough repeats the
// effect, and not before. Of the copies that wait there, one repeats it.
func TestOnceAfterACrash(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := worldtest.OpenStore(t, worldtest.Virtual)
		id := channel.NewID()
		var effect counted
		dying, fuse := storagetest.Crash(s, 2, storagetest.BeforeEffect)
		if err := runOnce(t.Context(), dying, "mails", id, effect.do); !errors.Is(err, storage.ErrUnavailable) || !fuse.Fired() {
			t.Fatalf("got error %v, want the crash", err)
		}
		effect.want(t, 1)
		time.Sleep(time.Hour) // no other worker watches yet
		react, elsewhere := reaction(s, "mails", effect.do), reaction(s, "mails", effect.do)
		wantLater(t, react(t.Context(), id), noteLook)
		time.Sleep(noteDead - time.Millisecond)
		wantLater(t, react(t.Context(), id), time.Millisecond)
		wantLater(t, elsewhere(t.Context(), id), noteLook)
		effect.want(t, 1)
		time.Sleep(time.Millisecond)
		wantLater(t, elsewhere(t.Context(), id), noteLook) // it has only begun to watch
		effect.want(t, 1)
		copies(t, react, id, 8)
		effect.want(t, 2)
	})
}

// The answer to the write of a note comes when the note is no longer proved. The effect doesn't begin, because a copy
// may have taken over.
func TestOnceAnsweredTooLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := worldtest.OpenStore(t, worldtest.Virtual)
		id := channel.NewID()
		var effect counted
		slow, _ := storagetest.Disturb(s, storagetest.Disturbance{Delay: noteDead, Schedule: func(op storagetest.Op) storagetest.Fault {
			if op.Name == "put row" && op.Seq == 1 {
				return storagetest.DelayAfter
			}
			return storagetest.NoFault
		}})
		react := reaction(slow, "mails", effect.do)
		wantLater(t, react(t.Context(), id), time.Second)
		effect.want(t, 0)
		copies(t, react, id, 8)
		effect.want(t, 1)
	})
}

// A copy that is delivered now to one worker, now to another is handled in the end: both watch at the same time.
func TestOnceAfterACrashAmongMany(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := worldtest.OpenStore(t, worldtest.Virtual)
		id := channel.NewID()
		var effect counted
		dying, _ := storagetest.Crash(s, 2, storagetest.BeforeEffect)
		_ = runOnce(t.Context(), dying, "mails", id, effect.do)
		var workers []func(context.Context, string) error
		for range 5 {
			workers = append(workers, reaction(s, "mails", effect.do))
		}
		began := time.Now()
		for i := 0; ; i++ {
			err := workers[i%len(workers)](t.Context(), id)
			if err == nil {
				break
			}
			wantLater(t, err, noteLook)
			var later *verdict.LaterError
			errors.As(err, &later)
			time.Sleep(later.After)
		}
		effect.want(t, 2)
		if took := time.Since(began); took < noteDead || took > noteDead+5*noteLook {
			t.Errorf("the effect was repeated after %v", took)
		}
	})
}

// A note begun doesn't hold when its run was alive, so workers whose clocks differ can't disagree about it.
func TestOnceWritesNoTime(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, worldtest.Virtual)
	err := runOnce(t.Context(), s, "mails", channel.NewID(), func(ctx context.Context) error {
		for row, err := range s.Table("once").Query(ctx, "mails", storage.RowRange{}) {
			var got map[string]any
			if err == nil {
				err = json.Unmarshal(row.Data, &got)
			}
			if err != nil {
				return err
			}
			if keys := slices.Sorted(maps.Keys(got)); !slices.Equal(keys, []string{"beat", "content", "done", "holder"}) {
				t.Errorf("the note holds %q", keys)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// An effect that takes longer than the lease keeps its note, so that no copy begins meanwhile.
func TestOnceOfALongEffect(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := worldtest.OpenStore(t, worldtest.Virtual)
		id := channel.NewID()
		var effect counted
		first := make(chan error)
		go func() {
			first <- runOnce(t.Context(), s, "mails", id, func(ctx context.Context) error {
				time.Sleep(4 * time.Minute)
				if ctx.Err() != nil {
					t.Errorf("its context has ended: %v", context.Cause(ctx))
				}
				return effect.do(ctx)
			})
		}()
		react := reaction(s, "mails", effect.do)
		for range 23 {
			time.Sleep(10 * time.Second)
			wantLater(t, react(t.Context(), id), noteLook)
		}
		if err := <-first; err != nil {
			t.Fatal(err)
		}
		effect.want(t, 1)
	})
}

// A failure after renewals takes the note back, too.
func TestOnceFailsLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := worldtest.OpenStore(t, worldtest.Virtual)
		broken := errors.New("no paper")
		err := runOnce(t.Context(), s, "mails", "17", func(context.Context) error {
			time.Sleep(time.Minute)
			return broken
		})
		if err != broken {
			t.Fatalf("got error %v, want %v", err, broken)
		}
		if got := notes(t, s, "mails"); len(got) != 0 {
			t.Errorf("notes stay behind: %q", got)
		}
	})
}

// When the store can't be reached, the effect's context ends before a copy may begin; a short outage does no harm.
func TestOnceCannotRenew(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		outage time.Duration
		ends   bool
	}{"short": {15 * time.Second, false}, "long": {time.Hour, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				s := storagetest.Intercept(worldtest.OpenStore(t, worldtest.Virtual), func(_ context.Context, op storagetest.Op, do func() error) error {
					if op.Seq > 1 && time.Since(began) < test.outage {
						return op.Fail(storage.ErrUnavailable)
					}
					return do()
				})
				err := runOnce(t.Context(), s, "mails", "17", func(ctx context.Context) error {
					select {
					case <-ctx.Done():
						if took := time.Since(began); !test.ends || took != 25*time.Second {
							t.Errorf("its context ended after %v: %v", took, context.Cause(ctx))
						}
						return context.Cause(ctx)
					case <-time.After(2 * time.Minute):
						if test.ends {
							t.Error("its context has not ended")
						}
						return nil
					}
				})
				if (err != nil) != test.ends || test.ends && !errors.Is(err, storage.ErrUnavailable) {
					t.Errorf("got error %v, want one: %v", err, test.ends)
				}
			})
		})
	}
}

// A store that doesn't answer at all doesn't keep the effect running.
func TestOnceRenewalHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began, over := time.Now(), make(chan struct{})
		s := storagetest.Intercept(worldtest.OpenStore(t, worldtest.Virtual), func(_ context.Context, op storagetest.Op, do func() error) error {
			if op.Seq == 2 {
				<-over // it ignores its context
			}
			return do()
		})
		err := runOnce(t.Context(), s, "mails", "17", func(ctx context.Context) error {
			<-ctx.Done()
			if took := time.Since(began); took != 25*time.Second {
				t.Errorf("its context ended after %v", took)
			}
			close(over)
			return context.Cause(ctx)
		})
		if !errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("got error %v", err)
		}
	})
}

// After a renewal whose answer got lost, the next one doesn't conclude that another run has the note.
func TestOnceRenewalIsUnknown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		puts := 0
		s := storagetest.Intercept(worldtest.OpenStore(t, worldtest.Virtual), func(_ context.Context, op storagetest.Op, do func() error) error {
			err := do()
			if op.Name == "put row" {
				if puts++; puts == 2 || puts == 3 { // the first renewal takes effect, the second doesn't
					return op.Fail(storage.ErrUnavailable)
				}
			}
			return err
		})
		err := runOnce(t.Context(), s, "mails", "17", func(ctx context.Context) error {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(2 * time.Minute):
				return nil
			}
		})
		if err != nil || puts < 5 {
			t.Errorf("got error %v after %d writes, want it to go on", err, puts)
		}
	})
}

// When another run took the note over, for example because this process was suspended, the context of this effect ends.
func TestOnceIsTakenOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := worldtest.OpenStore(t, worldtest.Virtual)
		err := runOnce(t.Context(), s, "mails", "17", func(ctx context.Context) error {
			key := notes(t, s, "mails")[0]
			if _, err := s.Table("once").Put(t.Context(), "mails", key, []byte(`{"done":false,"holder":"another"}`), storage.Condition{}); err != nil {
				t.Fatal(err)
			}
			<-ctx.Done()
			return context.Cause(ctx)
		})
		wantLater(t, err, time.Minute) // this is not the effect's fault
		if got := notes(t, s, "mails"); len(got) != 1 {
			t.Errorf("the other one's note is gone: %q", got)
		}
	})
}

// Every storage call may fail or lose its answer. In the end there is one effect. Only if the note after the effect
// failed, there is one more after the lease.
func TestOnceCrashesAnywhere(t *testing.T) {
	t.Parallel()
	for _, m := range []storagetest.Moment{storagetest.BeforeEffect, storagetest.AfterEffect} {
		for n := int64(1); n <= 3; n++ {
			t.Run(fmt.Sprintf("call %d %v", n, m), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					s := worldtest.OpenStore(t, worldtest.Virtual)
					id := channel.NewID()
					var effect counted
					dying, _ := storagetest.Crash(s, n, m)
					_ = runOnce(t.Context(), dying, "mails", id, effect.do)
					react := reaction(s, "mails", effect.do)
					for range 5 {
						if err := react(t.Context(), id); err != nil {
							wantLater(t, err, noteLook)
							time.Sleep(noteLook)
						}
					}
					want := int64(1)
					if n == 2 && m == storagetest.BeforeEffect {
						want = 2
					}
					effect.want(t, want)
				})
			})
		}
	}
}
