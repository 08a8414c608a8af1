package driver

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Kinds of failure, for errors.Is. A driver's error wraps one of them and its own cause, so that
// errors.As still reaches a vendor's error.
var (
	ErrNotFound     = errors.New("not found")
	ErrNotModified  = errors.New("not modified")
	ErrExists       = errors.New("exists already")
	ErrPrecondition = errors.New("changed by somebody else")
	ErrReceiptStale = errors.New("receipt is stale")
	ErrTooLarge     = errors.New("too large")
	ErrInvalid      = errors.New("invalid argument")
	ErrThrottled    = errors.New("throttled")
	ErrUnavailable  = errors.New("store unavailable")
	ErrUnsupported  = errors.New("unsupported")

	// ErrLeased is of a write that the engine refuses because a program outside has a lease of the engine's own on the
	// place. Nothing was written. Only somebody outside can end that, so it isn't [ErrUnavailable]: a message whose
	// handler meets it spends attempts, and its reason is in the poison queue.
	ErrLeased = errors.New("leased by a program outside")

	// ErrPartial is of a Receive that fails for a part of a queue, where a decorator keeps it in several places. It
	// brings nothing, and nothing is lost. The next Receive brings messages of the rest, so there is no need to wait.
	ErrPartial = errors.New("a part of the queue fails")
)

// Error tells which operation failed on which resource. Err wraps a kind and the cause. It never holds a secret, a
// message body or a receipt.
type Error struct {
	Op       string // "receive", "put blob", "open"
	Resource string // "queue mails", "blob capacity/2026-12-24"
	Err      error
}

func (e *Error) Error() string {
	resource := e.Resource
	if strings.ContainsFunc(resource, func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }) { // a refused name may hold anything
		resource = Quote(resource)
	}
	return fmt.Sprintf("storage: %s %s: %v", e.Op, resource, e.Err)
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// StaleError is the error of Queue.Delete when some receipts were dead and all others are deleted. It matches
// [ErrReceiptStale].
type StaleError struct {
	Queue    string
	Receipts []Receipt
}

func (e *StaleError) Error() string {
	return fmt.Sprintf("storage: delete queue %s: %d stale receipt(s): the messages are gone or delivered again", e.Queue, len(e.Receipts))
}

// Is matches ErrReceiptStale.
func (e *StaleError) Is(target error) bool { return target == ErrReceiptStale }

// LostRace reports that a guarded write failed because somebody else wrote first: load again and repeat.
func LostRace(err error) bool {
	return errors.Is(err, ErrPrecondition) || errors.Is(err, ErrExists)
}

// A PublicError is an error of an engine or a service that can say what is wrong to everybody. Drivers let it be found
// with errors.As. It is optional.
type PublicError interface {
	error

	// Public is the cause in some words, without an address, a path, an account or a key: "503 ServerBusy".
	Public() string
}
