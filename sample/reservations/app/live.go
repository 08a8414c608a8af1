package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/millrace-go/millrace/host"
	"github.com/millrace-go/millrace/settings"
)

const (
	maxMailRate = 1_000_000 // mails a minute
	maxPerDoor  = 1_000_000 // reservations

	// whileRunning ends the usage of a flag that is the default of a live setting.
	whileRunning = "While programs\nrun it is changed by millrace settings set, as"
)

// Live are the sample's settings that change while it runs. Their defaults are the flags.
type Live struct {
	host.Live
	MailRate   int `json:"mailRate"`   // mails a minute of each worker; 0: no limit
	PerAddress int `json:"perAddress"` // reservations from one IP address in a minute, of each web; 0: no limit
	PerMail    int `json:"perMail"`    // reservations with one e-mail address in an hour, likewise
}

// Check says what is wrong with the settings.
func (l Live) Check() error {
	var faults []error
	for _, x := range []struct {
		name    string
		n, most int
	}{{"mailRate", l.MailRate, maxMailRate}, {"perAddress", l.PerAddress, maxPerDoor}, {"perMail", l.PerMail, maxPerDoor}} {
		if x.n < 0 || x.n > x.most {
			faults = append(faults, fmt.Errorf("%s is %d; want 1 to %d, or 0 for no limit", x.name, x.n, x.most))
		}
	}
	return errors.Join(faults...)
}

// openLive opens the live settings. A program that starts while the store is away begins with the flags.
func (p *program) openLive(ctx context.Context, a *host.App) (err error) {
	defaults := Live{MailRate: *p.mailRate, PerAddress: *p.perAddress, PerMail: *p.perMail}
	if p.live, err = host.Settings(ctx, a, defaults, settings.Config{Offline: true}); err != nil {
		return err
	}
	host.Follow(p.live, func(now Live) { p.setMailRate(now.MailRate) })
	return nil
}

// setMailRate says how many mails are sent in a minute.
func (p *program) setMailRate(perMinute int) { p.pace.set(perMinute) }
