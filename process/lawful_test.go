package process_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Each law of the package comment is named by the comment of a test that holds it, here or in package flow.
func TestEachLawHasATest(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	laws := regexp.MustCompile(`(?m)^//  (\d+)\. `).FindAllStringSubmatch(string(doc), -1)
	if len(laws) != 18 {
		t.Fatalf("the package comment has %d laws, want 18", len(laws))
	}
	var comments strings.Builder
	comment := regexp.MustCompile(`(?m)^// ((?:Laws?) [0-9, and]+)[^\n]*\n(?:// [^\n]*\n)*func (?:Test|each)`)
	for _, pattern := range []string{"*_test.go", "internal/flow/*_test.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, found := range comment.FindAllStringSubmatch(string(text), -1) {
				comments.WriteString(found[1] + "\n")
			}
		}
	}
	for i := range laws {
		if named := regexp.MustCompile(fmt.Sprintf(`\b%d\b`, i+1)); !named.MatchString(comments.String()) {
			t.Errorf("no test names law %d", i+1)
		}
	}
}
