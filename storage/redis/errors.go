package redis

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"

	"github.com/millrace-go/millrace/storage/driver"
	"github.com/millrace-go/millrace/storage/redis/internal/client"
)

var errAway = errors.New("redis: the connection for subscriptions is lost; it is being opened again")

// explainDial says what to do about a connection that can't be opened.
func explainDial(ctx context.Context, p params, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		return err
	}
	if why := whyNoConnection(p, err); why != "" {
		return fmt.Errorf("%w: %s: %w", driver.ErrUnavailable, why, err)
	}
	return fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
}

func whyNoConnection(p params, err error) string {
	var (
		refused *client.Refused
		unknown x509.UnknownAuthorityError
		plain   tls.RecordHeaderError
	)
	switch {
	case errors.As(err, &refused):
		return whyRefused(p, refused)
	case errors.As(err, &unknown):
		return "the server's certificate is by nobody whom this machine trusts; give the file of the authority's certificate as parameter ca"
	case errors.As(err, &plain):
		return "the server doesn't speak TLS there; want " + p.plainForm() + ", or another port"
	case client.NotSent(err):
		return "no server answers there"
	case p.server.TLS != nil && client.Silent(err):
		return "no TLS connection comes about; if the server doesn't speak TLS there, want " + p.plainForm() + ", or another port"
	case p.server.TLS == nil && client.Foreign(err):
		return "the answer isn't one of a Redis server; if the server speaks TLS there, want a rediss: URL, and else another port"
	}
	return ""
}

// plainForm is the form of URLs for the same servers without TLS.
func (p params) plainForm() string {
	if p.server.Master != "" {
		return "a redis+sentinel: URL"
	}
	return "a redis: URL"
}

// whyRefused is for answers of a server to the first commands of a connection.
func whyRefused(p params, err *client.Refused) string {
	switch {
	case err.Code == "WRONGPASS":
		return "the user or the password is wrong"
	case err.Code == "NOAUTH":
		return "the server wants a password; give one in the URL, or in " + passwordVariable
	case err.Code == client.CodePermission:
		return "the user lacks a right; docs/redis.md lists those that a store needs"
	case p.server.Master != "" && strings.Contains(strings.ToLower(err.Text), "unknown command"):
		return "the server is no sentinel; name the sentinels, whose usual port is 26379, or want a redis: URL"
	case p.server.Master != "" && strings.Contains(err.Text, "No such master"):
		return "the sentinels know no master of the name " + driver.Quote(p.server.Master) + "; redis-cli -p 26379 SENTINEL MASTERS lists those that they know"
	case strings.Contains(err.Text, "DB index"):
		return "the server has no database of the number in parameter db; its setting databases, 16 by default, says how many it has, from 0"
	}
	return ""
}
