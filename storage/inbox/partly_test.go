package inbox_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/inbox"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// While a part of a queue fails, the rest is looked at without a wait. Each failure is an error.
func TestPartOfAQueueFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inner, _ := polled(t, time.Hour)
		var left atomic.Int64
		s := storagetest.Intercept(inner, func(_ context.Context, op storagetest.Op, do func() error) error {
			if op.Name == "receive" && left.Add(-1) >= 0 {
				return op.Fail(storage.ErrPartial)
			}
			return do()
		})
		send(t, s, "of the rest")
		in := inbox.Open(s, "queue", inbox.Config{})
		defer in.Close()
		left.Store(3)
		began := time.Now()
		for i := range 4 {
			batch, err := in.Receive(t.Context(), 1, visibility)
			if i < 3 && !errors.Is(err, storage.ErrPartial) || i == 3 && (err != nil || len(batch.Deliveries) != 1) {
				t.Fatalf("look %d: got %v, %v", i, batch, err)
			}
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("waited %v", took)
		}
	})
}

// Hasten makes a look due at once, but not one that failed.
func TestHasten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inner, _ := polled(t, time.Hour)
		link := storagetest.NewLink(inner)
		in := inbox.Open(link.Store, "queue", inbox.Config{})
		defer in.Close()
		for _, fails := range []bool{false, true} {
			for range 5 {
				if _, due := in.Wait(t.Context(), 1, visibility); !due {
					t.Fatal("not due")
				}
				if fails {
					link.Cut("receive")
				}
				if _, err := in.Look(t.Context(), 1, visibility); (err != nil) != fails {
					t.Fatalf("got %v, want a failure: %v", err, fails)
				}
			}
			in.Hasten()
			asked := time.Now()
			if _, due := in.Wait(t.Context(), 1, visibility); !due || time.Since(asked) > 0 == !fails {
				t.Errorf("failed: %v; due %v after %v", fails, due, time.Since(asked))
			}
			if _, err := in.Look(t.Context(), 1, visibility); (err != nil) != fails {
				t.Fatal(err)
			}
		}
	})
}
