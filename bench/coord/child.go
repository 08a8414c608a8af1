package main

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
	"time"

	"github.com/millrace-go/millrace/bench/servers"
)

// childVar makes this program a child process. It stops in order at the end of its standard input.
const childVar = "MILLRACE_COORD_CHILD"

// A spec says what a child does, or which lock this process opens.
type spec struct {
	Role     string        `json:"role"` // of a child: wants, stands, waits or hears
	Kind     string        `json:"kind"` // lease, quorum, advisory, etcd, redsync; leader, election; signal, subscribe
	Settings string        `json:"settings"`
	Places   []string      `json:"places"` // files, accounts, sockets, or a URL
	Name     string        `json:"name"`
	For      time.Duration `json:"for"`
}

// A saying is a line that a child prints. Its times are Unix times in nanoseconds: all processes share one clock.
type saying struct {
	Ready bool      `json:"ready,omitempty"`
	At    int64     `json:"at,omitempty"` // when it went, heard or led
	Text  string    `json:"text,omitempty"`
	Times []int64   `json:"times,omitempty"` // when it acquired
	Waits []float64 `json:"waits,omitempty"` // in milliseconds
}

// beChild is the main function of a child.
func beChild(text string, in io.Reader, out, errs io.Writer) int {
	signal.Ignore(os.Interrupt) // a Ctrl-C reaches all processes, but the parent tells when to stop
	var s spec
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		_, _ = fmt.Fprintln(errs, "coord: child:", err)
		return 1
	}
	var mu sync.Mutex
	say := func(x saying) {
		mu.Lock()
		defer mu.Unlock()
		_ = json.NewEncoder(out).Encode(x) // a parent that has gone also ends the input
	}
	ctx, stop := context.WithCancel(context.Background())
	lines := make(chan string)
	go func() {
		defer close(lines)
		defer stop()
		for scan := bufio.NewScanner(in); scan.Scan(); {
			lines <- scan.Text()
		}
	}()
	act := map[string]func(context.Context, <-chan string, func(saying)) error{"wants": s.want, "stands": s.stand, "waits": s.wait, "hears": s.hear}[s.Role]
	if err := act(ctx, lines, say); err != nil && ctx.Err() == nil {
		_, _ = fmt.Fprintln(errs, "coord: child:", err)
		return 1
	}
	return 0
}

// A child is the parent's side of a child process.
type child struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan saying // closed at its end
}

// start starts a child and waits until it is ready.
func (r *round) start(ctx context.Context, s spec) (*child, error) {
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
	c.cmd.Stderr = r.errs
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
	if _, err := c.listen(ctx, time.Minute); err != nil {
		return nil, errors.Join(err, c.end())
	}
	return c, nil
}

// startAll starts n children that do the same.
func (r *round) startAll(ctx context.Context, n int, s spec) (all []*child, err error) {
	for range n {
		c, err := r.start(ctx, s)
		if err != nil {
			return nil, errors.Join(err, endAll(all))
		}
		all = append(all, c)
	}
	return all, nil
}

func (c *child) tell(line string) error {
	_, err := io.WriteString(c.in, line+"\n")
	return err
}

var errSilent = errors.New("a child process says nothing")

// listen returns the child's next saying.
func (c *child) listen(ctx context.Context, limit time.Duration) (saying, error) {
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case x, ok := <-c.lines:
		if !ok {
			return x, errors.New("a child process has ended")
		}
		return x, nil
	case <-late.C:
		return saying{}, errSilent
	case <-ctx.Done():
		return saying{}, context.Cause(ctx)
	}
}

// end stops a child in order, and kills it if that takes long.
func (c *child) end() error {
	_ = c.in.Close() // it may have ended
	late := time.AfterFunc(5*time.Second, func() { _ = c.cmd.Process.Kill() })
	defer late.Stop()
	for range c.lines {
	}
	return c.cmd.Wait()
}

func endAll(all []*child) error {
	for _, c := range all {
		_ = c.in.Close() // all at once
	}
	var errs []error
	for _, c := range all {
		errs = append(errs, c.end())
	}
	return errors.Join(errs...)
}
