package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/millrace-go/millrace/bench/children"
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
	ctx, t, err := children.Begin[spec, saying](text, in, out)
	if err != nil {
		_, _ = fmt.Fprintln(errs, "processes:", err)
		return 1
	}
	s := t.Spec
	roles := map[string]func(context.Context, func(saying)) error{"tries": s.try, "begins": s.begin, "resumes": s.resume}
	if err := roles[s.Role](ctx, t.Say); err != nil {
		t.Say(saying{Err: err.Error()})
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
type child struct{ *children.Child[saying] }

// start starts a child.
func start(s spec, errs io.Writer) (*child, error) {
	c, err := children.Start[saying](childVar, s, errs)
	return &child{c}, err
}

// listen returns the child's next saying.
func (c *child) listen(ctx context.Context) (saying, error) {
	x, err := c.Listen(ctx)
	if err == nil && x.Err != "" {
		err = errors.New(x.Err)
	}
	return x, err
}

// end stops a child in order, and kills it if that takes long.
func (c *child) end() error { return c.End(2 * stopTime) }

// stopTime is how long a contestant may take to stop.
const stopTime = 5 * time.Second
