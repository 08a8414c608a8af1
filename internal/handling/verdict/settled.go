package verdict

import (
	"strings"

	"github.com/millrace-go/millrace/internal/contain"
)

// settled is a copy of an error that the user's code returned. The error's methods are called once, where a panic in
// them (of a nil pointer that became an error, say) harms nothing else. Later callers run none of the user's code.
type settled struct {
	*contain.Copied
	verdict Verdict // without Err
}

// ErrorType names the type of the error, for traces: one of this package by the name that users know.
func (f *settled) ErrorType() string {
	if name, ours := strings.CutPrefix(f.Type(), "*verdict."); ours {
		return "*handlers." + name
	}
	return f.Type()
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
	f := &settled{contain.CopyOf(err), Verdict{Action: TryAgain}}
	if !f.Endless() { // else it may wrap itself, and errors.As would never end
		f.verdict = Judge(err)
	}
	f.verdict.Err = nil
	return f
}
