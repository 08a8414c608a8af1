package boot

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"
)

// A Process is what a program may touch of the world around it.
type Process struct {
	Args           []string            // without the program's name
	Getenv         func(string) string // os.Getenv, except in tests
	Stdout, Stderr io.Writer
}

// oneStop is how long further signals count as the first one. Supervisors that repeat a signal, or send it to a group
// and to its leader, do so within some 100 ms. People press Ctrl-C again later than that, or a third time.
const oneStop = time.Second

// Main is the frame of a program. It reads the settings, to which it adds -log, makes the logger and listens for
// signals. It calls f with a context that the first signal ends, and returns the exit code. f may change the level that
// is logged.
func Main(ctx context.Context, p Process, flags *Flags, f func(context.Context, *slog.Logger, *slog.LevelVar) error) int {
	least := flags.Level("log", slog.LevelInfo, "the least `LEVEL` to log: debug, info, warn or error")
	err := flags.Parse(p.Args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		flags.WriteHelp(p.Stdout)
		return ExitOK
	case err != nil:
		err = &UsageError{err}
	default:
		level := new(slog.LevelVar)
		level.Set(*least)
		log := NewLogger(p.Stderr, level, p.Getenv)
		ctx, stop := withSignals(ctx, log)
		defer stop()
		err = f(ctx, log, level)
		if StoppedBy(ctx, err) {
			// An error that the stop has caused is an orderly stop: the program had not started yet.
			log.InfoContext(ctx, "stopped while starting", "error", err)
			err = nil
		}
	}
	if err == nil {
		return ExitOK
	}
	_, _ = fmt.Fprintln(p.Stderr, CleanLines(of(flags.program, err).Error())) // the exit code tells as well
	var usage *UsageError
	if errors.As(err, &usage) {
		_, _ = fmt.Fprintf(p.Stderr, "Run %s -help for all settings.\n", flags.program)
		return ExitUsage
	}
	return ExitError
}

// lastWords is what the program prints before a second signal ends the process.
type lastWords struct{ say atomic.Pointer[func()] }

type lastWordsKey struct{}

// BeforeExit sets what the program does before a second signal ends it, in place of the function set so far. ctx is
// that of [Main]'s function.
func BeforeExit(ctx context.Context, say func()) {
	if last, ok := ctx.Value(lastWordsKey{}).(*lastWords); ok {
		last.say.Store(&say)
	}
}

// withSignals returns a context that the first SIGINT or SIGTERM ends, with a [SignalError] as its cause. Signals
// within [oneStop] count as the same one. The next one ends the process, after its last words. The returned function
// stops listening for signals.
func withSignals(parent context.Context, log *slog.Logger) (context.Context, func()) {
	last := &lastWords{}
	ctx, cancel := context.WithCancelCause(context.WithValue(parent, lastWordsKey{}, last))
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		select {
		case <-done:
			return
		case s := <-signals:
			log.InfoContext(ctx, "stopping", "signal", s.String())
			cancel(&SignalError{s})
		}
		for moment := time.After(oneStop); moment != nil; {
			select {
			case <-done:
				return
			case s := <-signals:
				log.InfoContext(ctx, "already stopping; a signal within a second of the first is ignored", "signal", s.String())
			case <-moment:
				moment = nil
			}
		}
		log.InfoContext(ctx, "still stopping; another signal ends the process at once")
		select {
		case <-done:
		case s := <-signals:
			log.WarnContext(ctx, "second signal; the process ends now", "signal", s.String())
			last.speak()
			code := ExitError
			if n, ok := s.(syscall.Signal); ok {
				code = 128 + int(n)
			}
			os.Exit(code)
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		cancel(nil)
	}
}

// speak waits only a moment, because perhaps nobody reads the output.
func (l *lastWords) speak() {
	say := l.say.Load()
	if say == nil {
		return
	}
	said := make(chan struct{})
	go func() {
		defer close(said)
		(*say)()
	}()
	select {
	case <-said:
	case <-time.After(oneStop):
	}
}
