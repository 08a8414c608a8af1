package verdict

import (
	"cmp"
	"fmt"
	"time"
)

// RetryError asks for another attempt after a delay.
type RetryError struct {
	After time.Duration
	Err   error
}

// Retry is handlers.Retry.
func Retry(after time.Duration, err error) error { return &RetryError{After: after, Err: err} }

func (e *RetryError) Error() string { return fmt.Sprintf("retry after %v: %v", e.After, e.Err) }

// Unwrap returns the cause.
func (e *RetryError) Unwrap() error { return e.Err }

// LaterError asks to see the message again later.
type LaterError struct {
	After  time.Duration
	Reason string

	wait string // of a message that waits for its turn: see Verdict.Wait
}

// Later is handlers.Later.
func Later(after time.Duration, reason string) error {
	return &LaterError{After: after, Reason: reason}
}

// Wait returns the error of a message that waits for its turn, and why it does: see [Verdict.Wait].
func Wait(why string, after time.Duration, reason string) error {
	return &LaterError{After: after, Reason: reason, wait: why}
}

func (e *LaterError) Error() string { return fmt.Sprintf("later, after %v: %s", e.After, e.Reason) }

// PoisonError sends the message to the poison queue.
type PoisonError struct {
	Reason string
	Err    error // may be nil
}

// Poison is handlers.Poison.
func Poison(reason string, cause error) error {
	return &PoisonError{Reason: cmp.Or(reason, "no reason given"), Err: cause}
}

func (e *PoisonError) Error() string {
	if e.Err == nil {
		return "poison: " + e.Reason
	}
	return fmt.Sprintf("poison: %s: %v", e.Reason, e.Err)
}

// Unwrap returns the cause, or nil.
func (e *PoisonError) Unwrap() error { return e.Err }

// GiveUpAfter is how long a handler may go on after the end of its context before it is given up.
const GiveUpAfter = 10 * time.Second

// PanicError stands for a panic in a handler, or for a call of runtime.Goexit.
type PanicError struct {
	Text  string
	Stack string // of the user's code, from the line that panicked; the frames of its callers may follow
}

func (e *PanicError) Error() string { return e.Text }

// HangError stands for a handler, or other code of the user, that didn't end. It was given up and runs on. If it is in
// a call of package guard that may not be made twice, its verdict is [Poison] with [ReasonOutcomeUnknown].
type HangError struct {
	What  string          // what hangs: "the handler", or code outside of it
	Limit time.Duration   // the time that it had
	Stack string          // where it is
	Ended <-chan struct{} // closed when it ends after all

	Unsure bool // it is in a call whose effect may have happened
}

func (e *HangError) Error() string {
	return fmt.Sprintf("%s hangs: it was to end within %v, and was given up %v later", e.What, e.Limit, GiveUpAfter)
}
