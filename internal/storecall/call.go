// Package storecall has the small parts that packages over a store share: a bound for a call of a store, the wait
// between two tries, the check whether another try can succeed, and the checks of a caller's arguments.
package storecall

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/millrace-go/millrace/storage"
)

// Sleep waits for d. When ctx ends before, it returns the cause.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return context.Cause(ctx)
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

// Limit bounds calls of a store, so that one that hangs ends: after d with the cause storage.ErrUnavailable.
func Limit(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, d, fmt.Errorf("%w: no success within %v", storage.ErrUnavailable, d))
}

// Permanent reports that another try can't succeed.
func Permanent(err error) bool {
	return errors.Is(err, storage.ErrInvalid) || errors.Is(err, storage.ErrUnsupported) || errors.Is(err, storage.ErrTooLarge)
}

// CheckStore refuses a store that is nil.
func CheckStore(store *storage.Store) error {
	if store == nil {
		return fmt.Errorf("%w: there is no store", storage.ErrInvalid)
	}
	return nil
}

// The largest notes on who changes something and why, in bytes: one bound for all that operators change.
const (
	MaxBy  = 100
	MaxWhy = 256
)

// CheckText refuses a text that people can't read safely: one of more than most bytes, of invalid UTF-8, or with
// control characters.
func CheckText(what, text string, most int) error {
	if len(text) > most || !utf8.ValidString(text) {
		return fmt.Errorf("%w: %s is %s; want at most %d bytes of valid UTF-8", storage.ErrInvalid, what, storage.Quote(text), most)
	}
	for _, r := range text {
		if unicode.IsControl(r) {
			return fmt.Errorf("%w: %s is %s; control characters are not allowed", storage.ErrInvalid, what, storage.Quote(text))
		}
	}
	return nil
}

// maxHost leaves room for a process ID in 100 bytes, which is the least that a package takes.
const maxHost = 88

// ProcessName names this process to an operator: by host and process ID, in at most 100 bytes that [CheckText] takes.
func ProcessName() string {
	host, err := os.Hostname()
	return processName(host, err, os.Getpid())
}

func processName(host string, err error, pid int) string {
	if err != nil || host == "" || CheckText("host", host, maxHost) != nil {
		host = "process"
	}
	return fmt.Sprintf("%s-%d", host, pid)
}

// Ended is the error of a wait that ended with ctx: its cause, and in words why the last attempt had failed, if it had.
func Ended(ctx context.Context, last error) error {
	cause := context.Cause(ctx)
	if last == nil || errors.Is(last, cause) {
		return cause
	}
	return fmt.Errorf("%w; before that: %v", cause, last)
}
