package doorbell

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"sync/atomic"

	"github.com/millrace-go/millrace/storage"
)

// Config is how a process rings and is rung. The zero Config is right for most programs.
type Config struct {
	// Listen is where this process is rung: a UDP "IP:port", in which either part may be missing. The socket opens
	// when the process first waits for a queue; a process that only sends never listens. Defaults to ":0", any free
	// port of all addresses.
	Listen string

	// Advertise lists the addresses by which others reach Listen, at most 8: IPs, with a port where it differs from
	// Listen's. Defaults to the IP of Listen, or else to all global unicast addresses of this machine.
	Advertise []string

	// Logger gets the package's log records. Defaults to none.
	Logger *slog.Logger
}

// A Doorbell is a store that rings.
type Doorbell struct {
	*storage.Store
	own *store // nil: the store rings by itself
}

// Counts counts the rings between processes since the store was opened. Of publications it counts those that came again
// or were refused.
type Counts struct {
	Sent     int64 // rings sent; a ring to several addresses of one listener counts once
	Accepted int64 // rings received, which ring at once or are folded into the next
	Repeated int64 // rings received before, or after a later one; also the copies to a listener's other addresses
	Refused  int64 // datagrams that are no ring and no publication, or forged, or whose time is off by more than 10 minutes
}

// counts are what Counts counts.
type counts struct{ sent, accepted, repeated, refused atomic.Int64 }

// Over returns a store that keeps all data in inner, and rings. If inner rings by itself, it stays as it is, and
// the counts of the Doorbell stay zero. Closing the result closes inner. Over opens nothing and makes no request.
// An error is about cfg only, and inner stays open.
func Over(inner *storage.Store, cfg Config) (*Doorbell, error) {
	return over(inner, cfg, usualPace())
}

func over(inner *storage.Store, cfg Config, p pace) (*Doorbell, error) {
	if inner.Rings() {
		return &Doorbell{Store: inner}, nil
	}
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, &storage.Error{Op: "open", Resource: "doorbell", Err: err}
	}
	s := newStore(inner, cfg, p)
	return &Doorbell{storage.New(s), s}, nil
}

// Counts returns how often this process rang others and was rung.
func (d *Doorbell) Counts() Counts {
	if d.own == nil {
		return Counts{}
	}
	c := d.own.counts
	return Counts{Sent: c.sent.Load(), Accepted: c.accepted.Load(), Repeated: c.repeated.Load(), Refused: c.refused.Load()}
}

// Check reports all that is wrong with the Config. [Over] does the same, if the store doesn't ring by itself.
func (c Config) Check() error {
	_, err := c.withDefaults()
	return err
}

// withDefaults returns a complete copy, or all that is wrong with it.
func (c Config) withDefaults() (Config, error) {
	var faults []error
	bad := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("%w: "+format, append([]any{storage.ErrInvalid}, args...)...))
	}
	if c.Listen == "" {
		c.Listen = ":0"
	}
	host, port, err := net.SplitHostPort(c.Listen)
	if err == nil && host != "" {
		_, err = netip.ParseAddr(host)
	}
	if err == nil && port != "" {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		bad("Listen is %s; want a UDP address like :7040 or 10.0.0.4:7040", storage.Quote(c.Listen))
	}
	if len(c.Advertise) > maxAddresses {
		bad("Advertise has %d addresses; at most %d", len(c.Advertise), maxAddresses)
	}
	for _, a := range c.Advertise {
		if _, ok := parseAddress(a, 1); !ok {
			bad("Advertise has %s; want an address of this machine, with or without a port, like 10.0.0.4 or 10.0.0.4:7040", storage.Quote(a))
		}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, errors.Join(faults...)
}
