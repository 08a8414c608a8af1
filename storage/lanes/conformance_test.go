package lanes_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/azure"
	"github.com/millrace-go/millrace/storage/azure/azuretest"
	"github.com/millrace-go/millrace/storage/lanes"
	"github.com/millrace-go/millrace/storage/sqlite"
	"github.com/millrace-go/millrace/storage/storagetest"
)

var azurite = sync.OnceValues(azuretest.Launch)

// suiteQueues are the queues of the suite, with and without all that a queue may have.
func suiteQueues() map[string]lanes.Queue {
	all := dividedQueues(lanes.Queue{Lanes: 4}, 1)
	all["queue"], all["jobs"] = lanes.Queue{Lanes: 8, Priorities: true}, lanes.Queue{Lanes: 8, Priorities: true}
	for i := 0; i < 500; i += 8 {
		all[fmt.Sprint("queue-", i)] = lanes.Queue{Lanes: 4, Priorities: true}
	}
	return all
}

// dividedQueues are the queues of the suite, of which one in so many is divided.
func dividedQueues(x lanes.Queue, each int) map[string]lanes.Queue {
	all := map[string]lanes.Queue{"queue": x, "jobs": x}
	for i := 0; i < 500; i += each {
		all[fmt.Sprint("queue-", i)] = x
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
		cfg.Atomic, cfg.Rings, cfg.RingsVisibility, cfg.Finds, cfg.Peeks, cfg.PeeksDelayed, cfg.PeeksReceipts, cfg.Short = true, true, true, true, true, true, true, true
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

// So does one above Azure Storage, whose units of work are not atomic and whose lanes are queues far away. A look at
// all lanes is what the laws are about, so the requests count as free. They are many, so one queue in five has lanes.
func TestConformanceOnAzurite(t *testing.T) {
	t.Parallel()
	cfg := storagetest.Driver(func(ctx context.Context, rest string) (*storage.Store, error) {
		s, err := azure.Open(ctx, rest)
		if err != nil {
			return nil, err
		}
		free := storagetest.WithProps(s, func(p *storage.Props) { p.Billed = false })
		return lanes.Over(free, lanes.Config{Queues: dividedQueues(lanes.Queue{Lanes: 2}, 5), Read: bodyMark})
	}, func(t *testing.T) string { return azuretest.WithPrefix(azuretest.Place(t, azurite, azure.Wipe)) })
	cfg.Precision, cfg.Short, cfg.Repeats, cfg.Queues, cfg.Parallel, cfg.Patience = time.Second, true, true, true, 8, 30*time.Second
	storagetest.Run(t, cfg)
}
