package guard_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/textproto"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/guard"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/handling/verdict"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/worker"
)

// handedBack is the context of a handler of a message that was handed back so often.
func handedBack(t testing.TB, n, times int) context.Context {
	e := channel.Envelope{ID: id(n), Kind: "test.job.v1", Time: time.Now(), HandBacks: times}
	return wire.WithDelivery(t.Context(), &e, "jobs", nil, times+1, nil)
}

// after returns for how long a message waits that a call's error hands back.
func after(t testing.TB, err error) time.Duration {
	t.Helper()
	var later *handlers.LaterError
	if !errors.As(err, &later) {
		t.Fatalf("got %v, want a message that is handed back", err)
	}
	return later.After
}

// A message that an outage has handed back again and again waits no longer afterwards than one that is new.
func TestLaw6HandBacksOfAnOutageDontCount(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := quiet()
		trip(t, g)
		_ = g.Do(handedBack(t, 50, 50), ends(errDown))
		for n := range 30 { // probes
			untilDue(t, g)
			_ = g.Do(handedBack(t, n, n), ends(errDown))
		}
		untilDue(t, g)
		if err := g.Do(handling(t, id(1), 1), ends(nil)); err != nil {
			t.Fatal(err)
		}
		if d := after(t, g.Do(handedBack(t, 1, 60), ends(errDown))); d > 2*time.Second {
			t.Errorf("in the ramp, a message that was handed back 60 times waits for %v", d)
		}
		time.Sleep(time.Hour)
		closed := quiet()
		if d := after(t, closed.Do(handedBack(t, 2, 1000), ends(errDown))); d > 2*time.Second {
			t.Errorf("in another process, it waits for %v", d)
		}
	})
}

// While the breaker lets calls through, a message waits longer each time that its call fails, so that it doesn't call
// for a week each second. So does one that the service asks to wait alone.
func TestLaw6AMessageThatFailsWaitsLonger(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g, last := quiet(), time.Duration(0)
		for range 9 { // 1 s to 256 s, each a fifth longer or shorter
			d := after(t, g.Do(handling(t, id(1), 1), ends(errDown)))
			if d < last*5/4 {
				t.Errorf("it waits for %v, and for %v before", d, last)
			}
			last = d
			wantOpen(t, g, false)
		}
		if last < 3*time.Minute {
			t.Errorf("after 9 calls that failed it waits for %v", last)
		}
		trip(t, g)
		untilDue(t, g)
		if err := g.Do(handling(t, id(1), 1), ends(nil)); err != nil {
			t.Fatal(err)
		}
		if d := after(t, g.Do(handling(t, id(1), 1), ends(errDown))); d > 2*time.Second {
			t.Errorf("after an outage it waits for %v as if it had failed before", d)
		}
		mail := guard.New("smtp", guard.Config{Fault: guard.SMTP, Logger: quietLogger()})
		if d := after(t, mail.Do(handedBack(t, 3, 9), ends(&textproto.Error{Code: 450}))); d < 3*time.Minute {
			t.Errorf("a mailbox that was busy 10 times waits for %v", d)
		}
	})
}

// A message that always fails ends within minutes, whichever of three processes tries it, while each of them has a call
// done every 6 seconds: what it has waited for an earlier attempt doesn't count.
func TestLaw1AMessageThatAlwaysFailsEndsSoon(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		seed := rand.Uint64()
		random := rand.New(rand.NewPCG(seed, 0))
		for range 300 {
			fleet, tried := []*guard.Guard{quiet(), quiet(), quiet()}, channel.Envelope{ID: id(1), Kind: "test.job.v1", Time: time.Now()}
			began, next := time.Now(), time.Now()
			for n := 2; tried.Attempts < 5; n++ {
				_ = fleet[random.IntN(3)].Do(handling(t, id(n), 1), ends(nil))
				time.Sleep(2 * time.Second)
				if time.Now().Before(next) {
					continue
				}
				ctx := wire.WithDelivery(t.Context(), &tried, "jobs", nil, 2, nil)
				wait := worker.RetryDelay(tried.Attempts+1, tried.ID)
				switch err := fleet[random.IntN(3)].Do(ctx, ends(errDown)); verdict.Judge(err).Action {
				case verdict.TryAgain:
					tried.Attempts++
				case verdict.HandBack:
					wait = after(t, err)
				}
				next = time.Now().Add(wait)
			}
			if took := time.Since(began); took > 4*time.Minute {
				t.Fatalf("seed %d: it ended after %v", seed, took)
			}
		}
	})
}
