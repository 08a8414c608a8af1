package millrace_test

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// Comments are read in narrow windows, and one sentence at a time. A sentence that opens with a headless relative ("Who
// ranks highest …") is read twice: name the thing that it is about.
func TestCommentsReadEasily(t *testing.T) {
	t.Parallel()
	const most = 120 // columns
	headless := regexp.MustCompile(`(^|[.;] )(Who|What|Whoever) [a-z']+ `)
	n := 0
	for _, f := range sources(t) {
		for _, group := range f.tree.Comments {
			if strings.HasPrefix(group.Text(), "Output:") {
				continue // what an example prints
			}
			for _, c := range group.List {
				for i, line := range strings.Split(c.Text, "\n") {
					n++
					at := f.set.Position(c.Pos()).Line + i
					if column := f.set.Position(c.Pos()).Column; i == 0 && column == 1+indent(f.text, f.set.Position(c.Pos()).Offset) && column-1+utf8.RuneCountInString(line) > most {
						t.Errorf("%s:%d: a comment line of %d columns; want at most %d", f.name, at, column-1+utf8.RuneCountInString(line), most)
					}
					text := strings.TrimLeft(strings.TrimLeft(line, "/*"), " \t-")
					if headless.MatchString(text) && !strings.HasPrefix(text, "# ") {
						t.Errorf("%s:%d: a sentence without a subject: %s", f.name, at, text)
					}
				}
			}
		}
	}
	if n < 1000 {
		t.Errorf("found %d lines of comments only: the walk is broken", n)
	}
}

// indent tells how many bytes of white space stand between the beginning of a line and an offset, or -1 where there is
// more than white space.
func indent(text []byte, offset int) int {
	begin := strings.LastIndexByte(string(text[:offset]), '\n') + 1
	if strings.TrimLeft(string(text[begin:offset]), " \t") != "" {
		return -1
	}
	return offset - begin
}
