package acts

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace-go/millrace/guard"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/internal/look"
	"github.com/millrace-go/millrace/storage"
)

// A Guard is the guard of an outside service.
type Guard struct {
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

// A guardInput is what acts on one guard take.
type guardInput struct{ name string }

func guardActs() []*act.Act {
	return []*act.Act{
		act.New(act.Act{Noun: "guards", Verb: "list", Role: act.Viewer, Reveals: true, About: "list the guards of outside services, open or closed",
			More: "It lists the guards whose breakers have ever been open. BREAKER is closed (calls go on), open (the service is away for all " +
				"processes, or asks to wait, and one call after another asks whether it is back), or ill (some processes can't reach it).",
		}, func(in *act.Page) []act.Field { return act.List(in, "guards", "names") }, listGuards),
		act.New(act.Act{Noun: "guards", Verb: "show", Role: act.Viewer, Reveals: true, About: "show the guard of an outside service, and the queues that wait for it",
			More: "The queues are those of the programs that have told which guard their handlers go through. Calls of a guard go on by themselves " +
				"once its service answers.",
		}, (*guardInput).fields, showGuard),
		act.New(act.Act{Noun: "guards", Verb: "close", Role: act.Operator, Why: act.May, About: "let the calls of a guard go on",
			More: "For a service that is known to be back, and for a guard that no program has any more: doctor forgets its outage. Calls begin " +
				"slowly. If they fail, the guard opens again. A process that alone can't reach the service goes on to wait, and so does one that " +
				"the service asks to. A guard that is closed stays as it is.",
		}, (*guardInput).fields, closeGuard),
	}
}

func (in *guardInput) fields() []act.Field {
	return []act.Field{nameField(&in.name, "the guard", guardNames)}
}

func nameOfGuard(s guard.Status) string { return s.Name }

func guardNames(ctx context.Context, d *act.Desk) []string {
	return act.NamesOf(guard.List(ctx, d.Store), nameOfGuard)
}

// newGuard tells of a guard. Why a service is away is an error of the program's code.
func newGuard(c *act.Call, s guard.Status) Guard {
	line := Guard{Name: s.Name, State: guardClosed, Since: act.Maybe(s.Since), Why: c.Fault(s.Why, s.Name)}
	switch {
	case s.Damaged:
		line.State, line.Why = act.Corrupt, s.Why
	case s.All:
		line.State = guardOpen
	case s.Open:
		line.State = guardIll
	}
	return line
}

func listGuards(ctx context.Context, c *act.Call, page *act.Page) error {
	return act.Listing[guard.Status]{
		None: "No guard's breaker has ever been open.", Head: []string{"NAME", "BREAKER", "SINCE", "WHY"}, Name: nameOfGuard,
		Row: func(s guard.Status) (any, []any) {
			line := newGuard(c, s)
			return line, []any{s.Name, line.State, s.Since, act.Short(line.Why)}
		},
	}.Tell(c, *page, guard.List(ctx, c.Store))
}

// A GuardShown is a guard with the queues whose handlers go through it.
type GuardShown struct {
	Guard
	Queues []GuardQueue `json:"queues"`
}

// A GuardQueue is a queue whose messages wait where the service of its guard is away.
type GuardQueue struct {
	Queue string `json:"queue"`
	Ready *int64 `json:"ready"` // null: unknown
}

// showGuard tells of one guard.
func showGuard(ctx context.Context, c *act.Call, in *guardInput) error {
	for s, err := range guard.List(ctx, c.Store) {
		if err != nil && s.Name == "" {
			return err
		}
		if s.Name == in.name {
			return tellGuard(ctx, c, s)
		}
	}
	return noGuard(in.name)
}

func noGuard(name string) error {
	return act.Nothing("no breaker of a guard %s has ever been open; guards list shows those that have", storage.Quote(name))
}

// tellGuard tells of a guard, and of the queues that wait for its service.
func tellGuard(ctx context.Context, c *act.Call, s guard.Status) error {
	var names []string
	for _, q := range queueNames(ctx, c.Desk) {
		if c.Known.Guard(q) == s.Name {
			names = append(names, q)
		}
	}
	stats, err := look.Stats(ctx, c.Desk, names)
	if err != nil {
		return err
	}
	line := GuardShown{Guard: newGuard(c, s), Queues: []GuardQueue{}}
	next := ""
	if s.Open && !s.Damaged {
		next = "Ask those who run the service. Calls go on by themselves once it answers; close lets them go on at once."
	}
	since := ""
	if !s.Since.IsZero() {
		since = fmt.Sprintf("%s (%s)", act.Clock(s.Since), act.Ago(s.Since))
	}
	parts := []act.Part{{Name: "Guard", Value: s.Name}, {Name: "Breaker", Value: line.State}, {Name: "Since", Value: since}, {Name: "Why", Value: line.Why}, {Name: "What to do", Value: next}}
	for i, q := range names {
		line.Queues = append(line.Queues, GuardQueue{q, number(stats[i].Ready)})
		text := fmt.Sprintf("%s: %s ready", q, act.Count(int(stats[i].Ready), "message"))
		if stats[i].Ready < 0 {
			text = q
		}
		parts = append(parts, act.Part{Name: "Queue", Value: act.Link{Text: text, Act: "queues show", With: map[string]string{"queue": q}}})
	}
	return c.Thing(line, parts, "")
}

// closeGuard closes the breaker of a guard.
func closeGuard(ctx context.Context, c *act.Call, in *guardInput) error {
	name := storage.Quote(in.name)
	before, err := guard.Close(ctx, c.Store, in.name)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return noGuard(in.name)
	case err != nil:
		return err
	}
	line := newGuard(c, before)
	if !before.Open {
		line.Result = unchanged
		c.Came(act.IsNothing)
		return c.Say(line, "Guard %s was closed already.", name)
	}
	line.Result = guardClosed
	text := fmt.Sprintf("Guard %s is closed: its calls go on, but in processes that the service has asked to wait. It was %s", name, line.State)
	if !before.Since.IsZero() {
		text += " for " + act.Age(time.Since(before.Since))
	}
	return c.Say(line, "%s", text)
}
