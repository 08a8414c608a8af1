package app

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/sample/reservations/mail"
)

func TestMailsThatFail(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err  error
		age  time.Duration
		want handlers.Action
	}{
		"sent":           {want: handlers.Done},
		"refused":        {err: fmt.Errorf("mail: %w: 550", mail.ErrRefused), want: handlers.ToPoison},
		"no server":      {err: errors.New("connection refused"), want: handlers.HandBack},
		"none for a day": {err: errors.New("connection refused"), age: mailGiveUp, want: handlers.TryAgain},
	} {
		err := verdict(c.err, c.age)
		if err != nil {
			err = fmt.Errorf("mails: %w", err) // as the sample's reaction wraps it
		}
		if got := handlers.Judge(err).Action; got != c.want {
			t.Errorf("%s: got action %v, want %v", name, got, c.want)
		}
	}
}
