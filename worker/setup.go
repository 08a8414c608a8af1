package worker

import (
	"log/slog"

	"github.com/millrace-go/millrace/internal/handling"
	"github.com/millrace-go/millrace/storage"
)

// setup is what all rooms of a consumer work with. It doesn't change.
type setup struct {
	queue    string
	q        *storage.Queue
	store    *storage.Store
	registry *handling.Registry
	cfg      QueueConfig // complete
	all      *Config     // for what is the same in all queues
	log      *slog.Logger
	stats    *queueMetrics
}
