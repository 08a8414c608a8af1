package host

import (
	"strings"
	"testing"

	"github.com/millrace-go/millrace/ops/catalog"
)

// The number of useful workers follows from what waits and from what one worker does. It is never more than the limits
// allow, and never none while something waits that may be taken.
func TestLawUsefulWorkers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		demand
		want int64
		why  string
	}{
		"nothing waits":                   {demand{}, 0, "nothing waits"},
		"nothing waits, and it is away":   {demand{shut: true}, 0, "nothing waits"},
		"a message, nothing is known":     {demand{waiting: 1}, 1, "6.67 a second"},
		"nothing is known":                {demand{waiting: 1000}, 5, "1000 messages wait"},
		"a worker does much":              {demand{waiting: 100_000, rate: 1000, running: 0.001}, 4, "1e+03 a second"},
		"an idle hour before a flood":     {demand{waiting: 1000, rate: 0.01, running: 0.001}, 5, "6.67 a second"},
		"handlers take a second":          {demand{waiting: 10_000, running: 10}, 105, "3.2 a second"},
		"handlers take five minutes":      {demand{waiting: 100, running: 300}, 4, "a worker runs 32 at a time"},
		"-active":                         {demand{waiting: 1_000_000, active: 2}, 2, "2 workers consume"},
		"a rate of all":                   {demand{waiting: 10_000, rate: 10, calls: 25}, 3, "25 calls a second, and one could make 10"},
		"a rate of all, divided already":  {demand{waiting: 10_000, rate: 2, running: 0.1, calls: 25}, 1, "one could make 320"},
		"a rate of all doesn't bind":      {demand{waiting: 400, calls: 1000}, 2, "400 messages wait"},
		"slots of all":                    {demand{waiting: 100_000, running: 300, slots: 40}, 2, "40 calls at a time"},
		"paused":                          {demand{waiting: 1000, held: "the queue is paused by hand"}, 0, "paused"},
		"paused, and the service is away": {demand{waiting: 1000, held: "the queue is paused by hand", shut: true}, 0, "paused"},
		"the service is away":             {demand{waiting: 1000, shut: true}, 1, "one worker asks"},
		"handled, nothing waits":          {demand{handled: 16, running: 600}, 1, "16 messages wait or are being handled"},
		"handled by many workers":         {demand{handled: 128, running: 600}, 4, "a worker runs 32 at a time"},
		"handled, and others wait":        {demand{handled: 64, waiting: 64, running: 600}, 4, "128 messages wait or are"},
		"handled for a moment each":       {demand{handled: 96, running: 0.01}, 1, "96 messages wait or are"},
		"handled while it is paused":      {demand{handled: 16, waiting: 1000, running: 600, held: "paused"}, 1, "16 messages are still"},
		"handled while it is away":        {demand{handled: 16, waiting: 1000, running: 600, shut: true}, 1, "16 messages are still"},
		"nobody knows what is handled":    {demand{handled: -1, waiting: -1}, 0, "nothing waits"},
		"more than can be":                {demand{waiting: 1 << 62, rate: 1e-300, running: 1e300}, 1 << 31, "wait"},
	} {
		c.concurrency = 32
		n, why := c.useful()
		if name == "more than can be" {
			if n < 1<<30 {
				t.Errorf("%s: got %d", name, n)
			}
			continue
		}
		if n != c.want || !strings.Contains(why, c.why) {
			t.Errorf("%s: got %d because %s; want %d because %s", name, n, why, c.want, c.why)
		}
	}
}

// The rate is that of one worker, not of all together.
func TestSpeed(t *testing.T) {
	t.Parallel()
	of := func(id string, done int64, p50 float64) catalog.Report {
		return catalog.Report{ID: id, Seconds: 60, Up: 60, Queues: map[string]catalog.QueueReport{"orders": {Done: done, P50: p50}}}
	}
	rate, running, _ := speed([]catalog.Report{of("a", 600, 20), of("b", 6000, 250), of("c", 60, 1)}, "orders")
	if rate != 100 || running != 0.25 {
		t.Errorf("got %v a second and %v seconds, want 100 and 0.25", rate, running)
	}
	if rate, running, inHand := speed(nil, "orders"); rate != 0 || running != 0 || inHand != 0 {
		t.Errorf("without reports: got %v, %v and %v", rate, running, inHand)
	}
}

// Law: a worker that is busy is never scaled to none, whatever else holds the queue. Where the store can't tell what is
// being handled, the last report of each worker that lives does.
func TestLawABusyWorkerIsNeverScaledToNone(t *testing.T) {
	t.Parallel()
	for _, d := range []demand{
		{}, {held: "paused"}, {shut: true}, {active: 1}, {calls: 0.001}, {slots: 1}, {running: 600}, {rate: 1e9}, {held: "paused", shut: true, running: 1e-9},
	} {
		d.concurrency = 16
		for _, d.waiting = range []int64{-1, 0, 1, 1 << 40} {
			for _, d.handled = range []int64{1, 16, 1000} {
				if n, why := d.useful(); n < 1 {
					t.Errorf("%+v: got %d because %s", d, n, why)
				}
			}
		}
	}
	of := func(id string, up float64, last bool, inHand int64) catalog.Report {
		return catalog.Report{ID: id, Seconds: 60, Up: up, Last: last, Queues: map[string]catalog.QueueReport{"orders": {InHand: inHand}}}
	}
	_, _, inHand := speed([]catalog.Report{of("a", 60, false, 7), of("b", 60, false, 5), of("a", 120, false, 16), of("b", 61, true, 0), of("c", 60, false, 2)}, "orders")
	if inHand != 18 {
		t.Errorf("got %d messages in hand, want 18", inHand)
	}
}

// Law: while the breaker of a queue's guard is open and messages wait, one worker stays to make the probe when it is
// due, whatever the limits are.
func TestLawNeverBelowOneWhileAProbeIsDue(t *testing.T) {
	t.Parallel()
	for _, d := range []demand{{}, {active: 1}, {calls: 0.001, rate: 1e9}, {slots: 1}, {running: 600}, {handled: 1}, {handled: -1}} {
		d.concurrency, d.shut = 16, true
		for _, d.waiting = range []int64{1, 1000, 1 << 40} {
			if n, why := d.useful(); n != 1 {
				t.Errorf("%+v: got %d because %s, want 1", d, n, why)
			}
		}
	}
}
