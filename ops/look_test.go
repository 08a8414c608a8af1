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

// An open gate is well, and an open breaker of a guard isn't.
func TestWhatIsWellIsGreen(t *testing.T) {
	t.Parallel()
	for _, x := range []struct{ head, text, want string }{
		{"STATE", "open", "good"}, {"STATE", "closed", "back"}, {"BREAKER", "open", "bad"}, {"BREAKER", "ill", "bad"}, {"BREAKER", "closed", "good"},
	} {
		l := newLook(&block{Head: []string{"NAME", x.head}, Rows: [][]cell{{{Text: "bank"}, {Text: x.text}}}})
		if got := l.Rows[0][1].Pill; got != x.want {
			t.Errorf("%s in the column %s is %q, want %q", x.text, x.head, got, x.want)
		}
	}
}
