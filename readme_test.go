package millrace_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestReadme checks that the README's program is the one that runs as the example.
func TestReadme(t *testing.T) {
	t.Parallel()
	got := between(t, "README.md", "```go\n", "```")
	want := between(t, "example_test.go", "// README begins\n", "// README ends")
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			t.Fatalf("they differ from line %d on.\nREADME.md:\n%s\n\nexample_test.go:\n%s", i+1, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// between returns a file's lines between two marks that are there once, without what may differ: how deep a Go
// file's function is indented, and how gofmt aligns comments.
func between(t *testing.T, file, begin, end string) []string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := string(content)
	if n := strings.Count(text, begin); n != 1 {
		t.Fatalf("%s has %q %d times, want once", file, begin, n)
	}
	_, text, _ = strings.Cut(text, begin)
	text, _, ok := strings.Cut(text, end)
	if !ok {
		t.Fatalf("%s has no %q after %q", file, end, begin)
	}
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i, line := range lines {
		if strings.HasSuffix(file, ".go") {
			line = strings.TrimPrefix(line, "\t")
		}
		lines[i] = strings.TrimRight(spaces.ReplaceAllString(line, " "), " \t")
	}
	return lines
}

var spaces = regexp.MustCompile(` +`)
