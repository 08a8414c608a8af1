package operator

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/millrace-go/millrace/host/internal/boot"
)

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
	}
	if v.store || v.json {
		set.BoolVar(&o.json, "json", false, "print JSON lines")
	}
	return set
}

// find returns the verb that a command line begins with, and its number of words. Without a verb it returns how many
// words begin one.
func (t tool) find(args []string) (v *verb, words int) {
	for _, v := range t.verbs() {
		name := strings.Fields(v.name)
		n := 0
		for n < len(name) && n < len(args) && name[n] == args[n] {
			n++
		}
		if n == len(name) || n == 1 && v.alone && (len(args) == 1 || strings.HasPrefix(args[1], "-")) {
			return v, n
		}
		words = max(words, n)
	}
	return nil, words
}

// parse reads a command line. It returns [flag.ErrHelp] when help is asked for; all other errors are usage errors.
func (t tool) parse(args []string) (*verb, options, []string, error) {
	var o options
	v, n := t.find(args)
	if v == nil {
		return nil, o, nil, t.noVerb(args, n)
	}
	if v.name == hiddenVerb {
		return v, o, args[n:], nil
	}
	flags := v.newFlags(&o)
	rest, err := positional(flags, args[n:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		return nil, o, nil, err
	case err != nil:
		return nil, o, nil, usage("%s: %w. See %s %s -help", v.name, boot.FlagError(wanted(flags, err)), t.Command, v.name)
	case len(rest) < v.least:
		return nil, o, nil, usage("%s: want %s. See %s %s -help", v.name, v.args, t.Command, v.name)
	case len(rest) > v.most:
		return nil, o, nil, usage("%s: unknown argument %s%s. See %s %s -help", v.name, boot.Word(rest[v.most]), instead(flags, v), t.Command, v.name)
	case slices.Contains(rest, ""): // from an unset variable of the shell
		return nil, o, nil, usage("%s: an argument is empty. See %s %s -help", v.name, t.Command, v.name)
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

// instead names the flags for what a person may mean by an argument of a verb that takes none.
func instead(set *flag.FlagSet, v *verb) string {
	if v.most > 0 || set.Lookup("queue") == nil || set.Lookup("id") == nil {
		return ""
	}
	return "; name a queue by -queue, and a message by -id"
}

// wanted says what a flag takes, where package flag only says that it can't read the value.
func wanted(set *flag.FlagSet, err error) error {
	set.VisitAll(func(x *flag.Flag) {
		rest, bad := strings.CutSuffix(err.Error(), "-"+x.Name+": parse error")
		v, _ := x.Value.(flag.Getter)
		if !bad || v == nil {
			return
		}
		want := "a whole number"
		switch v.Get().(type) {
		case time.Duration:
			want = "a time, such as 30s, 5m or 1h30m"
		case bool:
			want = "true or false"
		}
		err = fmt.Errorf("%s-%s: want %s", rest, x.Name, want)
	})
	return err
}

// noVerb says what to do about a command line without a verb. Its first n words begin one.
func (t tool) noVerb(args []string, n int) error {
	if len(args) == n {
		return usage("want one of %s. See %s -help", strings.Join(t.startingWith(args), ", "), t.Command)
	}
	switch a := args[n]; {
	case a == "-help" || a == "--help" || a == "-h" || a == "--h":
		return flag.ErrHelp
	case strings.HasPrefix(a, "-"):
		return usage("want a verb before the flags, as in %s queues -json. See %s -help", t.Command, t.Command)
	}
	return usage("unknown verb %s. See %s -help", strings.Join(append(slices.Clone(args[:n]), boot.Word(args[n])), " "), t.Command)
}

// startingWith returns the names of the verbs that begin with some words.
func (t tool) startingWith(words []string) (names []string) {
	for _, v := range t.verbs() {
		if v.name != hiddenVerb && strings.HasPrefix(v.name+" ", strings.Join(words, " ")+" ") {
			names = append(names, v.name)
		}
	}
	return names
}

// help returns the help text for a command line.
func (t tool) help(args []string) string {
	var b strings.Builder
	v, n := t.find(args)
	if v == nil {
		b.WriteString("The operator's command line. It can be used while workers run.\n\nUsage: " + t.Command + " VERB [arguments] [flags]\n\n")
		table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		for _, v := range t.verbs() {
			if v.name != hiddenVerb && (n == 0 || strings.HasPrefix(v.name, args[0]+" ")) {
				_, _ = fmt.Fprintf(table, "  %s\t%s\n", strings.TrimSpace(v.name+" "+v.args), v.about)
			}
		}
		for _, v := range t.Others {
			if n == 0 && v[0] != "" {
				_, _ = fmt.Fprintf(table, "  %s\t%s\n", v[0], v[1])
			}
		}
		_ = table.Flush() // it writes to memory
		b.WriteString("\n" + t.Command + " VERB -help explains the flags of a verb. Exit codes: 0 done, 1 failed, 2 wrong command line, 3 nothing matched, 4 something is wrong (doctor).\n")
		return b.String()
	}
	fmt.Fprintf(&b, "%s\n\nUsage: %s %s [flags]\n\n", upper(v.about), t.Command, strings.TrimSpace(v.name+" "+v.args))
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
