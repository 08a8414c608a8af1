package millracetest

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/contain"
	"github.com/millrace-go/millrace/internal/jsonform"
	"github.com/millrace-go/millrace/internal/wire"
)

// repeats is how often a decision is called with the same value and command. Go begins to walk a small map at one of
// eight places. So a decision that follows the order of a map with two keys gives the same result each time in one of
// 5,000 tests.
const repeats = 64

// A Decision is a pure decision under test.
type Decision[V any, C channel.Message] struct {
	t      testing.TB
	decide func(V, C) (V, []channel.Message, error)
}

// Decide returns the test of a decision, which handlers.Decide or handlers.On would register.
func Decide[V any, C channel.Message](t testing.TB, decide func(V, C) (V, []channel.Message, error)) Decision[V, C] {
	t.Helper()
	if decide == nil {
		t.Fatal("millracetest: the decision is nil")
	}
	return Decision[V, C]{t, decide}
}

// A Case is a decision with its value.
type Case[V any, C channel.Message] struct {
	decision Decision[V, C]
	form     []byte // of the value, in JSON
}

// Given is the value that the decision begins with.
func (d Decision[V, C]) Given(value V) Case[V, C] {
	d.t.Helper()
	return Case[V, C]{d, stored(d.t, "the given value", value)}
}

// When decides a command, or an event that a value object takes. It fails the test if the decision does what the
// framework forbids; see the package comment.
func (c Case[V, C]) When(command C) *Outcome[V] {
	t := c.decision.t
	t.Helper()
	body := stored(t, "the command", command)
	first := decided(c, body)
	for range repeats - 1 {
		again := decided(c, body)
		if diff := first.differs(again); diff != "" {
			t.Errorf("the decision is not pure: the same value and command gave another result (- first, + later)\n%s", diff)
			break
		}
	}
	return first
}

// decided calls the decision with a value and a command of its own, as JSON gives them back.
func decided[V any, C channel.Message](c Case[V, C], body []byte) *Outcome[V] {
	t := c.decision.t
	t.Helper()
	value, command := read[V](t, c.form), read[C](t, body)
	next, emitted, err := c.decision.decide(value, command)
	err = contain.Sound(err) // its methods may panic, as those of a nil pointer do
	o := &Outcome[V]{t: t, emitted: emitted, err: err}
	if err != nil {
		if after := encoded(t, "the value after a failure", value); string(after) != string(c.form) {
			t.Errorf("the decision fails and has changed its value, which must stay as it was (- before, + after)\n%s", diffJSON(c.form, after))
		}
		return o
	}
	o.form = stored(t, "the decided value", next)
	for i, m := range emitted {
		if wire.IsNil(m) {
			t.Fatalf("emission %d of %d is nil", i+1, len(emitted))
		}
		encoded(t, "an emission", wire.Unwrap(m))
		if _, err := wire.Compose(m, source, time.Now()); err != nil {
			t.Errorf("emission %d of %d, %s, can't be sent: %v", i+1, len(emitted), m.Kind(), err)
		}
	}
	return o
}

// An Outcome is what a decision has decided.
type Outcome[V any] struct {
	t       testing.TB
	form    []byte // of the value, in JSON; nil after an error
	emitted []channel.Message
	err     error
}

// Then fails the test unless the decision has emitted exactly these messages, in this order. Messages are compared by
// reflect.DeepEqual, and so are the times of channel.After and channel.At.
func (o *Outcome[V]) Then(want ...channel.Message) *Outcome[V] {
	o.t.Helper()
	if o.ok() && !sameMessages(o.emitted, want) {
		o.t.Errorf("emitted messages (- want, + got)\n%s", diffMessages(want, o.emitted))
	}
	return o
}

// ThenValue fails the test unless the decision has left this value. Values are compared by their JSON.
func (o *Outcome[V]) ThenValue(want V) *Outcome[V] {
	o.t.Helper()
	if !o.ok() {
		return o
	}
	if form := stored(o.t, "the wanted value", want); string(form) != string(o.form) {
		o.t.Errorf("value (- want, + got)\n%s", diffJSON(form, o.form))
	}
	return o
}

// ThenError fails the test unless the decision has failed with an error that is want, or has its text.
func (o *Outcome[V]) ThenError(want error) {
	o.t.Helper()
	switch {
	case want == nil:
		o.t.Fatal("millracetest: the wanted error is nil; use Then for a decision that succeeds")
	case o.err == nil:
		o.t.Errorf("the decision succeeds, want the error %q; it emits\n%s", want, list(o.emitted))
	case !errors.Is(o.err, want) && o.err.Error() != want.Error():
		o.t.Errorf("error: got %q, want %q", o.err, want)
	}
}

// Emitted returns the messages that the decision has emitted.
func (o *Outcome[V]) Emitted() []channel.Message {
	o.t.Helper()
	o.ok()
	return o.emitted
}

// Value returns the value that the decision has left, as JSON gives it back. The next decision begins with it.
func (o *Outcome[V]) Value() V {
	o.t.Helper()
	if !o.ok() {
		var none V
		return none
	}
	return read[V](o.t, o.form)
}

// ok reports that the decision has succeeded. If not, it fails the test.
func (o *Outcome[V]) ok() bool {
	o.t.Helper()
	if o.err != nil {
		o.t.Errorf("the decision fails: %v", o.err)
	}
	return o.err == nil
}

// differs tells how two outcomes differ, or returns "".
func (o *Outcome[V]) differs(other *Outcome[V]) string {
	switch {
	case (o.err == nil) != (other.err == nil), o.err != nil && o.err.Error() != other.err.Error():
		return diff(lines("error: "+errorText(o.err)), lines("error: "+errorText(other.err)))
	case string(o.form) != string(other.form):
		return diffJSON(o.form, other.form)
	case !sameMessages(o.emitted, other.emitted):
		return diffMessages(o.emitted, other.emitted)
	}
	return ""
}

func errorText(err error) string {
	if err == nil {
		return "none"
	}
	return err.Error()
}

// sameMessages compares messages as Then promises.
func sameMessages(a, b []channel.Message) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !reflect.DeepEqual(wire.Unwrap(a[i]), wire.Unwrap(b[i])) || attributes(a[i]) != attributes(b[i]) {
			return false
		}
	}
	return true
}

// attributes tells two messages apart whose content is the same: by when they are due, and by their reply addresses.
func attributes(m channel.Message) string {
	w := wire.Wrap(m)
	return w.When.String() + " " + w.ReplyTo
}

// encoded returns the JSON of a value or a message, as the framework writes it.
func encoded(t testing.TB, what string, x any) []byte {
	t.Helper()
	form, err := jsonform.Encode(x)
	if err != nil {
		t.Fatalf("%s can't be stored: %v", what, err)
	}
	return form
}

// stored is encoded, and fails the test if JSON doesn't give back what is in it.
func stored[T any](t testing.TB, what string, x T) []byte {
	t.Helper()
	form := encoded(t, what, x)
	if lost := lost(reflect.ValueOf(&x).Elem(), reflect.ValueOf(new(read[T](t, form))).Elem(), reflect.TypeFor[T]().String()); lost != "" {
		t.Errorf("%s holds something that JSON doesn't give back: %s. "+
			"A decision sees its value and command as JSON gives them back. Use a type that does, or leave the field out by json:\"-\"", what, lost)
	}
	return form
}

// read returns what JSON gives back.
func read[T any](t testing.TB, form []byte) T {
	t.Helper()
	x, err := jsonform.Decode[T](form)
	if err != nil {
		t.Fatalf("a %s can't be read back: %v", reflect.TypeFor[T](), err)
	}
	return x
}
