package redis

import (
	"testing"

	"github.com/millrace-go/millrace/storage/redis/redistest"
	"github.com/millrace-go/millrace/storage/storagetest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Config{})
	cfg := storagetest.Driver(Open, func(*testing.T) string { return server.URL(redistest.Fresh()) })
	cfg.Atomic, cfg.Rings, cfg.RingsVisibility, cfg.Finds, cfg.Peeks, cfg.PeeksDelayed, cfg.PeeksReceipts = true, true, true, true, true, true, true
	storagetest.Run(t, cfg)
}
