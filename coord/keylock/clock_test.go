package keylock_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/millrace-go/millrace/internal/agreetest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

func TestAHolderThatLooksBeforeItsTimerSeesTheEnd(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		link := storagetest.NewLink(s)
		ts := newTurns(t, link.Store)
		agreetest.EndsByTheClock(t, ttl*5/6, nil, func(i int) context.Context { return take(t, ts, fmt.Sprint(i)).Context() }, func() { link.Cut() })
	})
}
