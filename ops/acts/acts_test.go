package acts

import "testing"

// Each act is in the table once: a command line that has a verb twice shows it twice.
func TestEachActIsThereOnce(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, a := range All() {
		if seen[a.Name()] {
			t.Errorf("act %s is there twice", a.Name())
		}
		seen[a.Name()] = true
	}
	if len(seen) < 50 {
		t.Errorf("got %d acts: the table is broken", len(seen))
	}
}
