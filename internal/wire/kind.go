package wire

import (
	"fmt"

	"github.com/millrace-go/millrace/internal/contain"
	"github.com/millrace-go/millrace/storage"
)

// Kind is the stable name of a type of message on the wire. Users know it as channel.Kind.
type Kind string

const maxKind = 100

// Check refuses a malformed kind. A kind has 1 to 100 lower-case letters, digits, dots and hyphens, and begins with a
// letter.
func (k Kind) Check() error {
	bad := k == "" || len(k) > maxKind || k[0] < 'a' || k[0] > 'z'
	for i := 0; i < len(k) && !bad; i++ {
		c := k[i]
		bad = !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '.' || c == '-')
	}
	if bad {
		return fmt.Errorf("kind %s: want 1 to %d lower-case letters, digits, dots and hyphens, beginning with a letter",
			storage.Quote(string(k)), maxKind)
	}
	return nil
}

// A Message is a Go type that names its kind. It is the same interface as channel.Message, which documents it.
type Message interface {
	Kind() Kind
}

// These are the interfaces of the same names in package channel, which documents them.
type (
	checked    interface{ Check() error }
	identified interface{ MessageID() string }
	subjected  interface{ Subject() string }
)

// Inside is an argument of a function that is exported for this module's own packages. No other module can name it.
type Inside struct{}

// KindOf returns the kind of a message type. It is empty, and so refused by [Kind.Check], if the zero value of the type
// can't tell it: an interface, or a pointer whose Kind reads what it points to.
func KindOf[M Message]() (k Kind) {
	var m M
	_ = contain.Do(func() { k = m.Kind() })
	return k
}
