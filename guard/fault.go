package guard

import (
	"errors"
	"fmt"
	"time"

	"github.com/millrace-go/millrace/handlers"
)

// Kind says how a call ended, as far as its message and the service are concerned.
type Kind int

const (
	// Done: the service did what it was asked. The breaker counts a success.
	Done Kind = iota

	// Permanent: the service has refused this call for good. The message goes to the poison queue. The breaker counts a
	// success: the service answered.
	Permanent

	// Throttled: the service asks to wait. The message is handed back, and all calls pause for as long.
	Throttled

	// Transient: nothing was done, and a repeat may help. The breaker counts a failure.
	Transient

	// Unknown: the service may have done it, or may not. The breaker counts a failure.
	Unknown

	// Mine: the service has nothing to do with it. The error is returned as it is, and the breaker counts nothing. But a
	// probe that ends by a verdict of the call's own has perhaps been answered: three in a row end an outage.
	Mine
)

func (k Kind) String() string {
	names := []string{"done", "refused", "asked to wait", "not done", "outcome unknown", "not called to the end"}
	if k < 0 || int(k) >= len(names) {
		return fmt.Sprintf("Kind(%d)", int(k))
	}
	return names[k]
}

// A Fault is what an error of a call means.
type Fault struct {
	Kind Kind

	// After is how long the message waits at least, at most an hour; 0: the service doesn't say. Of Throttled, all calls
	// pause for as long. Of kinds that never come again it has no effect.
	After time.Duration

	// Alone says that only this message must wait, such as a mail for a mailbox that is busy. Then the breaker counts a
	// success: the service answered. Of Throttled only.
	Alone bool

	// NotInPlace says that the call isn't repeated within its handler, only by another delivery, because nobody knows
	// what the error means. If [Guard.Transport] has sent a request in the call that may have been done, and may not be
	// sent twice, the kind is Unknown. Of Transient only.
	NotInPlace bool

	// Reason is that of the message in the poison queue: short, stable, fit to select by. Of Permanent only. Defaults to
	// "refused by" with the guard's name.
	Reason string

	cutOff  bool // its handler was told to end, or its caller had left it too little time: the service isn't to blame
	decided bool // the call has decided on its message itself
	busy    bool // the service may be doing it now: it answered, and the message waits for After
}

// ReasonUnknown is the reason of a message in the poison queue whose call may have been done, or may not.
const ReasonUnknown = handlers.ReasonOutcomeUnknown

// ErrOpen is wrapped by the error of a call that was not made, because the breaker is open.
var ErrOpen = errors.New("the breaker is open")

// Error is the error of a call that the service didn't do. Returned from a handler, it is the verdict on the message;
// see package handlers.
type Error struct {
	Name  string // of the guard
	Fault Fault
	Err   error // of the call, or ErrOpen

	verdict error // of package handlers
}

func (e *Error) Error() string {
	return fmt.Sprintf("guard: %s: %v: %v", e.Name, e.Fault.Kind, e.Err)
}

// Unwrap returns the verdict and the error of the call.
func (e *Error) Unwrap() []error { return []error{e.verdict, e.Err} }

// isVerdict reports that a call has decided on its message itself.
func isVerdict(err error) bool {
	var (
		later  *handlers.LaterError
		retry  *handlers.RetryError
		poison *handlers.PoisonError
	)
	return errors.As(err, &later) || errors.As(err, &retry) || errors.As(err, &poison)
}
