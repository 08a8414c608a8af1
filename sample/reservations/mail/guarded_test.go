package mail_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/textproto"
	"testing"
	"time"

	"github.com/millrace-go/millrace/guard"
	"github.com/millrace-go/millrace/sample/reservations/mail"
	"github.com/millrace-go/millrace/worker"
)

// A server is cut off and comes back. The guard's breaker opens meanwhile, and the first call afterwards is the probe.
func TestSMTPServerCutOffAndBack(t *testing.T) {
	t.Parallel()
	once := func(err error) guard.Fault { // each call is one try
		f := mail.Fault(err)
		f.NotInPlace = true
		return f
	}
	g := guard.New("smtp", guard.Config{
		Fault: once, Break: guard.Break{Of: 5}, Probe: guard.Probe{First: 10 * time.Millisecond, Most: 10 * time.Millisecond},
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
	turn, err := g.Limiter(ctx, worker.Consumer{})
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

func TestMailsThatFail(t *testing.T) {
	t.Parallel()
	answer := func(code int) error { return fmt.Errorf("mail: %w", &textproto.Error{Code: code}) }
	for name, c := range map[string]struct {
		err  error
		want guard.Fault
	}{
		"refused":            {fmt.Errorf("mail: %w: %w", mail.ErrRefused, answer(550)), guard.Fault{Kind: guard.Permanent, Reason: mail.ReasonRefused}},
		"sender refused":     {answer(550), guard.Fault{Kind: guard.Transient}},
		"busy mailbox":       {answer(450), guard.Fault{Kind: guard.Throttled, Alone: true}},
		"the server closes":  {answer(421), guard.Fault{Kind: guard.Throttled}},
		"no server":          {errors.New("connection refused"), guard.Fault{Kind: guard.Transient}},
		"no greeting":        {context.DeadlineExceeded, guard.Fault{Kind: guard.Transient}},
		"nothing comes back": {fmt.Errorf("%w: %w", mail.ErrUnanswered, context.DeadlineExceeded), guard.Fault{Kind: guard.Unknown}},
	} {
		if got := mail.Fault(c.err); got != c.want {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
}

// The outcome is unknown once the client has sent the whole mail. Before that it has nothing, however the call ends.
func TestSMTPOutcomeIsUnknownOnlyAfterTheWholeMail(t *testing.T) {
	t.Parallel()
	for until, want := range map[string]guard.Kind{
		"": guard.Transient, "EHLO": guard.Transient, "MAIL": guard.Transient, "RCPT": guard.Transient, "DATA": guard.Transient,
		"Subject:": guard.Unknown, // the client writes a short mail at once
		".":        guard.Unknown, "QUIT": guard.Done,
	} {
		for how, last := range map[string]func(net.Conn, context.CancelCauseFunc){
			"broken": func(c net.Conn, _ context.CancelCauseFunc) { _ = c.Close() },
			"hung": func(c net.Conn, seen context.CancelCauseFunc) {
				seen(context.DeadlineExceeded)
				_, _ = io.Copy(io.Discard, c) // until the client closes the connection
			},
		} {
			if how == "hung" && until == "QUIT" { // the mailer waits for an answer, and needs none
				continue
			}
			t.Run(how+" at "+until, func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithCancelCause(within(t))
				err := newSMTP(t, "smtp://"+script(t, polite, until, func(c net.Conn) { last(c, cancel) }), nil).Send(ctx, confirmation())
				got := guard.Done
				if err != nil {
					got = mail.Fault(err).Kind
				}
				if got != want {
					t.Errorf("got %v (%v), want %v", got, err, want)
				}
			})
		}
	}
}
