package scale

import (
	"testing"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// The model keeps the laws of a store, so that a measurement doesn't show the model's own faults. Here it has no
// limits and no latencies, because the suite runs in real time.
func TestConformance(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, storagetest.Config{
		Open:    func(*testing.T) *storage.Store { return newService(1, limits{}, latencies{}).open() },
		Reopen:  func(_ *testing.T, s *storage.Store) *storage.Store { return s.Driver().(*store).s.open() },
		Durable: true, Precision: time.Second, Parallel: 64,
	})
}
