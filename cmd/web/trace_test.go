package main

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/millrace-go/millrace/internal/boottest"
	"github.com/millrace-go/millrace/internal/tracing/tracingtest"
)

const oneBooking = `POST /reservations
  send reservations
    process reservations
      commit capacity
      decide capacity
        process ledger
          react ledger
            send
              process mails
                react mails
              process statuses
                commit statuses
                project statuses
              wait mails
              wait statuses
        wait ledger
    wait reservations
`

// One booking is one trace, from the request to the mail. The program sends its last spans before it ends. No span
// tells what is personal, nor the reservation's ID, which is the right to cancel.
func TestOneBookingIsOneTrace(t *testing.T) {
	t.Parallel()
	c := tracingtest.NewCollector(t)
	p := boottest.Start(t, bin, t.TempDir(), []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + c.URL, "OTEL_SERVICE_NAME=tables"}, "-addr", "127.0.0.1:0")
	receipt := book(t, p.URL(t))
	if got := follow(t, p.URL(t)+receipt); got != "accepted" {
		t.Errorf("got status %q, want accepted", got)
	}
	eventually(t, "all that the booking brings about is done", func() bool {
		_, metrics := boottest.Get(t, p.URL(t)+"/metrics")
		done := 0
		for _, queue := range []string{"ledger", "mails", "reservations", "statuses"} {
			if strings.Contains(metrics, fmt.Sprintf(`millrace_deliveries_total{outcome="done",queue=%q} 1`, queue)) {
				done++
			}
		}
		return done == 4
	})
	p.Signal(t, syscall.SIGTERM)
	if code := p.Wait(t); code != 0 {
		t.Fatalf("got exit code %d, want 0", code)
	}
	if got := c.Tree("POST /reservations"); got != oneBooking {
		t.Errorf("got the trace\n%s\nwant\n%s", got, oneBooking)
	}
	if !c.IsFrom("tables") {
		t.Error("the spans are not those of the program tables")
	}
	all := fmt.Sprint(c.Spans())
	for _, secret := range []string{"Ada", "ada@example.org", strings.TrimPrefix(receipt, "/reservations/")} {
		if strings.Contains(all, secret) {
			t.Errorf("a span tells %q: %s", secret, all)
		}
	}
}
