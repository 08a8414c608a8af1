package act

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
)

// A Request is an act with the text that somebody has given for its fields.
type Request struct {
	Act    *Act
	Fields []Field // those of its input, and those that its Act asks for: by, why, yes, dry-run

	by, why     string
	yes, dryRun bool
	reveal      bool
	binding     binding
}

// Request begins a request.
func (a *Act) Request() *Request {
	b := a.bind()
	r := &Request{Act: a, Fields: b.fields, binding: b}
	defer r.remember()
	if a.Reveals {
		r.Fields = append(r.Fields, Flag(&r.reveal, "reveal", "show the content, which may be personal; it needs --why"))
	}
	if a.Why != Not || a.Reveals {
		about := "a `TEXT` that tells others why"
		if a.Why == Must {
			about = "a `TEXT` that tells others why; it has to be given"
		}
		r.Fields = append(r.Fields,
			note(&r.by, "by", fmt.Sprintf("`NAME` of the person that does it, at most %d bytes; the default is USER@HOST", MaxBy), MaxBy),
			note(&r.why, "why", fmt.Sprintf("%s, at most %d bytes", about, MaxWhy), MaxWhy))
	}
	if a.Sure != Not {
		r.Fields = append(r.Fields, Flag(&r.dryRun, "dry-run", "change nothing, and show what would be done"))
	}
	if a.Sure == Must {
		r.Fields = append(r.Fields, Flag(&r.yes, "yes", "do it: this can't be taken back"))
	}
	return r
}

// remember has each field keep the texts that it has read.
func (r *Request) remember() {
	for i := range r.Fields {
		f, set := &r.Fields[i], r.Fields[i].Set
		given := new([]string)
		f.given = given
		f.Set = func(text string) error {
			err := set(text)
			if err == nil {
				*given = append(*given, text)
			}
			return err
		}
	}
}

// Field returns a field by its name; nil if there is none.
func (r *Request) Field(name string) *Field {
	i := slices.IndexFunc(r.Fields, func(f Field) bool { return f.Name == name })
	if i < 0 {
		return nil
	}
	return &r.Fields[i]
}

// Args gives the text of the fields that have a place, in their order.
func (r *Request) Args(args []string) error {
	var places []*Field
	least, many := 0, false
	for i := range r.Fields {
		f := &r.Fields[i]
		if f.Place == "" {
			continue
		}
		places = append(places, f)
		many = many || f.Many
		if !f.Optional {
			least++
		}
	}
	switch {
	case len(args) < least:
		return Usage("want %s", r.Places())
	case len(args) > len(places) && !many:
		return Usage("unknown argument %s%s", Word(args[len(places)]), r.instead(len(places)))
	case slices.Contains(args, ""): // from an unset variable of the shell
		return Usage("an argument is empty")
	}
	for i, text := range args {
		f := places[min(i, len(places)-1)]
		if err := f.Set(text); err != nil {
			return Usage("%s: %w", f.Place, err)
		}
	}
	return nil
}

// Places names the fields that have a place, as a line of usage does: "NAME [STEP]".
func (r *Request) Places() string {
	var all []string
	for _, f := range r.Fields {
		if f.Place != "" {
			all = append(all, f.usage())
		}
	}
	return strings.Join(all, " ")
}

// instead names the flags for what a person may mean by an argument of an act that takes none.
func (r *Request) instead(places int) string {
	if places > 0 || r.Field("queue") == nil || r.Field("id") == nil {
		return ""
	}
	return "; name a queue by --queue, and a message by --id"
}

// CheckEarly says what keeps the request from being right before the contents of its fields are known: a usage error.
// It saves a person from typing them in vain.
func (r *Request) CheckEarly(p Program) error { return r.binding.early(p) }

// Check says what keeps the request from being right, once its fields are set: a usage error. A field with a place has
// to be given, unless it may be left out: else an act that takes a list would do nothing, and say that it is done.
func (r *Request) Check() error {
	if err := r.missing(); err != nil {
		return err
	}
	if err := r.binding.check(); err != nil {
		return err
	}
	const reason = "add --why TEXT: it tells others the reason"
	unreasoned := (r.Act.Why == Must && !r.dryRun || r.reveal) && strings.TrimSpace(r.why) == ""
	switch {
	case r.yes && r.dryRun:
		return Usage("want --yes or --dry-run, not both")
	case r.Act.Sure == Must && !r.yes && !r.dryRun:
		const sure = "it can't be taken back: add --yes to do it, or --dry-run to see what it would do"
		if unreasoned {
			return Usage("%s; to do it, also %s", sure, reason)
		}
		return Usage(sure)
	case unreasoned:
		return Usage(reason)
	}
	return nil
}

// missing names the fields that have to be given and are not.
func (r *Request) missing() error {
	var all []string
	for _, f := range r.Fields {
		if f.Place != "" && !f.Optional && f.Default == "" && len(*f.given) == 0 {
			all = append(all, fmt.Sprintf("--%s is missing (%s)", f.Name, strings.ReplaceAll(f.About, "`", "")))
		}
	}
	if len(all) == 0 {
		return nil
	}
	return Usage("%s", strings.Join(all, "; "))
}

// Role is the role that the request needs.
func (r *Request) Role() Role {
	if r.reveal {
		return max(r.Act.Role, Operator)
	}
	return r.Act.Role
}

// DryRun reports that the request changes nothing.
func (r *Request) DryRun() bool { return r.dryRun || r.Act.Role == Viewer }

// Noted reports that the audit log has the request: a request that changes something, or that reveals content.
func (r *Request) Noted() bool { return (!r.DryRun() || r.reveal) && !r.Act.Local }

// Do does the act for a person, who is named in c.By unless the request names somebody else. It checks the request
// first.
func (r *Request) Do(ctx context.Context, c *Call) error {
	if err := r.missing(); err != nil {
		return err
	}
	if err := cmp.Or(r.CheckEarly(c.Program), r.Check()); err != nil {
		return err
	}
	if r.by != "" {
		c.By = r.by
	}
	c.Why, c.DryRun, c.revealed = r.why, r.dryRun, r.reveal
	run := r.binding.run
	if r.Noted() {
		run = r.audited
	}
	if err := run(ctx, c); err != nil {
		return err
	}
	return c.to.End()
}
