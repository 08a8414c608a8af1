package act

import (
	"errors"
	"fmt"
	"strings"
)

// A UsageError says that a request can't be right, whatever the store holds.
type UsageError struct {
	Field string // the field that is wrong; "" if it is none, or several are

	err error
}

// Usage makes a UsageError.
func Usage(format string, args ...any) error { return UsageOf("", format, args...) }

// UsageOf makes a UsageError of a field. The text doesn't name the field: the command line puts the name before the
// text, as people have typed the field.
func UsageOf(field, format string, args ...any) error {
	return &UsageError{field, fmt.Errorf(format, args...)}
}

func (e *UsageError) Error() string { return e.err.Error() }

// Unwrap returns what the error was made of.
func (e *UsageError) Unwrap() error { return e.err }

// A NothingError says that the thing asked for isn't there.
type NothingError struct{ text string }

// Nothing makes a NothingError.
func Nothing(format string, args ...any) error { return &NothingError{fmt.Sprintf(format, args...)} }

func (e *NothingError) Error() string { return e.text }

// ErrWrong says that an act has looked for what is wrong, and has found and told something.
var ErrWrong = errors.New("something is wrong")

// A codeError is an error of a program's code. The audit log, which everybody reads, knows it by a veiled text.
type codeError struct {
	err          error
	told, veiled string
}

// OfCode is an error of a program's code as the request may see it: see [Call.Fault]. The audit log has the veiled text
// in any case.
func (c *Call) OfCode(err error) error {
	if err == nil {
		return nil
	}
	return &codeError{err, c.Fault(err.Error()), c.Veiled(err.Error())}
}

// OfGiven is an error in which a program's code judges what somebody has just given. The error answers that person, so
// the person reads all of it. The audit log has the veiled text.
func (c *Call) OfGiven(err error, veiled string) error {
	if err == nil {
		return nil
	}
	return &codeError{err, err.Error(), veiled}
}

func (e *codeError) Error() string { return e.told }

// Unwrap returns the error of the code.
func (e *codeError) Unwrap() error { return e.err }

// noted is the text of an error for the audit log.
func noted(err error) string {
	text := err.Error()
	for _, e := range codeErrors(err) {
		switch {
		case e.told == "":
		case !strings.Contains(text, e.told): // an error around it has changed the words
			return e.veiled
		default:
			text = strings.ReplaceAll(text, e.told, e.veiled)
		}
	}
	return text
}

// codeErrors are the errors of a program's code within an error.
func codeErrors(err error) []*codeError {
	if e, ok := err.(*codeError); ok {
		return []*codeError{e}
	}
	switch x := err.(type) {
	case interface{ Unwrap() error }:
		return codeErrors(x.Unwrap())
	case interface{ Unwrap() []error }:
		var all []*codeError
		for _, e := range x.Unwrap() {
			all = append(all, codeErrors(e)...)
		}
		return all
	}
	return nil
}
