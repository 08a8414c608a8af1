package main

import (
	"bufio"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/sample/reservations"
)

// Three workers share a backlog on one store, beside a web process: each gets a part, nothing is done twice.
func TestWorkersShareABacklog(t *testing.T) {
	t.Parallel()
	for name, open := range places() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shareBacklog(t, open(t))
		})
	}
}

func shareBacklog(t *testing.T, at place) {
	url := startWeb(t, at).URL(t)
	var admins [3]string
	for i := range admins {
		admins[i] = startWorker(t, at).URL(t)
	}
	store, channels := openSample(t, at)
	sender, err := channel.SenderOf[reservations.MakeReservation](channels)
	if err != nil {
		t.Fatal(err)
	}
	first := time.Now().AddDate(0, 1, 0)
	sent := make([]reservations.MakeReservation, at.backlog)
	for i := range sent {
		sent[i] = reservations.MakeReservation{
			ID: channel.NewID(), Date: first.AddDate(0, 0, i%60).Format(time.DateOnly),
			Name: "Guest", Email: fmt.Sprintf("guest-%d@example.org", i), Quantity: 1 + i%4,
		}
	}
	if err := sender.Send(t.Context(), sent...); err != nil {
		t.Fatal(err)
	}
	waitDrained(t, store, channels)
	audit(t, store, channels, url, at.dir, sent)

	total, fewest := 0, -1
	for _, admin := range admins {
		n := handled(t, admin)
		total += n
		if fewest < 0 || n < fewest {
			fewest = n
		}
	}
	t.Logf("%d deliveries; the slowest worker had %d", total, fewest)
	if fewest*20 < total {
		t.Errorf("one worker handled %d of %d deliveries; want no worker to starve", fewest, total)
	}
}

// handled adds up what a worker's metrics say it has done.
func handled(t *testing.T, admin string) int {
	t.Helper()
	res, err := http.Get(admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	sum := 0
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		if line := lines.Text(); strings.HasPrefix(line, `millrace_deliveries_total{outcome="done"`) {
			var n float64
			if _, err := fmt.Sscan(line[strings.LastIndex(line, " ")+1:], &n); err != nil {
				t.Fatal(err)
			}
			sum += int(n)
		}
	}
	return sum
}
