package lease_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/millrace-go/millrace/coord/lease"
	"github.com/millrace-go/millrace/internal/agreetest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

func TestAHolderThatLooksBeforeItsTimerSeesTheEnd(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		link := storagetest.NewLink(s)
		agreetest.EndsByTheClock(t, ttl*5/6, fmt.Errorf("%w: not renewed in time", lease.ErrLost), func(i int) context.Context {
			l, err := lease.Acquire(t.Context(), link.Store, fmt.Sprint(name, i), lease.Config{TTL: ttl})
			if err != nil {
				t.Fatal(err)
			}
			return l.Context()
		}, func() { link.Cut() })
	})
}
