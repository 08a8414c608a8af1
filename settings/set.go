package settings

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/millrace-go/millrace/storage"
)

// A Patch is what an operator sets.
type Patch struct {
	Set   map[string]json.RawMessage // by path: names of members, joined by dots
	Unset []string                   // paths for which the programs' defaults shall hold

	// Force puts the change into force whatever the nodes say, and drops one that is being checked or rolled out. Nodes
	// that have not answered within 10 seconds are passed over, and so is a lack of nodes. If the values are in force
	// already, the other change is dropped, and the ending is that of the dropped version.
	Force bool

	// Waits is called at each look, about once a second, while answers are waited for. Defaults to none.
	Waits func([]Wait)
}

// Set changes what is in force, as [Settings.Propose] does, in those stages of the live nodes that take longest. A
// value for a path that a live node knows as a secret must be a reference. Where no node runs, nobody can check the
// change, so it is refused unless it is forced, and nothing is written. Then what is in force tells which are secrets.
//
// After an end of ctx, the Ending has the Version that may have been written and is then settled by the nodes, or 0.
func (l *Ledger) Set(ctx context.Context, note Note, patch Patch) (Ending, error) {
	nodes, err := l.Nodes(ctx)
	if err != nil {
		return Ending{}, err
	}
	if len(nodes) == 0 && !patch.Force {
		e := Ending{Result: Refused, Reasons: []Refusal{{Why: unchecked}}}
		return e, l.book.fail("set", e.Err())
	}
	p := newProposal(l.book, note)
	p.force, p.ending.told, p.stages = patch.Force, patch.Waits, stagesOf(nodes)
	p.make = func(values json.RawMessage) (tree, error) {
		t, err := parseTree(values)
		if err != nil {
			return nil, err
		}
		if err := patch.apply(t, nodes); err != nil || len(nodes) > 0 {
			return t, err
		}
		before, err := parseTree(values)
		if err != nil {
			return nil, err
		}
		return t, keepsReferences("", before, t)
	}
	e, err := p.run(ctx)
	if err != nil {
		return e, l.book.fail("set", err)
	}
	return e, nil
}

func (p Patch) apply(t tree, nodes []Node) error {
	for _, path := range p.Unset {
		if err := unset(t, path); err != nil {
			return err
		}
	}
	for _, path := range slices.Sorted(maps.Keys(p.Set)) {
		v, err := parseValue(p.Set[path])
		if err == nil && hasNull(v) {
			err = fmt.Errorf("%w: null is no value; to let the programs' default hold, unset it by \"settings set --default %s\"", storage.ErrInvalid, path)
		}
		if err == nil {
			err = assign(t, path, v)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	for _, n := range nodes {
		for _, path := range n.Secrets {
			for at, v := range each(t, "", path) {
				if text, ok := v.(string); !ok || checkReference(text) != nil {
					return fmt.Errorf("%s: %w", at, errNoReference)
				}
			}
		}
	}
	return nil
}

// keepsReferences refuses a value in place of a reference to a secret. It is for changes that no node checks.
func keepsReferences(path string, before, after any) error {
	if ref, ok := before.(string); ok && ref != "" && checkReference(ref) == nil && after != nil {
		if text, ok := after.(string); !ok || checkReference(text) != nil {
			return fmt.Errorf("%s: %w. What is in force there is one; if it is no secret any more, unset it first by \"settings set --default %s\"", path, errNoReference, path)
		}
		return nil
	}
	now := maps.Collect(membersOf(after))
	for name, v := range membersOf(before) {
		if err := keepsReferences(below(path, name), v, now[name]); err != nil {
			return err
		}
	}
	return nil
}

// hasNull reports that a value is null, or an object with a member that is null. A merge patch would remove that.
func hasNull(v any) bool {
	t, ok := v.(tree)
	if !ok {
		return v == nil
	}
	for _, m := range t {
		if hasNull(m) {
			return true
		}
	}
	return false
}

// each yields the values at a path below another one, with their own paths; null is none. A member of a list goes by
// its index, and * is each member.
func each(v any, above, path string) iter.Seq2[string, any] {
	return func(yield func(string, any) bool) {
		name, rest, more := strings.Cut(path, ".")
		for member, v := range membersOf(v) {
			if name != "*" && name != member || v == nil {
				continue
			}
			at := below(above, member)
			if !more && !yield(at, v) {
				return
			}
			if !more {
				continue
			}
			for at, v := range each(v, at, rest) {
				if !yield(at, v) {
					return
				}
			}
		}
	}
}

// membersOf yields the members of an object or a list.
func membersOf(v any) iter.Seq2[string, any] {
	return func(yield func(string, any) bool) {
		switch x := v.(type) {
		case tree:
			for _, name := range slices.Sorted(maps.Keys(x)) {
				if !yield(name, x[name]) {
					return
				}
			}
		case []any:
			for i, v := range x {
				if !yield(strconv.Itoa(i), v) {
					return
				}
			}
		}
	}
}
