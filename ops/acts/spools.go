package acts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/internal/look"
	"github.com/millrace-go/millrace/spool"
	"github.com/millrace-go/millrace/storage"
)

// A Spool is a file that keeps messages while the store is away.
type Spool struct {
	File    string     `json:"file"`
	Waiting int64      `json:"waiting"` // messages
	Refused int64      `json:"refused"` // messages that are set aside
	Bytes   int64      `json:"bytes"`   // of both
	Oldest  *time.Time `json:"oldest"`  // when it was kept; null: nothing waits
	Program string     `json:"program"` // empty: that which opens it next
	Store   string     `json:"store"`   // of the program; empty: unknown
}

// A SpoolReleased is a spool that was released.
type SpoolReleased struct {
	File   string `json:"file"`
	Result string `json:"result"` // released
}

// A SpoolEntry is what one send has left in a spool.
type SpoolEntry struct {
	Entry    string         `json:"entry"`
	Kept     time.Time      `json:"kept"`
	Bytes    int64          `json:"bytes"`
	Messages []SpoolMessage `json:"messages"`
	Refused  string         `json:"refused,omitempty"`
}

// A SpoolMessage is a message of an entry.
type SpoolMessage struct {
	ID   string       `json:"id"`
	Kind channel.Kind `json:"kind"`
}

// A SpoolDiscarded is an entry of a spool that was deleted, or would be by a dry run.
type SpoolDiscarded struct {
	Entry  string `json:"entry"`
	Result string `json:"result"` // discarded or selected
}

// A spoolInput is what acts on a spool take.
type spoolInput struct {
	file    string
	all     bool     // of list
	entries []string // of discard
}

func (in *spoolInput) fields() []act.Field {
	file := act.Text(&in.file, "file", "the spool's file").At("FILE")
	file.Kind = act.KindFile
	return []act.Field{file}
}

// spoolActs are the acts on the files that keep messages while the store is away.
func spoolActs() []*act.Act {
	const file = "FILE is that of a web's flag --spool, on its machine. "
	return []*act.Act{
		act.New(act.Act{Noun: "spool", Role: act.Viewer, Local: true, About: "look into a file that keeps messages while the store is away",
			More: file + "The web may run meanwhile. The verb needs no store and changes nothing.",
		}, (*spoolInput).fields, inSpool(lookIntoSpool)),
		act.New(act.Act{Noun: "spool", Verb: "list", Role: act.Viewer, Local: true, About: "list the messages of a spool that are set aside",
			More: file + "The web may run meanwhile. The content of messages isn't shown.",
		}, func(in *spoolInput) []act.Field {
			return append(in.fields(), act.Flag(&in.all, "all", "list also those that wait for the store"))
		}, inSpool(listSpool)),
		act.New(act.Act{Noun: "spool", Verb: "reports", Role: act.Viewer, Reveals: true, About: "list the spools of which programs have told that they hold messages",
			More: "A program tells so while the store is there: messages that the store doesn't take, and a file that has failed. While the store is away, look at the file.",
		}, nil, listSpoolReports),
		act.New(act.Act{Noun: "spool", Verb: "discard", Role: act.Admin, Why: act.Must, Sure: act.Must, Local: true, About: "delete messages of a spool for good",
			More: "ENTRY is what spool list shows. All its messages are deleted, and are never sent. A web that runs may have sent them at that moment. It " +
				"finds out within ten minutes, and its log tells who has discarded them and why.",
		}, func(in *spoolInput) []act.Field {
			return append(in.fields(), act.Texts(&in.entries, "entries", "the entries").At("ENTRY").With(func(s string) error {
				if _, err := strconv.ParseUint(s, 10, 64); err != nil {
					return errors.New("this is not the ID of an entry, a number")
				}
				return nil
			}))
		}, inSpool(discardSpooled)),
		act.New(act.Act{Noun: "spool", Verb: "release", Role: act.Operator, Why: act.May, Local: true, About: "give a spool to the program that opens it next",
			More: file + "A spool belongs to one program and one store. Release it when the program's name or the store's place has changed. " +
				"No program may have it open.",
		}, (*spoolInput).fields, inSpool(func(ctx context.Context, c *act.Call, in *spoolInput) error {
			if err := spool.Release(ctx, in.file); err != nil {
				return err
			}
			return c.Say(SpoolReleased{in.file, "released"}, "The spool belongs to the program that opens it next.")
		})),
	}
}

// inSpool says of an act on a spool if there is no file. A path holds no secret, so it is shown as it was typed.
func inSpool(do func(context.Context, *act.Call, *spoolInput) error) func(context.Context, *act.Call, *spoolInput) error {
	return func(ctx context.Context, c *act.Call, in *spoolInput) error {
		err := do(ctx, c, in)
		if errors.Is(err, fs.ErrNotExist) {
			return act.Nothing("spool: there is no file %s", storage.Quote(in.file))
		}
		return err
	}
}

// lookIntoSpool tells what is in a spool's file. It needs no store, because that may be away.
func lookIntoSpool(ctx context.Context, c *act.Call, in *spoolInput) error {
	st, err := spool.Look(ctx, in.file)
	if err != nil {
		return err
	}
	text := []string{"Nothing waits in the spool."}
	if st.Waiting > 0 {
		text[0] = fmt.Sprintf("%s in the spool, the oldest for %s.", look.Waiting(st.Waiting), act.Age(time.Since(st.Oldest)))
	}
	if st.Refused > 0 {
		text = append(text, fmt.Sprintf("Set aside: %s. %s spool list %s shows why.", act.Count(int(st.Refused), "message"), c.Command, act.ShellWord(in.file)))
	}
	if st.Bytes > 0 {
		text = append(text, fmt.Sprintf("All have %d bytes.", st.Bytes))
	}
	if st.Program == "" {
		text = append(text, "It belongs to the program that opens it next.")
	} else {
		text = append(text, fmt.Sprintf("It belongs to program %s for store %s.", st.Program, cmp.Or(st.Store, "unknown")))
	}
	return c.Say(Spool{File: in.file, Waiting: st.Waiting, Refused: st.Refused, Bytes: st.Bytes, Oldest: act.Maybe(st.Oldest), Program: st.Program, Store: st.Store}, "%s", strings.Join(text, "\n"))
}

// listSpoolReports lists what programs have told of their spools.
func listSpoolReports(ctx context.Context, c *act.Call, _ *act.None) error {
	all, err := spool.Reports(ctx, c.Store)
	if err != nil {
		return err
	}
	if err := c.Table("No program tells that its spool holds messages.", "PROGRAM", "HOST", "FILE", "WAITING", "OLDEST", "SET ASIDE", "FAULT", "TOLD"); err != nil {
		return err
	}
	for _, r := range all {
		r.Fault, r.Reason = c.Fault(r.Fault), c.Fault(r.Reason)
		if err := c.Row(r, r.Program, r.Host, r.File, r.Waiting, r.Oldest, r.Refused, act.Short(cmp.Or(r.Fault, r.Reason)), r.At); err != nil {
			return err
		}
	}
	return nil
}

// listSpool lists what was set aside in a spool, or all that is in it.
func listSpool(ctx context.Context, c *act.Call, in *spoolInput) error {
	none := "Nothing is set aside in the spool. --all lists what waits."
	if in.all {
		none = "The spool is empty."
	}
	if err := c.Table(none, "ENTRY", "AGE", "MESSAGES", "WHY SET ASIDE"); err != nil {
		return err
	}
	for e, err := range spool.List(ctx, in.file) {
		if err != nil {
			return err
		}
		if e.Refused == "" && !in.all {
			continue
		}
		line := SpoolEntry{Entry: e.ID, Kept: e.Kept, Bytes: e.Bytes, Messages: []SpoolMessage{}, Refused: e.Refused}
		var about []string
		for _, m := range e.Messages {
			line.Messages = append(line.Messages, SpoolMessage(m))
			about = append(about, string(m.Kind)+" "+m.ID)
		}
		if err := c.Row(line, e.ID, time.Since(e.Kept), strings.Join(about, ", "), cmp.Or(e.Refused, "waits")); err != nil {
			return err
		}
	}
	return nil
}

// discardSpooled deletes entries of a spool.
func discardSpooled(ctx context.Context, c *act.Call, in *spoolInput) error {
	left := map[string]bool{}
	if c.DryRun {
		for e, err := range spool.List(ctx, in.file) {
			if err != nil {
				return err
			}
			left[e.ID] = true
		}
	}
	for _, id := range in.entries {
		line, text, err := SpoolDiscarded{id, "discarded"}, "Entry %s is discarded.", error(nil)
		switch {
		case !c.DryRun:
			err = spool.Discard(ctx, in.file, id, c.By, c.Why)
		case left[id]:
			line.Result, text = selected, "Entry %s would be discarded."
		default:
			err = storage.ErrNotFound
		}
		if errors.Is(err, storage.ErrNotFound) {
			return act.Nothing("spool: there is no entry %s", act.Word(id))
		}
		if err == nil {
			err = c.Say(line, text, id)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
