package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/millrace-go/millrace/bench/children"
)

// childVar makes this program a child process. It stops in order at the end of its standard input.
const childVar = "MILLRACE_COORD_CHILD"

// A spec says what a child does, or which lock this process opens.
type spec struct {
	Role     string        `json:"role"`   // of a child: wants, stands, waits or hears
	Kind     string        `json:"kind"`   // lease, quorum, advisory, etcd, redsync; leader, election; signal, subscribe
	Server   string        `json:"server"` // redis, or nothing where no server is needed or the kind tells
	Settings string        `json:"settings"`
	Places   []string      `json:"places"` // files, accounts, sockets, or a URL
	Pids     []int         `json:"pids"`   // of the servers
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
	ctx, t, err := children.Begin[spec, saying](text, in, out)
	if err == nil {
		s := t.Spec
		act := map[string]func(context.Context, <-chan string, func(saying)) error{"wants": s.want, "stands": s.stand, "waits": s.wait, "hears": s.hear}[s.Role]
		if err = act(ctx, t.Lines, t.Say); err == nil || ctx.Err() != nil {
			return 0
		}
	}
	_, _ = fmt.Fprintln(errs, "coord: child:", err)
	return 1
}

// A child is the parent's side of a child process.
type child struct{ *children.Child[saying] }

// start starts a child and waits until it is ready.
func (r *round) start(ctx context.Context, s spec) (*child, error) {
	c, err := children.Start[saying](childVar, s, r.errs)
	if err != nil {
		return nil, err
	}
	ready := &child{c}
	if _, err := ready.listen(ctx, time.Minute); err != nil {
		return nil, errors.Join(err, ready.end())
	}
	return ready, nil
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

var errSilent = errors.New("a child process says nothing")

// listen returns the child's next saying.
func (c *child) listen(ctx context.Context, limit time.Duration) (saying, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errSilent)
	defer cancel()
	return c.Listen(ctx)
}

// end stops a child in order, and kills it if that takes long.
func (c *child) end() error { return c.End(5 * time.Second) }

func endAll(all []*child) error {
	for _, c := range all {
		c.Stop() // all at once
	}
	var errs []error
	for _, c := range all {
		errs = append(errs, c.end())
	}
	return errors.Join(errs...)
}
