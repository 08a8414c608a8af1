package app

import (
	"context"
	"errors"
	"net/mail"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/host"
	"github.com/millrace-go/millrace/ops/alert"
	"github.com/millrace-go/millrace/sample/reservations"
)

// checkAlerts refuses what is no plain e-mail address.
func (p *program) checkAlerts() error {
	if *p.alerts == "" {
		return nil
	}
	if a, err := mail.ParseAddress(*p.alerts); err != nil || a.Address != *p.alerts {
		return errors.New("want an e-mail address such as ops@example.org")
	}
	return nil
}

// alert returns what mails alerts. They wait with the other mails, so a queue of mails that stands still isn't told.
// Only workers look, because a web has no right to most of the store.
func (p *program) alert(a *host.App) alert.Hook {
	if *p.alerts == "" || !a.Worker {
		return nil
	}
	a.Say("What is wrong with the store is mailed to the operator.")
	return mailed(a.Channels, *p.alerts)
}

// mailed sends each alert as an event, whose ID is that of the alert. So an alert that is told again is no second mail.
func mailed(c *channel.Channels, to string) alert.Hook {
	return func(ctx context.Context, x alert.Alert) error {
		return c.Send(ctx, reservations.OperatorAlerted{ID: x.ID, Email: to, Title: x.Title(), Text: x.String()})
	}
}
