package operator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace-go/millrace/coord/limit"
	"github.com/millrace-go/millrace/guard"
	"github.com/millrace-go/millrace/host/internal/boot"
	"github.com/millrace-go/millrace/storage"
)

// guardLine is what -json prints of a guard.
type guardLine struct {
	Name   string     `json:"name"`
	State  string     `json:"state"` // closed, open, ill (for some processes) or corrupt
	Since  *time.Time `json:"since"` // null: it is closed, or that isn't known
	Why    string     `json:"why"`
	Result string     `json:"result,omitempty"` // of guards close: closed or unchanged; the others tell how it was before
}

// The states of a guard beside corrupt. guardClosed is also a result.
const (
	guardClosed = "closed"
	guardOpen   = "open"
	guardIll    = "ill"
)

// guardVerbs are the verbs of the breakers of guards.
func guardVerbs() []*verb {
	return []*verb{
		{name: "guards list", about: "list the guards of outside services, open or closed", store: true, run: guardsList, check: checkList, flags: listing("guards", "names"),
			more: "It lists the guards whose breakers have ever been open. STATE is closed (calls go on), open (the service is away for all\n" +
				"processes, or asks to wait, and one call after another asks whether it is back), or ill (some processes can't reach it)."},
		{name: "guards close", args: "NAME", least: 1, most: 1, about: "let the calls of a guard go on", store: true, before: checkName, run: guardsClose,
			words: first(func(c *call) []string { return c.known.names }), names: guardNames,
			more: "For a service that is known to be back, and for a guard that no program has any more: doctor forgets its outage. Calls begin\n" +
				"slowly. If they fail, the guard opens again. A process that alone can't reach the service goes on to wait, and so does one that\n" +
				"the service asks to. A guard that is closed stays as it is."},
	}
}

func nameOfGuard(s guard.Status) string { return s.Name }

func guardNames(ctx context.Context, c *call) []string {
	return namesOf(guard.List(ctx, c.store), nameOfGuard)
}

func newGuardLine(s guard.Status) guardLine {
	line := guardLine{Name: s.Name, State: guardClosed, Since: maybe(s.Since), Why: s.Why}
	switch {
	case s.Damaged:
		line.State = corrupt
	case s.All:
		line.State = guardOpen
	case s.Open:
		line.State = guardIll
	}
	return line
}

// guardsList prints the guards.
func guardsList(ctx context.Context, c *call) error {
	return page(c, "No guard's breaker has ever been open.", []string{"NAME", "STATE", "SINCE", "WHY"}, guard.List(ctx, c.store), nameOfGuard, func(s guard.Status, _ string) (any, []string) {
		line := newGuardLine(s)
		return line, []string{s.Name, line.State, ago(s.Since), short(orUnknown(s.Why))}
	})
}

// guardsClose closes the breaker of a guard.
func guardsClose(ctx context.Context, c *call) error {
	name := c.args[0]
	before, err := guard.Close(ctx, c.store, name)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return nothing("no breaker of a guard %s has ever been open; guards list shows those that have", storage.Quote(name))
	case err != nil:
		return err
	}
	line := newGuardLine(before)
	text := fmt.Sprintf("Guard %s was closed already.", storage.Quote(name))
	line.Result = unchanged
	if before.Open {
		line.Result = guardClosed
		text = fmt.Sprintf("Guard %s is closed: its calls go on, but in processes that the service has asked to wait. It was %s", storage.Quote(name), line.State)
		if !before.Since.IsZero() {
			text += " for " + age(time.Since(before.Since))
		}
		if before.Why != "" {
			text += ": " + before.Why
		}
	}
	if c.json {
		return c.out.line(line)
	}
	c.out.printf("%s\n", boot.Clean(text))
	return nil
}

// guardFindings are about services that are away.
func (c examination) guardFindings(ctx context.Context) (all []finding, err error) {
	found, err := guard.Outages(ctx, c.store)
	if err != nil {
		return nil, err
	}
	for _, s := range found {
		f := finding{Severity: wrong, Check: "guards", Text: fmt.Sprintf("the service of guard %s is away for all processes", s.Name),
			Fix: "Queues wait for it, and lose nothing. One call after another asks whether it is back, if a worker runs. Does the service work for others?"}
		if s.Asks {
			f.Severity, f.Text = note, fmt.Sprintf("the service of guard %s asks all processes to wait", s.Name)
			f.Fix = "Queues wait for it, and lose nothing. Then one call asks whether all may go on, if a worker runs. A Rate keeps below what the service allows."
		}
		if s.Damaged {
			f.Text = fmt.Sprintf("the document of guard %s is damaged", s.Name)
			f.Fix = "The next process that looks replaces it, and one call asks whether the service is there."
		}
		if !s.All {
			f.Severity, f.Text = note, fmt.Sprintf("some processes can't reach the service of guard %s, and others can", s.Name)
			f.Fix = "The metric millrace_guard_alone is 1 in those that can't: look at their network."
		}
		f.Fix += fmt.Sprintf(" If no program has the guard any more: %s guards close %s", c.Command, boot.ShellWord(s.Name))
		if !s.Since.IsZero() {
			f.Text += fmt.Sprintf(", since %s (%s ago)", clock(s.Since), age(time.Since(s.Since)))
		}
		if s.Why != "" {
			f.Text += ": " + s.Why
		}
		all = append(all, f)
	}
	damaged, err := limit.Damaged(ctx, c.store)
	for _, name := range damaged {
		all = append(all, finding{Severity: note, Check: "guards", Text: fmt.Sprintf("the document of limit %s can't be read, so no process can join those that share it", name),
			Fix: "Nothing, if a process runs that has the limit: it replaces the document within 70 seconds."})
	}
	return all, err
}
