package worker_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/worker"
)

// A handler knows how often its message was delivered. The deliveries before it was due don't count.
func TestDeliveriesAreCounted(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		var got []int
		l := newLab(t, s, func(ctx context.Context, _ job) error {
			if got = append(got, handlers.Deliveries(ctx)); len(got) < 3 {
				return handlers.Later(time.Minute, "not yet")
			}
			return nil
		})
		l.Start(worker.Config{})
		if err := l.Channels.Send(t.Context(), channel.After(10*time.Minute, job{Name: "a"})); err != nil {
			t.Fatal(err)
		}
		l.empty(t, time.Minute)
		if want := []int{1, 2, 3}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}
