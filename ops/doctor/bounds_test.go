package doctor

import (
	"errors"
	"iter"
	"testing"
)

// Law: an examination is bounded. Things that can't be read count, too.
func TestExaminationsAreBounded(t *testing.T) {
	t.Parallel()
	read := 0
	endless := iter.Seq2[int, error](func(yield func(int, error) bool) {
		for ; yield(read, errors.New("damaged")); read++ {
			if read > 10 {
				t.Fatal("the list is read on")
			}
		}
	})
	seen := 0
	for _, err := range atMost(3, endless) {
		if seen++; err == nil {
			t.Error("an error got lost")
		}
	}
	if seen != 3 {
		t.Errorf("got %d things, want 3", seen)
	}
	read, seen = 0, 0
	for range atMost(3, endless) {
		seen++
		break
	}
	if seen != 1 || read != 0 {
		t.Errorf("after a break: got %d things of %d, want 1 of the first", seen, read)
	}
}
