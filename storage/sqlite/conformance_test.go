package sqlite

import (
	"path/filepath"
	"testing"

	"github.com/millrace-go/millrace/storage/storagetest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	cfg := storagetest.Driver(Open, func(t *testing.T) string {
		return filepath.Join(t.TempDir(), "test.db")
	})
	cfg.Atomic, cfg.Rings, cfg.RingsVisibility, cfg.Claims, cfg.Finds, cfg.Peeks, cfg.PeeksDelayed, cfg.PeeksReceipts, cfg.Files = true, true, true, true, true, true, true, true, true
	storagetest.Run(t, cfg)
}
