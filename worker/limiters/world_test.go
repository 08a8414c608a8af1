package limiters_test

import (
	"testing"
	"testing/synctest"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
)

type job struct{}

func (job) Kind() channel.Kind { return "test.job.v1" }

// inBubble runs a test in virtual time, with a store.
func inBubble(t *testing.T, test func(t *testing.T, s *storage.Store)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { test(t, worldtest.OpenStore(t, worldtest.Virtual)) })
}
