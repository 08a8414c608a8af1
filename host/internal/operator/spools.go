package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/millrace-go/millrace/host/internal/boot"
	"github.com/millrace-go/millrace/spool"
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
				Fix: "They stay in that file, and are tried again every ten minutes and at each start. Mend the cause: for a kind without a route, start a version of the program that has one."})
		}
		if r.Waiting > 0 && time.Since(r.Oldest) > c.lag {
			all = append(all, finding{Severity: wrong, Check: "spools", Program: r.Program, Text: fmt.Sprintf("%s in %s for %s although the store is there%s", waiting(r.Waiting), where, age(time.Since(r.Oldest)), seen),
				Fix: "Does the program run, and may it write to all its queues? Its log has the store's errors."})
		}
	}
	return all, nil
}

// lookIntoSpool prints what is in a spool's file. It needs no store, because that may be away.
func lookIntoSpool(ctx context.Context, c *call) error {
	path := c.args[0]
	st, err := spool.Look(ctx, path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nothing("spool: there is no file %s", boot.Word(path))
	case err != nil:
		return err
	case st.Waiting == 0:
		c.out.printf("Nothing waits in the spool.\n")
	default:
		c.out.printf("%s in the spool, with %d bytes, the oldest for %s.\n", waiting(st.Waiting), st.Bytes, age(time.Since(st.Oldest)))
	}
	if st.Program == "" {
		c.out.printf("It belongs to the program that opens it next.\n")
	} else {
		c.out.printf("It belongs to program %s for store %s.\n", boot.Clean(st.Program), boot.Clean(cmp.Or(st.Store, "unknown")))
	}
	return nil
}

// releaseSpool makes a spool's file nobody's.
func releaseSpool(ctx context.Context, c *call) error {
	err := spool.Release(ctx, c.args[0])
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nothing("spool: there is no file %s", boot.Word(c.args[0]))
	case err != nil:
		return err
	}
	c.out.printf("The spool belongs to the program that opens it next.\n")
	return nil
}

// spoolVerbs are the verbs of the files that keep messages while the store is away.
func spoolVerbs() []*verb {
	return []*verb{
		{name: "spool release", args: "FILE", least: 1, most: 1, about: "give a spool to the program that opens it next", run: releaseSpool,
			more: "FILE is that of a web's flag -spool, on its machine. A spool belongs to one program and one store. Release it when the program's name\n" +
				"or the store's place has changed. No program may have it open."},
		{name: "spool", args: "FILE", least: 1, most: 1, about: "look into a file that keeps messages while the store is away", run: lookIntoSpool,
			more: "FILE is that of a web's flag -spool, on its machine. The web may run meanwhile. The verb needs no store and changes nothing."},
	}
}
