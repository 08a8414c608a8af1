package handlers_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/values"
)

func TestJudge(t *testing.T) {
	t.Parallel()
	cause := errors.New("cause")
	for _, test := range []struct {
		name   string
		err    error
		action handlers.Action
		after  time.Duration
		reason string
	}{
		{"nil", nil, handlers.Done, 0, ""},
		{"any error", cause, handlers.TryAgain, 0, ""},
		{"retry", handlers.Retry(time.Minute, cause), handlers.TryAgain, time.Minute, ""},
		{"retry without a cause", handlers.Retry(time.Minute, nil), handlers.TryAgain, time.Minute, ""},
		{"later", handlers.Later(time.Hour, "not open yet"), handlers.HandBack, time.Hour, "not open yet"},
		{"poison", handlers.Poison("nonsense", cause), handlers.ToPoison, 0, "nonsense"},
		{"poison without a cause", handlers.Poison("nonsense", nil), handlers.ToPoison, 0, "nonsense"},
		{"retry of an unavailable store", handlers.Retry(time.Minute, storage.ErrUnavailable), handlers.TryAgain, time.Minute, ""},
		{"poison for an unavailable store", handlers.Poison("x", storage.ErrUnavailable), handlers.ToPoison, 0, "x"},
		{"panic", &handlers.PanicError{Text: "panic: x"}, handlers.TryAgain, 0, ""},
		{"other content", values.ErrContentDiffers, handlers.ToPoison, 0, handlers.ReasonContentDiffers},
		{"too old", values.ErrTooOld, handlers.ToPoison, 0, handlers.ReasonTooOld},
		{"contended", values.ErrContended, handlers.HandBack, 0, ""},
		{"unknown kind", channel.ErrUnknownKind, handlers.UnknownKind, 0, ""},
		{"data lost", channel.ErrDataLost, handlers.ToPoison, 0, handlers.ReasonDataLost},
		{"store unavailable", storage.ErrUnavailable, handlers.Unavailable, 0, ""},
		{"throttled", storage.ErrThrottled, handlers.Unavailable, 0, ""},
		{"too large", storage.ErrTooLarge, handlers.TryAgain, 0, ""},
		{"cancelled", context.Canceled, handlers.TryAgain, 0, ""},
		{"deadline", context.DeadlineExceeded, handlers.TryAgain, 0, ""},
	} {
		for _, err := range []error{test.err, fmt.Errorf("around: %w", test.err), &storage.Error{Op: "get", Resource: "blob x", Err: test.err}} {
			if test.err == nil && err != nil {
				continue
			}
			v := handlers.Judge(err)
			if v.Action != test.action || v.After != test.after || v.Reason != test.reason || v.Err != err {
				t.Errorf("%s: got %+v, want action %v, after %v, reason %q, the error itself", test.name, v, test.action, test.after, test.reason)
			}
		}
	}
	both := errors.Join(handlers.Retry(time.Minute, cause), handlers.Poison("x", cause))
	if v := handlers.Judge(both); v.Action != handlers.ToPoison {
		t.Errorf("retry and poison: got %+v, want poison", v)
	}
}

func TestVerdictsTellTheirCause(t *testing.T) {
	t.Parallel()
	cause := errors.New("no oven")
	for want, err := range map[string]error{
		"retry after 1m0s: no oven":     handlers.Retry(time.Minute, cause),
		"poison: bad order: no oven":    handlers.Poison("bad order", cause),
		"poison: bad order":             handlers.Poison("bad order", nil),
		"later, after 1h0m0s: not open": handlers.Later(time.Hour, "not open"),
		"panic: no oven":                &handlers.PanicError{Text: "panic: no oven"},
	} {
		if err.Error() != want {
			t.Errorf("got %q, want %q", err, want)
		}
	}
	if !errors.Is(handlers.Retry(0, cause), cause) || !errors.Is(handlers.Poison("x", cause), cause) {
		t.Error("the cause is not found")
	}
}
