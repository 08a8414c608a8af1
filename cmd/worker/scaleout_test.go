package main

import (
	"bufio"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/boottest"
	"github.com/millrace-go/millrace/sample/reservations"
)

// Three workers share a backlog on one store, beside a web process: each gets a part, and nothing is done twice.
func TestWorkersShareABacklog(t *testing.T) {
	onEachPlace(t, shareBacklog)
}

func shareBacklog(t *testing.T, at place) {
	url := startWeb(t, at).URL(t)
	var admins [3]string
	for i := range admins {
		admins[i] = startWorker(t, at).URL(t)
	}
	for _, admin := range admins { // one that comes later than the work proves nothing
		consumes(t, admin)
	}
	store, channels := openSample(t, at)
	sender, err := channel.NewSender[reservations.MakeReservation](channels)
	if err != nil {
		t.Fatal(err)
	}
	sent := newReservations(at.backlog)
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

// consumes waits until a worker takes commands off their queue.
func consumes(t *testing.T, admin string) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for giveUp := time.After(time.Minute); metric(t, admin, `millrace_consuming{queue="reservations"}`) == 0; {
		select {
		case <-tick.C:
		case <-giveUp:
			t.Fatal("a worker consumes nothing after a minute")
		}
	}
}

func newReservations(n int) []reservations.MakeReservation {
	first := time.Now().AddDate(0, 1, 0)
	all := make([]reservations.MakeReservation, n)
	for i := range all {
		all[i] = reservations.MakeReservation{
			ID: channel.NewID(), Date: first.AddDate(0, 0, i%60).Format(time.DateOnly),
			Name: "Guest", Email: fmt.Sprintf("guest-%d@example.org", i), Quantity: 1 + i%4,
		}
	}
	return all
}

// With -active 1 one of three workers decides; one of the three runs in the web's process. When the active one stops,
// a second takes over, and when that is killed, the third does.
func TestActiveWorkers(t *testing.T) {
	if testing.Short() {
		t.Skip("waits until a killed worker is missed, half a minute")
	}
	onEachPlace(t, takeTurns)
}

func takeTurns(t *testing.T, at place) {
	url := startWeb(t, at).URL(t)
	all := map[string]*boottest.Program{} // by address
	for _, p := range []*boottest.Program{
		startWorker(t, at, "-active", "1"), startWorker(t, at, "-active", "1"), startWeb(t, at, "-worker=true", "-active", "1"),
	} {
		all[p.URL(t)] = p
	}
	store, channels := openSample(t, at)
	sender, err := channel.NewSender[reservations.MakeReservation](channels)
	if err != nil {
		t.Fatal(err)
	}
	var sent []reservations.MakeReservation
	for _, end := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL, syscall.SIGTERM} {
		batch := newReservations(at.many / 10)
		sent = append(sent, batch...)
		if err := sender.Send(t.Context(), batch...); err != nil {
			t.Fatal(err)
		}
		active := theActive(t, all)
		waitDrained(t, store, channels)
		all[active].Signal(t, end)
		if code := all[active].Wait(t); end == syscall.SIGTERM && code != 0 {
			t.Errorf("got exit code %d, want 0", code)
		}
		delete(all, active)
	}
	audit(t, store, channels, url, at.dir, sent)
}

// theActive waits until one of the workers decides, and returns its address.
func theActive(t *testing.T, all map[string]*boottest.Program) string {
	t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for giveUp := time.After(3 * time.Minute); ; {
		var active []string
		for admin := range all {
			if metric(t, admin, `millrace_consuming{queue="reservations"}`) > 0 {
				active = append(active, admin)
			}
		}
		if len(active) == 1 {
			return active[0]
		}
		select {
		case <-tick.C:
		case <-giveUp:
			t.Fatalf("%d of %d workers are active, want 1", len(active), len(all))
		}
	}
}

// handled sums what a worker's metrics say it has done.
func handled(t *testing.T, admin string) int {
	t.Helper()
	return metric(t, admin, `millrace_deliveries_total{outcome="done"`)
}

// metric sums the metrics whose lines have a prefix.
func metric(t *testing.T, admin, begin string) int {
	t.Helper()
	res, err := http.Get(admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	sum := 0
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		if line := lines.Text(); strings.HasPrefix(line, begin) {
			var n float64
			if _, err := fmt.Sscan(line[strings.LastIndex(line, " ")+1:], &n); err != nil {
				t.Fatal(err)
			}
			sum += int(n)
		}
	}
	return sum
}
