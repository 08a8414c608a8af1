package engine

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/millrace-go/millrace/storage/driver"
)

// A Unit is steps that are done all or none. The condition of a unit is in its first step. A step that is stale says
// so, and the others are done.
type Unit struct {
	Failures []Failure // what failed, once the unit is done

	ctx   context.Context
	args  []string
	steps int
	size  int
	grows bool          // it needs memory
	done  chan struct{} // closed when err and Failures are set
	err   error
}

// A Failure is of one step of a unit.
type Failure struct {
	Step int // counted from 0
	Err  error
}

func (u *Unit) step(size int, args ...string) {
	u.args = append(u.args, args...)
	u.steps++
	u.size += size + 100
}

// Always and Absent are conditions of writes: none, and that there is nothing yet. Any other condition is an ETag.
const (
	Always = ""
	Absent = "-"
	Anyway = "*" // of a deletion: whether there is something or not
)

// Write writes a document.
func (u *Unit) Write(container, key, etag, state, want string) {
	u.step(len(state), "W", container, key, etag, state, want)
	u.grows = true
}

// WriteLarge writes a document whose state was put under a name by [Engine.PutLarge].
func (u *Unit) WriteLarge(container, key, etag, name, want string) {
	u.step(0, "B", container, key, etag, name, want)
	u.grows = true
}

// Remove deletes a document.
func (u *Unit) Remove(container, key, want string) { u.step(0, "X", container, key, want) }

// WriteRow writes a row.
func (u *Unit) WriteRow(table, partition, key, etag, state, want string) {
	u.step(len(state), "R", table, partition, key, etag, state, want)
	u.grows = true
}

// RemoveRow deletes a row.
func (u *Unit) RemoveRow(table, partition, key, want string) {
	u.step(0, "Y", table, partition, key, want)
}

// Send sends a message.
func (u *Unit) Send(queue, message, key string, delay time.Duration) {
	u.step(len(message), "S", queue, message, key, micros(delay))
	u.grows = true
}

// Delete deletes a message.
func (u *Unit) Delete(queue string, r Receipt) { u.step(0, "D", queue, r.ID, r.Nonce) }

// Extend hides a message for a time from now. From then on, nonce is in its receipt.
func (u *Unit) Extend(queue string, r Receipt, nonce string, visibility time.Duration) {
	u.step(0, "E", queue, r.ID, r.Nonce, nonce, micros(visibility))
}

// Rewrite gives a message another body, and hides it for a delay.
func (u *Unit) Rewrite(queue string, r Receipt, nonce, body string, delay time.Duration) {
	u.step(len(body), "V", queue, r.ID, r.Nonce, nonce, body, micros(delay))
}

func micros(d time.Duration) string { return strconv.FormatInt(d.Microseconds(), 10) }

// failed returns the error for a letter of the script.
func failed(letter string) error {
	switch letter {
	case "E":
		return driver.ErrExists
	case "P":
		return driver.ErrPrecondition
	case "N":
		return driver.ErrNotFound
	case "S":
		return driver.ErrReceiptStale
	}
	return fmt.Errorf("%w: the document was on its way for more than an hour, so the server has dropped it; repeat the call", driver.ErrUnavailable)
}
