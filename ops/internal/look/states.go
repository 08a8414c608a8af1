package look

import (
	"fmt"
	"strings"
	"time"

	"github.com/millrace-go/millrace/coord/gate"
	"github.com/millrace-go/millrace/coord/keylock"
	"github.com/millrace-go/millrace/ops/act"
)

// GateIsDue reports that the announced time has passed, and that no program has looked since.
func GateIsDue(s gate.State, now time.Time) bool {
	return !s.Open && !s.OpensAt.IsZero() && !s.OpensAt.After(now)
}

// NotUpdates leaves out the leases of lease.Update: there is one for each document that was ever updated.
func NotUpdates(name string) bool { return !strings.HasPrefix(name, "update/") }

// TurnState says in a word how a key is, and in a few what it waits for. fault tells of an error of the program's code.
func TurnState(x keylock.Info, fault func(string) string) (word, why string) {
	switch s := x.State; {
	case s.Halted != nil:
		why = fmt.Sprintf("by message %s, %s", s.Halted.Message, act.Ago(s.Halted.Since))
		if text := fault(s.Halted.Why); text != "" {
			why += ": " + text
		}
		return "halted", why
	case s.Gap != nil:
		return "gap", fmt.Sprintf("event %d waits for event %d, %s", s.Gap.Sequence, s.Gap.Previous, act.Ago(s.Gap.Since))
	case s.First != nil:
		return "waiting", fmt.Sprintf("for message %s, %s", s.First.Message, act.Ago(s.First.Since))
	case x.Held:
		return "held", fmt.Sprintf("by %s, last seen %s", x.Holder, act.Ago(x.At))
	}
	return "free", ""
}
