package doorbell

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/sqlite"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// TestConformance runs the suite over stores that have no rings of their own.
func TestConformance(t *testing.T) {
	t.Parallel()
	run := func(name string, inner func(*storage.Store) *storage.Store, atomic bool) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := usualPace()
			p.readEvery, p.readSoon = 200*time.Millisecond, 100*time.Millisecond
			cfg := storagetest.Driver(func(ctx context.Context, rest string) (*storage.Store, error) {
				s, err := sqlite.Open(ctx, rest)
				if err != nil {
					return nil, err
				}
				d, err := over(inner(s), loopback(), p)
				if err != nil {
					return nil, err
				}
				return d.Store, nil
			}, func(t *testing.T) string {
				return filepath.Join(t.TempDir(), "test.db") + "?wake=off&sync=normal"
			})
			cfg.Rings, cfg.Atomic, cfg.Short = true, atomic, true
			storagetest.Run(t, cfg)
		})
	}
	run("plain", storagetest.Plain, false)
	run("atomic", withoutRings, true)
}
