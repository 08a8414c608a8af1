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

	"github.com/millrace-go/millrace/worker"
	"github.com/millrace-go/millrace/worker/limiters"
)

// childVar makes this program a child process. A line on its standard input tells it to begin, and the end of the
// input to stop.
const childVar = "MILLRACE_CURVES_CHILD"

// A spec says what a child is: exactly one of these.
type spec struct {
	Worker *workerSpec `json:"worker,omitempty"`
	Bare   []file      `json:"bare,omitempty"`
	Client *clientSpec `json:"client,omitempty"`
}

type workerSpec struct {
	Store       string `json:"store"`
	Plan        plan   `json:"plan"`
	Concurrency int    `json:"concurrency"`
	MaxInHand   int    `json:"maxInHand"`
	Alone       bool   `json:"alone"` // one worker at a time consumes the queue
}

// A saying is a line that a child prints.
type saying struct {
	Ready   bool       `json:"ready,omitempty"`
	Addr    string     `json:"addr,omitempty"`    // of a server
	Handled int64      `json:"handled,omitempty"` // messages, by a worker
	At      time.Time  `json:"at,omitzero"`       // when the worker had handled that many
	Counts  *counts    `json:"counts,omitempty"`  // in a worker's last line
	Load    *loadStats `json:"load,omitempty"`    // in a client's last line
}

// beChild is the main function of a child.
func beChild(text string, in io.Reader, out, errs io.Writer) int {
	signal.Ignore(os.Interrupt) // a Ctrl-C reaches all processes, but the parent tells when to stop
	var s spec
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		_, _ = fmt.Fprintln(errs, "curves: child:", err)
		return 1
	}
	var mu sync.Mutex
	say := func(x saying) {
		mu.Lock()
		defer mu.Unlock()
		_ = json.NewEncoder(out).Encode(x) // a parent that has gone also ends the input
	}
	ctx, stop := context.WithCancel(context.Background())
	begin := make(chan struct{})
	go func() {
		defer stop()
		lines := bufio.NewScanner(in)
		if lines.Scan() {
			close(begin)
		}
		for lines.Scan() {
		}
	}()
	var err error
	switch {
	case s.Worker != nil:
		err = s.Worker.run(ctx, begin, say)
	case s.Client != nil:
		err = s.Client.run(ctx, begin, say)
	default:
		err = serveBare(ctx, s.Bare, say)
	}
	if err != nil {
		_, _ = fmt.Fprintln(errs, "curves: child:", err)
		return 1
	}
	return 0
}

// run is a worker process. It prints some times a second how much it has handled.
func (s *workerSpec) run(ctx context.Context, begin <-chan struct{}, say func(saying)) (err error) {
	w, err := open(ctx, s.Store, s.Plan)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.store.Close()) }()
	say(saying{Ready: true})
	select {
	case <-begin:
	case <-ctx.Done():
		return nil
	}
	before := w.counted.counts()
	cfg := worker.Config{Concurrency: s.Concurrency, MaxInHand: s.MaxInHand, Logger: quiet}
	if s.Alone {
		cfg.Queues = map[string]worker.QueueConfig{s.Plan.queue(): {Limiter: limiters.Workers(1)}}
	}
	var last int64
	var said, changed time.Time
	_, err = w.work(context.WithoutCancel(ctx), cfg, s.Plan.queue(), 2*time.Millisecond, func(handled int64) (bool, error) {
		now := time.Now()
		if handled != last {
			last, changed = handled, now
		}
		if changed.After(said) && now.Sub(said) > 10*time.Millisecond {
			say(saying{Handled: last, At: changed})
			said = now
		}
		return ctx.Err() != nil, nil
	})
	c := w.counted.counts().minus(before)
	say(saying{Handled: last, At: changed, Counts: &c})
	return err
}

// A child is the parent's side of a child process.
type child struct {
	cmd  *exec.Cmd
	in   io.Closer
	out  *bufio.Scanner
	tell func(string) error
}

const childGrace = 15 * time.Second // the time that a child has to stop in order

// startChild starts a child, and returns its first line once it is ready. The child ends with ctx, and with this
// process.
func startChild(ctx context.Context, s spec, errs io.Writer) (*child, saying, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, saying{}, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, saying{}, err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), childVar+"="+string(text))
	cmd.Stderr = errs
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, saying{}, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, saying{}, err
	}
	cmd.Cancel = in.Close
	cmd.WaitDelay = childGrace
	if err := cmd.Start(); err != nil {
		return nil, saying{}, err
	}
	c := &child{cmd: cmd, in: in, out: bufio.NewScanner(out), tell: func(line string) error {
		_, err := io.WriteString(in, line+"\n")
		return err
	}}
	first, err := c.listen()
	if err != nil {
		return nil, first, errors.Join(err, c.stop())
	}
	return c, first, nil
}

// listen returns the child's next line, or an error after the last one.
func (c *child) listen() (x saying, err error) {
	if !c.out.Scan() {
		return x, errors.Join(errors.New("a child process has ended"), c.out.Err())
	}
	return x, json.Unmarshal(c.out.Bytes(), &x)
}

// stop stops a child, and waits for its end. No listen may be running.
func (c *child) stop() error {
	_ = c.in.Close() // it may have ended
	for c.out.Scan() {
	}
	return c.cmd.Wait()
}

// A crew is a group of worker processes.
type crew struct {
	children []*child

	mu      sync.Mutex
	handled []int64
	at      time.Time // when the last message was handled
	counts  counts
	talks   sync.WaitGroup
	failed  error
}

// hire starts worker processes, which wait for begin.
func hire(ctx context.Context, n int, s workerSpec, errs io.Writer) (*crew, error) {
	c := &crew{handled: make([]int64, n)}
	for range n {
		child, _, err := startChild(ctx, spec{Worker: &s}, errs)
		if err != nil {
			return nil, errors.Join(err, c.dismiss())
		}
		c.children = append(c.children, child)
	}
	return c, nil
}

func (c *crew) begin() (time.Time, error) {
	for i, child := range c.children {
		c.talks.Go(func() { c.follow(i, child) })
	}
	now := time.Now()
	for _, child := range c.children {
		if err := child.tell("begin"); err != nil {
			return now, err
		}
	}
	return now, nil
}

// follow reads a worker's lines, up to the last one.
func (c *crew) follow(i int, child *child) {
	for {
		x, err := child.listen()
		c.mu.Lock()
		if err != nil {
			c.failed = errors.Join(c.failed, err)
		}
		c.handled[i] = max(c.handled[i], x.Handled)
		if x.At.After(c.at) {
			c.at = x.At
		}
		if x.Counts != nil {
			c.counts = c.counts.plus(*x.Counts)
		}
		c.mu.Unlock()
		if err != nil || x.Counts != nil {
			return
		}
	}
}

// done returns how many messages all workers have handled.
func (c *crew) done() (n int64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, h := range c.handled {
		n += h
	}
	return n, c.failed
}

// dismiss stops all workers. Afterwards handled, at and counts are final.
func (c *crew) dismiss() error {
	for _, child := range c.children {
		_ = child.in.Close() // it may have ended
	}
	c.talks.Wait()
	var errs []error
	for _, child := range c.children {
		errs = append(errs, child.stop())
	}
	return errors.Join(append(errs, c.failed)...)
}
