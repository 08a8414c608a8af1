package boot

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
)

// Flags are a program's settings: each is a flag and an environment variable. The flag wins over the variable, the
// variable over the default; an empty variable counts as none. Define all, then call Parse.
type Flags struct {
	program, about string
	set            *flag.FlagSet
	getenv         func(string) string
	secret         map[string]bool
}

// NewFlags returns an empty set for a program, with what -help says about it. getenv is os.Getenv, but for tests.
func NewFlags(program, about string, getenv func(string) string) *Flags {
	set := flag.NewFlagSet(program, flag.ContinueOnError)
	set.SetOutput(io.Discard) // Main writes the errors, once
	set.Usage = func() {}
	return &Flags{program: program, about: about, set: set, getenv: getenv, secret: map[string]bool{}}
}

// String defines a setting that is text. A word in `back quotes` in the usage names its value in -help.
func (f *Flags) String(name, value, usage string) *string { return f.set.String(name, value, usage) }

// Secret is String for what may hold a password: no error repeats its value.
func (f *Flags) Secret(name, value, usage string) *string {
	f.secret[name] = true
	return f.set.String(name, value, usage)
}

// Int defines a setting that is a whole number from least to most.
func (f *Flags) Int(name string, value, least, most int, usage string) *int {
	v := value
	f.set.Var(&boundedInt{&v, least, most}, name, usage)
	return &v
}

// Bool defines a setting that is true or false.
func (f *Flags) Bool(name string, value bool, usage string) *bool {
	return f.set.Bool(name, value, usage)
}

// Level defines a setting that is a log level.
func (f *Flags) Level(name string, value slog.Level, usage string) *slog.Level {
	v := value
	f.set.TextVar(&v, name, value, usage)
	return &v
}

// Parse reads the environment, then the arguments. It returns [flag.ErrHelp] when -help is asked for.
func (f *Flags) Parse(args []string) error {
	var faults []error
	f.set.VisitAll(func(x *flag.Flag) {
		v := f.getenv(Variable(x.Name))
		if v == "" {
			return
		}
		if err := f.set.Set(x.Name, v); err != nil {
			faults = append(faults, fmt.Errorf("environment variable %s: %s", Variable(x.Name), f.describe(x.Name, v, err)))
		}
	})
	if err := f.set.Parse(args); err != nil {
		return err
	}
	if rest := f.set.Args(); len(rest) > 0 {
		hint := ""
		if rest[0] == "true" || rest[0] == "false" {
			hint = "; a flag that is true or false takes its value after a =, as in -flag=" + rest[0]
		}
		faults = append(faults, fmt.Errorf("unknown argument %q%s", rest[0], hint))
	}
	return errors.Join(faults...)
}

// describe says what is wrong with a value.
func (f *Flags) describe(name, value string, err error) string {
	if f.secret[name] {
		return "it can't be used"
	}
	return fmt.Sprintf("%q: %v", value, err)
}

// Variable returns the environment variable of a flag.
func Variable(flag string) string {
	return "MILLRACE_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// WriteHelp explains all settings. It shows defaults only, never what the environment holds: that may be secret.
func (f *Flags) WriteHelp(w io.Writer) {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\nUsage: %s [flags]\n\n", f.about, f.program)
	f.set.VisitAll(func(x *flag.Flag) {
		value, usage := flag.UnquoteUsage(x)
		if value != "" {
			value = " " + value
		}
		def := x.DefValue
		if def == "" {
			def = "none"
		}
		fmt.Fprintf(&b, "  -%s%s\n        %s\n        Default: %s. Environment: %s\n", x.Name, value, strings.ReplaceAll(usage, "\n", "\n        "), def, Variable(x.Name))
	})
	b.WriteString("\nA flag wins over its environment variable.\n")
	_, _ = io.WriteString(w, b.String()) // nobody reads it if this fails
}

// boundedInt is a flag.Value that is a whole number within bounds.
type boundedInt struct {
	v           *int
	least, most int
}

func (b *boundedInt) String() string {
	if b == nil || b.v == nil {
		return "0"
	}
	return fmt.Sprint(*b.v)
}

func (b *boundedInt) Set(s string) error {
	n, err := strconv.Atoi(s)
	if err != nil || n < b.least || n > b.most {
		return fmt.Errorf("want a whole number from %d to %d", b.least, b.most)
	}
	*b.v = n
	return nil
}
