package act

import (
	"context"
	"strings"
)

// A Role says who may do an act. Each may also do what the ones before it may.
type Role int

// The roles.
const (
	Viewer   Role = iota + 1 // looks
	Operator                 // steers: pauses, retries, changes settings
	Admin                    // destroys: discards, purges, lowers, breaks
)

// String is the name of the role.
func (r Role) String() string {
	switch r {
	case Viewer:
		return "viewer"
	case Operator:
		return "operator"
	case Admin:
		return "admin"
	}
	return "nobody"
}

// Asked says whether an act takes something.
type Asked int

// The values of Asked.
const (
	Not  Asked = iota
	May        // it may be given
	Must       // it has to be given
)

// An Act is one thing that an operator can do.
type Act struct {
	Noun  string // what it is about, as people type it: "queues"
	Verb  string // what it does: "pause". "" where the noun alone says it: "doctor"
	Alone bool   // the noun alone means this act, too
	About string // what it does, for a list of acts: one line that begins with a verb
	More  string // the rest of its help

	Role   Role
	Why    Asked // who does it and why: --by and --why. By is never a must, and nor is either for a dry run
	Sure   Asked // May: it takes --dry-run. Must: it destroys, so it needs --yes or --dry-run
	Undoes bool  // it takes back what was done, or has it done again: pages mark it as they mark what destroys
	Local  bool  // it needs no store, and works on files of the machine where it is asked for
	Disk   bool  // it needs a store, and reads files of that machine
	Once   bool  // nothing tells a repeat of its effect apart: without a known end it isn't begun again under its ID

	// Again tells of an act that went on after its run, and has ended: an act is asked for again under its ID. told is
	// false if no such act has the ID. An act that had failed fails again, by the audit log. nil: the act doesn't go
	// on after its run.
	Again func(context.Context, *Call) (told bool, err error)

	// Reveals says that it tells content: bodies, values, texts of errors. It tells their shape, and with --reveal and
	// --why the content itself, which needs role Operator.
	Reveals bool

	// Here reports that a desk has what the act needs beside the store: the code of a program. nil: any desk has. Pages
	// don't offer an act that can't be done at their desk.
	Here func(*Desk) bool

	bind func() binding
}

// OnPages reports that the act can be done from elsewhere than the machine whose files it works on.
func (a *Act) OnPages() bool { return !a.Local && !a.Disk }

// DoneAt reports that the act can be done at a desk.
func (a *Act) DoneAt(d *Desk) bool { return a.Here == nil || a.Here(d) }

// A binding is an input whose fields can be set.
type binding struct {
	fields []Field
	check  func() error
	early  func(Program) error
	run    func(context.Context, *Call) error
}

// New makes an act whose input is an In. fields sets the defaults of an input and binds it. If an *In has the method
// Check() error, it is called once all fields are set; its errors should be made by [Usage]. If it has the method
// CheckEarly(Program) error, that is called before somebody has to give a field's content.
func New[In any](a Act, fields func(*In) []Field, run func(context.Context, *Call, *In) error) *Act {
	a.bind = func() binding {
		in := new(In)
		b := binding{check: func() error { return nil }, early: func(Program) error { return nil }}
		if fields != nil {
			b.fields = fields(in)
		}
		if x, ok := any(in).(interface{ Check() error }); ok {
			b.check = x.Check
		}
		if x, ok := any(in).(interface{ CheckEarly(Program) error }); ok {
			b.early = x.CheckEarly
		}
		b.run = func(ctx context.Context, c *Call) error { return run(ctx, c, in) }
		return b
	}
	return &a
}

// None is the input of an act that takes nothing.
type None struct{}

// Name is the act as people type it.
func (a *Act) Name() string { return strings.TrimSpace(a.Noun + " " + a.Verb) }
