package handlers

import (
	"errors"
	"fmt"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/contain"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/values"
)

// RetryError asks for another attempt after a delay; see [Retry].
type RetryError struct {
	After time.Duration
	Err   error
}

// Retry returns an error that says: not done; try again after this delay, at most ten years. It spends an attempt.
func Retry(after time.Duration, err error) error { return &RetryError{After: after, Err: err} }

func (e *RetryError) Error() string { return fmt.Sprintf("retry after %v: %v", e.After, e.Err) }

// Unwrap returns the cause.
func (e *RetryError) Unwrap() error { return e.Err }

// LaterError asks to see the message again later; see [Later].
type LaterError struct {
	After  time.Duration
	Reason string

	wait string // of a message that waits for its turn: see the constants Wait…
}

// Later returns an error that says: not yet, for no fault of the message. It spends no attempt, however often. The
// message's age goes on: a value object, a view or [ReactOnce] that sees it after more than a month can't judge it any
// more. So don't wait that long by Later or [Retry]: send a message that is due then.
func Later(after time.Duration, reason string) error {
	return &LaterError{After: after, Reason: reason}
}

func (e *LaterError) Error() string { return fmt.Sprintf("later, after %v: %s", e.After, e.Reason) }

// PoisonError sends the message to the poison queue; see [Poison].
type PoisonError struct {
	Reason string
	Err    error // may be nil
}

// Poison returns an error that says: this message can never be handled, and an operator must look at it.
func Poison(reason string, cause error) error { return &PoisonError{Reason: reason, Err: cause} }

func (e *PoisonError) Error() string {
	if e.Err == nil {
		return "poison: " + e.Reason
	}
	return fmt.Sprintf("poison: %s: %v", e.Reason, e.Err)
}

// Unwrap returns the cause, or nil.
func (e *PoisonError) Unwrap() error { return e.Err }

// Action is how a delivery ends.
type Action int

const (
	Done        Action = iota // delete it
	TryAgain                  // attempts + 1, after a delay
	HandBack                  // no attempt spent, after a delay
	UnknownKind               // a newer worker may know the kind: no attempt spent, for a while
	ToPoison                  // to the poison queue
	Unavailable               // the store failed: no attempt spent, after a delay; the message may be done
)

// A Verdict is an Action with its details.
type Verdict struct {
	Action Action
	After  time.Duration // 0: the worker chooses
	Reason string        // of ToPoison: short, stable, fit to select by; of HandBack by Later: the handler's
	Wait   string        // of HandBack: why the message waits for its turn, see WaitHeld; empty: it doesn't
	Spent  bool          // an attempt is spent: the handler has said no
	Err    error
}

// OutcomeUnknown reports that the effect may have happened, so that no other delivery may try it.
func (v Verdict) OutcomeUnknown() bool {
	return v.Action == ToPoison && v.Reason == ReasonOutcomeUnknown
}

// These are the framework's own reasons for which a message goes to the poison queue.
const (
	ReasonUndecodable    = "undecodable"
	ReasonRefused        = "refused by its check"
	ReasonUnknownKind    = "unknown kind"
	ReasonAttempts       = "too many attempts"
	ReasonHangs          = "handler hangs"
	ReasonDeliveries     = "too many deliveries"
	ReasonContentDiffers = "same ID, other content"
	ReasonTooOld         = "too old to judge"
	ReasonDataLost       = "body is gone"
	ReasonBadKey         = "bad key"
	ReasonOutcomeUnknown = "outcome unknown" // also of handlers, and of package guard: the effect may have happened
)

// Judge turns a handler's error into a verdict. An error whose methods panic counts as any other error.
func Judge(err error) (v Verdict) {
	if f, ok := err.(*failure); ok {
		v = f.verdict
		v.Err = f
		return v
	}
	v = Verdict{Action: TryAgain, Spent: true, Err: err}
	_ = contain.Do(func() { v = judge(err, v) })
	return v
}

func judge(err error, otherwise Verdict) Verdict {
	var (
		retry  *RetryError
		later  *LaterError
		poison *PoisonError
	)
	switch hang, hangs := err.(*HangError); {
	case err == nil:
		return Verdict{Action: Done}
	case hangs && hang != nil && hang.Unsure:
		return Verdict{Action: ToPoison, Reason: ReasonOutcomeUnknown, Spent: true, Err: err}
	case errors.As(err, &poison):
		return Verdict{Action: ToPoison, Reason: poison.Reason, Spent: true, Err: err}
	case errors.As(err, &later):
		return Verdict{Action: HandBack, After: later.After, Reason: later.Reason, Wait: later.wait, Err: err}
	case errors.As(err, &retry):
		return Verdict{Action: TryAgain, After: retry.After, Spent: true, Err: err}
	case errors.Is(err, values.ErrContentDiffers):
		return Verdict{Action: ToPoison, Reason: ReasonContentDiffers, Err: err}
	case errors.Is(err, values.ErrTooOld):
		return Verdict{Action: ToPoison, Reason: ReasonTooOld, Err: err}
	case errors.Is(err, channel.ErrUnknownKind):
		return Verdict{Action: UnknownKind, Err: err}
	case errors.Is(err, channel.ErrDataLost):
		return Verdict{Action: ToPoison, Reason: ReasonDataLost, Err: err}
	case errors.Is(err, values.ErrContended):
		return Verdict{Action: HandBack, Err: err}
	case errors.Is(err, storage.ErrUnavailable), errors.Is(err, storage.ErrThrottled):
		return Verdict{Action: Unavailable, Err: err}
	}
	return otherwise
}
