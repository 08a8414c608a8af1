package lanes_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/lanes"
	"github.com/millrace-go/millrace/storage/sqlite"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// suiteQueues are the queues of the suite, with and without all that a queue may have.
func suiteQueues() map[string]lanes.Queue {
	all := map[string]lanes.Queue{"queue": {Lanes: 8, Priorities: true}, "jobs": {Lanes: 8, Priorities: true}}
	for i := range 500 {
		all[fmt.Sprint("queue-", i)] = lanes.Queue{Lanes: 4, Priorities: i%8 == 0}
	}
	return all
}

// bodyMark spreads the messages of the suite by their bodies over lanes and priorities.
func bodyMark(body []byte) lanes.Mark {
	m := lanes.Mark{ID: string(body)}
	if n := len(body); n > 0 {
		m.Priority = lanes.Priority(int(body[n-1])%3 - 1)
	}
	return m
}

func conformance(inner func(*storage.Store) *storage.Store) storagetest.Config {
	return storagetest.Driver(func(ctx context.Context, rest string) (*storage.Store, error) {
		s, err := sqlite.Open(ctx, rest)
		if err != nil {
			return nil, err
		}
		return lanes.Over(inner(s), lanes.Config{Queues: suiteQueues(), Read: bodyMark})
	}, func(t *testing.T) string {
		return filepath.Join(t.TempDir(), "test.db") + "?sync=normal"
	})
}

// A store with lanes keeps the laws of every store.
func TestConformance(t *testing.T) {
	t.Parallel()
	t.Run("atomic", func(t *testing.T) {
		t.Parallel()
		cfg := conformance(func(s *storage.Store) *storage.Store { return s })
		cfg.Atomic, cfg.Rings, cfg.RingsVisibility, cfg.Finds, cfg.Short = true, true, true, true, true
		cfg.Precision = time.Second // the shortest visibility of the suite is too short for many lanes on a busy machine
		storagetest.Run(t, cfg)
	})
	t.Run("plain", func(t *testing.T) {
		t.Parallel()
		cfg := conformance(storagetest.Plain)
		cfg.Short, cfg.Precision = true, time.Second
		storagetest.Run(t, cfg)
	})
}
