package quorum_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/millrace-go/millrace/coord/quorum"
	"github.com/millrace-go/millrace/internal/agreetest"
	"github.com/millrace-go/millrace/storage"
)

func TestAHolderThatLooksBeforeItsTimerSeesTheEnd(t *testing.T) {
	t.Parallel()
	virtual(t, 3, func(t *testing.T, stores []*storage.Store) {
		p := newProcess(stores)
		agreetest.EndsByTheClock(t, ttl*5/6, quorum.ErrLost, func(i int) context.Context {
			l, err := quorum.Try(t.Context(), p.stores, fmt.Sprint(name, i), quorum.Config{TTL: ttl})
			if err != nil {
				t.Fatal(err)
			}
			return l.Context()
		}, func() { p.cut(0, 1, 2) })
	})
}
