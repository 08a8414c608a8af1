package redis

import (
	"testing"

	"github.com/millrace-go/millrace/storage/redis/redistest"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// The same while each tenth answer of the server is lost with its connection.
func TestHistoriesOfCutConnections(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Config{})
	c := newCutter(t, server)
	c.every = 10
	t.Cleanup(func() {
		if c.count.Load() < 10*c.every {
			t.Errorf("the server has answered %d calls, so hardly a connection was cut", c.count.Load())
		}
	})
	storagetest.RunHistories(t, storagetest.Driver(Open, func(*testing.T) string {
		return "redis+unix://" + c.socket + "?prefix=" + redistest.Fresh() + "&wake=off"
	}))
}

func TestHistories(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Config{})
	storagetest.RunHistories(t, storagetest.Driver(Open, func(*testing.T) string { return server.URL(redistest.Fresh()) }))
}
