package operator

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"iter"
	"os"
	"os/user"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/millrace-go/millrace/host/internal/boot"
	limits "github.com/millrace-go/millrace/internal/storecall"
	"github.com/millrace-go/millrace/storage"
)

// The largest notes of all verbs, in bytes.
const (
	mostBy  = limits.MaxBy
	mostWhy = limits.MaxWhy
)

// corrupt stands for what a document says that can't be read.
const corrupt = "corrupt"

// unchanged is the result of a verb that has found everything as it shall be.
const unchanged = "unchanged"

// coordVerbs are the verbs of counters, gates, locks and leaders.
func coordVerbs() []*verb {
	names := first(func(c *call) []string { return c.known.names })
	return []*verb{
		{name: "ids list", about: "list the counters of order numbers and the like", store: true, run: idsList, check: checkList, flags: listing("counters", "names"),
			more: "NEXT is the next number that nobody has reserved. Programs reserve ranges, and may still give out smaller numbers. RESERVED BY is\n" +
				"the process that wrote the counter last. A corrupt counter can't be read; ids raise repairs it."},
		{name: "ids raise", args: "NAME NUMBER", least: 2, most: 2, about: "make a counter go on after a number", store: true, before: checkRaise, run: idsRaise, check: checkSure,
			words: names, names: counterNames, flags: raiseFlags,
			more: "The next number is then past NUMBER, which may have its check digit: 1041 or 1041-0. A counter can't be lowered. It is made if it\n" +
				"isn't there, and repaired if it can't be read: then NUMBER must be at least the largest number ever given out. Programs that run\n" +
				"give out the numbers that they have reserved already, and then go on past NUMBER. -yes or -dry-run is required."},
		{name: "gates list", about: "list the gates, open or closed", store: true, run: gatesList, check: checkList, flags: listing("gates", "names"),
			more: "It lists the gates that somebody has opened or closed. STATE is open, closed, or due: the announced time has passed, and the\n" +
				"gate opens when a program looks at it. SINCE is when it was changed last. – means that nobody has said it."},
		{name: "gates open", args: "NAME", least: 1, most: 1, about: "open a gate, now or at a time", store: true, before: checkName, run: gatesOpen,
			words: names, names: gateNames, flags: func(set *flag.FlagSet, o *options) {
				noteFlags(set, o)
				momentFlag(set, o, "open it at this `TIME`, in place of an earlier announcement")
			},
			more: "All programs that wait for it go on; it stays open until it is closed. With -at the programs' own clocks open it. A gate that\n" +
				"isn't there is made. A gate that is open already stays as it is, and -at is refused."},
		{name: "gates close", args: "NAME", least: 1, most: 1, about: "close a gate", store: true, before: checkName, run: gatesClose,
			words: names, names: gateNames, flags: noteFlags,
			more: "It also takes back an announced time. It doesn't recall the programs that have passed. A gate that is closed already stays as it is."},
		{name: "gates repair", args: "NAME", least: 1, most: 1, about: "close a gate that can't be read", store: true, before: checkName, run: gatesRepair,
			words: names, names: gateNames, flags: noteFlags,
			more: "It replaces a damaged or foreign document. A gate that can be read stays as it is."},
		{name: "locks list", about: "list the locks that are held or waited for", store: true, run: locksList, check: checkList,
			flags: func(set *flag.FlagSet, o *options) {
				listing("locks", "names")(set, o)
				set.BoolVar(&o.all, "all", false, "also locks that nobody holds, and those of leaders")
			},
			more: "The holder may have died: then others get the lock 7/6 to 3/2 of the TTL after its last renewal. FENCE numbers the holders.\n" +
				"WAITING names the processes that have waited for more than some seconds, and for how long. All times are by their own clocks."},
		{name: "locks break", args: "NAME", least: 1, most: 1, about: "take a lock away from its holder", store: true, before: checkName, run: locksBreak, check: checkBreak,
			words: names, names: lockNames, flags: func(set *flag.FlagSet, o *options) {
				noteFlags(set, o)
				set.DurationVar(&o.wait, "wait", 0, "wait at most this `TIME` until the lock is free; the default is not to wait")
			},
			more: "The holder's context ends at its next renewal. Others get the lock when the holder has released it, or 7/6 of the TTL after they saw\n" +
				"the break, so never while the holder may still believe that it has the lock. leader/NAME is the lock of leader NAME. A program\n" +
				"that tries once and ends, such as a job of cron, sees no such time pass: -wait watches the lock for it and frees the lock."},
		{name: "locks raise", args: "NAME FENCE", least: 2, most: 2, about: "make the fences of a lock go on after a number", store: true, before: checkFence, run: locksRaise,
			words: names, names: lockNames, flags: func(set *flag.FlagSet, o *options) {
				noteFlags(set, o)
				o.ttl = 30 * time.Second
				set.DurationVar(&o.ttl, "ttl", o.ttl, "the largest `TTL` that programs use for this lock: others get it 7/6 of that time later")
			},
			more: "For the day after a restore, and for a lock that can't be read: the next holder's fence is larger than FENCE. A holder loses the lock\n" +
				"at its next renewal."},
		{name: "leaders list", about: "list the leaders and the candidates that wait", store: true, run: leadersList, check: checkList, flags: listing("leaders", "names"),
			more: "A leader that has died counts until another follows. TERM numbers the leaders of a name. CANDIDATES have waited for more than some\n" +
				"seconds. locks break leader/NAME ends a term."},
	}
}

// noteFlags are the flags that tell who changes something, and why.
func noteFlags(set *flag.FlagSet, o *options) {
	set.Func("by", fmt.Sprintf("`NAME` of the person that does it, at most %d bytes; the default is USER@HOST", mostBy), noteText(&o.by, mostBy))
	set.Func("why", fmt.Sprintf("a `TEXT` that tells others why, at most %d bytes", mostWhy), noteText(&o.why, mostWhy))
}

// noteText sets a text that other people read on their terminals.
func noteText(to *string, most int) func(string) error {
	return func(s string) error {
		if len(s) > most || !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl) {
			return fmt.Errorf("want at most %d bytes of valid UTF-8 without control characters", most)
		}
		return text(to)(s)
	}
}

// A coordCall is a run of a verb that changes a counter, gate or lock.
type coordCall struct{ *call }

// author is -by, or else the user and host of this process.
func (c coordCall) author() string {
	if c.by != "" {
		return c.by
	}
	u, err := user.Current()
	if err != nil {
		return "operator"
	}
	host, err := os.Hostname()
	if err != nil {
		return "operator"
	}
	var by string
	if noteText(&by, mostBy)(u.Username+"@"+host) != nil {
		return "operator"
	}
	return by
}

// checkName refuses a name that nothing can have, before the store is opened.
func checkName(_ context.Context, c *call) error {
	if err := storage.CheckKey(c.args[0]); err != nil {
		return usage("NAME: %w", err)
	}
	return nil
}

// page prints the things of a list that the flags select. line returns a thing's JSON object and its row of the table,
// whose first cell is the name. fault tells why a thing can't be read, and is "" otherwise.
func page[T any](c *call, none string, head []string, list iter.Seq2[T, error], name func(T) string, line func(x T, fault string) (object any, row []string)) error {
	var rows [][]string
	var faults []string
	last := ""
	for x, err := range list {
		n := name(x)
		if err != nil && n == "" {
			return err
		}
		if n <= c.after || !strings.HasPrefix(n, c.prefix) {
			continue
		}
		if len(rows) == c.limit {
			_, _ = fmt.Fprintf(c.progress, "Note: there are more. -after %s lists the next ones.\n", boot.Clean(boot.ShellWord(last)))
			break
		}
		fault := ""
		if err != nil {
			fault = err.Error()
			faults = append(faults, fault)
		}
		last = n
		object, row := line(x, fault)
		rows = append(rows, row)
		if c.json {
			if err := c.out.line(object); err != nil {
				return err
			}
		}
	}
	switch {
	case c.json:
		return nil
	case len(rows) == 0:
		c.out.printf("%s\n", none)
	default:
		c.out.table(head, rows)
	}
	for _, f := range faults[:min(len(faults), mostFaults)] {
		_, _ = fmt.Fprintf(c.progress, "Note: %s\n", boot.Clean(f))
	}
	return nil
}

// corruptRow is the row of a thing that can't be read.
func corruptRow(name string, columns int) []string {
	row := []string{name, corrupt}
	for len(row) < columns {
		row = append(row, unknown)
	}
	return row
}

// namesOf returns the names of a list for a shell's completion, at most so many that a person would read them.
func namesOf[T any](list iter.Seq2[T, error], name func(T) string) (names []string) {
	const most = 1000
	for x := range list {
		if n := name(x); n != "" && len(names) < most {
			names = append(names, n)
		} else {
			break // the list has failed, or is too long
		}
	}
	return names
}

// ago tells people when something was.
func ago(t time.Time) string {
	if t.IsZero() {
		return unknown
	}
	return age(time.Since(t)) + " ago"
}

// orUnknown is a cell that may be empty.
func orUnknown(s string) string {
	if s == "" {
		return unknown
	}
	return s
}

// maybe is nil for the zero value, which stands for an unknown one.
func maybe[T comparable](x T) *T {
	var zero T
	if x == zero {
		return nil
	}
	return &x
}

// clock is a moment for people, by this machine's zone.
func clock(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05 -0700") }

// moment sets a time.
func moment(to *time.Time) func(string) error {
	return func(s string) error {
		for _, layout := range []string{time.RFC3339, time.DateTime, "2006-01-02 15:04"} {
			if t, err := time.ParseInLocation(layout, s, time.Local); err == nil && time.Until(t) <= mostDelay {
				*to = t
				return nil
			}
		}
		return errors.New("want a time such as 2026-12-24T18:00:00+01:00 or \"2026-12-24 18:00\", at most 3650 days ahead")
	}
}

// momentFlag is -at.
func momentFlag(set *flag.FlagSet, o *options, about string) {
	set.Func("at", about+", such as 2026-12-24T18:00:00+01:00 or \"2026-12-24 18:00\" of this machine, at most 3650 days ahead", moment(&o.at))
}
