package acts

import (
	"context"
	"maps"
	"slices"

	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/storage"
)

// nameField is the name of the thing that an act is about.
func nameField(to *string, about string, words func(context.Context, *act.Desk) []string) act.Field {
	return act.Text(to, "name", about).At("NAME").With(storage.CheckKey).From(words)
}

// queueField is the queue that an act is about.
func queueField(to *string) act.Field {
	return act.Text(to, "queue", "the queue").At("QUEUE").With(storage.CheckName).From(queueNames)
}

// queueNames are the queues that programs have told of, for completion.
func queueNames(_ context.Context, d *act.Desk) []string {
	return slices.Sorted(maps.Keys(d.Known.Queues))
}

func kindNames(_ context.Context, desk *act.Desk) []string { return desk.Known.Kinds() }

// number is nil for an unknown number.
func number(n int64) *int64 {
	if n < 0 {
		return nil
	}
	return &n
}

// cell is a number for people.
func cell(n int64) any {
	if n < 0 {
		return nil
	}
	return n
}
