package storagetest_test

import (
	"context"
	"math"
	"path/filepath"
	"testing"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/sqlite"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// onModel is the Config of a wrapped model.
func onModel(bug string, wrap func(*storage.Store) *storage.Store) storagetest.Config {
	places := newPlaces(bug)
	return storagetest.Config{
		Open: func(*testing.T) *storage.Store {
			p := newPlace(bug)
			return places.add(wrap(p.store()), p)
		},
		Reopen: func(_ *testing.T, s *storage.Store) *storage.Store {
			p := places.reopened(s)
			return places.add(wrap(p.store()), p)
		},
		Durable: true,
	}
}

func bare(s *storage.Store) *storage.Store { return s }

func TestModel(t *testing.T) {
	t.Parallel()
	cfg := onModel("", bare)
	cfg.Atomic, cfg.Rings, cfg.RingsVisibility, cfg.Claims, cfg.Finds, cfg.Peeks, cfg.PeeksDelayed, cfg.PeeksReceipts = true, true, true, true, true, true, true, true
	storagetest.Run(t, cfg)
}

func TestCoarseModel(t *testing.T) {
	t.Parallel()
	cfg := onModel("", func(s *storage.Store) *storage.Store {
		s.Driver().(*model).coarse = true
		return storagetest.Plain(s)
	})
	cfg.Precision = time.Second
	cfg.Short = true
	storagetest.Run(t, cfg)
}

// onSQLite is the Config of the wrapped embedded driver.
func onSQLite(wrap func(*storage.Store) *storage.Store) storagetest.Config {
	open := func(ctx context.Context, rest string) (*storage.Store, error) {
		s, err := sqlite.Open(ctx, rest)
		if err != nil {
			return nil, err
		}
		return wrap(s), nil
	}
	cfg := storagetest.Driver(open, func(t *testing.T) string { return filepath.Join(t.TempDir(), "test.db") })
	cfg.Short = true // the driver's own test runs all of it
	return cfg
}

func TestIntercept(t *testing.T) {
	t.Parallel()
	cfg := onSQLite(func(s *storage.Store) *storage.Store {
		return storagetest.Intercept(s, new(storagetest.Calls).Hook)
	})
	cfg.Atomic, cfg.Rings, cfg.RingsVisibility, cfg.Claims, cfg.Finds, cfg.Peeks, cfg.PeeksDelayed, cfg.PeeksReceipts = true, true, true, true, true, true, true, true
	storagetest.Run(t, cfg)
}

func TestPlain(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, onSQLite(storagetest.Plain))
}

func TestInterceptPlain(t *testing.T) {
	t.Parallel()
	cfg := onModel("", func(s *storage.Store) *storage.Store {
		return storagetest.Intercept(storagetest.Plain(s), new(storagetest.Calls).Hook)
	})
	storagetest.Run(t, cfg)
}

func TestCrashThatNeverComes(t *testing.T) {
	t.Parallel()
	cfg := onModel("", func(s *storage.Store) *storage.Store {
		s, _ = storagetest.Crash(s, math.MaxInt64, storagetest.BeforeEffect)
		return s
	})
	cfg.Atomic, cfg.Rings, cfg.RingsVisibility, cfg.Claims, cfg.Finds, cfg.Peeks, cfg.PeeksDelayed, cfg.PeeksReceipts = true, true, true, true, true, true, true, true
	storagetest.Run(t, cfg)
}
