package mail

import (
	"errors"

	"github.com/millrace-go/millrace/guard"
)

// ReasonRefused is the reason of a message in the poison queue whose mail no server will ever accept.
const ReasonRefused = "mail refused"

// Fault says what an error of Send means to a guard. A mail that is refused for good goes to the poison queue at once,
// where an operator sees it. Any other failure is the server's. Its outcome is unknown only after [ErrUnanswered].
func Fault(err error) guard.Fault {
	switch {
	case errors.Is(err, ErrRefused):
		return guard.Fault{Kind: guard.Permanent, Reason: ReasonRefused}
	case errors.Is(err, ErrUnanswered):
		return guard.Fault{Kind: guard.Unknown}
	}
	f := guard.SMTP(err)
	if f.Kind == guard.Permanent || f.Kind == guard.Unknown { // the server refuses this program, or has got no whole mail
		f.Kind = guard.Transient
	}
	f.NotInPlace = false // the server has got no whole mail, whatever the error says
	return f
}
