package channel

import (
	"context"
	"fmt"

	"github.com/millrace-go/millrace/storage/lanes"
)

// A Priority says how urgent a message is. Messages of a higher one get more turns, never all of them.
type Priority = lanes.Priority

// Priorities of messages. While messages of all three wait, workers take 8 of High and 4 of Normal for each of Low, or
// as [Weigh] says.
const (
	High   = lanes.High
	Normal = lanes.Normal
	Low    = lanes.Low
)

// Weights are how many messages of each priority are taken while all of them wait, each 1 to 100. A zero is the
// default.
//
//	High   int `json:"high,omitzero"`   // Defaults to 8.
//	Normal int `json:"normal,omitzero"` // Defaults to 4.
//	Low    int `json:"low,omitzero"`    // Defaults to 1.
type Weights = lanes.Weights

// Weigh puts other weights in force for a queue of [Priorities], in the workers of c in this process. They may run. Low
// is never starved, whatever the weights. With package host they are a setting; see host.LiveQueue. An error says what
// is wrong, and changes nothing.
func Weigh(c *Channels, queue string, w Weights) error {
	if err := lanes.Weigh(c.store, queue, w); err != nil {
		return fmt.Errorf("channel: %w", err)
	}
	return nil
}

type priorityKey struct{}

// WithPriority returns a context under which messages are sent with a priority. It has an effect in the queues of
// [Priorities]. A handler sends with the priority of the message that it handles, unless its context has another one.
func WithPriority(ctx context.Context, p Priority) context.Context {
	return context.WithValue(ctx, priorityKey{}, p)
}
