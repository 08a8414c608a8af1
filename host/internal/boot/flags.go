package boot

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millrace-go/millrace/storage"
)

// Flags are a program's settings: each is a flag and an environment variable. The flag wins over the variable, and
// the variable over the default. White space around a value doesn't count, because what comes from a file often ends
// with a line break. An empty variable counts as none. Define all settings, then call Parse.
type Flags struct {
	*definitions
	prefix string // of the variables of the settings that are defined through this value
}

// definitions are what all values of one set share.
type definitions struct {
	program, about string
	set            *flag.FlagSet
	getenv         func(string) string
	variables      map[string]string // by flag
	checks         []func() error
	faults         []error // of the definitions
}

// NewFlags returns an empty set for a program. program is the command, as in "shop web", and about is the text of
// -help. getenv is os.Getenv, except in tests.
func NewFlags(program, about string, getenv func(string) string) *Flags {
	set := flag.NewFlagSet(program, flag.ContinueOnError)
	set.SetOutput(io.Discard) // Main writes the errors, once
	set.Usage = func() {}
	return &Flags{&definitions{program: program, about: about, set: set, getenv: getenv, variables: map[string]string{}}, framework}
}

// framework is the prefix of the framework's own variables.
const framework = "MILLRACE_"

// Prefix returns the prefix of the variables of a program's own settings: SHOP_ for shop.
func Prefix(program string) string { return upperName(program) + "_" }

// Of returns the same set for settings whose variables begin with another prefix.
func (f *Flags) Of(prefix string) *Flags { return &Flags{f.definitions, prefix} }

// free reports that a name is free, and notes its variable. It notes a fault otherwise.
func (f *Flags) free(name string) bool {
	if f.set.Lookup(name) != nil {
		f.faults = append(f.faults, fmt.Errorf("-%s is defined twice; a program can't have a flag with the name of one that is there", name))
		return false
	}
	f.variables[name] = f.prefix + upperName(name)
	return true
}

// Check adds a check of a setting, which Parse calls when all settings have their values. The error may hold no secret.
func (f *Flags) Check(name string, check func() error) {
	f.checks = append(f.checks, func() error { return badFlag(name, check()) })
}

// String defines a setting that is text. The text may be secret: no error repeats it. A word in `back quotes` in the
// usage names the value in -help.
func (f *Flags) String(name, value, usage string) *string {
	return add(f, name, value, usage, func(text string) (string, error) { return text, nil })
}

// Int defines a setting that is a whole number from least to most.
func (f *Flags) Int(name string, value, least, most int, usage string) *int {
	return add(f, name, value, usage, func(text string) (int, error) {
		n, err := strconv.Atoi(text)
		if err != nil || n < least || n > most {
			return 0, fmt.Errorf("want a whole number from %d to %d", least, most)
		}
		return n, nil
	})
}

// Bool defines a setting that is true or false.
func (f *Flags) Bool(name string, value bool, usage string) *bool {
	return add(f, name, value, usage, func(text string) (bool, error) {
		v, err := strconv.ParseBool(text)
		if err != nil {
			return false, errors.New("want true or false")
		}
		return v, nil
	})
}

// Duration defines a setting that is a time from least to most.
func (f *Flags) Duration(name string, value, least, most time.Duration, usage string) *time.Duration {
	return add(f, name, value, usage, func(text string) (time.Duration, error) {
		d, err := time.ParseDuration(text)
		if err != nil || d < least || d > most {
			return 0, fmt.Errorf("want a time from %v to %v, for example 90s or 5m", least, most)
		}
		return d, nil
	})
}

// Level defines a setting that is a log level.
func (f *Flags) Level(name string, value slog.Level, usage string) *slog.Level {
	return add(f, name, value, usage, func(text string) (level slog.Level, err error) {
		if level.UnmarshalText([]byte(text)) != nil {
			return level, errors.New("want debug, info, warn or error")
		}
		return level, nil
	})
}

// Parse reads the arguments, and the environment for settings that the arguments leave out. Then it calls the checks.
// It returns [flag.ErrHelp] for -help.
func (f *Flags) Parse(args []string) error {
	if err := f.Read(args); err != nil {
		return err
	}
	var faults []error
	for _, check := range f.checks {
		faults = append(faults, check())
	}
	return errors.Join(faults...)
}

// Read is Parse without the checks.
func (f *Flags) Read(args []string) error {
	if err := f.set.Parse(args); err != nil {
		return FlagError(err)
	}
	faults := slices.Clone(f.faults)
	given := map[string]bool{}
	f.set.Visit(func(x *flag.Flag) { given[x.Name] = true })
	f.set.VisitAll(func(x *flag.Flag) {
		variable := f.variables[x.Name]
		v := strings.TrimSpace(f.getenv(variable))
		if v == "" || given[x.Name] {
			return
		}
		if err := f.set.Set(x.Name, v); err != nil {
			faults = append(faults, fmt.Errorf("environment variable %s: %s: %w", variable, storage.Quote(v), err))
		}
	})
	if rest := f.set.Args(); len(rest) > 0 {
		hint := "; a verb stands before the flags"
		if rest[0] == "true" || rest[0] == "false" {
			hint = "; the value of a boolean flag follows a =, as in -flag=" + rest[0]
		}
		faults = append(faults, fmt.Errorf("unknown argument %s%s", Word(rest[0]), hint))
	}
	return errors.Join(faults...)
}

// FlagError is an error of package flag without what may be a secret: somebody may have typed a URL or a key in one
// word with the flag's name. A long value is cut.
func FlagError(err error) error {
	for _, about := range []string{"flag provided but not defined: -", "bad flag syntax: "} {
		if word, ok := strings.CutPrefix(err.Error(), about); ok {
			return errors.New(about + strings.Trim(Word(word), `"`))
		}
	}
	for _, about := range []string{"invalid value ", "invalid boolean value "} {
		rest, found := strings.CutPrefix(err.Error(), about)
		quoted, _ := strconv.QuotedPrefix(rest)
		if value, fault := strconv.Unquote(quoted); found && fault == nil {
			return errors.New(about + storage.Quote(value) + rest[len(quoted):])
		}
	}
	return err
}

var simpleWord = regexp.MustCompile(`^[-.\w]{0,40}$`)

// ShellWord quotes a word for a shell if it needs that.
func ShellWord(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:@") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// Word quotes an unknown argument for an error. An argument that may hold a secret it doesn't repeat.
func Word(arg string) string {
	if simpleWord.MatchString(arg) {
		return strconv.Quote(arg)
	}
	return fmt.Sprintf("(%d bytes, not shown because they may be secret)", len(arg))
}

// Variable returns the environment variable of a flag of the framework.
func Variable(flag string) string { return framework + upperName(flag) }

func upperName(name string) string { return strings.ToUpper(strings.ReplaceAll(name, "-", "_")) }

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
		fmt.Fprintf(&b, "  -%s%s\n        %s\n        Default: %s. Environment: %s\n", x.Name, value, strings.ReplaceAll(usage, "\n", "\n        "), def, f.variables[x.Name])
	})
	b.WriteString("\nA flag wins over its environment variable.\n")
	_, _ = io.WriteString(w, b.String()) // nobody could read another error either
}

// setting is a flag.Value whose errors say what is allowed.
type setting[T any] struct {
	v     *T
	parse func(text string) (T, error)
}

// add defines a setting that parse makes from text. Errors repeat the text.
func add[T any](f *Flags, name string, value T, usage string, parse func(text string) (T, error)) *T {
	if f.free(name) {
		f.set.Var(&setting[T]{&value, parse}, name, usage)
	}
	return &value
}

func (s *setting[T]) String() string {
	if text, ok := any(*s.v).(string); ok {
		return text
	}
	return strings.ToLower(fmt.Sprint(*s.v)) // levels are in capitals
}

// IsBoolFlag lets -name alone stand for -name=true.
func (s *setting[T]) IsBoolFlag() bool {
	_, ok := any(*s.v).(bool)
	return ok
}

func (s *setting[T]) Set(text string) error {
	v, err := s.parse(strings.TrimSpace(text))
	if err == nil {
		*s.v = v
	}
	return err
}
