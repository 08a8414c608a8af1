// Package verdict tells what the error of a handler means for its message.
//
// Errors are of the user's code, of the store, or of the framework. [Judge] reads an error and returns its [Verdict].
// [Settled] copies an error, so that whoever looks at it later runs none of the user's code.
package verdict

import (
	"errors"
	"time"

	"github.com/millrace-go/millrace/internal/contain"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/values"
)

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
	Wait   string        // of HandBack: why the message waits for its turn, see handling.WaitHeld; empty: it doesn't
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
	if f, ok := err.(*settled); ok {
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
	case errors.Is(err, wire.ErrUnknownKind):
		return Verdict{Action: UnknownKind, Err: err}
	case errors.Is(err, wire.ErrDataLost):
		return Verdict{Action: ToPoison, Reason: ReasonDataLost, Err: err}
	case errors.Is(err, values.ErrContended):
		return Verdict{Action: HandBack, Err: err}
	case errors.Is(err, storage.ErrUnavailable), errors.Is(err, storage.ErrThrottled):
		return Verdict{Action: Unavailable, Err: err}
	}
	return otherwise
}
