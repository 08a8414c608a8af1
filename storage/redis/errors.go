package redis

import (
	"context"
	"errors"
	"fmt"

	"github.com/millrace-go/millrace/storage/driver"
	"github.com/millrace-go/millrace/storage/redis/internal/client"
)

var errAway = errors.New("redis: the connection for subscriptions is lost; it is being opened again")

// explainDial says what to do about a connection that can't be opened.
func explainDial(err error) error {
	why := map[string]string{
		"WRONGPASS": "the user or the password is wrong",
		"NOAUTH":    "the server wants a password; give one in the URL, or in " + passwordVariable,
		"NOPERM":    "the user lacks a right; docs/redis.md lists those that a store needs",
	}
	var r *client.Refused
	if errors.As(err, &r) && why[r.Code] != "" {
		return fmt.Errorf("%w: %s: %w", driver.ErrUnavailable, why[r.Code], err)
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
}
