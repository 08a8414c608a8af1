package mail_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/millrace-go/millrace/guard"
	"github.com/millrace-go/millrace/worker"
)

// A server is cut off and comes back. The guard's breaker opens meanwhile, and the first call afterwards is the probe.
func TestSMTPServerCutOffAndBack(t *testing.T) {
	t.Parallel()
	g := guard.New("smtp", guard.Config{
		Fault: guard.SMTP, InPlace: guard.NotInPlace, Break: guard.Break{Of: 5}, Probe: guard.Probe{First: 10 * time.Millisecond, Most: 10 * time.Millisecond},
	})
	before, cut := serveAt(t, "127.0.0.1:0", behaviour{})
	mailer, ctx := newSMTP(t, "smtp://"+before.addr, nil), within(t)
	send := func() error {
		return g.Do(ctx, func(ctx context.Context) error { return mailer.Send(ctx, confirmation()) })
	}
	if err := send(); err != nil {
		t.Fatal(err)
	}
	cut()
	calls := 0
	for err := error(nil); !errors.Is(err, guard.ErrOpen); calls++ {
		var refused *guard.Error
		if err = send(); !errors.As(err, &refused) || ctx.Err() != nil {
			t.Fatalf("got %v, want a failure, and then an open breaker", err)
		}
	}
	if calls < 6 {
		t.Errorf("the breaker is open after %d calls, want 5 that fail", calls-1)
	}
	after, _ := serveAt(t, before.addr, behaviour{})
	turn, err := g.Turn(ctx, worker.Consumer{})
	if err != nil {
		t.Fatal(err)
	}
	for len(after.mails()) == 0 {
		if limits, changed := turn.Now(); limits.Pause {
			select {
			case <-changed:
			case <-ctx.Done():
				t.Fatal("no probe is due")
			}
		}
		if err := send(); err != nil && ctx.Err() != nil {
			t.Fatal(err)
		}
	}
	if n := len(before.mails()) + len(after.mails()); n != 2 {
		t.Errorf("%d mails have come, want 2", n)
	}
}
