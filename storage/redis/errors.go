package redis

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	"github.com/millrace-go/millrace/storage/driver"
	"github.com/millrace-go/millrace/storage/redis/internal/client"
)

var errAway = errors.New("redis: the connection for subscriptions is lost; it is being opened again")

// explainDial says what to do about a connection that can't be opened.
func explainDial(ctx context.Context, err error) error {
	why := map[string]string{
		"WRONGPASS": "the user or the password is wrong",
		"NOAUTH":    "the server wants a password; give one in the URL, or in " + passwordVariable,
		"NOPERM":    "the user lacks a right; docs/redis.md lists those that a store needs",
	}
	var r *client.Refused
	if errors.As(err, &r) && why[r.Code] != "" {
		return fmt.Errorf("%w: %s: %w", driver.ErrUnavailable, why[r.Code], err)
	}
	var unknown x509.UnknownAuthorityError
	var plain tls.RecordHeaderError
	switch {
	case ctx.Err() != nil && errors.Is(err, context.Cause(ctx)):
		return err
	case errors.As(err, &unknown):
		return fmt.Errorf("%w: the server's certificate is by nobody whom this machine trusts; give the file of the authority's certificate as parameter ca: %w",
			driver.ErrUnavailable, err)
	case errors.As(err, &plain):
		return fmt.Errorf("%w: the server doesn't speak TLS there; want a redis: URL, or another port: %w", driver.ErrUnavailable, err)
	case client.NotSent(err):
		return fmt.Errorf("%w: no server answers there: %w", driver.ErrUnavailable, err)
	}
	return fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
}
