package throttle

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/http"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-go/millrace/storage"
)

const (
	leastKeys = 1024
	mostKeys  = 1 << 28
	leastKey  = 16 // bytes of Config.Key

	maxID = 256 // bytes; a longer ID is none
)

// Config is what a rate limiter asks for and how it answers. The zero Config lets everything through.
type Config struct {
	// Quotas are those of each tenant, 4 at most. Defaults to none.
	Quotas []Quota

	// Plans are other quotas, by the name of a plan. Plan names the plan of a tenant; it gets "" for a request that has
	// no tenant. A tenant of a plan that is not in Plans has Quotas. Defaults to none.
	Plans map[string][]Quota
	Plan  func(tenant string) string

	// Tenant names the tenant that a request has proved to come from; Serve calls it. It returns "" for a request that
	// has proved nothing: then the quotas are those of its address. A name that anybody can claim lets strangers use up
	// the quota of others. Defaults to "" for all requests.
	Tenant func(r *http.Request) string

	// Address names where a request comes from. Defaults to Address(0).
	Address func(r *http.Request) string

	// ID returns the ID of a request, which its sender repeats when it sends the request again, or "". Ten repeats of
	// an accepted ID pass the quotas, so return only what the handler itself knows repeats by; see [JSONMember].
	// Defaults to no ID.
	ID func(r *http.Request) string

	// Known reports whether the ID was accepted before, perhaps by another process. tenant is "" for a request that has
	// none. Known is called only when a request with an ID is about to be refused, and then 10 times in 10 seconds for
	// a tenant or address at most. It has 5 seconds. Defaults to the rate limiter's own memory alone.
	Known func(ctx context.Context, tenant, id string) (bool, error)

	// MaxKeys bounds the words that are kept: one for each quota of each tenant that has used it lately. A word takes
	// 21 to 64 bytes, and of MaxKeys words 43 at most. Concurrent quotas have as many words besides. When more than
	// three quarters are in use, newcomers begin to share 64 words for each quota; below 65,536 words, from a half on.
	// At least 1024, at most 2^28. Defaults to 1,048,576.
	MaxKeys int

	// Backlog refuses requests while a queue is too long. Defaults to none.
	Backlog Backlog

	// Refused answers a request that Serve refuses. Defaults to [Refusal.ServeHTTP].
	Refused func(w http.ResponseWriter, r *http.Request, x *Refusal)

	// Key is the secret, of 16 bytes at least, that stands between a tenant and the partition key that clients see.
	// Processes with the same Key show the same one. Defaults to chance.
	Key []byte

	// Metrics gets the numbers of requests let through, repeated and refused. Defaults to none.
	Metrics prometheus.Registerer

	// Logger gets failures that no caller is told of. Defaults to none.
	Logger *slog.Logger
}

// withDefaults returns a complete copy, or all that is wrong with it but the quotas.
func (c Config) withDefaults(name string) (Config, error) {
	var faults []error
	if !quotaName.MatchString(name) {
		faults = append(faults, fmt.Errorf("%w: name %s; want 1 to 40 lower-case letters, digits and hyphens, a letter first", storage.ErrInvalid, storage.Quote(name)))
	}
	c.MaxKeys = cmp.Or(c.MaxKeys, 1<<20)
	if c.MaxKeys < leastKeys || c.MaxKeys > mostKeys {
		faults = append(faults, fmt.Errorf("%w: MaxKeys is %d; want %d to %d", storage.ErrInvalid, c.MaxKeys, leastKeys, mostKeys))
	}
	if c.Key == nil {
		c.Key = make([]byte, 32)
		_, _ = rand.Read(c.Key) // never fails
	}
	if len(c.Key) < leastKey {
		faults = append(faults, fmt.Errorf("%w: Key has %d bytes; want %d at least", storage.ErrInvalid, len(c.Key), leastKey))
	}
	c.Key = slices.Clone(c.Key)
	if c.Address == nil {
		c.Address = Address(0)
	}
	if c.ID == nil {
		c.ID = func(*http.Request) string { return "" }
	}
	if c.Refused == nil {
		c.Refused = func(w http.ResponseWriter, r *http.Request, x *Refusal) { x.ServeHTTP(w, r) }
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Logger = c.Logger.With(slog.String("limiter", name))
	backlog, err := c.Backlog.withDefaults()
	c.Backlog = backlog
	return c, together(append(faults, err)...)
}
