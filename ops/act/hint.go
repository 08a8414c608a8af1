package act

import (
	"maps"
	"slices"
	"strings"
)

// A Hint is an act that helps, filled in as far as whoever gives the hint knows.
type Hint struct {
	Act   string            `json:"act"`             // by its name
	Args  []string          `json:"args,omitempty"`  // for the fields that have a place, in their order
	Flags map[string]string `json:"flags,omitempty"` // by name; "true" for a flag that takes no value
	Open  string            `json:"open,omitempty"`  // what a person has to add, as a line of usage has it: "KEY --why TEXT"
	Means string            `json:"means,omitempty"` // what the act says and does here, in a sentence; "" where the act's own words are enough
}

// Line is the hint as a command line.
func (h Hint) Line(command string) string {
	words := []string{command, h.Act}
	for _, text := range h.Args {
		words = append(words, ShellWord(text))
	}
	for _, name := range slices.Sorted(maps.Keys(h.Flags)) {
		words = append(words, "--"+name)
		if text := h.Flags[name]; text != "true" {
			words = append(words, ShellWord(text))
		}
	}
	if h.Open != "" {
		words = append(words, h.Open)
	}
	return strings.Join(words, " ")
}

// With returns the texts of the hint by the names of the fields of its act.
func (h Hint) With(a *Act) map[string][]string {
	with := map[string][]string{}
	for name, text := range h.Flags {
		with[name] = []string{text}
	}
	rest := h.Args
	for _, f := range a.Request().Fields {
		switch {
		case f.Place == "" || len(rest) == 0:
		case f.Many:
			with[f.Name], rest = rest, nil
		default:
			with[f.Name], rest = rest[:1], rest[1:]
		}
	}
	return with
}
