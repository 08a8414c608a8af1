package millracetest

import (
	"fmt"
	"regexp"
)

// IDs with a time in them (UUIDs of version 7) differ from run to run, and so do those that are derived from them.
var (
	ownID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}`)
	anyID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
)

// A naming gives IDs names in the order in which they appear, so that two runs can be compared.
type naming struct {
	ids   *regexp.Regexp
	names map[string]string
}

func newNaming(ids *regexp.Regexp) naming { return naming{ids, map[string]string{}} }

// in returns a text with names for its IDs.
func (n naming) in(text string) string {
	return n.ids.ReplaceAllStringFunc(text, func(id string) string {
		if n.names[id] == "" {
			n.names[id] = fmt.Sprintf("ID-%d", len(n.names)+1)
		}
		return n.names[id]
	})
}
