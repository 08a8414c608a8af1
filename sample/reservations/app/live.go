package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/millrace-go/millrace/host"
	"github.com/millrace-go/millrace/settings"
)

const (
	minMailRate = 12 // mails a minute
	maxMailRate = 1_000_000
	maxPerDoor  = 1_000_000 // reservations

	// whileRunning ends the usage of a flag that is the default of a live setting.
	whileRunning = "While programs\nrun it is changed by millrace settings set, as"
)

// Live are the sample's settings that change while it runs. Their defaults are the flags.
type Live struct {
	host.Live
	MailRate   int `json:"mailRate"`   // mails a minute of all workers; 0: no limit
	PerAddress int `json:"perAddress"` // reservations from one IP address in a minute, of each web; 0: no limit
	PerMail    int `json:"perMail"`    // reservations with one e-mail address in an hour, likewise
}

// Check says what is wrong with the settings.
func (l Live) Check() error {
	var faults []error
	for _, x := range []struct {
		name           string
		n, least, most int
	}{{"mailRate", l.MailRate, minMailRate, maxMailRate}, {"perAddress", l.PerAddress, 1, maxPerDoor}, {"perMail", l.PerMail, 1, maxPerDoor}} {
		if x.n != 0 && (x.n < x.least || x.n > x.most) {
			faults = append(faults, fmt.Errorf("%s is %d; want %d to %d, or 0 for no limit", x.name, x.n, x.least, x.most))
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
	defaults := Live{MailRate: *p.mailRate, PerAddress: *p.perAddress, PerMail: *p.perMail}
	cfg := settings.Config{Offline: true}
	if a.Web {
		cfg.Work = p.asked
	}
	if p.live, err = host.Settings(ctx, a, defaults, cfg); err != nil {
		return err
	}
	host.Follow(p.live, func(now Live) {
		if err := setMailRate(p.smtp, now.MailRate); err != nil {
			a.Log.Error("the rate of mails in force can't be used; the one from before holds", "error", err)
		}
	})
	return nil
}
