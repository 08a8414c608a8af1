package site

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"github.com/millrace-go/millrace/sample/reservations"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/throttle"
)

// rate limiters bound how often somebody may ask for a table. They are asked when the request has been read and is
// right, so that a typing error costs nothing, and the form comes back as it was filled in.
type limiters struct {
	address          func(r *http.Request) string
	proxies          int
	addresses, mails *throttle.RateLimiter // of IP addresses, and of e-mail addresses
	wishes           *throttle.RateLimiter // of reservations
	counts           *counts               // of their answers
}

type counts struct{ let, refused atomic.Int64 }

type known func(ctx context.Context, tenant, id string) (bool, error)

// newLimiters returns the rate limiters. One without a limit lets everything through.
func newLimiters(cfg Config, known known) (d limiters, err error) {
	d.address, d.proxies, d.counts = throttle.Address(cfg.Proxies), cfg.Proxies, &counts{}
	c := throttle.Config{Known: known, Logger: cfg.Logger, Metrics: cfg.RateLimiter.Metrics, Key: cfg.RateLimiter.Key}
	if d.addresses, err = throttle.NewRateLimiter(perAddress, c); err != nil {
		return d, err
	}
	if d.mails, err = throttle.NewRateLimiter(perMail, c); err != nil {
		return d, err
	}
	if d.wishes, err = throttle.NewRateLimiter(perReservation, throttle.Config{Logger: cfg.Logger, Metrics: cfg.RateLimiter.Metrics, Key: cfg.RateLimiter.Key}); err != nil {
		return d, err
	}
	if err := d.wishes.Set(quotas(perReservation, wishesAnHour, time.Hour), nil); err != nil {
		return d, err
	}
	return d, d.set(cfg.PerAddress, cfg.PerMail)
}

// The names of the rate limiters, and of their quotas.
const (
	perAddress     = "per-address"
	perMail        = "per-mail"
	perReservation = "per-reservation"
)

// wishesAnHour bounds the uploads of a reservation, and so what the inbox holds: a file lies there for an hour at most.
const wishesAnHour = 10

// set changes the limits. 0 is none.
func (d *limiters) set(addresses, mails int) error {
	return errors.Join(d.addresses.Set(quotas(perAddress, addresses, time.Minute), nil), d.mails.Set(quotas(perMail, mails, time.Hour), nil))
}

func quotas(name string, most int, per time.Duration) []throttle.Quota {
	if most == 0 {
		return nil
	}
	return []throttle.Quota{{Name: name, Amount: int64(most), Per: per}}
}

// An entry is a request that the rate limiters have let through.
type entry struct{ address, mail throttle.Pass }

// end ends the request.
func (e *entry) end(how throttle.Ending) {
	e.address.End(how)
	e.mail.End(how)
}

// admit asks both rate limiters, and counts. Its errors are of type *refused.
func (d *limiters) admit(ctx context.Context, r *http.Request, m reservations.MakeReservation) (entry, error) {
	e, err := d.ask(ctx, r, m)
	if err == nil {
		d.counts.let.Add(1)
	} else {
		d.counts.refused.Add(1)
	}
	return e, err
}

func (d *limiters) ask(ctx context.Context, r *http.Request, m reservations.MakeReservation) (e entry, err error) {
	if d.isFromHere(r) {
		return e, nil
	}
	if e.address, err = d.addresses.Admit(ctx, throttle.Call{Tenant: d.address(r), ID: m.ID}); err != nil {
		return e, refuse(err, "Many reservations have come from your network.")
	}
	if e.mail, err = d.mails.Admit(ctx, throttle.Call{Tenant: strings.ToLower(m.Email), ID: m.ID}); err != nil {
		e.address.End(throttle.Void)
		return e, refuse(err, "There have been many reservations with this e-mail address.")
	}
	return e, nil
}

// isFromHere reports that a request comes from this machine itself, by the connection alone: anybody can write another
// address into a header. A request that a proxy on this machine has brought is not from here.
func (d *limiters) isFromHere(r *http.Request) bool {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && from.Addr().Unmap().IsLoopback() && (d.proxies == 0 || len(r.Header.Values("X-Forwarded-For")) == 0)
}

// refused is a problem that a program gets from the rate limiter itself.
type refused struct {
	*problem
	limiter *throttle.Refusal
}

func refuse(err error, why string) error {
	x, ok := errors.AsType[*throttle.Refusal](err)
	if !ok {
		return err
	}
	return &refused{&problem{Status: x.Status(), Detail: why + " Please try again in " + inWords(x.RetryAfter()) + "."}, x}
}

// inWords says a time in seconds or minutes, rounded up.
func inWords(d time.Duration) string {
	n, unit := int(d/time.Second), "second"
	if d > 99*time.Second {
		n, unit = int((d+time.Minute-1)/time.Minute), "minute"
	}
	if n != 1 {
		unit += "s"
	}
	return fmt.Sprintf("%d %s", n, unit)
}

// knownBy returns what reports whether a reservation was asked for before, here or in another process, by what reads a
// request.
func knownBy(requested func(ctx context.Context, key string) (reservations.MakeReservation, error)) known {
	return func(ctx context.Context, _, id string) (bool, error) {
		_, err := requested(ctx, reservations.Key(id))
		if errors.Is(err, storage.ErrNotFound) {
			return false, nil
		}
		return err == nil, err
	}
}
