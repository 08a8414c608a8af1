// Package children runs parts of a measurement in processes of their own. A child is the same program, started again
// with a variable that says what it does. Both sides speak by lines: the parent in words, the child in JSON. A child stops
// at the end of its input, so it never outlives its parent.
package children

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/millrace-go/millrace/bench/servers"
)

// A Talk is a child's side. Spec says what it does, and what it says are lines of type Line.
type Talk[Spec, Line any] struct {
	Spec  Spec
	Lines <-chan string // from the parent; closed when the child is to stop
	Say   func(Line)    // may be called at the same time
}

// Main is the main function of a measurement. It is a child's if the variable is set, and returns the exit code. The first
// signal to stop ends the context of run, and the second one the process.
func Main(variable string, child func(text string, in io.Reader, out, errs io.Writer) int, run func(ctx context.Context, args []string, out, errs io.Writer) int) int {
	if text := os.Getenv(variable); text != "" {
		return child(text, os.Stdin, os.Stdout, os.Stderr)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return run(ctx, os.Args[1:], os.Stdout, os.Stderr)
}

// Begin reads what a child does from its variable. The context ends when the child is to stop.
func Begin[Spec, Line any](text string, in io.Reader, out io.Writer) (context.Context, Talk[Spec, Line], error) {
	signal.Ignore(os.Interrupt) // a Ctrl-C reaches all processes, but the parent tells when to stop
	var t Talk[Spec, Line]
	if err := json.Unmarshal([]byte(text), &t.Spec); err != nil {
		return nil, t, fmt.Errorf("child: %w", err)
	}
	var mu sync.Mutex
	t.Say = func(x Line) {
		mu.Lock()
		defer mu.Unlock()
		_ = json.NewEncoder(out).Encode(x) // a parent that has gone also ends the input
	}
	ctx, stop := context.WithCancel(context.Background())
	lines := make(chan string, 16)
	t.Lines = lines
	go func() {
		defer close(lines)
		defer stop()
		for scan := bufio.NewScanner(in); scan.Scan(); {
			lines <- scan.Text()
		}
	}()
	return ctx, t, nil
}

// A Child is the parent's side of a child process.
type Child[Line any] struct {
	Lines chan Line // closed at its end
	cmd   *exec.Cmd
	in    io.WriteCloser
}

// Start starts this program again as a child.
func Start[Line any](variable string, spec any, errs io.Writer) (*Child[Line], error) {
	text, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &Child[Line]{cmd: exec.Command(self), Lines: make(chan Line, 1000)}
	c.cmd.Env = append(os.Environ(), variable+"="+string(text))
	c.cmd.Stderr = errs
	servers.DieWithUs(c.cmd)
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(c.Lines)
		for lines := json.NewDecoder(out); ; {
			var x Line
			if lines.Decode(&x) != nil {
				return
			}
			c.Lines <- x
		}
	}()
	return c, nil
}

// Tell says a line to a child.
func (c *Child[Line]) Tell(line string) error {
	_, err := io.WriteString(c.in, line+"\n")
	return err
}

// Listen returns the child's next line.
func (c *Child[Line]) Listen(ctx context.Context) (x Line, err error) {
	select {
	case x, ok := <-c.Lines:
		if !ok {
			return x, errors.New("a child process has ended")
		}
		return x, nil
	case <-ctx.Done():
		return x, context.Cause(ctx)
	}
}

// Stop tells a child to stop, and doesn't wait.
func (c *Child[Line]) Stop() { _ = c.in.Close() } // it may have ended

// Kill ends a child at once.
func (c *Child[Line]) Kill() { _ = c.cmd.Process.Kill() } // it may have ended

// End stops a child in order, waits for its end, and kills it if that takes longer than grace.
func (c *Child[Line]) End(grace time.Duration) error {
	c.Stop()
	late := time.AfterFunc(grace, c.Kill)
	defer late.Stop()
	for range c.Lines {
	}
	return c.cmd.Wait()
}
