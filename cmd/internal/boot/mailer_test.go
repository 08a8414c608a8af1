package boot

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/sample/reservations"
	"github.com/millrace-go/millrace/sample/reservations/mail"
)

type failing struct{ err error }

func (f failing) Send(context.Context, reservations.Mail) error { return f.err }

func TestRefusedMailsArePoison(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err  error
		want handlers.Action
	}{
		"sent":      {want: handlers.Done},
		"refused":   {err: fmt.Errorf("mail: %w: 550", mail.ErrRefused), want: handlers.ToPoison},
		"try again": {err: errors.New("connection refused"), want: handlers.TryAgain},
	} {
		// As the sample's reaction wraps it.
		err := poisoning{failing{c.err}}.Send(t.Context(), reservations.Mail{})
		if err != nil {
			err = fmt.Errorf("mails: %w", err)
		}
		if got := handlers.Judge(err).Action; got != c.want {
			t.Errorf("%s: got action %v, want %v", name, got, c.want)
		}
	}
}
