package host

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

func TestCPU(t *testing.T) {
	proc := t.TempDir()
	process := func(pid, parent int, threads ...string) {
		dir := filepath.Join(proc, strconv.Itoa(pid))
		for i, sched := range threads {
			task := filepath.Join(dir, "task", strconv.Itoa(pid+i))
			if err := os.MkdirAll(task, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(task, "schedstat"), []byte(sched), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		stat := strconv.Itoa(pid) + " (a (b) c) S " + strconv.Itoa(parent) + " 1 1 0 -1 0 0 0 0 0 500 600 25 50 20 0 1 0"
		if err := os.WriteFile(filepath.Join(dir, "stat"), []byte(stat), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	process(10, 1, "1000000000 5 5", "500000000 5 5")
	process(11, 10, "2000000000 5 5")
	process(12, 11, "4000000000 5 5")
	process(13, 1, "8000000000 5 5")
	// Processes that ended below each of the three add 0.75 s.
	if got, err := CPU(proc, 10); err != nil || got != 1.5+2+4+3*0.75 {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := CPU(proc, 99); err == nil {
		t.Errorf("no such process: %v", got)
	}
}
