package redis

import (
	"net/url"
	"testing"

	"github.com/millrace-go/millrace/storage/redis/redistest"
	"github.com/millrace-go/millrace/storage/storagetest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Config{})
	cfg := storagetest.Driver(Open, func(t *testing.T) string {
		return server.URL(redistest.Fresh()) + "&files=" + url.QueryEscape(t.TempDir())
	})
	cfg.Atomic, cfg.Rings, cfg.RingsVisibility, cfg.Finds, cfg.Peeks, cfg.PeeksDelayed, cfg.PeeksReceipts, cfg.Files = true, true, true, true, true, true, true, true
	storagetest.Run(t, cfg)
}
