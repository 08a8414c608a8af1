package millracetest

import (
	"fmt"
	"slices"

	"github.com/millrace-go/millrace/internal/handling"
)

// target is a message with the handler that it is for.
type target struct {
	*sent
	handler    *handling.Handler
	collection string // that it is folded into; "" for a reaction
	view       bool   // that collection is a view
	recorded   bool   // a document that applies it keeps a record of that
	excused    bool   // it need not be handled
	applied    bool   // a document has applied it
}

// as returns how a document may tell the message. One that a subscriber group brings to a value object is told with the
// group.
func (x *target) as() []applied {
	grouped := x.e
	grouped.ID += "\x00" + x.queue
	id, content := appliedOf(&grouped), appliedOf(&x.e)
	copy(id[12:], content[12:])
	return []applied{content, id}
}

func (x *target) String() string { return fmt.Sprintf("%s %s %.300s", x.e.Kind, x.e.ID, x.e.Data) }

// find returns the message that a document of a collection has applied.
func find(targets []*target, collection string, x applied) *target {
	for _, t := range targets {
		if t.collection == collection && slices.Contains(t.as(), x) {
			return t
		}
	}
	return nil
}
