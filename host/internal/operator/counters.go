package operator

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/millrace-go/millrace/coord/ids"
	"github.com/millrace-go/millrace/host/internal/boot"
	"github.com/millrace-go/millrace/storage"
)

// counterLine is what -json prints of a counter.
type counterLine struct {
	Name  string     `json:"name"`
	Next  *int64     `json:"next"` // null: it can't be read
	By    string     `json:"by"`   // the process that wrote it last
	At    *time.Time `json:"at"`
	Error string     `json:"error,omitempty"`
}

// raisedLine is what -json prints of a raise. A dry run prints what would be.
type raisedLine struct {
	Name   string `json:"name"`
	Result string `json:"result"`
	Was    *int64 `json:"was"` // the next number before; null: there was none, or it couldn't be read
	Next   int64  `json:"next"`
}

// The results of a raise, beside unchanged and, of a dry run, selected.
const (
	raised   = "raised"
	made     = "made"     // there was no such counter
	repaired = "repaired" // it couldn't be read
)

func nameOfCounter(c ids.Counter) string { return c.Name }

func counterNames(ctx context.Context, c *call) []string {
	return namesOf(ids.List(ctx, c.store), nameOfCounter)
}

// idsList prints the counters.
func idsList(ctx context.Context, c *call) error {
	head := []string{"NAME", "NEXT", "RESERVED BY", "WHEN"}
	return page(c, "No counters.", head, ids.List(ctx, c.store), nameOfCounter, func(x ids.Counter, fault string) (any, []string) {
		line := counterLine{Name: x.Name, Next: maybe(x.Next), By: x.By, At: maybe(x.At), Error: fault}
		if fault != "" {
			return line, corruptRow(x.Name, len(head))
		}
		return line, []string{x.Name, fmt.Sprint(x.Next), short(orUnknown(x.By)), ago(x.At)}
	})
}

func raiseFlags(set *flag.FlagSet, o *options) {
	set.BoolVar(&o.yes, "yes", false, "raise the counter")
	set.BoolVar(&o.dryRun, "dry-run", false, "change nothing, and print what would be")
}

// checkSure refuses a call without -yes or -dry-run, because numbers that are skipped never come back.
func checkSure(verb string, o options) error {
	switch {
	case o.yes && o.dryRun:
		return usage("%s: want -yes or -dry-run, not both", verb)
	case !o.yes && !o.dryRun:
		return usage("%s: a counter can't be lowered again: add -yes to raise it, or -dry-run to see what would be", verb)
	}
	return nil
}

func checkRaise(ctx context.Context, c *call) error {
	if err := checkName(ctx, c); err != nil {
		return err
	}
	_, err := parseNumber(c.args[1])
	return err
}

// parseNumber reads a number with or without its check digit.
func parseNumber(s string) (n int64, err error) {
	if strings.Trim(s, "0123456789") != "" {
		if n, err = ids.Parse(s); err != nil {
			return 0, usage("ids raise: want a number such as 1041, alone or with its check digit: %w", err)
		}
	} else if n, err = strconv.ParseInt(s, 10, 64); err != nil {
		n = math.MaxInt64
	}
	if n == math.MaxInt64 {
		return 0, usage("ids raise: %s is too large; want at most %d", boot.Word(s), int64(math.MaxInt64-1))
	}
	return n, nil
}

// idsRaise makes a counter go on after a number.
func idsRaise(ctx context.Context, x *call) error {
	c := coordCall{x}
	name := c.args[0]
	past, err := parseNumber(c.args[1])
	if err != nil {
		return err
	}
	was, err := ids.State(ctx, c.store, name)
	line := raisedLine{Name: name, Result: raised, Was: maybe(was.Next), Next: past + 1}
	switch {
	case errors.Is(err, storage.ErrNotFound):
		line.Result = made
	case errors.Is(err, ids.ErrCorrupt):
		line.Result = repaired
	case err != nil:
		return err
	case was.Next > past+1:
		return fmt.Errorf("ids raise: counter %s stays as it is: its next number is %d, which is past %d already, and a lower one would give out numbers twice", storage.Quote(name), was.Next, past)
	case was.Next == past+1:
		line.Result = unchanged
	}
	if c.dryRun {
		return c.tellRaise(line)
	}
	if err := ids.Raise(ctx, c.store, name, past); err != nil {
		return err
	}
	now, err := ids.State(ctx, c.store, name) // a program may have reserved numbers meanwhile
	if err != nil {
		return fmt.Errorf("the counter is raised; %w", err)
	}
	line.Next = now.Next
	return c.tellRaise(line)
}

// tellRaise prints what a raise has done, or would do.
func (c coordCall) tellRaise(line raisedLine) error {
	what := map[string]string{
		raised: "Raised counter %s", made: "Made counter %s, which nobody has used", repaired: "Repaired counter %s, which nobody could read", unchanged: "Counter %s stays as it is",
	}[line.Result]
	next := fmt.Sprintf("the next number is %d", line.Next)
	if c.dryRun && line.Result != unchanged {
		what = map[string]string{raised: "Would raise counter %s", made: "Would make counter %s, which nobody has used", repaired: "Would repair counter %s, which nobody can read"}[line.Result]
		next = fmt.Sprintf("the next number would be %d", line.Next)
		line.Result = selected
	}
	if c.json {
		return c.out.line(line)
	}
	if line.Was != nil && *line.Was != line.Next {
		next += fmt.Sprintf(" in place of %d", *line.Was)
	}
	c.out.printf("%s: %s.\n", boot.Clean(fmt.Sprintf(what, storage.Quote(line.Name))), next)
	if line.Result == raised || line.Result == repaired {
		c.out.printf("Programs that run first give out the numbers that they have reserved.\n")
	}
	return nil
}
