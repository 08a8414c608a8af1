package flow

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
)

// A Step is a step of a plan's structure: what must not change under a version's number. Deadlines, attempts and
// functions may.
type Step struct {
	Path  string `json:"path"` // steps of parts have the path of the step that they belong to before a slash
	Verb  Verb   `json:"verb"`
	Name  string `json:"name"`
	Types string `json:"types,omitempty"` // kinds of messages, or digests of the JSON forms of types
	By    string `json:"by,omitempty"`
	Undo  bool   `json:"undo,omitzero"`
}

// String describes the step in a line.
func (s Step) String() string {
	line := fmt.Sprintf("%s %s %q", s.Path, s.Verb, s.Name)
	if s.Types != "" {
		line += " " + s.Types
	}
	if s.By != "" {
		line += " by " + s.By
	}
	if s.Undo {
		line += " with an undo"
	}
	return line
}

// Structure returns the steps of the plan and its parts, in order.
func (p *Plan) Structure() []Step {
	var steps []Step
	p.structure(p.Root, "", &steps)
	return steps
}

func (p *Plan) structure(s *Seq, prefix string, steps *[]Step) {
	for _, n := range s.Steps {
		types := n.Structure
		if n.Listed {
			types += " listed"
		}
		*steps = append(*steps, Step{Path: prefix + n.Path, Verb: n.Verb, Name: n.Name, Types: types, By: n.By, Undo: n.Undo != nil || n.UndoAsk != nil})
		for _, b := range n.Branches {
			p.structure(b, prefix, steps)
		}
		if n.Else != nil {
			p.structure(n.Else, prefix, steps)
		}
		if n.Child != nil {
			n.Child.structure(n.Child.Root, prefix+n.Path+"/", steps)
		}
	}
}

func (p *Plan) fingerprint() string {
	h := sha256.New()
	for _, s := range p.Structure() {
		fmt.Fprintln(h, s)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// Differs says what is different between a plan's structure and an older one, in words, or "".
func (p *Plan) Differs(old []Step) string {
	now := p.Structure()
	for i, s := range now {
		switch {
		case i >= len(old):
			return fmt.Sprintf("step %v is new", s)
		case s != old[i]:
			return fmt.Sprintf("step %v was %v", s, old[i])
		}
	}
	if len(old) > len(now) {
		return fmt.Sprintf("step %v is missing", old[len(now)])
	}
	return ""
}

// waiting returns, by name, each step of a sequence that an instance may wait for, with the steps that it belongs to,
// outermost first. An upgrade must carry them together. Steps of parts are not among them: parts go on by their own
// version.
func waiting(s *Seq, owners []string) (sets [][]string) {
	for _, n := range s.Steps {
		all := append(slices.Clone(owners), n.Name)
		switch n.Verb {
		case Then, Pivot:
		case If, All, Any:
			for _, b := range n.Branches {
				sets = append(sets, waiting(b, all)...)
			}
		default:
			sets = append(sets, all)
		}
		if n.Else != nil {
			sets = append(sets, waiting(n.Else, owners)...)
		}
	}
	return sets
}
