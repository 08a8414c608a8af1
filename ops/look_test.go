package ops

import (
	"testing"
	"unicode/utf8"
)

// A title begins with a capital, whatever the letter is. The name of a thing stays as it is.
func TestTitle(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]string{"": "", "ids": "IDs", "queues": "Queues", "émile": "Émile", "\xff": "\ufffd"} {
		if got := title(s); got != want || !utf8.ValidString(got) {
			t.Errorf("%q: got %q, want %q", s, got, want)
		}
	}
}
