package operator

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/host/internal/boot"
	"github.com/millrace-go/millrace/spool"
	"github.com/millrace-go/millrace/storage"
)

// spoolFindings are about messages that programs keep on their own machines although the store is there.
func (c examination) spoolFindings(ctx context.Context) (all []finding, err error) {
	found, err := spool.Reports(ctx, c.store)
	if err != nil {
		return nil, err
	}
	for _, r := range found {
		where := fmt.Sprintf("the spool %s of %s on %s", r.File, r.Program, r.Host)
		seen := fmt.Sprintf(" (%s ago)", age(time.Since(r.At)))
		if r.Fault != "" {
			all = append(all, finding{Severity: wrong, Check: "spools", Program: r.Program, Text: fmt.Sprintf("%s takes nothing%s: %s", where, seen, r.Fault),
				Fix: "The program would refuse commands while the store is away, and what is in the file may be lost. Mend the disk, or stop the program, put the file back, and start it again."})
		}
		if r.Refused > 0 {
			all = append(all, finding{Severity: wrong, Check: "spools", Program: r.Program, Text: fmt.Sprintf("%s in %s can't be sent%s: %s", count(int(r.Refused), "message"), where, seen, r.Reason),
				Fix: fmt.Sprintf("They stay in that file, and are tried again every ten minutes and at each start. Mend the cause: for a kind without a route, start a version of the program that has one. On that machine %s spool list FILE shows them, and spool discard deletes them.", c.Command)})
		}
		if r.Waiting > 0 && time.Since(r.Oldest) > c.lag {
			all = append(all, finding{Severity: wrong, Check: "spools", Program: r.Program, Text: fmt.Sprintf("%s in %s for %s although the store is there%s", waiting(r.Waiting), where, age(time.Since(r.Oldest)), seen),
				Fix: "Does the program run, and may it write to all its queues? Its log has the store's errors."})
		}
	}
	return all, nil
}

// spoolLine is what -json prints of a spool.
type spoolLine struct {
	File    string     `json:"file"`
	Waiting int64      `json:"waiting"` // messages
	Refused int64      `json:"refused"` // messages that are set aside
	Bytes   int64      `json:"bytes"`   // of both
	Oldest  *time.Time `json:"oldest"`  // when it was kept; null: nothing waits
	Program string     `json:"program"` // empty: that which opens it next
	Store   string     `json:"store"`   // of the program; empty: unknown
}

// noSpool reports that there is no file. A path holds no secret, so it is shown as it was typed.
func noSpool(path string) error { return nothing("spool: there is no file %s", storage.Quote(path)) }

// lookIntoSpool prints what is in a spool's file. It needs no store, because that may be away.
func lookIntoSpool(ctx context.Context, c *call) error {
	path := c.args[0]
	st, err := spool.Look(ctx, path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return noSpool(path)
	case err != nil:
		return err
	case c.json:
		return c.out.line(spoolLine{File: path, Waiting: st.Waiting, Refused: st.Refused, Bytes: st.Bytes, Oldest: maybe(st.Oldest), Program: st.Program, Store: st.Store})
	case st.Waiting == 0:
		c.out.printf("Nothing waits in the spool.\n")
	default:
		c.out.printf("%s in the spool, the oldest for %s.\n", waiting(st.Waiting), age(time.Since(st.Oldest)))
	}
	if st.Refused > 0 {
		c.out.printf("Set aside: %s. %s spool list %s shows why.\n", count(int(st.Refused), "message"), c.Command, boot.ShellWord(path))
	}
	if st.Bytes > 0 {
		c.out.printf("All have %d bytes.\n", st.Bytes)
	}
	if st.Program == "" {
		c.out.printf("It belongs to the program that opens it next.\n")
	} else {
		c.out.printf("It belongs to program %s for store %s.\n", boot.Clean(st.Program), boot.Clean(cmp.Or(st.Store, "unknown")))
	}
	return nil
}

// spoolReleased is what -json prints of a spool that was released.
type spoolReleased struct {
	File   string `json:"file"`
	Result string `json:"result"` // released
}

// releaseSpool makes a spool's file nobody's.
func releaseSpool(ctx context.Context, c *call) error {
	err := spool.Release(ctx, c.args[0])
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return noSpool(c.args[0])
	case err != nil:
		return err
	case c.json:
		return c.out.line(spoolReleased{File: c.args[0], Result: released})
	}
	c.out.printf("The spool belongs to the program that opens it next.\n")
	return nil
}

// spoolEntry is what -json prints of what one send has left in a spool.
type spoolEntry struct {
	Entry    string         `json:"entry"`
	Kept     time.Time      `json:"kept"`
	Bytes    int64          `json:"bytes"`
	Messages []spoolMessage `json:"messages"`
	Refused  string         `json:"refused,omitempty"`
}

type spoolMessage struct {
	ID   string       `json:"id"`
	Kind channel.Kind `json:"kind"`
}

// listSpool lists what was set aside in a spool, or all that is in it.
func listSpool(ctx context.Context, c *call) error {
	var rows [][]string
	for e, err := range spool.List(ctx, c.args[0]) {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return noSpool(c.args[0])
		case err != nil:
			return err
		case e.Refused == "" && !c.all:
			continue
		}
		line := spoolEntry{Entry: e.ID, Kept: e.Kept, Bytes: e.Bytes, Messages: []spoolMessage{}, Refused: e.Refused}
		var about []string
		for _, m := range e.Messages {
			line.Messages = append(line.Messages, spoolMessage(m))
			about = append(about, string(m.Kind)+" "+m.ID)
		}
		if c.json {
			if err := c.out.line(line); err != nil {
				return err
			}
			continue
		}
		rows = append(rows, []string{e.ID, age(time.Since(e.Kept)), cmp.Or(strings.Join(about, ", "), unknown), cmp.Or(e.Refused, "waits")})
	}
	switch {
	case c.json:
	case len(rows) == 0 && c.all:
		c.out.printf("The spool is empty.\n")
	case len(rows) == 0:
		c.out.printf("Nothing is set aside in the spool. -all lists what waits.\n")
	default:
		c.out.table([]string{"ENTRY", "AGE", "MESSAGES", "WHY SET ASIDE"}, rows)
	}
	return nil
}

func checkSpoolDiscard(verb string, o options) error {
	switch {
	case !o.yes && o.why == "":
		return usage("%s: it deletes messages for good: add -yes to delete them, and say -why", verb)
	case !o.yes:
		return usage("%s: it deletes messages for good: add -yes to delete them", verb)
	case o.why == "":
		return usage("%s: say -why", verb)
	}
	return nil
}

// spoolDiscarded is what -json prints of an entry that was deleted.
type spoolDiscarded struct {
	Entry  string `json:"entry"`
	Result string `json:"result"` // discarded
}

// discardSpooled deletes entries of a spool.
func discardSpooled(ctx context.Context, c *call) error {
	for _, id := range c.args[1:] {
		err := spool.Discard(ctx, c.args[0], id, coordCall{c}.author(), c.why)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return noSpool(c.args[0])
		case errors.Is(err, storage.ErrNotFound):
			return nothing("spool: there is no entry %s", boot.Word(id))
		case errors.Is(err, storage.ErrInvalid):
			return &boot.UsageError{Err: err}
		case err != nil:
			return err
		}
		if c.json {
			if err := c.out.line(spoolDiscarded{Entry: id, Result: discarded}); err != nil {
				return err
			}
			continue
		}
		c.out.printf("Entry %s is discarded.\n", boot.Clean(id))
	}
	return nil
}

// spoolVerbs are the verbs of the files that keep messages while the store is away.
func spoolVerbs() []*verb {
	return []*verb{
		{name: "spool list", args: "FILE", least: 1, most: 1, about: "list the messages of a spool that are set aside", json: true, run: listSpool,
			more: "FILE is that of a web's flag -spool, on its machine. The web may run meanwhile. The content of messages isn't shown.",
			flags: func(set *flag.FlagSet, o *options) {
				set.BoolVar(&o.all, "all", false, "list also those that wait for the store")
			}},
		{name: "spool discard", args: "FILE ENTRY…", least: 2, most: 1 << 16, about: "delete messages of a spool for good", json: true, run: discardSpooled, check: checkSpoolDiscard,
			more: "ENTRY is what spool list shows. All its messages are deleted, and are never sent. A web that runs may have sent them at that moment. It\n" +
				"finds out within ten minutes, and its log tells who has discarded them and why. -why and -yes are required.",
			flags: func(set *flag.FlagSet, o *options) {
				noteFlags(set, o)
				set.BoolVar(&o.yes, "yes", false, "delete the messages")
			}},
		{name: "spool release", args: "FILE", least: 1, most: 1, about: "give a spool to the program that opens it next", json: true, run: releaseSpool,
			more: "FILE is that of a web's flag -spool, on its machine. A spool belongs to one program and one store. Release it when the program's name\n" +
				"or the store's place has changed. No program may have it open."},
		{name: "spool", args: "FILE", least: 1, most: 1, about: "look into a file that keeps messages while the store is away", json: true, run: lookIntoSpool,
			more: "FILE is that of a web's flag -spool, on its machine. The web may run meanwhile. The verb needs no store and changes nothing."},
	}
}
