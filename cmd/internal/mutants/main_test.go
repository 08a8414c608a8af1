package main

import (
	"path/filepath"
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
