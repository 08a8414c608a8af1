package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"os/user"
	"syscall"
	"time"

	"github.com/millrace-go/millrace/host/internal/boot"
	"github.com/millrace-go/millrace/host/internal/terminal"
	"github.com/millrace-go/millrace/host/internal/top"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/acts"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/sqlite"
)

// A Program is a program whose operators use this binary.
type Program struct {
	act.Program
	Store   string          // the file of the store when nothing names one. Defaults to data/millrace.db.
	Drivers storage.Drivers // the kinds of store that --store may name
	Others  [][2]string     // verbs of the binary beside these, each with what it is about, for completion
}

// Exit codes beside boot's.
const (
	exitNothing = 3
	exitWrong   = 4
)

// A session is one run of a command line.
type session struct {
	Program
	process boot.Process
	in      io.Reader
	out     *terminal.Output
	url     string // of the store; "" means the environment's, or the default
	json    bool
	opens   func(context.Context, *act.Request) (*act.Desk, func(*error), error) // opens the store, and closes it after the act
	stop    func(act func())                                                     // has act run after the first signal, before a second one can end the process
}

// Run runs an operator's command line and returns its exit code.
func Run(ctx context.Context, p boot.Process, in io.Reader, program Program) int {
	program.Command = cmp.Or(program.Command, "millrace")
	program.Store = cmp.Or(program.Store, "data/millrace.db")
	s := &session{Program: program, process: p, in: in, out: terminal.NewOutput(p.Stdout)}
	s.opens = s.open
	return s.tell(s.run(ctx))
}

// run parses the command line and does the act. The first signal ends its context, and the second ends the process.
func (s *session) run(ctx context.Context) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	unheld := context.AfterFunc(ctx, stop)
	s.stop = func(act func()) {
		unheld()
		context.AfterFunc(ctx, func() {
			act()
			stop()
		})
	}
	return s.runIn(ctx)
}

// runIn is run within a context that ends at a signal.
func (s *session) runIn(ctx context.Context) error {
	err := s.execute(ctx)
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		err = errors.New("stopped by a signal")
	}
	if fault := s.out.Flush(); fault != nil && !errors.Is(err, errors.Unwrap(fault)) { // otherwise a line has told it already
		err = errors.Join(err, fault)
	}
	return err
}

// tell writes why a run has failed, and returns its exit code.
func (s *session) tell(err error) int {
	var none *act.NothingError
	var bad *act.UsageError
	var setting *boot.UsageError
	code := boot.ExitError
	switch {
	case err == nil:
		return boot.ExitOK
	case errors.Is(err, act.ErrWrong): // its text is printed already
		return exitWrong
	case errors.As(err, &bad), errors.As(err, &setting):
		code = boot.ExitUsage
	case errors.As(err, &none):
		code = exitNothing
	}
	if text := boot.AsTyped(err, s.Command).Error(); text != "" {
		_, _ = fmt.Fprintf(s.process.Stderr, "%s: %s\n", s.Command, boot.CleanLines(text)) // the exit code tells as well
	}
	return code
}

// do does a request, at the desk of the store if its act needs one.
func (s *session) do(ctx context.Context, r *act.Request) (err error) {
	if err := r.Check(); err != nil {
		return err
	}
	desk := &act.Desk{Program: s.Program.Program}
	if !r.Act.Local {
		opened, shut, err := s.opens(ctx, r)
		if err != nil {
			return err
		}
		defer func() { shut(&err) }()
		desk = opened
	}
	people := terminal.NewText(s.out, s.process.Stderr, s.Command)
	var to act.Sink = people
	if s.json {
		to = &terminal.Lines{Text: people}
	}
	c := act.NewCall(desk, author(), to)
	c.From, _ = os.Hostname() // "" tells as much
	if err = r.Do(ctx, c); err != nil {
		people.Broken()
	}
	return err
}

// open opens the store as the other programs do, so that sent messages ring idle workers.
func (s *session) open(ctx context.Context, _ *act.Request) (*act.Desk, func(*error), error) {
	flags := boot.NewFlags(s.Command, "", s.process.Getenv)
	place := boot.AddSettings(flags, s.Store, s.Drivers)
	var given []string
	if s.url != "" {
		given = []string{"-store=" + s.url}
	}
	if err := flags.Parse(given); err != nil {
		return nil, nil, &boot.UsageError{Err: err}
	}
	store, err := place.OpenExisting(ctx, boot.NewLogger(s.process.Stderr, slog.LevelWarn, s.process.Getenv))
	if err != nil {
		if _, none := os.Stat(place.File()); given == nil && s.process.Getenv(boot.Variable("store")) == "" && errors.Is(none, fs.ErrNotExist) {
			err = fmt.Errorf("%w. Or name another store by --store", err)
		}
		return nil, nil, err
	}
	desk, err := act.Open(ctx, store, s.Program.Program)
	if err != nil {
		return nil, nil, errors.Join(err, store.Close())
	}
	inFile(desk, place.File())
	return desk, func(err *error) { boot.Close(store, err) }, nil
}

// inFile tells a desk in which file its store is; "" for a store in no file.
func inFile(desk *act.Desk, file string) {
	if file != "" {
		desk.File, desk.Standstill = file, func(ctx context.Context) (string, time.Duration, error) { return standstill(ctx, file) }
	}
}

// standstill watches until it is known whether a process keeps all others from writing to a file. While a process is in
// a transaction, they wait until it goes on.
func standstill(ctx context.Context, file string) (who string, lasted time.Duration, err error) {
	look := sqlite.Standstill(file)
	for first := true; ; first = false {
		who, lasted := look()
		switch {
		case who == "", lasted == 0 && !first:
			return "", 0, nil
		case lasted >= boot.StandsStill:
			return who, lasted, nil
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return "", 0, context.Cause(ctx)
		}
	}
}

// author is the user and host of this process.
func author() string {
	u, err := user.Current()
	if err != nil {
		return "operator"
	}
	host, err := os.Hostname()
	if by := u.Username + "@" + host; err == nil && act.CheckNote(by, act.MaxBy) == nil {
		return by
	}
	return "operator"
}

// table is the table of acts of this command line.
func (s *session) table() []*act.Act {
	return append(acts.All(), top.Act(s.seat), s.pages(), newToken())
}

// seat is where top sits. It has a terminal to itself, and gives the terminal back at the first signal, because the
// store may be slow to stop.
func (s *session) seat() top.Seat {
	if s.json || !s.out.Terminal || s.process.Getenv("TERM") == "dumb" {
		return top.Seat{JSON: s.json}
	}
	screen := terminal.OpenScreen(s.out.To)
	s.stop(screen.Close)
	return top.Seat{Screen: screen}
}
