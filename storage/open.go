package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"

	"github.com/millrace-go/millrace/internal/contain"
)

// A Driver opens stores of one kind. A package that implements a kind offers its Driver as a variable of that name.
type Driver struct {
	// Scheme begins the URLs of the driver's stores: "azure" for azure://ACCOUNT. It is 1 to 20 lower-case letters and
	// digits, a letter first. A URL may have it in capital letters.
	Scheme string

	// Forms are further schemes with which the driver's URLs may begin, such as "rediss" beside "redis". They may also
	// have plus signs. Defaults to none.
	Forms []string

	// Usage tells the people who run a program which URLs the driver takes, and what each means. It is some sentences,
	// for the help of the program's flag -store.
	Usage string

	// Open opens the store that a URL names by its part behind "SCHEME:". It gets a URL of another form whole. Its errors
	// tell no secret that the URL holds.
	Open func(ctx context.Context, rest string, cfg OpenConfig) (*Store, error)
}

// An OpenConfig is how a store is opened.
type OpenConfig struct {
	// Logger gets what a store warns of. Defaults to slog.Default().
	Logger *slog.Logger

	// Existing opens a store for a command that works on the store of other programs. Where the driver can tell, it
	// refuses a store that nobody has made, and one that those programs could not use any more afterwards. Defaults to
	// a store that is made, or brought up, where it has to be.
	Existing bool
}

// Drivers are the kinds of store that a program can open. A program lists the kinds that it wants; none registers
// itself.
type Drivers []Driver

var (
	goodScheme = regexp.MustCompile(`^[a-z][a-z0-9]{0,19}$`)
	goodForm   = regexp.MustCompile(`^[a-z][a-z0-9+]{0,19}$`)
)

// Check reports all faults of the list: a scheme that is bad or there twice, and a Driver without Open.
func (d Drivers) Check() error {
	var faults []error
	seen := map[string]bool{}
	for _, x := range d {
		switch {
		case !goodScheme.MatchString(x.Scheme):
			faults = append(faults, fmt.Errorf("%w: a driver's scheme is %s; want 1 to 20 lower-case letters and digits, a letter first", ErrInvalid, Quote(x.Scheme)))
		case x.Open == nil:
			faults = append(faults, fmt.Errorf("%w: the driver of %s: has no Open", ErrInvalid, x.Scheme))
		case seen[x.Scheme]:
			faults = append(faults, fmt.Errorf("%w: two drivers have the scheme %s; package host adds storage/sqlite by itself", ErrInvalid, x.Scheme))
		}
		seen[x.Scheme] = true
		for _, form := range x.Forms {
			switch {
			case !goodForm.MatchString(form):
				faults = append(faults, fmt.Errorf("%w: a form of the driver of %s: is %s; want 1 to 20 lower-case letters, digits and plus signs, a letter first", ErrInvalid, x.Scheme, Quote(form)))
			case seen[form]:
				faults = append(faults, fmt.Errorf("%w: two drivers have the scheme %s", ErrInvalid, form))
			}
			seen[form] = true
		}
	}
	return errors.Join(faults...)
}

// Open opens the store that a URL names, for example "sqlite:data/app.db". The URL may hold a secret, so errors name
// its scheme only.
func (d Drivers) Open(ctx context.Context, url string, cfg OpenConfig) (*Store, error) {
	if err := d.Check(); err != nil {
		return nil, &Error{Op: "open", Resource: "store", Err: err}
	}
	scheme, rest, ok := strings.Cut(url, ":")
	scheme = strings.ToLower(scheme) // RFC 3986, section 3.1
	if ok && slices.ContainsFunc(d, func(x Driver) bool { return slices.Contains(x.Forms, scheme) }) {
		rest = scheme + ":" + rest
	}
	at := slices.IndexFunc(d, func(x Driver) bool { return ok && (x.Scheme == scheme || slices.Contains(x.Forms, scheme)) })
	if at < 0 {
		return nil, &Error{Op: "open", Resource: "store", Err: d.unknown(url, scheme)}
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	var s *Store
	err := contain.Call(func() (err error) {
		s, err = d[at].Open(ctx, rest, cfg)
		return err
	})
	var e *Error
	switch {
	case errors.As(err, &e):
		return nil, err
	case err == nil && (s == nil || s.d == nil):
		err = errors.New("the driver's Open has returned no store and no error")
	}
	if err != nil {
		return nil, &Error{Op: "open", Resource: scheme + " store", Err: err}
	}
	return s, nil
}

// unknown is the error for a URL that no driver takes. It names the drivers of this module that a program may add.
func (d Drivers) unknown(url, scheme string) error {
	if url != "" && strings.ContainsAny(url[:1], "\"'") {
		return fmt.Errorf("%w: the URL is in quotes, which are taken for a part of it; want it without them", ErrInvalid)
	}
	for _, known := range []string{"azure", "redis"} {
		if form, _, _ := strings.Cut(scheme, "+"); form == known || form == known+"s" { // as in rediss+sentinel
			return fmt.Errorf("%w: this program has no driver for %s: URLs. Add storage/%s.Driver to its list of drivers, such as host.Program.Drivers", ErrInvalid, known, known)
		}
	}
	var known []string
	for _, x := range d {
		known = append(known, x.Scheme+":…")
	}
	slices.Sort(known)
	return fmt.Errorf("%w: unknown kind of store URL; want one of %s. A program takes another kind when its driver is in its list of drivers, such as host.Program.Drivers",
		ErrInvalid, strings.Join(known, ", "))
}
