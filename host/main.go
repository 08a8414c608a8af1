package host

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	_ "time/tzdata" // schedules have time zones, and a small image has none

	"github.com/millrace-go/millrace/host/internal/boot"
	"github.com/millrace-go/millrace/host/internal/operator"
)

// Exit codes of a program.
const (
	ExitOK    = boot.ExitOK    // done, or stopped in order
	ExitError = boot.ExitError // failed
	ExitUsage = boot.ExitUsage // the command line or the environment can't be right
)

// A Process is what a program may touch of the world around it.
type Process struct {
	Command        string              // as typed, without its folder. Defaults to the program's name.
	Args           []string            // that follow the command. Defaults to none.
	Getenv         func(string) string // Defaults to an empty environment.
	Stdin          io.Reader           // Defaults to nothing.
	Stdout, Stderr io.Writer           // Default to nowhere.

	ours bool // the whole process is the program's, and what it shares is the program's too
}

// Main runs a program in this process, and ends the process with the program's exit code.
func Main(p Program) {
	os.Exit(Run(context.Background(), Process{
		Command: strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe"), Args: os.Args[1:],
		Getenv: os.Getenv, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, ours: true,
	}, p))
}

// Run runs a program until it is done, a signal comes or ctx ends, and returns its exit code. The end of ctx stops a
// program as a signal does.
func Run(ctx context.Context, x Process, p Program) int {
	x.Command = cmp.Or(x.Command, p.Name, "program")
	if x.Getenv == nil {
		x.Getenv = func(string) string { return "" }
	}
	if x.Stdin == nil {
		x.Stdin = strings.NewReader("")
	}
	if x.Stdout == nil {
		x.Stdout = io.Discard
	}
	if x.Stderr == nil {
		x.Stderr = io.Discard
	}
	if err := p.check(); err != nil {
		return x.fail(ExitError, err)
	}
	if operates(x.Args) {
		return operate(ctx, x, p)
	}
	verb, args := "", x.Args
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		verb, args = args[0], args[1:]
	}
	if verb == "help" {
		verb = ""
		if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
			verb = args[0]
		}
		args = []string{"-help"}
	}
	switch {
	case verb == "" && p.Web == nil && p.Register == nil:
		if len(args) > 0 && !slices.Contains([]string{"-help", "--help", "-h", "--h"}, args[0]) {
			return x.fail(ExitUsage, fmt.Errorf("want a verb before the flags. Run %s help for all verbs", x.Command))
		}
		_, _ = io.WriteString(x.Stdout, p.about(x.Command)+"\n") // the exit code tells as well
		if len(args) == 0 {
			return ExitUsage
		}
		return ExitOK
	case verb == "", verb == "web" && p.Web != nil, verb == "worker" && p.Register != nil:
		return serve(ctx, x, p, verb, args)
	case verb == "version":
		_, _ = fmt.Fprintf(x.Stdout, "%s %s (%s %s/%s)\n", p.Name, p.version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
		return ExitOK
	}
	return x.fail(ExitUsage, fmt.Errorf("unknown verb %s. Run %s help for all verbs", boot.Word(verb), x.Command))
}

// operates reports that a command line is the operator's, or asks for help about it.
func operates(args []string) bool {
	if len(args) > 1 && args[0] == "help" {
		args = args[1:]
	}
	return len(args) > 0 && operator.Knows(args[0])
}

// fail prints an error, and returns the exit code.
func (x *Process) fail(code int, err error) int {
	_, _ = fmt.Fprintf(x.Stderr, "%s: %s\n", x.Command, boot.CleanLines(err.Error())) // the exit code tells as well
	return code
}

// about is the beginning of the help: what the program is, and its verbs.
func (p *Program) about(command string) string {
	var b strings.Builder
	b.WriteString(cmp.Or(p.About, p.Name) + "\n\n")
	say := func(verb, about, longest string) {
		_, _ = fmt.Fprintf(&b, "  %-*s  %s\n", len(command)+len(longest), strings.TrimSpace(command+" "+verb), about)
	}
	for _, v := range p.verbs() {
		say(v.name, v.about, " version")
	}
	say("help", "explains a verb, as in "+command+" help queues", " version")
	whose := "the program's store"
	if p.Web == nil && p.Register == nil {
		whose = "a store that the flag -store of each verb names, or " + boot.Variable("store") + " in the environment"
	}
	b.WriteString("\nFor operators, on " + whose + ":\n\n")
	for _, v := range operator.Verbs() {
		say(v[0], v[1], " completion")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// A verb is what a program can be told to do.
type verb struct{ name, about string }

// verbs are the program's verbs beside the operator's. The one without a name is for no verb.
func (p *Program) verbs() (all []verb) {
	switch {
	case p.Web != nil && p.Register != nil:
		all = append(all, verb{"", "serves HTTP and runs a worker, in one process"}, verb{"web", "serves HTTP only"}, verb{"worker", "runs a worker only"})
	case p.Web != nil:
		all = append(all, verb{"", "serves HTTP"})
	case p.Register != nil:
		all = append(all, verb{"", "runs a worker"})
	}
	return append(all, verb{"version", "prints the version"})
}
