package spool

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// Messages arrive in the order of their sends although each send of the store fails with a chance of a third, or of
// two thirds. None is set aside.
func TestLaw3OrderWhileTheStoreFlaps(t *testing.T) {
	for seed := range uint64(10) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				r := rand.New(rand.NewPCG(seed, 7))
				failing := 1 + int(seed%2)
				w.channels = channelsOver(t, storagetest.Intercept(w.seen, func(_ context.Context, op storagetest.Op, do func() error) error {
					if strings.HasPrefix(op.Resource, "queue ") && op.Name == "send" && r.IntN(3) < failing {
						return op.Fail(storage.ErrUnavailable)
					}
					return do()
				}), routes(t))
				w.start(Config{}, nil)
				w.mood.Store(away)
				const all = 40
				w.keep(0, all)
				w.mood.Store(up)
				for range 10 {
					settle()
				}
				if got := w.arrived(worldtest.Accounts); len(got) != all || !slices.IsSorted(got) {
					t.Errorf("got %q; want %d in order", got, all)
				}
				worldtest.Want(t, "lines", w.log.Count("set aside"), 0)
			})
		})
	}
}

// Messages for which the store always seems to be away let another one past when they have failed ten times, and are
// set aside then. The others keep their order, but for those that went ahead.
func TestLaw3AMessageThatFailsTenTimesLetsOnePast(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var failed atomic.Int64
		w.channels = channelsOver(t, storagetest.Intercept(w.seen, func(_ context.Context, op storagetest.Op, do func() error) error {
			if op.Name == "put blob" { // only these are so large that their body is a blob
				failed.Add(1)
				return op.Fail(storage.ErrUnavailable)
			}
			return do()
		}), routes(t))
		w.start(Config{}, nil)
		w.mood.Store(away)
		const bad, good = 2, 20
		for n := range bad {
			if err := w.adds.Send(t.Context(), worldtest.Add{Key: fmt.Sprint("large", n), To: "a", Note: strings.Repeat("x", 100<<10)}); err != nil {
				t.Fatal(err)
			}
		}
		w.keep(0, good)
		w.mood.Store(up)
		for range 600 {
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
			if w.spool.State().Refused > 0 {
				break
			}
			if n := worldtest.Queued(t, w.store, worldtest.Accounts); n > 0 {
				t.Fatalf("%d arrived before the first was set aside", n)
			}
		}
		if failed.Load() < 2*10 { // with others, and alone
			t.Errorf("the first was set aside after %d tries", failed.Load())
		}
		for range 10 {
			settle()
		}
		worldtest.Want(t, "refused", w.spool.State().Refused, bad)
		got := w.arrived(worldtest.Accounts)
		if len(got) < bad {
			t.Fatalf("got %q", got)
		}
		if rest := got[bad:]; len(got) != good || !slices.IsSorted(rest) {
			t.Errorf("got %q; want %d, all but %d in order", got, good, bad)
		}
	})
}
