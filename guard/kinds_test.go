package guard_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/guard"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/handling/verdict"
	"github.com/millrace-go/millrace/internal/worldtest"
)

// answer is a service's answer to a POST.
func answer(code int, header ...string) *http.Response {
	text := fmt.Sprintf("HTTP/1.1 %d x\r\n%s\r\n\r\n", code, strings.Join(header, "\r\n"))
	if len(header) == 0 {
		text = fmt.Sprintf("HTTP/1.1 %d x\r\n\r\n", code)
	}
	r, err := http.ReadResponse(bufio.NewReader(strings.NewReader(text)), &http.Request{Method: http.MethodPost, Header: http.Header{}})
	if err != nil {
		panic(err)
	}
	return r
}

type sqlState string

func (s sqlState) Error() string    { return "sql: " + string(s) }
func (s sqlState) SQLState() string { return string(s) }

type coded int

func (c coded) Error() string  { return "smtp" }
func (c coded) ErrorCode() int { return int(c) }

func TestKinds(t *testing.T) {
	t.Parallel()
	status := func(code int) error { return fmt.Errorf("wrapped: %w", guard.CheckStatus(answer(code))) }
	smtp := func(code int) error { return fmt.Errorf("mail: %w", &textproto.Error{Code: code}) }
	dial := &net.OpError{Op: "dial", Err: errors.New("timeout")}
	read := &net.OpError{Op: "read", Err: errReset}
	for _, c := range []struct {
		of   func(error) guard.Fault
		err  error
		want guard.Fault
	}{
		{guard.HTTP, status(400), guard.Fault{Kind: guard.Permanent}},
		{guard.HTTP, status(401), guard.Fault{Kind: guard.Transient}},
		{guard.HTTP, status(403), guard.Fault{Kind: guard.Transient}},
		{guard.HTTP, status(404), guard.Fault{Kind: guard.Permanent}},
		{guard.HTTP, status(408), guard.Fault{Kind: guard.Unknown}},
		{guard.HTTP, status(422), guard.Fault{Kind: guard.Permanent}},
		{guard.HTTP, status(425), guard.Fault{Kind: guard.Transient}},
		{guard.HTTP, status(429), guard.Fault{Kind: guard.Throttled}},
		{guard.HTTP, status(500), guard.Fault{Kind: guard.Unknown}},
		{guard.HTTP, status(501), guard.Fault{Kind: guard.Permanent}},
		{guard.HTTP, status(502), guard.Fault{Kind: guard.Unknown}},
		{guard.HTTP, status(503), guard.Fault{Kind: guard.Transient}},
		{guard.HTTP, status(504), guard.Fault{Kind: guard.Unknown}},
		{guard.HTTP, status(507), guard.Fault{Kind: guard.Unknown}},
		{guard.HTTP, guard.CheckStatus(answer(503, "Retry-After: 7")), guard.Fault{Kind: guard.Throttled, After: 7 * time.Second}},
		{guard.HTTP, guard.CheckStatus(answer(429, "Retry-After: 99999999999")), guard.Fault{Kind: guard.Throttled, After: time.Hour}},
		{guard.HTTP, read, guard.Fault{Kind: guard.Unknown}},
		{guard.HTTP, dial, guard.Fault{Kind: guard.Transient}},
		{guard.HTTP, &tls.CertificateVerificationError{Err: errInvalid}, guard.Fault{Kind: guard.Transient}},
		{guard.HTTP, &net.DNSError{}, guard.Fault{Kind: guard.Transient}},
		{guard.HTTP, io.ErrUnexpectedEOF, guard.Fault{Kind: guard.Unknown}},
		{guard.SMTP, smtp(421), guard.Fault{Kind: guard.Throttled}},
		{guard.SMTP, smtp(450), guard.Fault{Kind: guard.Throttled, Alone: true}},
		{guard.SMTP, smtp(535), guard.Fault{Kind: guard.Transient}},
		{guard.SMTP, smtp(550), guard.Fault{Kind: guard.Permanent}},
		{guard.SMTP, coded(554), guard.Fault{Kind: guard.Permanent}},
		{guard.SMTP, coded(0), guard.Fault{Kind: guard.Transient, NotInPlace: true}},
		{guard.SMTP, io.EOF, guard.Fault{Kind: guard.Unknown}},
		{guard.SQL, driver.ErrBadConn, guard.Fault{Kind: guard.Transient}},
		{guard.SQL, sqlState("08001"), guard.Fault{Kind: guard.Transient}},
		{guard.SQL, sqlState("08006"), guard.Fault{Kind: guard.Unknown}},
		{guard.SQL, sqlState("40003"), guard.Fault{Kind: guard.Unknown}},
		{guard.SQL, sqlState("40P01"), guard.Fault{Kind: guard.Transient}},
		{guard.SQL, sqlState("23505"), guard.Fault{Kind: guard.Permanent}},
		{guard.SQL, sqlState("57P03"), guard.Fault{Kind: guard.Transient}},
		{guard.SQL, sqlState("?"), guard.Fault{Kind: guard.Transient, NotInPlace: true}},
		{guard.Usual, status(404), guard.Fault{Kind: guard.Permanent}},
		{guard.Usual, smtp(550), guard.Fault{Kind: guard.Permanent}},
		{guard.Usual, sqlState("23505"), guard.Fault{Kind: guard.Permanent}},
		{guard.Usual, context.DeadlineExceeded, guard.Fault{Kind: guard.Unknown}},
		{guard.Usual, context.Canceled, guard.Fault{Kind: guard.Mine}},
		{guard.Usual, errInvalid, guard.Fault{Kind: guard.Transient, NotInPlace: true}},
	} {
		if got := c.of(c.err); got != c.want {
			t.Errorf("%v (%T): got %+v, want %+v", c.err, c.err, got, c.want)
		}
	}
	if err := guard.CheckStatus(answer(302)); err != nil {
		t.Errorf("302: got %v", err)
	}
}

// The kind of a fault decides the verdict.
func TestVerdictsFollowTheKind(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		poison := handlers.Poison("bad", errInvalid)
		verify := func(context.Context, string) (bool, error) { return false, nil }
		for _, c := range []struct {
			name   string
			cfg    guard.Config
			fault  guard.Fault
			err    error // defaults to errInvalid
			want   verdict.Action
			reason string
		}{
			{name: "permanent", fault: guard.Fault{Kind: guard.Permanent}, want: verdict.ToPoison, reason: "refused by smtp"},
			{name: "permanent with a reason", fault: guard.Fault{Kind: guard.Permanent, Reason: "mail refused"}, want: verdict.ToPoison, reason: "mail refused"},
			{name: "throttled", fault: guard.Fault{Kind: guard.Throttled}, want: verdict.HandBack},
			{name: "alone", fault: guard.Fault{Kind: guard.Throttled, Alone: true}, want: verdict.HandBack},
			{name: "transient", fault: guard.Fault{Kind: guard.Transient}, want: verdict.TryAgain},
			{name: "no kind", fault: guard.Fault{Kind: 42}, want: verdict.TryAgain},
			{name: "unknown", fault: guard.Fault{Kind: guard.Unknown}, want: verdict.ToPoison, reason: guard.ReasonUnknown},
			{name: "unknown and repeatable", cfg: guard.Config{Repeatable: true}, fault: guard.Fault{Kind: guard.Unknown}, want: verdict.TryAgain},
			{name: "unknown and verifiable", cfg: guard.Config{Verify: verify}, fault: guard.Fault{Kind: guard.Unknown}, want: verdict.TryAgain},
			{name: "mine", fault: guard.Fault{Kind: guard.Mine}, want: verdict.TryAgain},
			{name: "its own verdict", fault: guard.Fault{Kind: guard.Transient}, err: poison, want: verdict.ToPoison, reason: "bad"},
		} {
			c.cfg.Fault = func(error) guard.Fault { return c.fault }
			c.cfg.Logger = quietLogger()
			g := guard.New("smtp", c.cfg)
			if err := g.Do(handling(t, id(1), 1), ends(nil)); err != nil {
				t.Fatal(err)
			}
			if c.err == nil {
				c.err = errInvalid
			}
			err := g.Do(handling(t, id(2), 1), ends(c.err))
			v := verdict.Judge(fmt.Errorf("jobs: %w", err))
			if v.Action != c.want || v.Action == verdict.ToPoison && v.Reason != c.reason || !errors.Is(err, c.err) {
				t.Errorf("%s: got %+v, want action %v, reason %q", c.name, v, c.want, c.reason)
			}
			var wrapped *guard.Error
			if kept := c.fault.Kind == guard.Mine || c.err == poison; errors.As(err, &wrapped) == kept {
				t.Errorf("%s: got %T", c.name, err)
			}
		}
	})
}

// Verify is asked before every call, and its answer counts.
func TestVerify(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		asked, done, fault := "", false, error(nil)
		g := once(guard.New("bank", guard.Config{Logger: quietLogger(), Verify: func(_ context.Context, id string) (bool, error) {
			asked += id
			return done, fault
		}}))
		calls := 0
		do := func(delivery int) error {
			asked = ""
			return g.Do(handling(t, "a", delivery), func(context.Context) error { calls++; return errReset })
		}
		_ = g.Do(handling(t, "b", 1), ends(nil))
		wantAction(t, "no answer", do(1), verdict.TryAgain)
		worldtest.Want(t, "asked before the first call", asked, "a")
		fault = context.DeadlineExceeded
		wantAction(t, "the question has no answer, either", do(2), verdict.HandBack)
		worldtest.Want(t, "asked", asked, "a")
		worldtest.Want(t, "calls after a question without an answer", calls, 1)
		fault = nil
		_ = do(3)
		worldtest.Want(t, "calls after the answer no", calls, 2)
		done = true
		if err := do(4); err != nil || calls != 2 || asked != "a" {
			t.Errorf("after the answer yes: got %v, %d calls", err, calls)
		}
		_ = g.Do(t.Context(), ends(errReset)) // outside of a handler nobody asks
	})
}

// A question that the service refuses says nothing of the call: the message waits.
func TestVerifyIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := guard.New("bank", guard.Config{Logger: quietLogger(), Verify: func(context.Context, string) (bool, error) {
			return false, guard.CheckStatus(answer(404))
		}})
		err := g.Do(handling(t, "a", 1), func(context.Context) error { t.Error("a call was made"); return nil })
		wantAction(t, "404", err, verdict.HandBack)
	})
}

// Calls are repeated in place once, within the budget, and only if that is cheap.
func TestInPlace(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		calls := 0
		do := func(g *guard.Guard, ctx context.Context, errs ...error) error {
			calls = 0
			return g.Do(ctx, func(context.Context) error { calls++; return errs[min(calls, len(errs))-1] })
		}
		g := guard.New("smtp", guard.Config{Logger: quietLogger()})
		if err := do(g, handling(t, id(1), 1), errDown, nil); err != nil || calls != 2 {
			t.Errorf("a call that can be repeated: got %v after %d calls", err, calls)
		}
		_ = do(g, handling(t, id(1), 1), errDown)
		worldtest.Want(t, "calls while it fails", calls, 2)
		_ = do(g, handling(t, id(2), 1), errReset)
		worldtest.Want(t, "calls with an unknown outcome", calls, 1)
		short, cancel := context.WithTimeout(handling(t, id(3), 1), 200*time.Millisecond)
		defer cancel()
		_ = do(g, short, errDown)
		worldtest.Want(t, "calls of a handler that must end soon", calls, 1)
		_ = do(g, handling(t, id(1), 1), errDown)
		_ = do(g, handling(t, id(1), 1), errDown)
		worldtest.Want(t, "calls beyond the budget", calls, 1)
		time.Sleep(time.Minute)
		_ = do(g, handling(t, id(1), 1), errDown)
		worldtest.Want(t, "calls when the budget is free again", calls, 2)
		repeatable := guard.New("smtp", guard.Config{Logger: quietLogger(), Repeatable: true})
		_ = do(repeatable, handling(t, id(1), 1), errReset)
		worldtest.Want(t, "calls with an unknown outcome that can be repeated", calls, 2)
		ends, cancel := context.WithCancel(handling(t, id(9), 1))
		time.AfterFunc(50*time.Millisecond, cancel)
		_ = do(repeatable, ends, errDown)
		worldtest.Want(t, "calls of a handler that has ended meanwhile", calls, 1)
	})
}
