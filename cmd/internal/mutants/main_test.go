package main

import (
	"path/filepath"
	"testing"
)

// TestEachBreakFitsTheCode needs no tests run: a change of the code that leaves a mutant behind fails at once.
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
