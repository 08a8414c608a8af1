package verdict

import (
	"github.com/millrace-go/millrace/internal/contain"
)

// settled is a copy of an error that the user's code returned. The error's methods are called once, where a panic in
// them (of a nil pointer that became an error, say) harms nothing else. Later callers run none of the user's code.
type settled struct {
	*contain.Copied
	verdict Verdict // without Err
	named   string  // the type of the error, for traces
}

// ErrorType names the type of the error, for traces.
func (f *settled) ErrorType() string { return f.named }

// nameOf names the type of an error for traces. The types of this package have the names that users know.
func nameOf(err error, otherwise string) string {
	switch err.(type) {
	case *RetryError:
		return "*handlers.RetryError"
	case *LaterError:
		return "*handlers.LaterError"
	case *PoisonError:
		return "*handlers.PoisonError"
	}
	return otherwise
}

// ErrorType names the type of the error, for traces.
func (e *PanicError) ErrorType() string { return "*handlers.PanicError" }

// ErrorType names the type of the error, for traces.
func (e *HangError) ErrorType() string { return "*handlers.HangError" }

// IsSettled reports that no method of an error is the user's code: the error is nil, a [PanicError], a [HangError] or a
// result of [Settled].
func IsSettled(err error) bool {
	switch err := err.(type) {
	case nil, *settled:
		return true
	case *PanicError:
		return err != nil
	case *HangError:
		return err != nil
	}
	return false
}

// Settled returns an error that runs none of the user's code: the error itself if it [IsSettled], else a copy of it.
func Settled(err error) error {
	if IsSettled(err) {
		return err
	}
	f := &settled{Copied: contain.CopyOf(err), verdict: Verdict{Action: TryAgain}}
	f.named = nameOf(err, f.Type())
	if !f.Endless() { // else it may wrap itself, and errors.As would never end
		f.verdict = Judge(err)
	}
	f.verdict.Err = nil
	return f
}
