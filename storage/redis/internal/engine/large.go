package engine

import (
	"context"
	"encoding/hex"

	"github.com/millrace-go/millrace/storage/redis/internal/client"
)

const (
	// Large is how long a state is at least that is put under a name of its own. A script that holds more keeps the
	// server from other callers for long, and the call would travel with those of others.
	Large = client.Large

	// largeLife is how many seconds a state waits for its document. It is gone then, because its writer has died.
	largeLife = "3600"
)

// PutLarge puts a state under a name of its own, from which [Unit.WriteLarge] takes it.
func (e *Engine) PutLarge(ctx context.Context, state string) (name string, err error) {
	if err := e.units.refusal(); err != nil {
		return "", err
	}
	name = hex.EncodeToString([]byte(e.NewID()))
	err = e.caller.repeat(ctx, true, func() error {
		_, err := e.caller.conn.Do(ctx, "SET", e.Key(":big:"+name), state, "EX", largeLife)
		return err
	})
	return name, e.caller.explain(ctx, err)
}
