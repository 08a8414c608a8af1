package handlers

import (
	"time"

	"github.com/millrace-go/millrace/internal/handling/verdict"
)

// Retry returns an error that says: not done; try again after this delay, at most ten years. It spends an attempt. It
// is a [RetryError].
func Retry(after time.Duration, err error) error { return verdict.Retry(after, err) }

// Later returns an error that says: not yet, for no fault of the message. It spends no attempt, however often. The
// message's age goes on: a value object, a view or [ReactOnce] that sees it after more than a month can't judge it any
// more. So don't wait that long by Later or [Retry]: send a message that is due then. It is a [LaterError].
func Later(after time.Duration, reason string) error { return verdict.Later(after, reason) }

// Poison returns an error that says: this message can never be handled, and an operator must look at it. The cause may
// be nil. It is a [PoisonError].
func Poison(reason string, cause error) error { return verdict.Poison(reason, cause) }

// RetryError is the error of [Retry]. It is a struct:
//
//	After time.Duration
//	Err   error
type RetryError = verdict.RetryError

// LaterError is the error of [Later]. It is a struct:
//
//	After  time.Duration
//	Reason string
type LaterError = verdict.LaterError

// PoisonError is the error of [Poison]. It is a struct:
//
//	Reason string
//	Err    error // may be nil
type PoisonError = verdict.PoisonError

// PanicError stands for a panic in a handler, or for a call of runtime.Goexit. Middleware around a fold gets it. It is
// a struct:
//
//	Text  string
//	Stack string // of the user's code, from the line that panicked; the frames of its callers may follow
type PanicError = verdict.PanicError

// HangError stands for a handler, or other code of the user, that was given up and runs on. Middleware around a fold
// gets it. It is a struct:
//
//	What  string          // what hangs: "the handler", or code outside of it
//	Limit time.Duration   // the time that it had
//	Stack string          // where it is
//	Ended <-chan struct{} // closed when it ends after all
//
//	Unsure bool // it is in a call whose effect may have happened
type HangError = verdict.HangError

// These are the framework's own reasons for which a message goes to the poison queue. Two more are for a handler that
// emits what it may not: "nil emission" and "undeclared emission".
const (
	ReasonUndecodable    = verdict.ReasonUndecodable    // "undecodable"
	ReasonRefused        = verdict.ReasonRefused        // "refused by its check"
	ReasonUnknownKind    = verdict.ReasonUnknownKind    // "unknown kind"
	ReasonAttempts       = verdict.ReasonAttempts       // "too many attempts"
	ReasonHangs          = verdict.ReasonHangs          // "handler hangs"
	ReasonDeliveries     = verdict.ReasonDeliveries     // "too many deliveries"
	ReasonContentDiffers = verdict.ReasonContentDiffers // "same ID, other content"
	ReasonTooOld         = verdict.ReasonTooOld         // "too old to judge"
	ReasonDataLost       = verdict.ReasonDataLost       // "body is gone"
	ReasonBadKey         = verdict.ReasonBadKey         // "bad key"
	ReasonOutcomeUnknown = verdict.ReasonOutcomeUnknown // "outcome unknown"; also of handlers, and of package guard: the effect may have happened
)
