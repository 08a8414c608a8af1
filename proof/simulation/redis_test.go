package simulation

import (
	"testing"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/redis/redistest"
	"github.com/millrace-go/millrace/storage/redis/virtualtest"
)

// Random schedules hold on a Redis server, too.
func TestRandomSchedulesOnRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Config{})
	randomSchedules(t, func(t *testing.T) func(*testing.T) *storage.Store {
		return virtualtest.New(t, server.URL(redistest.Fresh())).Open
	})
}
