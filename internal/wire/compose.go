package wire

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/millrace-go/millrace/storage"
)

// MaxDelay is the longest time from when a message is sent until it is due.
const MaxDelay = 10 * 365 * 24 * time.Hour

// ErrRefused says that a message's own Check refuses it.
var ErrRefused = errors.New("refused by its check")

// A Wrapped is a message with attributes that its sender chooses. Users make it by channel.After and channel.At.
type Wrapped struct {
	Message Message
	When    When
	ReplyTo string // empty: the one of the message that brings it about
}

// Kind is the kind of the message.
func (w Wrapped) Kind() Kind { return w.Message.Kind() }

// A Row is what a fold of the framework returns among its messages to have a row put in the unit of work that writes
// the document, and what the framework gives to SendWith. All rows of a unit are of one partition. A store without an
// atomic Commit puts them first.
type Row struct {
	Table, Partition, Key string
	Data                  []byte
}

// Kind is empty: a Row isn't sent.
func (Row) Kind() Kind { return "" }

// TakeRows returns the rows among messages, and the other messages. All rows are of the first one's partition.
func TakeRows[M Message](messages []M) (rows *storage.Rows, rest []M) {
	for i, m := range messages {
		r, ok := Message(m).(Row)
		switch {
		case !ok && rows != nil:
			rest = append(rest, m)
		case ok && rows == nil:
			rows, rest = &storage.Rows{Table: r.Table, Partition: r.Partition}, slices.Clone(messages[:i])
			fallthrough
		case ok:
			rows.Puts = append(rows.Puts, storage.RowPut{Key: r.Key, Data: r.Data})
		}
	}
	if rows == nil {
		return nil, messages
	}
	return rows, rest
}

// Unwrap returns the message that a Wrapped holds, or the message itself.
func Unwrap(m Message) Message {
	if w, ok := m.(Wrapped); ok {
		return w.Message
	}
	return m
}

// Wrap returns a message as a Wrapped, whose attributes can be changed.
func Wrap(m Message) Wrapped {
	if w, ok := m.(Wrapped); ok {
		return w
	}
	return Wrapped{Message: m}
}

// IsNil reports that there is no message: m is nil or a nil pointer, or wraps one.
func IsNil(m Message) bool {
	m = Unwrap(m)
	if m == nil {
		return true
	}
	v := reflect.ValueOf(m)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

// CheckMessage runs the message's own Check, if it has one. The error matches [ErrRefused].
func CheckMessage(m any) error {
	if w, ok := m.(Wrapped); ok {
		m = w.Message
	}
	if x, ok := m.(checked); ok {
		if err := x.Check(); err != nil {
			return fmt.Errorf("%w: %w", ErrRefused, err)
		}
	}
	return nil
}

// When says when a message is due: after a delay, or at a time. The zero When is at once.
type When struct {
	Delay time.Duration
	At    time.Time // if it is not zero, Delay counts from then
}

// AddTo returns the When of a message that is due a delay later. A sum that a Duration can't hold is the longest one.
func (w When) AddTo(d time.Duration) When {
	if d > 0 && w.Delay > math.MaxInt64-d {
		d = math.MaxInt64 - w.Delay
	}
	w.Delay += d
	return w
}

// later reports that the message may be due later than at once.
func (w When) later() bool { return w.Delay > 0 || !w.At.IsZero() }

// from returns the time when a message is due that is sent at t. It is not before t.
func (w When) from(t time.Time) time.Time {
	due := t.Add(w.Delay)
	if !w.At.IsZero() {
		due = w.At.Add(w.Delay)
	}
	if due.Before(t) {
		return t
	}
	return due
}

// String tells two Whens apart. It doesn't depend on a clock.
func (w When) String() string {
	switch {
	case !w.At.IsZero():
		return w.At.Add(w.Delay).UTC().Format(time.RFC3339Nano)
	case w.Delay > 0:
		return w.Delay.String()
	}
	return ""
}

// check refuses a When that is too far ahead.
func (w When) check(now time.Time) error {
	if delay := w.from(now).Sub(now); delay > MaxDelay {
		return fmt.Errorf("%w: a delay of %v; want at most ten years", storage.ErrInvalid, delay)
	}
	return nil
}

// CheckDelay refuses a message that is due too late.
func CheckDelay(m Message, now time.Time) error {
	return Wrap(m).When.check(now)
}

// draft makes the parts of an envelope that the message itself decides. Its ID is empty if the message chooses none.
func draft(m Message, source string, now time.Time) (e Envelope, when When, err error) {
	w := Wrap(m)
	m, when = w.Message, w.When
	switch {
	case m == nil:
		return e, when, fmt.Errorf("%w: the message is nil", ErrBody)
	case IsNil(m):
		return e, when, fmt.Errorf("%w: the message is a nil %T", ErrBody, m)
	}
	if err := CheckMessage(m); err != nil {
		return e, when, err
	}
	data, err := EncodeBody(m)
	if err != nil {
		return e, when, err
	}
	e = Envelope{Source: source, Kind: m.Kind(), Time: now, Data: data, ReplyTo: w.ReplyTo}
	if err := when.check(now); err != nil {
		return e, when, err
	}
	if due := when.from(now); due.After(now) {
		e.Due = due
	}
	if x, ok := m.(identified); ok {
		e.ID = x.MessageID()
	}
	if x, ok := m.(subjected); ok {
		e.Subject = x.Subject()
	}
	return e, when, nil
}

// Compose makes the envelope of a message that no other message brought about.
func Compose(m Message, source string, now time.Time) (Envelope, error) {
	return ComposeAs("", m, source, now)
}

// ComposeAs is Compose with an ID that somebody else has chosen, unless it is empty.
func ComposeAs(id string, m Message, source string, now time.Time) (Envelope, error) {
	e, when, err := draft(m, source, now)
	if id != "" {
		e.ID = id
	}
	switch born := when.from(now); {
	case err != nil:
	case e.ID != "":
		e.count(born, when)
	case e.Due.IsZero():
		e.ID = NewID()
	default:
		e.ID = IDAt(born)
	}
	return e, err
}

// ComposeUnder makes the envelope of a message that is sent while another is handled. A handler that runs again repeats
// the same IDs. So an ID depends on the handled message, the content and the delay, and on no clock or order of sends:
// handlers may send from several goroutines. Where several messages ask for the same work, an ID depends on the work's
// key instead.
func ComposeUnder(h *Handling, m Message, source string, now time.Time) (Envelope, error) {
	e, when, err := draft(m, source, now)
	if err != nil {
		return e, err
	}
	parent := &h.Envelope
	born := parent.Born()
	if born.IsZero() {
		born = now
	}
	born = when.from(born)
	if e.ID == "" {
		sum := sha256.Sum256(e.Data)
		content := string(e.Kind) + "\x00" + string(sum[:]) + when.String()
		e.derive(h.origin(), born, "sent by", h.Queue, content, strconv.Itoa(h.CountSent(content)))
	} else {
		e.count(born, when)
	}
	e.Follow(parent)
	return e, nil
}

// origin returns the envelope from which the IDs of what a handler sends follow.
func (h *Handling) origin() *Envelope {
	if h.work.Key == "" {
		return &h.Envelope
	}
	return &Envelope{ID: h.work.Key}
}

// ComposeEmission makes the envelope of a message that a document emits, the n-th of those that the parent brought
// about. group is the subscriber group that the parent came through, or "" where only one brings it. The envelope is
// made once: each copy that is sent later is this one. So a delay counts from now.
func ComposeEmission(parent *Envelope, group string, n int, m Message, source, key string, now time.Time) (Envelope, error) {
	e, when, err := draft(m, source, now)
	if err != nil {
		return e, err
	}
	born := parent.Born()
	if !e.Due.IsZero() {
		born = e.Due
	}
	if e.ID == "" {
		parts := []string{"event", source, strconv.Itoa(n)}
		if group != "" {
			parts = append(parts, group)
		}
		e.derive(parent, born, parts...)
	} else {
		e.count(born, when)
	}
	if e.Subject == "" {
		e.Subject = key
	}
	e.Follow(parent)
	return e, nil
}

// ComposeCompensation makes the envelope of the n-th message that a program sends because the parent goes to the poison
// queue of a queue. Its ID follows from the parent's ID and content, and from the queue. A parent that is
// poisoned again, much later perhaps, brings about the same message. So no time is part of the ID, and the time from
// which the message counts stands beside it: the time of the poisoning, or when the message is due.
func ComposeCompensation(parent *Envelope, queue string, n int, m Message, poisoned time.Time) (Envelope, error) {
	e, when, err := draft(m, "/poison/"+queue, poisoned)
	if err != nil {
		return e, err
	}
	born := when.from(poisoned)
	if e.ID == "" {
		content := parent.Content()
		e.ID = DerivedID(parent.ID, "poison", queue, string(content[:]), strconv.Itoa(n))
		e.Since = born
	} else {
		e.count(born, when)
	}
	e.Follow(parent)
	return e, nil
}

// Born returns the time from which the message's age counts, the same for every copy of it: the time of its ID or, if
// that carries another time or none, the time beside it. It is zero if the message came from elsewhere without a time.
func (e *Envelope) Born() time.Time {
	if !e.Since.IsZero() {
		return e.Since
	}
	if t, ok := IDTime(e.ID); ok {
		return t
	}
	return e.Time
}

// count sets the time from which a message counts whose ID was chosen.
func (e *Envelope) count(born time.Time, when When) {
	if _, timed := IDTime(e.ID); (timed && when.later()) || (!timed && !born.Equal(e.Time)) {
		e.Since = born
	}
}

// derive sets an ID that follows from the parent's. Where the parent's own time stands beside its ID, two copies of the
// parent may have two times. So the child's ID doesn't depend on it, and the time stands beside the child's ID, too.
func (e *Envelope) derive(parent *Envelope, born time.Time, parts ...string) {
	t, timed := IDTime(parent.ID)
	switch {
	case !timed || !parent.Since.IsZero():
		e.Since = born
	default:
		t = born
	}
	e.ID = derive(parent.ID, t, timed, parts...)
}
