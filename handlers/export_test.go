package handlers

import (
	"context"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/storage"
)

// Once is the guard of ReactOnce, on a store that misbehaves.
func Once[E channel.Message](store *storage.Store, group string, f func(context.Context, E) error) func(context.Context, E) error {
	return guardOnce(store, group, f)
}
