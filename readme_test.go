package millrace_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestPages checks that the Go of these pages is what tests compile and run, part by part: what stands between the
// marks with the page's name. The README's parts are its example: first its types, then the program made of them.
func TestPages(t *testing.T) {
	t.Parallel()
	for page, file := range map[string]string{
		"README.md":         "example_test.go",
		"docs/processes.md": "examples/shop/page_test.go",
		"docs/testing.md":   "pages_test.go",
		"docs/values.md":    "pages_test.go",
	} {
		mark := "// " + page
		if page == "README.md" {
			mark = "// README"
		}
		got := between(t, page, "```go\n", "```")
		want := between(t, file, mark+" begins\n", mark+" ends")
		if len(got) == 0 || len(got) != len(want) {
			t.Errorf("%s has %d parts of Go, %s %d; want as many", page, len(got), file, len(want))
			continue
		}
		for n := range got {
			got, want := got[n], want[n]
			for i := range max(len(got), len(want)) {
				if i >= len(got) || i >= len(want) || got[i] != want[i] {
					t.Errorf("they differ from line %d on.\n%s:\n%s\n\n%s:\n%s", i+1, page, strings.Join(got, "\n"), file, strings.Join(want, "\n"))
					break
				}
			}
		}
	}
}

// TestPagesHaveParts checks that parts of these pages are what tests compile and run. The pages have other parts, too.
func TestPagesHaveParts(t *testing.T) {
	t.Parallel()
	for _, page := range []string{"docs/guard.md", "docs/schedules.md"} {
		want := between(t, "pages_test.go", "// "+page+" begins\n", "// "+page+" ends")
		if len(want) != 1 {
			t.Errorf("%s: pages_test.go has %d parts of it, want 1", page, len(want))
			continue
		}
		if !slices.ContainsFunc(between(t, page, "```go\n", "```"), func(part []string) bool { return slices.Equal(part, want[0]) }) {
			t.Errorf("%s has no part that is\n%s", page, strings.Join(want[0], "\n"))
		}
	}
}

// between returns the parts of a file between two marks, by lines. It removes differences that don't matter: a Go
// file's indentation in a function, and gofmt's alignment of comments.
func between(t *testing.T, file, begin, end string) (parts [][]string) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range strings.Split(string(content), begin)[1:] {
		text, _, ok := strings.Cut(text, end)
		if !ok {
			t.Fatalf("%s has no %q after %q", file, end, begin)
		}
		lines := strings.Split(strings.TrimRight(text, " \t\n"), "\n")
		inFunction := strings.HasPrefix(text, "\t")
		for i, line := range lines {
			if inFunction {
				line = strings.TrimPrefix(line, "\t")
			}
			lines[i] = strings.TrimRight(spaces.ReplaceAllString(line, " "), " \t")
		}
		parts = append(parts, lines)
	}
	return parts
}

var spaces = regexp.MustCompile(` +`)

// TestLinks follows the links of all pages to files and headings.
func TestLinks(t *testing.T) {
	t.Parallel()
	code := regexp.MustCompile("(?s)```.*?```|`[^`]*`")
	link, outside := regexp.MustCompile(`\]\(([^)\s]+)\)`), regexp.MustCompile(`^[a-z]+:`)
	n := 0
	for _, pattern := range []string{"*.md", "*/*.md", "*/*/*.md", "*/*/*/*.md"} {
		pages, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, page := range pages {
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			for _, found := range link.FindAllStringSubmatch(code.ReplaceAllString(string(text), ""), -1) {
				file, heading, _ := strings.Cut(found[1], "#")
				if outside.MatchString(found[1]) {
					continue
				}
				n++
				to := page
				if file != "" {
					to = filepath.Join(filepath.Dir(page), file)
				}
				if _, err := os.Stat(to); err != nil {
					t.Errorf("%s: %s is not there", page, found[1])
				} else if heading != "" && !slices.Contains(anchors(t, to), heading) {
					t.Errorf("%s: %s has no such heading", page, found[1])
				}
			}
		}
	}
	if n == 0 {
		t.Error("no links")
	}
}

// anchors are the names of a page's headings, as GitHub makes them.
func anchors(t *testing.T, page string) (all []string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(string(text), -1) {
		plain := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(heading[1]), "")
		all = append(all, strings.ReplaceAll(plain, " ", "-"))
	}
	return all
}
