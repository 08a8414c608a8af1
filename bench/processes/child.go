package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"sync"
	"time"

	"github.com/millrace-go/millrace/bench/servers"
)

// childVar makes this program a child process. It stops in order at the end of its standard input.
const childVar = "MILLRACE_PROCESSES_CHILD"

// A spec says what a child does, in a place.
type spec struct {
	Role      string        `json:"role"`           // tries, begins or resumes
	Work      string        `json:"work,omitempty"` // of a child that tries
	System    string        `json:"system"`
	Place     string        `json:"place"`
	For       time.Duration `json:"for"`
	Instances int           `json:"instances"`
}

// A saying is a line that a child prints.
type saying struct {
	Values []float64 `json:"values,omitempty"`
	Err    string    `json:"err,omitempty"`
	Step   int       `json:"step,omitempty"` // of a child that begins or resumes
	At     int64     `json:"at,omitempty"`   // when it began: a Unix time in nanoseconds, of the clock of all processes
}

// beChild is the main function of a child.
func beChild(text string, in io.Reader, out, errs io.Writer) int {
	signal.Ignore(os.Interrupt) // a Ctrl-C reaches all processes, but the parent tells when to stop
	var s spec
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		_, _ = fmt.Fprintln(errs, "processes: child:", err)
		return 1
	}
	var mu sync.Mutex
	say := func(x saying) {
		mu.Lock()
		defer mu.Unlock()
		_ = json.NewEncoder(out).Encode(x) // a parent that has gone also ends the input
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		defer stop()
		_, _ = io.Copy(io.Discard, in)
	}()
	roles := map[string]func(context.Context, func(saying)) error{"tries": s.try, "begins": s.begin, "resumes": s.resume}
	if err := roles[s.Role](ctx, say); err != nil {
		say(saying{Err: err.Error()})
		return 1
	}
	return 0
}

func (s spec) system() System {
	all := systems()
	return all[slices.IndexFunc(all, func(x System) bool { return x.Name == s.System })]
}

// try is the child that makes a measurement.
func (s spec) try(ctx context.Context, say func(saying)) error {
	j := &journal{}
	c, err := s.system().open(ctx, s.Place, j.note)
	if err != nil {
		return err
	}
	all := works()
	w := all[slices.IndexFunc(all, func(w work) bool { return w.name == s.Work })]
	values, err := w.try(ctx, &trial{c, j, s.For, s.Instances})
	if err == nil {
		say(saying{Values: values})
	}
	return errors.Join(err, c.Close())
}

// A child is the parent's side of a child process.
type child struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan saying // closed at its end
}

// start starts a child.
func start(s spec, errs io.Writer) (*child, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{cmd: exec.Command(self), lines: make(chan saying, 1000)}
	c.cmd.Env = append(os.Environ(), childVar+"="+string(text))
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
		defer close(c.lines)
		for lines := json.NewDecoder(out); ; {
			var x saying
			if lines.Decode(&x) != nil {
				return
			}
			c.lines <- x
		}
	}()
	return c, nil
}

// listen returns the child's next saying.
func (c *child) listen(ctx context.Context) (saying, error) {
	select {
	case x, ok := <-c.lines:
		switch {
		case !ok:
			return x, errors.New("a child process has ended")
		case x.Err != "":
			return x, errors.New(x.Err)
		}
		return x, nil
	case <-ctx.Done():
		return saying{}, context.Cause(ctx)
	}
}

// end stops a child in order, and kills it if that takes long.
func (c *child) end() error {
	_ = c.in.Close() // it may have ended
	late := time.AfterFunc(2*stopTime, c.kill)
	defer late.Stop()
	for range c.lines {
	}
	return c.cmd.Wait()
}

func (c *child) kill() { _ = c.cmd.Process.Kill() } // it may have ended

// stopTime is how long a contestant may take to stop.
const stopTime = 5 * time.Second
