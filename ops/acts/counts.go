package acts

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/millrace-go/millrace/ops/act"
)

// queueNames are the queues that programs have told of, for completion.
func queueNames(_ context.Context, d *act.Desk) []string {
	return slices.Sorted(maps.Keys(d.Known.Queues))
}

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
	return fmt.Sprint(n)
}
