package main

import (
	"os"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/bench/host"
)

// A brief run has a table for each work. It leaves nothing behind.
func TestSmoke(t *testing.T) {
	temp := t.TempDir()
	if host.InMemory(temp) {
		t.Skip("the folder for temporary files lies in memory")
	}
	t.Setenv("TMPDIR", temp)
	var table, log strings.Builder
	if code := run(t.Context(), strings.Fields("-size 9 -azure 9 -rounds 1 -held 2 -keys 2"), &table, &log); code != 0 {
		t.Fatalf("exit code %d\n%s\n%s", code, table.String(), log.String())
	}
	for _, want := range []string{"\n| by the protocol | ", "\n| more for each upload, KiB | ", "\n| sync=normal | "} {
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
	for _, args := range []string{"-works all", "-size 0", "-azure 0", "-rounds 0", "-held -1", "-keys 0", "2", "-what"} {
		var log strings.Builder
		if code := run(t.Context(), strings.Fields(args), &log, &log); code != 2 || log.Len() == 0 {
			t.Errorf("%s: exit code %d, and %q", args, code, log.String())
		}
	}
}
