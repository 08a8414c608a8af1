package host

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/guard"
)

// Readiness names each service that is away once, with the queues that wait, and without its error.
func TestServicesAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := guard.Config{Logger: slog.New(slog.DiscardHandler)}
		smtp, crm := guard.New("smtp", cfg), guard.New("crm", cfg)
		all := map[string]*guard.Guard{"news": smtp, "mails": smtp, "customers": crm}
		if got := servicesAway(all); got != "" {
			t.Errorf("nothing is away: %q", got)
		}
		for range 20 {
			_ = smtp.Do(t.Context(), func(context.Context) error { return errors.New("secret") })
		}
		time.Sleep(500 * time.Millisecond)
		if got, want := servicesAway(all), "; smtp has been away for 1s, and this waits for it: mails, news"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		_ = crm.Do(t.Context(), func(context.Context) error {
			return guard.CheckStatus(&http.Response{StatusCode: 429, Header: http.Header{"Retry-After": {"60"}}, Body: http.NoBody})
		})
		time.Sleep(3 * time.Second)
		if got, want := servicesAway(map[string]*guard.Guard{"customers": crm}), "; crm asked to wait 3s ago, and this waits for it: customers"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}
