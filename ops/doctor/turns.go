package doctor

import (
	"context"
	"fmt"
	"time"

	"github.com/millrace-go/millrace/coord/keylock"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/internal/look"
)

// mostKeys is how many keys of a queue doctor looks at.
const mostKeys = 20_000

// turnFindings are about keys that are halted, that wait for long for a message that doesn't come, or whose rows can't
// be read. They name no keys, which may be personal.
func turnFindings(ctx context.Context, d *act.Desk, queues []string, lag time.Duration) (all []Finding, err error) {
	for _, queue := range queues {
		if !d.Known.MayTakeTurns(queue) {
			continue
		}
		more, err := turnsOf(ctx, d, queue, lag)
		if err != nil {
			return nil, err
		}
		all = append(all, more...)
	}
	return all, nil
}

// keysWaiting counts keys that don't go on.
type keysWaiting struct {
	n     int
	since time.Time // of the first one
	why   string
}

// add counts a key.
func (s *keysWaiting) add(since time.Time, why string) {
	if s.n++; s.n == 1 || since.Before(s.since) {
		s.since, s.why = since, why
	}
}

// say is a finding on the keys.
func (s *keysWaiting) say(severity, queue, about, one, more string) Finding {
	what := one
	if s.n > 1 {
		what = more
	}
	return Finding{Severity: severity, Check: "turns", Queue: queue, About: about, Text: fmt.Sprintf("%s of queue %s %s: %s", act.Count(s.n, "key"), queue, what, s.why)}
}

// turnsOf are the findings of a queue.
func turnsOf(ctx context.Context, d *act.Desk, queue string, lag time.Duration) (all []Finding, err error) {
	var halted, waits, broken keysWaiting
	seen, list := 0, act.Hint{Act: "turns list", Args: []string{queue}}
	for x, err := range keylock.List(ctx, d.Store, queue, "") {
		_, why := look.TurnState(x, func(string) string { return "" }) // a halt's reason is an error of the program's code
		switch s, now := x.State, time.Now(); {
		case err != nil && x.Key == "":
			return nil, err
		case err != nil:
			broken.add(now, err.Error())
		case s.Halted != nil:
			halted.add(s.Halted.Since, why)
		case s.Gap != nil && now.Sub(s.Gap.Since) > lag:
			waits.add(s.Gap.Since, why)
		case s.First != nil && now.Sub(s.First.Since.Add(s.First.After)) > lag:
			waits.add(s.First.Since, why)
		}
		if seen++; seen == mostKeys {
			all = append(all, Finding{Severity: Note, Check: "turns", Queue: queue, About: "the bound", Text: fmt.Sprintf("queue %s has more than %d keys, and only so many were looked at", queue, mostKeys)}.mended(d, "%s looks at all of them.", list))
			break
		}
	}
	release := act.Hint{Act: "turns release", Args: []string{queue}, Open: "KEY --why TEXT"}
	if halted.n > 0 {
		all = append(all, halted.say(Wrong, queue, "halted", "is halted, and its messages wait", "are halted, and their messages wait; the first").
			mended(d, "%s shows them. Put right what is wrong, and send the message back (%s): when it is done, its key goes on. Or %s lets the others of a key go past it.",
				list, act.Hint{Act: "poison retry", Flags: map[string]string{"queue": queue}, Open: "--id ID"}, release))
	}
	if waits.n > 0 {
		all = append(all, waits.say(Wrong, queue, "gaps", "waits for a message that does not come", "wait for messages that do not come; the first").
			mended(d, "%s shows them. While a worker runs, the others go past it after TurnConfig.Patience, or the key is halted. If the message is in the poison queue, send it back. "+
				"Or %s lets the others of a key go past it.", list, release))
	}
	if broken.n > 0 {
		all = append(all, broken.say(Note, queue, "unreadable", "can't be read, and its messages wait", "can't be read, and their messages wait; one").
			mended(d, "%s shows them. A worker replaces a row that nobody has changed for 70 seconds. A row of a newer version waits for a worker of that version.", list))
	}
	return all, nil
}
