package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/cmd/internal/boot"
)

// A verb is an action of the program. Parsing, help and completion know nothing but the table of verbs.
type verb struct {
	name        string // one word or two
	args        string // names of its arguments, for help
	about       string // one line
	more        string // the rest of its help
	least, most int    // number of arguments
	store       bool   // it needs a store
	flags       func(*flag.FlagSet, *options)
	check       func(name string, o options) error
	words       func(n int) []string               // candidates for argument n (0, 1, …), as far as they are known
	before      func(context.Context, *call) error // work that may take long and needs no store
	run         func(context.Context, *call) error
}

// options are the flags of all verbs.
type options struct {
	store               string
	json                bool
	queue, kind, reason string
	ids                 []string
	all, dryRun, yes    bool
	clear               bool
	delay               time.Duration
}

// delays are the valid delays of a message, in words.
const delays = "90s, 30m or 12h, for example, up to 87600h, which is ten years"

func verbs() []*verb {
	const many = 1 << 16
	word := func(words ...string) func(int) []string {
		return func(n int) []string {
			if n > 0 {
				return nil
			}
			return words
		}
	}
	return []*verb{
		{name: "queues", about: "count the messages of each queue and of its poison queue", store: true, run: queues,
			more: "READY can be received now. IN FLIGHT is held by a worker. DELAYED becomes ready later. – means unknown: a queue in the\n" +
				"cloud does not count these separately."},
		{name: "poison list", about: "list the messages in the poison queues, latest failure first", store: true, run: poisonList, flags: filters,
			more: "It never shows the content of a message. An entry that can't be decoded has no ID; use its key. Long reasons are cut, but\n" +
				"-reason needs the complete reason: -json prints it."},
		{name: "poison show", args: "ID…", least: 1, most: many, about: "show everything about messages in the poison queue", store: true, run: poisonShow, flags: queueFlag,
			more: "ID is that of a message, or the key of an entry" + aboutIDs + ".\nIt shows the error and the whole body, which may be personal."},
		{name: "poison retry", about: "send messages back to their queues", store: true, run: poisonRetry, flags: selections, check: checkSelection,
			more: "Remove the cause of the failure first: the message starts with no attempts. It keeps its ID, so it still has its effect once."},
		{name: "poison discard", about: "delete messages from the poison queues for good", store: true, run: poisonDiscard, check: checkDiscard,
			more: "They are then never handled. An entry that was replaced after it was read stays. -yes or -dry-run is required, even if there is\nnothing to discard.",
			flags: func(set *flag.FlagSet, o *options) {
				selections(set, o)
				set.BoolVar(&o.yes, "yes", false, "delete the messages")
			}},
		{name: "values show", args: "KIND KEY", least: 2, most: 2, about: "show the stored value of a document", store: true, run: valuesShow,
			words: word(documents()...),
			more: "KIND is one of " + strings.Join(documents(), ", ") + ". " + aboutKeys + "\n" +
				"A view also has the sequence numbers that it has folded, by source. Values may be personal. -json also prints\n" +
				"the record: version (messages applied), emitted (events), remembered (messages in the window), pending (events\nnot known to be sent), size (bytes)."},
		{name: "views rebuild", args: "VIEW", least: 1, most: 1, about: "rebuild a view from the value objects", store: true, run: viewsRebuild,
			words: word(rebuildable()...),
			more:  "VIEW is one of " + strings.Join(rebuildable(), ", ") + ". Workers may run meanwhile, and repeating it does no harm. Documents that have already\nfolded the newest events stay unchanged.",
			flags: func(set *flag.FlagSet, o *options) {
				set.BoolVar(&o.clear, "clear", false, "delete the view's documents first, if they were folded wrongly; until the end readers see documents missing")
			}},
		{name: "send", args: "KIND FILE", least: 2, most: 2, about: "send a command from a file with its JSON", store: true, before: readCommand, run: send,
			words: word(commandKinds()...),
			more: "KIND is one of " + strings.Join(commandKinds(), ", ") + ". FILE may be - for the standard input. Every member of the\n" +
				"command must be there, and no other. It prints the ID of the message. A message sent again with the same ID has its\neffect once.",
			flags: func(set *flag.FlagSet, o *options) {
				set.Func("id", "the `ID` of the message; the default is the command's own ID, or else a new one", one(&o.ids))
				set.Func("delay", "deliver it after this `TIME`: "+delays, func(s string) (err error) {
					if o.delay, err = time.ParseDuration(s); err != nil || o.delay < 0 || o.delay > channel.MaxDelay {
						return errors.New("want " + delays)
					}
					return nil
				})
			}},
		{name: "completion", args: "SHELL", least: 1, most: 1, about: "print a shell's completion script", run: completion,
			words: word(shells()...),
			more: "SHELL is one of " + strings.Join(shells(), ", ") + ". Run its line in the shell, and add it to the shell's start-up file:\n\n" +
				"  bash:  source <(millrace completion bash)\n  zsh:   source <(millrace completion zsh)    # after compinit\n  fish:  millrace completion fish | source"},
		{name: hiddenVerb, most: many, run: completeWords},
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

// newFlags returns the flags of a verb.
func (v *verb) newFlags(o *options) *flag.FlagSet {
	set := flag.NewFlagSet(v.name, flag.ContinueOnError)
	set.SetOutput(io.Discard)
	set.Usage = func() {}
	if v.flags != nil {
		v.flags(set, o)
	}
	if v.store {
		set.Func("store", "the `URL` of the store, the same as for the other programs; the default is the environment variable "+boot.Variable("store"), text(&o.store))
		set.BoolVar(&o.json, "json", false, "print JSON lines")
	}
	return set
}

// find returns the verb that a command line begins with, and its number of words. Without a verb it returns how many
// words begin one.
func find(args []string) (v *verb, words int) {
	for _, v := range verbs() {
		name := strings.Fields(v.name)
		n := 0
		for n < len(name) && n < len(args) && name[n] == args[n] {
			n++
		}
		if n == len(name) {
			return v, n
		}
		words = max(words, n)
	}
	return nil, words
}

// parse reads a command line. It returns [flag.ErrHelp] when help is asked for; all other errors are usage errors.
func parse(args []string) (*verb, options, []string, error) {
	var o options
	v, n := find(args)
	if v == nil {
		return nil, o, nil, noVerb(args, n)
	}
	if v.name == hiddenVerb {
		return v, o, args[n:], nil
	}
	rest, err := positional(v.newFlags(&o), args[n:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		return nil, o, nil, err
	case err != nil:
		return nil, o, nil, usage("%s: %w. See millrace %s -help", v.name, boot.FlagError(err), v.name)
	case len(rest) < v.least:
		return nil, o, nil, usage("%s: want %s. See millrace %s -help", v.name, v.args, v.name)
	case len(rest) > v.most:
		return nil, o, nil, usage("%s: unknown argument %s. See millrace %s -help", v.name, boot.Word(rest[v.most]), v.name)
	case slices.Contains(rest, ""): // from an unset variable of the shell
		return nil, o, nil, usage("%s: an argument is empty. See millrace %s -help", v.name, v.name)
	case v.check != nil:
		if err := v.check(v.name, o); err != nil {
			return nil, o, nil, err
		}
	}
	return v, o, rest, nil
}

// positional parses flags before, between and after the arguments, and returns the arguments. After -- everything is
// an argument.
func positional(set *flag.FlagSet, args []string) (rest []string, err error) {
	for {
		if err := set.Parse(args); err != nil {
			return nil, err
		}
		left := set.Args()
		if n := len(args) - len(left); len(left) == 0 || n > 0 && args[n-1] == "--" {
			return append(rest, left...), nil
		}
		rest, args = append(rest, left[0]), left[1:]
	}
}

// noVerb says what to do about a command line without a verb. Its first n words begin one.
func noVerb(args []string, n int) error {
	if len(args) == n {
		return usage("want one of %s. See millrace -help", strings.Join(startingWith(args), ", "))
	}
	switch a := args[n]; {
	case a == "-help" || a == "--help" || a == "-h" || a == "--h":
		return flag.ErrHelp
	case strings.HasPrefix(a, "-"):
		return usage("want a verb before the flags, as in millrace queues -json. See millrace -help")
	}
	return usage("unknown verb %s. See millrace -help", strings.Join(append(slices.Clone(args[:n]), boot.Word(args[n])), " "))
}

// startingWith returns the names of the verbs that begin with some words.
func startingWith(words []string) (names []string) {
	for _, v := range verbs() {
		if v.name != hiddenVerb && strings.HasPrefix(v.name+" ", strings.Join(words, " ")+" ") {
			names = append(names, v.name)
		}
	}
	return names
}

// help returns the help text for a command line.
func help(args []string) string {
	var b strings.Builder
	v, n := find(args)
	if v == nil {
		b.WriteString("The operator's command line of the reservations sample. It can be used while workers run.\n\nUsage: millrace VERB [arguments] [flags]\n\n")
		t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		for _, v := range verbs() {
			if v.name != hiddenVerb && (n == 0 || strings.HasPrefix(v.name, args[0]+" ")) {
				_, _ = fmt.Fprintf(t, "  %s\t%s\n", strings.TrimSpace(v.name+" "+v.args), v.about)
			}
		}
		_ = t.Flush() // it writes to memory
		b.WriteString("\nmillrace VERB -help explains the flags of a verb. Exit codes: 0 done, 1 failed, 2 wrong command line, 3 nothing matched.\n")
		return b.String()
	}
	fmt.Fprintf(&b, "%s\n\nUsage: millrace %s [flags]\n\n", upper(v.about), strings.TrimSpace(v.name+" "+v.args))
	if v.more != "" {
		b.WriteString(v.more + "\n\n")
	}
	v.newFlags(&options{}).VisitAll(func(f *flag.Flag) {
		value, usage := flag.UnquoteUsage(f)
		fmt.Fprintf(&b, "  -%s\n        %s\n", strings.TrimSpace(f.Name+" "+flagValue(f, value)), upper(usage))
	})
	return b.String()
}

// flagValue names a flag's value, "" for a flag that is true or false.
func flagValue(f *flag.Flag, name string) string {
	if x, ok := f.Value.(interface{ IsBoolFlag() bool }); ok && x.IsBoolFlag() {
		return ""
	}
	return name
}

func upper(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
