// Command millrace is the operator's command line of the sample. It shows what waits in the queues, shows and settles
// what is in the poison queues, and shows the values. It may be used while workers run.
//
//	millrace queues
//	millrace poison list    [-queue Q] [-id ID]… [-kind K] [-reason R]
//	millrace poison show    ID… [-queue Q]
//	millrace poison retry   -all | -id ID… | -kind K | -reason R  [-queue Q] [-dry-run]
//	millrace poison discard -all | -id ID… | -kind K | -reason R  [-queue Q]  -yes | -dry-run
//	millrace values show    KIND KEY
//	millrace views rebuild  VIEW [-clear]
//	millrace send           KIND FILE [-id ID] [-delay D]
//	millrace completion     bash | zsh | fish
//
// Flags stand after the verb. Every verb but completion takes -json, and -store URL, which is also the environment
// variable MILLRACE_STORE. A store in a file that isn't there is an error, also for send: no worker would ever look
// there.
//
// # Selections
//
// retry and discard need a selection of messages: -id, -kind and -reason, which narrow one another, or -all. -queue
// alone is not enough; it narrows each of them. An ID is that of a message, or the key of an entry: an entry that
// can't be decoded has nothing but its key. Kinds and reasons are compared whole.
//
// # Output
//
// Without -json: tables for people, in which no part of a message can move the cursor. With -json: JSON lines, one
// object for each queue, message or document. The names of their members stay. An unknown value is "–", and null in
// JSON.
//
// The lines of retry and discard have a result:
//
//   - sent back, discarded, failed
//   - selected: a dry run has left the entry alone
//   - gone: somebody else was quicker
//   - changed: a new entry came in since the old one was read; the new one stays
//
// Notes and errors go to the standard error, and so does progress if that is a terminal. Only show prints a message's
// content and why it failed, because both may be personal.
//
// # Exit codes
//
//	0   done; -all may have found none
//	1   failed, or stopped by a signal: some of it may be done, and repeating the call is harmless
//	2   the command line can't be right, or discard lacks both -yes and -dry-run, whatever there is: nothing is done
//	3   nothing matched, a named ID isn't there, or there is no such document
//
// # Laws
//
//   - A retry sends the message with its ID, kind and body to the queue that it came from, and then deletes the entry.
//     The message's counts of attempts start at zero. If the retry ends between the two steps the entry stays, and the
//     next retry sends the message again: replay records and notes of ReactOnce know its ID. If the message fails again
//     meanwhile, its new entry stays.
//   - The ID carries the time of the message. If that is more than 30 days ago, perhaps nothing remembers any more
//     whether the message was applied. Then it comes back here as too old to judge, and never has its effect twice.
//     retry says beforehand how many such messages there are. An operator who knows that one was not applied sends it
//     with another ID.
//   - A discard deletes the entry that was read. An entry that came in since then stays, and that is an error.
//   - A failure that concerns one message fails that message alone. A store that can't be reached ends the run.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/millrace-go/millrace/channel"
	boot "github.com/millrace-go/millrace/host/bridge"
	"github.com/millrace-go/millrace/storage"
)

func main() {
	os.Exit(run(context.Background(), boot.Process{Args: os.Args[1:], Getenv: os.Getenv, Stdout: os.Stdout, Stderr: os.Stderr}, os.Stdin))
}

// exitNothing is this program's own exit code, beside boot's.
const exitNothing = 3

// nothingError reports that the thing asked for isn't there.
type nothingError struct{ text string }

func (e *nothingError) Error() string { return e.text }

func nothing(format string, args ...any) error { return &nothingError{fmt.Sprintf(format, args...)} }

func usage(format string, args ...any) error {
	return &boot.UsageError{Err: fmt.Errorf(format, args...)}
}

// A call is one run of a verb.
type call struct {
	options
	args     []string
	out      *output
	progress io.Writer // where progress and notes go
	in       io.Reader
	message  channel.Envelope         // the message to send
	otherIDs func(id string) []string // IDs of other messages that a person may mean by an ID; may be nil
	store    *storage.Store
	channels *channel.Channels
}

func run(ctx context.Context, p boot.Process, in io.Reader) int {
	words := p.Args
	switch {
	case len(words) == 0:
		_, _ = io.WriteString(p.Stderr, help(nil)) // the exit code tells as well
		return boot.ExitUsage
	case words[0] == "help":
		words = append(slices.Clone(words[1:]), "-help")
	}
	v, opt, args, err := parse(words)
	if errors.Is(err, flag.ErrHelp) {
		_, err = io.WriteString(p.Stdout, help(words))
	} else if err == nil {
		c := &call{options: opt, args: args, out: &output{w: bufio.NewWriter(p.Stdout)}, progress: p.Stderr, in: in}
		err = c.do(ctx, p, v)
	}
	return tell(p.Stderr, err)
}

// tell writes why a run has failed, and returns its exit code.
func tell(w io.Writer, err error) int {
	var none *nothingError
	var bad *boot.UsageError
	code := boot.ExitError
	switch {
	case err == nil:
		return boot.ExitOK
	case errors.As(err, &bad):
		code = boot.ExitUsage
	case errors.As(err, &none):
		code = exitNothing
	}
	_, _ = fmt.Fprintf(w, "millrace: %s\n", boot.CleanLines(err.Error())) // the exit code tells as well
	return code
}

// do runs a verb. The first signal ends its context, and the second ends the process.
func (c *call) do(ctx context.Context, p boot.Process, v *verb) (err error) {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	if v.before != nil {
		if err := v.before(ctx, c); err != nil {
			return stopped(ctx, err)
		}
	}
	if v.store {
		if err := c.open(ctx, p); err != nil {
			return err
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

// open opens the store as the other programs do, so that sent messages ring idle workers.
func (c *call) open(ctx context.Context, p boot.Process) error {
	flags := boot.NewFlags("millrace", "", p.Getenv)
	settings := boot.AddSettings(flags)
	var given []string
	if c.options.store != "" {
		given = []string{"-store=" + c.options.store}
	}
	if err := flags.Parse(given); err != nil {
		return &boot.UsageError{Err: err}
	}
	log := boot.NewLogger(p.Stderr, slog.LevelWarn, p.Getenv)
	store, err := settings.OpenExisting(ctx, log)
	if err != nil {
		return err
	}
	if c.channels, err = boot.Channels(store, "/millrace"); err != nil {
		return errors.Join(err, store.Close())
	}
	c.store = store
	return nil
}
