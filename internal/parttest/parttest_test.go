package parttest_test

import (
	"fmt"
	"testing"

	"github.com/millrace-go/millrace/internal/parttest"
)

// recorder is a test whose skip and failure are looked at.
type recorder struct {
	testing.TB
	name           string
	skipped, fatal bool
}

func (r *recorder) Helper()               {}
func (r *recorder) Name() string          { return r.name }
func (r *recorder) Skipf(string, ...any)  { r.skipped = true }
func (r *recorder) Fatalf(string, ...any) { r.fatal = true; panic(r) }

// run returns what a test does in the run of a part.
func run(t *testing.T, part, name string) (r *recorder) {
	t.Helper()
	t.Setenv("MILLRACE_PART", part)
	r = &recorder{TB: t, name: name}
	defer func() {
		if x := recover(); x != nil && x != any(r) {
			panic(x)
		}
	}()
	parttest.InTurn(r)
	return r
}

// Each test is in exactly one of five runs that follow each other, and the tests are spread.
func TestEachTestHasATurn(t *testing.T) {
	for _, name := range []string{"TestA", "TestB/c", ""} {
		for from := range 20 {
			had := 0
			for part := from; part < from+parttest.Turns; part++ {
				if !run(t, fmt.Sprint(part), name).skipped {
					had++
				}
			}
			if had != 1 {
				t.Errorf("%d of five runs from part %d have %s, want 1", had, from, name)
			}
		}
	}
	had := 0
	for n := range 1000 {
		if !run(t, "3", fmt.Sprint("Test", n)).skipped {
			had++
		}
	}
	if had < 100 || had > 300 {
		t.Errorf("a run has %d of 1000 tests, want some 200", had)
	}
}

// A run without a part has all tests, and a part that is no number is a failure.
func TestParts(t *testing.T) {
	if run(t, "", "TestA").skipped {
		t.Error("a run without a part skips a test")
	}
	t.Setenv("MILLRACE_TURNS", "all")
	for n := range parttest.Turns {
		if run(t, fmt.Sprint(n), "TestA").skipped {
			t.Errorf("the run of part %d skips a test, and all were asked for", n)
		}
	}
	for _, part := range []string{"x", "-1", "1.5"} {
		if !run(t, part, "TestA").fatal {
			t.Errorf("part %q is taken", part)
		}
	}
	t.Setenv("MILLRACE_PART", "11")
	if part, named := parttest.Of(t, 4); part != 3 || !named {
		t.Errorf("part 11 of 4 is %d (named %v), want 3", part, named)
	}
}
