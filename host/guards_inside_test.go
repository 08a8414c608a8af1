package host

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/guard"
)

// Readiness names each service that is away once, with the queues that wait, and without its error.
func TestServicesAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := guard.Config{Logger: slog.New(slog.DiscardHandler), InPlace: guard.NotInPlace}
		smtp, crm := guard.New("smtp", cfg), guard.New("crm", cfg)
		all := map[string]*guard.Guard{"news": smtp, "mails": smtp, "customers": crm}
		if got := servicesAway(all); got != "" {
			t.Errorf("nothing is away: %q", got)
		}
		for range 20 {
			_ = smtp.Do(t.Context(), func(context.Context) error { return errors.New("secret") })
		}
		time.Sleep(500 * time.Millisecond)
		if got, want := servicesAway(all), "; smtp is away for 1s, and this waits for it: mails, news"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}
