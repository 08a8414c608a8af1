package verdict_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/millrace-go/millrace/internal/handling/verdict"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/values"
)

func TestJudge(t *testing.T) {
	t.Parallel()
	cause := errors.New("cause")
	for _, test := range []struct {
		name   string
		err    error
		action verdict.Action
		after  time.Duration
		reason string
	}{
		{"nil", nil, verdict.Done, 0, ""},
		{"any error", cause, verdict.TryAgain, 0, ""},
		{"retry", verdict.Retry(time.Minute, cause), verdict.TryAgain, time.Minute, ""},
		{"retry without a cause", verdict.Retry(time.Minute, nil), verdict.TryAgain, time.Minute, ""},
		{"later", verdict.Later(time.Hour, "not open yet"), verdict.HandBack, time.Hour, "not open yet"},
		{"poison", verdict.Poison("nonsense", cause), verdict.ToPoison, 0, "nonsense"},
		{"poison without a cause", verdict.Poison("nonsense", nil), verdict.ToPoison, 0, "nonsense"},
		{"retry of an unavailable store", verdict.Retry(time.Minute, storage.ErrUnavailable), verdict.TryAgain, time.Minute, ""},
		{"poison for an unavailable store", verdict.Poison("x", storage.ErrUnavailable), verdict.ToPoison, 0, "x"},
		{"panic", &verdict.PanicError{Text: "panic: x"}, verdict.TryAgain, 0, ""},
		{"other content", values.ErrContentDiffers, verdict.ToPoison, 0, verdict.ReasonContentDiffers},
		{"too old", values.ErrTooOld, verdict.ToPoison, 0, verdict.ReasonTooOld},
		{"contended", values.ErrContended, verdict.HandBack, 0, ""},
		{"unknown kind", wire.ErrUnknownKind, verdict.UnknownKind, 0, ""},
		{"data lost", wire.ErrDataLost, verdict.ToPoison, 0, verdict.ReasonDataLost},
		{"store unavailable", storage.ErrUnavailable, verdict.Unavailable, 0, ""},
		{"throttled", storage.ErrThrottled, verdict.Unavailable, 0, ""},
		{"too large", storage.ErrTooLarge, verdict.TryAgain, 0, ""},
		{"cancelled", context.Canceled, verdict.TryAgain, 0, ""},
		{"deadline", context.DeadlineExceeded, verdict.TryAgain, 0, ""},
	} {
		for _, err := range []error{test.err, fmt.Errorf("around: %w", test.err), &storage.Error{Op: "get", Resource: "blob x", Err: test.err}} {
			if test.err == nil && err != nil {
				continue
			}
			v := verdict.Judge(err)
			if v.Action != test.action || v.After != test.after || v.Reason != test.reason || v.Err != err {
				t.Errorf("%s: got %+v, want action %v, after %v, reason %q, the error itself", test.name, v, test.action, test.after, test.reason)
			}
		}
	}
	both := errors.Join(verdict.Retry(time.Minute, cause), verdict.Poison("x", cause))
	if v := verdict.Judge(both); v.Action != verdict.ToPoison {
		t.Errorf("retry and poison: got %+v, want poison", v)
	}
}

func TestVerdictsTellTheirCause(t *testing.T) {
	t.Parallel()
	cause := errors.New("no oven")
	for want, err := range map[string]error{
		"retry after 1m0s: no oven":     verdict.Retry(time.Minute, cause),
		"poison: bad order: no oven":    verdict.Poison("bad order", cause),
		"poison: bad order":             verdict.Poison("bad order", nil),
		"later, after 1h0m0s: not open": verdict.Later(time.Hour, "not open"),
		"panic: no oven":                &verdict.PanicError{Text: "panic: no oven"},
	} {
		if err.Error() != want {
			t.Errorf("got %q, want %q", err, want)
		}
	}
	if !errors.Is(verdict.Retry(0, cause), cause) || !errors.Is(verdict.Poison("x", cause), cause) {
		t.Error("the cause is not found")
	}
}
