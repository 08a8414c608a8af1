package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/millrace-go/millrace/host"
	"github.com/millrace-go/millrace/settings"
)

const (
	maxPerDoor = 1_000_000 // reservations

	// whileRunning ends the usage of a flag that is the default of a live setting.
	whileRunning = "\nWhile programs run, it is changed by millrace settings set, as"
)

// Live are the sample's settings that change while it runs. Their defaults are the flags.
type Live struct {
	host.Live
	PerAddress int `json:"perAddress"` // reservations from one IP address in a minute, of each web; 0: no limit
	PerMail    int `json:"perMail"`    // reservations with one e-mail address in an hour, likewise
}

// Check says what is wrong with the settings.
func (l Live) Check() error {
	var faults []error
	for _, x := range []struct {
		name string
		n    int
	}{{"perAddress", l.PerAddress}, {"perMail", l.PerMail}} {
		if x.n < 0 || x.n > maxPerDoor {
			faults = append(faults, fmt.Errorf("%s is %d; want 1 to %d, or 0 for no limit", x.name, x.n, maxPerDoor))
		}
	}
	return errors.Join(faults...)
}

// asked is a web's work: guests who are turned away tell against a change of the limits.
func (p *program) asked() (w settings.Work) {
	if s := p.site.Load(); s != nil {
		w.Done, w.Failed = s.Asked()
	}
	return w
}

// openLive opens the live settings. A program that starts while the store is away begins with the flags.
func (p *program) openLive(ctx context.Context, a *host.App) (err error) {
	defaults := Live{PerAddress: *p.perAddress, PerMail: *p.perMail}
	cfg := settings.Config{Offline: true}
	if a.Web {
		cfg.Work = p.asked
	}
	p.live, err = host.Settings(ctx, a, defaults, cfg)
	return err
}
