package acts

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/millrace-go/millrace/coord/ids"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/storage"
)

// A Counter is a counter of order numbers or the like.
type Counter struct {
	Name  string     `json:"name"`
	Next  *int64     `json:"next"` // null: it can't be read
	By    string     `json:"by"`   // the process that wrote it last
	At    *time.Time `json:"at"`
	Error string     `json:"error,omitempty"`
}

// A CounterRaised is a counter that was raised, or would be by a dry run.
type CounterRaised struct {
	Name   string `json:"name"`
	Result string `json:"result"` // raised, made, repaired, unchanged or selected
	Was    *int64 `json:"was"`    // the next number before; null: there was none, or it couldn't be read
	Next   int64  `json:"next"`
}

// The results of a raise, beside repaired, unchanged and, of a dry run, selected.
const (
	counterRaised = "raised"
	counterMade   = "made" // there was no such counter
)

// A raiseInput is what raising a counter takes.
type raiseInput struct {
	name string
	past int64
}

func counterActs() []*act.Act {
	return []*act.Act{
		act.New(act.Act{Noun: "ids", Verb: "list", Role: act.Viewer, About: "list the counters of order numbers and the like",
			More: "NEXT is the next number that nobody has reserved. Programs reserve ranges, and may still give out smaller numbers. RESERVED BY is " +
				"the process that wrote the counter last. A corrupt counter can't be read; ids raise repairs it.",
		}, func(in *act.Page) []act.Field { return act.List(in, "counters", "names") }, listCounters),
		act.New(act.Act{Noun: "ids", Verb: "raise", Role: act.Admin, Why: act.Must, Sure: act.Must, About: "make a counter go on after a number",
			More: "The next number is then past NUMBER, which may have its check digit: 1041 or 1041-0. A counter can't be lowered. It is made if it " +
				"isn't there, and repaired if it can't be read: then NUMBER must be at least the largest number ever given out. Programs that run " +
				"give out the numbers that they have reserved already, and then go on past NUMBER.",
		}, func(in *raiseInput) []act.Field {
			return []act.Field{
				nameField(&in.name, "the counter", counterNames),
				act.Field{Name: "number", About: "the number after which the counter goes on", Set: in.number}.At("NUMBER"),
			}
		}, raiseCounter),
	}
}

// number reads a number with or without its check digit.
func (in *raiseInput) number(s string) (err error) {
	if strings.Trim(s, "0123456789") != "" {
		if in.past, err = ids.Parse(s); err != nil {
			return fmt.Errorf("want a number such as 1041, alone or with its check digit: %w", err)
		}
	} else if in.past, err = strconv.ParseInt(s, 10, 64); err != nil {
		in.past = math.MaxInt64
	}
	if in.past == math.MaxInt64 {
		return fmt.Errorf("%s is too large; want at most %d", act.Word(s), int64(math.MaxInt64-1))
	}
	return nil
}

func nameOfCounter(c ids.Counter) string { return c.Name }

func counterNames(ctx context.Context, d *act.Desk) []string {
	return act.NamesOf(ids.List(ctx, d.Store), nameOfCounter)
}

func listCounters(ctx context.Context, c *act.Call, page *act.Page) error {
	object := func(x ids.Counter, fault string) any {
		return Counter{Name: x.Name, Next: act.Maybe(x.Next), By: x.By, At: act.Maybe(x.At), Error: fault}
	}
	return act.Listing[ids.Counter]{
		None: "No counters.", Head: []string{"NAME", "NEXT", "RESERVED BY", "WHEN"}, Name: nameOfCounter, Corrupt: object,
		Row: func(x ids.Counter) (any, []any) {
			return object(x, ""), []any{x.Name, x.Next, act.Short(x.By), x.At}
		},
	}.Tell(c, *page, ids.List(ctx, c.Store))
}

// raiseCounter makes a counter go on after a number.
func raiseCounter(ctx context.Context, c *act.Call, in *raiseInput) error {
	was, err := ids.State(ctx, c.Store, in.name)
	line := CounterRaised{Name: in.name, Result: counterRaised, Was: act.Maybe(was.Next), Next: in.past + 1}
	switch {
	case errors.Is(err, storage.ErrNotFound):
		line.Result = counterMade
	case errors.Is(err, ids.ErrCorrupt):
		line.Result = repaired
	case err != nil:
		return err
	case was.Next > line.Next:
		return fmt.Errorf("ids raise: counter %s stays as it is: its next number is %d, which is past %d already, and a lower one would give out numbers twice", storage.Quote(in.name), was.Next, in.past)
	case was.Next == line.Next:
		line.Result = unchanged
	}
	if c.DryRun {
		text := raised(line, "would be")
		if line.Result != unchanged {
			line.Result = selected
		}
		return c.Say(line, "%s", text)
	}
	if err := ids.Raise(ctx, c.Store, in.name, in.past); err != nil {
		return err
	}
	now, err := ids.State(ctx, c.Store, in.name) // a program may have reserved numbers meanwhile
	if err != nil {
		return fmt.Errorf("the counter is raised; %w", err)
	}
	line.Next = now.Next
	text := raised(line, "is")
	if line.Result == counterRaised || line.Result == repaired {
		text += "\nPrograms that run first give out the numbers that they have reserved."
	}
	return c.Say(line, "%s", text)
}

// raised tells people what a raise has done, or would do.
func raised(line CounterRaised, is string) string {
	about := map[string]string{counterMade: ", which nobody has used,", repaired: ", which could not be read,"}[line.Result]
	what := is + " " + line.Result
	if line.Result == unchanged {
		what, is = "stays as it is", "is"
	}
	text := fmt.Sprintf("Counter %s%s %s: the next number %s %d", storage.Quote(line.Name), about, what, is, line.Next)
	if line.Was != nil && *line.Was != line.Next {
		text += fmt.Sprintf(" in place of %d", *line.Was)
	}
	return text + "."
}
