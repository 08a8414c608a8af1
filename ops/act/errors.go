package act

import (
	"errors"
	"fmt"
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
