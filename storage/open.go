package storage

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A Driver opens a store from the part of a store URL behind its scheme.
type Driver func(ctx context.Context, rest string) (*Store, error)

// Drivers maps the scheme of a store URL to its driver. A program lists the drivers that it wants; none registers
// itself.
type Drivers map[string]Driver

// Open opens the store that a URL names, for example "sqlite:data/app.db". The URL may hold a secret, so
// errors name its scheme only.
func (d Drivers) Open(ctx context.Context, url string) (*Store, error) {
	scheme, rest, ok := strings.Cut(url, ":")
	open := d[scheme]
	if !ok || open == nil {
		if url != "" && strings.ContainsAny(url[:1], "\"'") {
			return nil, &Error{Op: "open", Resource: "store", Err: fmt.Errorf("%w: the URL is in quotes, which are taken for a part of it; want it without them", ErrInvalid)}
		}
		known := slices.Sorted(maps.Keys(d))
		for i, k := range known {
			known[i] = k + ":…"
		}
		return nil, &Error{Op: "open", Resource: "store", Err: fmt.Errorf("%w: unknown kind of store URL; want one of %s", ErrInvalid, strings.Join(known, ", "))}
	}
	s, err := open(ctx, rest)
	if err != nil {
		var e *Error
		if errors.As(err, &e) {
			return nil, err
		}
		return nil, &Error{Op: "open", Resource: scheme + " store", Err: err}
	}
	return s, nil
}
