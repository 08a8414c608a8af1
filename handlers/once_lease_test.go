package handlers_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// A process that dies between the effect and the note: the effect is repeated, after the lease and not before. Of
// those that wait for it, one repeats it.
func TestOnceAfterACrash(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newWorld(t, handlers.Config{}).store
		id := channel.NewID()
		var effect counted
		dying, fuse := storagetest.Crash(s, 2, storagetest.BeforeEffect)
		if err := once(t.Context(), dying, "mails", id, effect.do); !errors.Is(err, storage.ErrUnavailable) || !fuse.Fired() {
			t.Fatalf("got error %v, want the crash", err)
		}
		effect.want(t, 1)
		time.Sleep(30*time.Second - time.Millisecond)
		wantLater(t, once(t.Context(), s, "mails", id, effect.do), time.Millisecond)
		effect.want(t, 1)
		time.Sleep(time.Millisecond)
		copies(t, s, id, 8, effect.do)
		effect.want(t, 2)
	})
}

// An effect that takes longer than the lease keeps it, so that no copy begins meanwhile.
func TestOnceOfALongEffect(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newWorld(t, handlers.Config{}).store
		id := channel.NewID()
		var effect counted
		first := make(chan error)
		go func() {
			first <- once(t.Context(), s, "mails", id, func(ctx context.Context) error {
				time.Sleep(4 * time.Minute)
				if ctx.Err() != nil {
					t.Errorf("its context has ended: %v", context.Cause(ctx))
				}
				return effect.do(ctx)
			})
		}()
		for range 23 {
			time.Sleep(10 * time.Second)
			wantLater(t, once(t.Context(), s, "mails", id, effect.do), 30*time.Second)
		}
		if err := <-first; err != nil {
			t.Fatal(err)
		}
		effect.want(t, 1)
	})
}

// A failure after renewals takes the note back all the same.
func TestOnceFailsLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newWorld(t, handlers.Config{}).store
		broken := errors.New("no paper")
		err := once(t.Context(), s, "mails", "17", func(context.Context) error {
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
				s := storagetest.Intercept(newWorld(t, handlers.Config{}).store, func(_ context.Context, op storagetest.Op, do func() error) error {
					if op.Seq > 1 && time.Since(began) < test.outage {
						return op.Fail(storage.ErrUnavailable)
					}
					return do()
				})
				err := once(t.Context(), s, "mails", "17", func(ctx context.Context) error {
					select {
					case <-ctx.Done():
						if took := time.Since(began); !test.ends || took >= 30*time.Second {
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

// A renewal whose answer got lost doesn't make the next one believe that somebody else has the note.
func TestOnceRenewalIsUnknown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		puts := 0
		s := storagetest.Intercept(newWorld(t, handlers.Config{}).store, func(_ context.Context, op storagetest.Op, do func() error) error {
			err := do()
			if op.Name == "put row" {
				if puts++; puts == 2 || puts == 3 { // the first renewal has its effect, the second has none any more
					return op.Fail(storage.ErrUnavailable)
				}
			}
			return err
		})
		err := once(t.Context(), s, "mails", "17", func(ctx context.Context) error {
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

// Somebody else took the note over, for example because this process was suspended: its effect's context ends.
func TestOnceIsTakenOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newWorld(t, handlers.Config{}).store
		err := once(t.Context(), s, "mails", "17", func(ctx context.Context) error {
			key := notes(t, s, "mails")[0]
			if _, err := s.Table("once").Put(t.Context(), "mails", key, []byte(`{"done":false,"until":"2100-01-01T00:00:00Z"}`), storage.Condition{}); err != nil {
				t.Fatal(err)
			}
			<-ctx.Done()
			return context.Cause(ctx)
		})
		wantLater(t, err, time.Minute) // it is no fault of the effect's
		if got := notes(t, s, "mails"); len(got) != 1 {
			t.Errorf("the other one's note is gone: %q", got)
		}
	})
}

// Every storage call may fail or lose its answer: there is one effect in the end, or, only if the note after it
// failed, one more after the lease.
func TestOnceCrashesAnywhere(t *testing.T) {
	t.Parallel()
	for _, m := range []storagetest.Moment{storagetest.BeforeEffect, storagetest.AfterEffect} {
		for n := int64(1); n <= 3; n++ {
			t.Run(fmt.Sprintf("call %d %v", n, m), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					s := newWorld(t, handlers.Config{}).store
					id := channel.NewID()
					var effect counted
					dying, _ := storagetest.Crash(s, n, m)
					_ = once(t.Context(), dying, "mails", id, effect.do)
					for range 3 {
						if err := once(t.Context(), s, "mails", id, effect.do); err != nil {
							wantLater(t, err, 30*time.Second)
							time.Sleep(30 * time.Second)
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

// idNow makes a UUIDv7 by the bubble's clock. channel.NewID never goes back behind the time of another test.
func idNow(n int) string {
	ms := time.Now().UnixMilli()
	return fmt.Sprintf("%08x-%04x-7000-8000-%012x", ms>>16, ms&0xffff, n)
}
