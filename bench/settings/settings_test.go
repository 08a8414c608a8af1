package main

import (
	"os"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/bench/host"
)

// TestMain lets the test's binary be a node, as main does.
func TestMain(m *testing.M) {
	if text := os.Getenv(childVar); text != "" {
		os.Exit(beNode(text, os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// A brief run has a row for each number of nodes. It leaves nothing behind.
func TestSmoke(t *testing.T) {
	temp := t.TempDir()
	if host.InMemory(temp) {
		t.Skip("the folder for temporary files lies in memory")
	}
	t.Setenv("TMPDIR", temp)
	var table, log strings.Builder
	if code := run(t.Context(), []string{"-nodes", "1,2", "-changes", "3", "-pause", "0s"}, &table, &log); code != 0 {
		t.Fatalf("exit code %d\n%s", code, log.String())
	}
	for _, want := range []string{"\n| 1 | 3 | ", "\n| 2 | 3 | "} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("no row %q in\n%s", want, table.String())
		}
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// Plans that can't be right are refused before anything starts.
func TestBadPlans(t *testing.T) {
	for _, args := range []string{"-nodes 0", "-nodes many", "-nodes 2,,8", "-changes 0", "-pause -1s", "-sync no", "2", "-what"} {
		var log strings.Builder
		if code := run(t.Context(), strings.Fields(args), &log, &log); code != 2 || log.Len() == 0 {
			t.Errorf("%s: exit code %d, and %q", args, code, log.String())
		}
	}
}
