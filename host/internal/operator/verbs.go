package operator

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A verb is an action of the program. Parsing, help and completion know nothing but the table of verbs.
type verb struct {
	name        string // one word or two
	alone       bool   // its first word alone means it, too
	args        string // names of its arguments, for help
	about       string // one line
	more        string // the rest of its help
	least, most int    // number of arguments
	store       bool   // it needs a store
	json        bool   // it prints JSON lines, too, although it needs no store
	flags       func(*flag.FlagSet, *options)
	check       func(name string, o options) error
	words       func(c *call, n int) []string         // candidates for argument n (0, 1, …), as far as they are known
	names       func(context.Context, *call) []string // reads knowledge.names for words
	before      func(context.Context, *call) error    // work that may take long and needs no store
	run         func(context.Context, *call) error
}

// options are the flags of all verbs.
type options struct {
	store               string
	json                bool
	queue, kind, reason string
	ids                 []string
	all, dryRun, yes    bool
	clear, again, one   bool
	data                string
	by, why             string
	delay               time.Duration
	at                  time.Time
	prefix, after       string
	limit, rounds       int
	every, lag, ttl     time.Duration
	length              time.Duration // of a pause
	repair              bool

	plan, status, waits string
	stuck, trace        bool
	result              string
	tags                map[string]string
	since, wait         time.Duration

	of    string // the name of settings
	to    int64
	force bool
	now   bool
	unset []string
}

// delays are the valid delays of a message, in words.
const delays = "90s, 30m or 12h, for example, up to 3650 days"

// first offers candidates for the first argument.
func first(words func(*call) []string) func(*call, int) []string {
	return func(c *call, n int) []string {
		if n > 0 {
			return nil
		}
		return words(c)
	}
}

func (t tool) verbs() []*verb {
	const many = 1 << 16
	all := queueVerbs(many)
	all = append(all, t.poisonVerbs(many)...)
	all = append(all, documentVerbs()...)
	all = append(all, scheduleVerbs()...)
	all = append(all, coordVerbs()...)
	all = append(all, signalVerbs()...)
	all = append(all, turnVerbs()...)
	all = append(all, guardVerbs()...)
	all = append(all, processVerbs()...)
	all = append(all, settingsVerbs()...)
	all = append(all, spoolVerbs()...)
	return append(all, []*verb{
		{name: "send", args: "KIND FILE", least: 2, most: 2, about: "send a command from a file with its JSON", store: true, before: readCommand, run: send,
			words: first(func(c *call) []string { return c.known.commands() }), check: checkSend,
			more: "FILE may be - for the standard input. The JSON must fit the schema of the kind: every required member must be there, and no\n" +
				"other. It prints the ID of the message. A document or ReactOnce takes a message that is\n" +
				"sent again with the same ID once; any other reaction runs again.",
			flags: sendFlags},
		{name: "top", about: "watch the queues", store: true, run: top, check: checkTop,
			more: "On a terminal it is a screen, until a signal (Ctrl-C). Elsewhere it prints a line for each queue again and again. LAG is the age\n" +
				"of the oldest ready message. OUT counts the messages that left the queue, handled, poisoned or cancelled, by what the\n" +
				"workers published in the last two minutes. IN is OUT and the growth of the queue over the same time, so it is known after\n" +
				"a minute. P99 is the time within which 99 of 100 runs of a handler ended, in the slowest worker.",
			flags: func(set *flag.FlagSet, o *options) {
				o.every = 2 * time.Second
				set.DurationVar(&o.every, "every", o.every, "look at the queues again after this `TIME`, at least 100ms; the default is 2s")
				set.IntVar(&o.rounds, "n", 0, "end after this `NUMBER` of looks; 0 means never")
			}},
		{name: "doctor", about: "find out what is wrong", store: true, run: doctor, check: checkDoctor,
			more: "It looks for queues that nobody consumes, kinds without a handler, messages that wait for long, poison queues, schedules that\n" +
				"don't run, processes that are stuck or overdue, messages that stay in a web's spool, clocks that differ, old versions of a program beside newer ones, a log of\nSQLite that can't shrink, and a process that keeps others from writing to it. It changes nothing. Its exit code is 4 if something is wrong, and 3 if it knows no queue. A NOTE alone\nis not wrong.",
			flags: func(set *flag.FlagSet, o *options) {
				o.lag = 5 * time.Minute
				set.DurationVar(&o.lag, "lag", o.lag, "the `TIME` that messages may wait; the default is 5m")
			}},
		{name: "completion", args: "SHELL", least: 1, most: 1, about: "print a shell's completion script", run: completion,
			words: first(func(*call) []string { return shells() }),
			more: "SHELL is one of " + strings.Join(shells(), ", ") + ". Run its line in the shell, and add it to the shell's start-up file:\n\n" +
				strings.ReplaceAll("  bash:  source <(COMMAND completion bash)\n  zsh:   source <(COMMAND completion zsh)    # after compinit\n  fish:  COMMAND completion fish | source", "COMMAND", t.Command)},
		{name: hiddenVerb, most: many, run: completeWords},
	}...)
}

func (t tool) poisonVerbs(many int) []*verb {
	aboutIDs := ""
	if t.Alias != nil {
		aboutIDs = ", or what the program knows them by"
	}
	return []*verb{
		{name: "poison list", about: "list the messages in the poison queues, latest failure first", store: true, run: poisonList, flags: filters,
			more: "It never shows the content of a message. An entry that can't be decoded has no ID; use its key. Long reasons are cut, but\n" +
				"-reason needs the complete reason: -json prints it."},
		{name: "poison show", args: "ID…", least: 1, most: many, about: "show everything about messages in the poison queue", store: true, run: poisonShow, flags: queueFlag,
			more: "ID is that of a message, or the key of an entry" + aboutIDs + ".\nIt shows the error and the whole body, which may be personal."},
		{name: "poison edit", args: "ID [-]", least: 1, most: 2, about: "send a message with another body in place of one", store: true, before: readEdit, run: poisonEdit,
			more: "The body is the JSON of -data, or of the standard input if a - follows the ID. It must fit the schema of the kind. The edited\n" +
				"message has an ID of its own, which follows from the old ID and the new body: the same edit made twice is one message.\n" +
				"It is refused if the old message has had its effect or was compensated for, and if that can't be known.",
			flags: func(set *flag.FlagSet, o *options) {
				queueFlag(set, o)
				set.Func("data", "the `FILE` with the new body; - for the standard input", text(&o.data))
				set.BoolVar(&o.again, "again", false, "send it even if the old message may have had its effect")
			}},
		{name: "poison retry", about: "send messages back to their queues", store: true, run: poisonRetry, flags: selections, check: t.checkSelection,
			more: "Remove the cause of the failure first: the message starts with no attempts. It keeps its ID, so a document or ReactOnce\n" +
				"takes it once; any other reaction runs again.\n" +
				"A key that the message has halted goes on when it is done."},
		{name: "poison discard", about: "delete messages from the poison queues for good", store: true, run: poisonDiscard, check: t.checkDiscard,
			more: "They are then never handled. A key that one of them has halted stays halted until turns release. An entry that was replaced\n" +
				"after it was read stays. -yes or -dry-run is required, even if there is nothing to discard.",
			flags: func(set *flag.FlagSet, o *options) {
				selections(set, o)
				set.BoolVar(&o.yes, "yes", false, "delete the messages")
			}},
	}
}

func documentVerbs() []*verb {
	collections := first(func(c *call) []string { return c.known.collections(false) })
	views := first(func(c *call) []string { return c.known.collections(true) })
	const aboutList = "With a name it lists the documents, by key."
	return []*verb{
		{name: "values list", args: "[KIND]", most: 1, about: "list the collections of documents, or the documents of one", store: true, run: valuesList, check: checkList,
			words: collections, flags: listing("documents", "keys"), more: aboutList},
		{name: "values show", args: "KIND KEY", least: 2, most: 2, about: "show the stored value of a document", store: true, run: valuesShow, words: collections,
			more: "A view also has the sequence numbers that it has folded, by source. Values may be personal. -json also prints\n" +
				"the record: version (messages applied), emitted (events), remembered (messages in the window), pending (events\nnot known to be sent), size (bytes)."},
		{name: "views list", args: "[VIEW]", most: 1, about: "list the views, or the documents of one", store: true, run: viewsList, check: checkList,
			words: views, flags: listing("documents", "keys"), more: aboutList},
		{name: "views show", args: "VIEW KEY", least: 2, most: 2, about: "show a document of a view", store: true, run: viewsShow, words: views,
			more: "It may be personal. values show also prints the sequence numbers that it has folded."},
		{name: "views rebuild", args: "VIEW", least: 1, most: 1, about: "rebuild a view from the value objects", store: true, run: viewsRebuild,
			words: first(func(c *call) []string { return c.rebuildable() }),
			more:  "Only the program's own binary can do it. Workers may run meanwhile, and repeating it does no harm. Documents that have already\nfolded the newest events stay unchanged.",
			flags: func(set *flag.FlagSet, o *options) {
				set.BoolVar(&o.clear, "clear", false, "delete the view's documents first, if they were folded wrongly; until the end readers see documents missing")
			}},
	}
}

func queueFlag(set *flag.FlagSet, o *options) {
	set.Func("queue", "only messages of this `QUEUE`", text(&o.queue))
}

func filters(set *flag.FlagSet, o *options) {
	queueFlag(set, o)
	set.Func("id", "only the message of this `ID`, or the entry of this key; may be given several times", func(s string) error {
		var id string
		err := text(&id)(s)
		o.ids = append(o.ids, id)
		return err
	})
	set.Func("kind", "only messages of this `KIND`", text(&o.kind))
	set.Func("reason", "only messages with this `REASON`, as poison list -json prints it", text(&o.reason))
}

func selections(set *flag.FlagSet, o *options) {
	filters(set, o)
	set.BoolVar(&o.all, "all", false, "all messages, or all of -queue")
	set.BoolVar(&o.dryRun, "dry-run", false, "change nothing, and list the messages that would be affected")
}

// listing are the flags of a list of things.
func listing(things, names string) func(*flag.FlagSet, *options) {
	return func(set *flag.FlagSet, o *options) {
		o.limit = 100
		set.Func("prefix", fmt.Sprintf("only %s whose %s begin with this `TEXT`", things, names), text(&o.prefix))
		set.Func("after", fmt.Sprintf("only %s after this `%s`, in the order of the %s", things, strings.ToUpper(strings.TrimSuffix(names, "s")), names), text(&o.after))
		limitFlag(set, o, things)
	}
}

func limitFlag(set *flag.FlagSet, o *options, things string) {
	set.Func("limit", "list at most this `NUMBER` of "+things+", 1 to 100000; the default is 100", func(s string) (err error) {
		if o.limit, err = strconv.Atoi(s); err != nil || o.limit < 1 || o.limit > 100_000 {
			return errors.New("want a number from 1 to 100000")
		}
		return nil
	})
}

func sendFlags(set *flag.FlagSet, o *options) {
	set.Func("id", "the `ID` of the message; the default is the command's own ID if this binary has the program's code, or else a new one", one(&o.ids))
	set.Func("delay", "deliver it after this `TIME`: "+delays, func(s string) (err error) {
		if o.delay, err = time.ParseDuration(s); err != nil || o.delay < 0 || o.delay > mostDelay {
			return errors.New("want " + delays)
		}
		return nil
	})
	momentFlag(set, o, "deliver it at this `TIME`")
}

// text sets a string. An empty one comes from an unset variable of the shell, and must not mean "any".
func text(to *string) func(string) error {
	return func(s string) error {
		if s == "" {
			return errors.New("the value is empty")
		}
		*to = s
		return nil
	}
}

func one(to *[]string) func(string) error {
	return func(s string) error {
		var id string
		err := text(&id)(s)
		*to = []string{id}
		return err
	}
}
