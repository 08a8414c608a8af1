package redis

import (
	"testing"

	"github.com/millrace-go/millrace/storage/redis/redistest"
	"github.com/millrace-go/millrace/storage/storagetest"
)

func TestHistories(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Config{})
	storagetest.RunHistories(t, storagetest.Driver(Open, func(*testing.T) string { return server.URL(redistest.Fresh()) }))
}
