package leader_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/millrace-go/millrace/coord/leader"
	"github.com/millrace-go/millrace/coord/lease"
	"github.com/millrace-go/millrace/internal/agreetest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

func TestALeaderThatLooksBeforeItsTimerSeesTheEnd(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		link := storagetest.NewLink(s)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		agreetest.EndsByTheClock(t, ttl*5/6, fmt.Errorf("%w: not renewed in time", lease.ErrLost), func(i int) context.Context {
			led := make(chan context.Context)
			go leader.Run(ctx, link.Store, fmt.Sprint(name, i), leader.Config{TTL: ttl}, func(ctx context.Context, _ leader.Term) error {
				led <- ctx
				<-ctx.Done()
				return nil
			})
			return <-led
		}, func() { link.Cut() })
	})
}
