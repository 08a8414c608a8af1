package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestEachBreakFitsTheCode runs no tests of the code: a code change that a mutant no longer fits fails at once.
func TestEachBreakFitsTheCode(t *testing.T) {
	t.Chdir(filepath.Join("..", "..", ".."))
	for _, m := range mutants() {
		_, remove, err := m.overlay()
		if err != nil {
			t.Errorf("%s: %v", m.name, err)
			continue
		}
		remove()
	}
}

// A test that a break names exists, or the break would be caught by nobody after a long search.
func TestEachNamedTestExists(t *testing.T) {
	t.Chdir(filepath.Join("..", "..", ".."))
	for _, m := range mutants() {
		if m.by == "" {
			continue
		}
		files, err := filepath.Glob(filepath.Join(m.by, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		name, _, _ := strings.Cut(m.test, "/")
		found := false
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			found = found || bytes.Contains(text, []byte("func "+name+"(t *testing.T)"))
		}
		if !found {
			t.Errorf("%s: package %q has no %s", m.name, m.by, m.test)
		}
	}
}

// A run ends with the first failure: the line that names it is complete, and it need not come in one piece.
func TestRunEndsWithTheFirstFailure(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pieces []string
		want   bool
	}{
		{[]string{"=== RUN   TestA\n", "--- PASS: TestA (0.00s)\n"}, false},
		{[]string{"    --- FAIL: TestA/b (0.00s)\n"}, true},
		{[]string{"--- FA", "IL: Test", "A (0.00s)\n"}, true},
		{[]string{"--- FAIL: Test"}, false},
	} {
		stopped := false
		f := &firstFailure{stop: func() { stopped = true }}
		for _, piece := range c.pieces {
			if n, err := f.Write([]byte(piece)); n != len(piece) || err != nil {
				t.Fatalf("wrote %d of %d bytes: %v", n, len(piece), err)
			}
		}
		if stopped != c.want {
			t.Errorf("%q: got stopped %v, want %v", c.pieces, stopped, c.want)
		}
	}
}
