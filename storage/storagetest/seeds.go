package storagetest

import (
	"iter"
	"os"
	"strconv"
	"testing"
)

// Seeds yields the seeds of a test of random schedules: n seeds from first on. The environment variable MILLRACE_SEEDS
// changes how many there are, from 1 on, and MILLRACE_SEED runs a single one again.
func Seeds(t testing.TB, first, n uint64) iter.Seq[uint64] {
	t.Helper()
	if many, ok := number(t, "MILLRACE_SEEDS"); ok {
		first, n = 1, many
	}
	if one, ok := number(t, "MILLRACE_SEED"); ok {
		first, n = one, 1
	}
	return func(yield func(uint64) bool) {
		for i := range n {
			if !yield(first + i) {
				return
			}
		}
	}
}

// number reads an environment variable that is a number.
func number(t testing.TB, name string) (n uint64, ok bool) {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return 0, false
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s is %q; want a number", name, text)
	}
	return n, true
}
