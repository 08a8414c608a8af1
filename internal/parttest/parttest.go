// Package parttest lets the runs of CI take turns. Some tests take so long that each revision's run has only a part of
// them, by the number in the environment variable MILLRACE_PART. Without the variable a run has all.
//
//	func TestTenYears(t *testing.T) {
//		parttest.InTurn(t) // each fifth run has it
//
// MILLRACE_TURNS=all lets a run that breaks the code on purpose have all, too.
package parttest

import (
	"hash/fnv"
	"os"
	"strconv"
	"testing"
)

// Turns is of how many runs each has a test that takes turns.
const Turns = 5

// Reason begins the reason with which a test is skipped that another run has. A summary doesn't count it as missing.
const Reason = "in turn: "

// InTurn skips a test that another run has. The test's name decides which.
func InTurn(t testing.TB) {
	t.Helper()
	if part, named := Of(t, Turns); named && part != place(t.Name()) && os.Getenv("MILLRACE_TURNS") != "all" {
		t.Skipf(Reason+"the runs of part %d of %d have it", place(t.Name()), Turns)
	}
}

func place(name string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name)) // it never fails
	return int(h.Sum32() % Turns)
}

// Of returns the run's part of so many, counted from 0, and whether one is named. It fails the test if the variable
// holds no number.
func Of(t testing.TB, parts int) (part int, named bool) {
	t.Helper()
	text := os.Getenv("MILLRACE_PART")
	if text == "" {
		return 0, false
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("MILLRACE_PART is %q; want a number", text)
	}
	return int(n % uint64(parts)), true
}
