package boot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/millrace-go/millrace/storage"
)

// Exit codes of a program.
const (
	ExitOK    = 0
	ExitError = 1
	ExitUsage = 2
)

// UsageError reports a command line or an environment that can't be right. It ends a program with [ExitUsage].
type UsageError struct{ Err error }

func (e *UsageError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *UsageError) Unwrap() error { return e.Err }

// SignalError is the cause of a context that a signal has ended.
type SignalError struct{ Signal os.Signal }

func (e *SignalError) Error() string { return "stopped by signal: " + e.Signal.String() }

// StoppedBy reports that the end of ctx has caused an error.
func StoppedBy(ctx context.Context, err error) bool {
	return ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx)))
}

// badFlag adds a flag's name to an error, if there is one.
func badFlag(flag string, err error) error {
	if err == nil {
		return nil
	}
	var e *storage.Error
	if errors.As(err, &e) {
		err = e.Err
	}
	return &UsageError{fmt.Errorf("-%s: %w", flag, err)}
}

// of puts the name of a part or program before its error, unless the error begins with that name already: a package
// often has the name of the part that runs it.
func of(name string, err error) error {
	if strings.HasPrefix(err.Error(), name+": ") {
		return err
	}
	return fmt.Errorf("%s: %w", name, err)
}
