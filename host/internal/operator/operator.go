package operator

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/host/internal/boot"
	"github.com/millrace-go/millrace/settings"
	"github.com/millrace-go/millrace/storage"
)

// A Program is a program whose operators use this binary. The zero Program is none: then the verbs know what the
// programs of the store have published.
type Program struct {
	Command string // as people type it. Defaults to "millrace".
	Store   string // the file of the store when nothing names one. Defaults to data/millrace.db.

	Drivers storage.Drivers // the kinds of store that -store may name

	Settings string // the name of the program's live settings, for a command line that names none; may be empty

	Routes   func() (*channel.Routes, error) // nil: the binary has no program's code
	Register func(*handlers.Registry) error  // may be nil
	Rebuild  map[string]Rebuild              // by view

	// Alias returns other IDs and keys that a person may mean by a word: those of the messages and documents of an order,
	// say. May be nil.
	Alias func(word string) []string

	Others [][2]string // verbs of the binary beside these, each with what it is about, for completion
}

// A Rebuild rebuilds a view from values.
type Rebuild struct {
	From  string                                                // the collection of the values
	Clear func(context.Context, *channel.Channels) error        // empties the view
	Run   func(context.Context, *channel.Channels) (int, error) // returns the number of values read
}

// source is the source of the messages that operators send.
const source = "/millrace"

// Exit codes beside boot's.
const (
	exitNothing = 3
	exitWrong   = 4
)

// nothingError reports that the thing asked for isn't there.
type nothingError struct{ text string }

func (e *nothingError) Error() string { return e.text }

func nothing(format string, args ...any) error { return &nothingError{fmt.Sprintf(format, args...)} }

// wrongError reports that doctor has found something wrong. Its text is printed already.
type wrongError struct{}

func (wrongError) Error() string { return "something is wrong" }

func usage(format string, args ...any) error {
	return &boot.UsageError{Err: fmt.Errorf(format, args...)}
}

// tool is the command line of a binary.
type tool struct{ Program }

// A call is one run of a verb.
type call struct {
	tool
	options
	args     []string
	process  boot.Process
	out      *output
	progress io.Writer // where progress and notes go
	in       io.Reader
	input    []byte // the body that was read before the store was opened
	file     string // of a store in a file; "" for another store
	store    *storage.Store
	channels *channel.Channels
	known    knowledge
	aliased  bool           // IDs may be the program's own words for messages
	noted    string         // the last note of top
	patch    settings.Patch // what settings set changes

	onSignal func(act func()) // has act run after the first signal, before a second one can end the process
}

// Knows reports that the operator's command line has a verb.
func Knows(verb string) bool {
	t := tool{}
	return len(t.startingWith([]string{verb})) > 0 || verb == hiddenVerb
}

// Verbs are the verbs for a program's help, each with what it is about.
func Verbs() [][2]string {
	t := tool{}
	return t.nextWords(nil, 0)
}

// Run runs an operator's command line and returns its exit code.
func Run(ctx context.Context, p boot.Process, in io.Reader, program Program) int {
	program.Command = cmp.Or(program.Command, "millrace")
	program.Store = cmp.Or(program.Store, "data/millrace.db")
	t := tool{program}
	words := p.Args
	switch {
	case len(words) == 0:
		_, _ = io.WriteString(p.Stderr, t.help(nil)) // the exit code tells as well
		return boot.ExitUsage
	case words[0] == "help":
		words = append(slices.Clone(words[1:]), "-help")
	}
	v, opt, args, err := t.parse(words)
	if errors.Is(err, flag.ErrHelp) {
		_, err = io.WriteString(p.Stdout, t.help(words))
	} else if err == nil {
		c := &call{tool: t, options: opt, args: args, process: p, out: newOutput(p.Stdout), progress: p.Stderr, in: in}
		err = c.do(ctx, p, v)
	}
	return t.tell(p.Stderr, err)
}

// tell writes why a run has failed, and returns its exit code.
func (t tool) tell(w io.Writer, err error) int {
	var none *nothingError
	var bad *boot.UsageError
	code := boot.ExitError
	switch {
	case err == nil:
		return boot.ExitOK
	case errors.Is(err, wrongError{}):
		return exitWrong
	case errors.As(err, &bad):
		code = boot.ExitUsage
	case errors.As(err, &none):
		code = exitNothing
	}
	_, _ = fmt.Fprintf(w, "%s: %s\n", t.Command, boot.CleanLines(boot.AsTyped(err, t.Command).Error())) // the exit code tells as well
	return code
}

// do runs a verb. The first signal ends its context, and the second ends the process.
func (c *call) do(ctx context.Context, p boot.Process, v *verb) (err error) {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	unheld := context.AfterFunc(ctx, stop)
	c.onSignal = func(act func()) {
		unheld()
		context.AfterFunc(ctx, func() {
			act()
			stop()
		})
	}
	if v.before != nil {
		if err := v.before(ctx, c); err != nil {
			return stopped(ctx, err)
		}
	}
	if v.store {
		if err := c.open(ctx, p); err != nil {
			return stopped(ctx, err)
		}
		defer boot.Close(c.store, &err)
	}
	err = stopped(ctx, v.run(ctx, c))
	if fault := c.out.flush(); fault != nil && !errors.Is(err, errors.Unwrap(fault)) { // otherwise a line has told it already
		err = errors.Join(err, fault)
	}
	return err
}

// stopped returns what has ended ctx instead of an error that only follows from it.
func stopped(ctx context.Context, err error) error {
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return errors.New("stopped by a signal")
	}
	return err
}

// open opens the store as the other programs do, so that sent messages ring idle workers. It also reads what is known
// of the programs.
func (c *call) open(ctx context.Context, p boot.Process) error {
	flags := boot.NewFlags(c.Command, "", p.Getenv)
	place := boot.AddSettings(flags, c.Store, c.Drivers)
	var given []string
	if c.options.store != "" {
		given = []string{"-store=" + c.options.store}
	}
	if err := flags.Parse(given); err != nil {
		return &boot.UsageError{Err: err}
	}
	log := boot.NewLogger(p.Stderr, slog.LevelWarn, p.Getenv)
	store, err := place.OpenExisting(ctx, log)
	if err != nil {
		if _, none := os.Stat(place.File()); given == nil && p.Getenv(boot.Variable("store")) == "" && errors.Is(none, fs.ErrNotExist) {
			err = fmt.Errorf("%w. Or name another store by -store", err)
		}
		return err
	}
	c.file = place.File()
	if err := c.use(ctx, store); err != nil {
		return errors.Join(err, store.Close())
	}
	return nil
}

// newOutput returns the output to a writer.
func newOutput(w io.Writer) *output {
	return &output{to: w, terminal: isTerminal(w), w: bufio.NewWriter(w)}
}
