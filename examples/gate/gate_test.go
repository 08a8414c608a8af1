package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/millrace-go/millrace/coord/gate"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/sqlite"
)

// TestMain makes the test binary the program itself when a test starts it as a worker.
func TestMain(m *testing.M) {
	const child = "HOUNDS_TEST_CHILD"
	if os.Getenv(child) != "" {
		main()
		return
	}
	if err := os.Setenv(child, "1"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

func open(t *testing.T) (store *storage.Store, url string) {
	t.Helper()
	url = "sqlite:" + filepath.Join(t.TempDir(), "gate.db") + "?sync=normal"
	store, err := sqlite.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store, url
}

// checkBegan reports a job that was begun before the gate opened.
func checkBegan(t *testing.T, store *storage.Store, done []Numbered) {
	t.Helper()
	opened, err := gate.At(store, start).State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range done {
		if d.Began.Before(opened.Since) {
			t.Errorf("%s began %v before the gate opened", d.Worker, opened.Since.Sub(d.Began))
		}
	}
}

// Eight processes wait at the gate, and number all jobs after it has opened. A second race on the same store goes as
// well, and its numbers follow.
func TestEightProcesses(t *testing.T) {
	t.Parallel()
	store, url := open(t)
	seen := map[int64]bool{}
	for _, workers := range []int{8, 2} {
		if err := race(t.Context(), store, url, workers, 200); err != nil {
			t.Fatal(err)
		}
		done, err := numbered(t.Context(), store)
		if err != nil || len(done) != 200 {
			t.Fatalf("got %d jobs with numbers, %v; want 200", len(done), err)
		}
		checkBegan(t, store, done)
		for _, d := range done {
			if seen[d.Number] {
				t.Errorf("number %d came twice", d.Number)
			}
			seen[d.Number] = true
		}
	}
}

// A worker is killed in the middle. Another one, which comes after the opening, does the rest.
func TestOneIsKilledAndOneIsLate(t *testing.T) {
	t.Parallel()
	const jobs = 1000
	store, url := open(t)
	if err := prepare(t.Context(), store, jobs); err != nil {
		t.Fatal(err)
	}
	begin := func(name string) *exec.Cmd {
		h, out, err := startHound(url, name)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = h.Process.Kill() // the first one is dead already
			_ = h.Wait()
		})
		if err := awaitReady(out); err != nil {
			t.Fatal(err)
		}
		return h
	}
	early := begin("early")
	if err := gate.At(store, start).Open(t.Context(), gate.Note{}); err != nil {
		t.Fatal(err)
	}
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for limit := time.After(time.Minute); ; {
		done, err := numbered(t.Context(), store)
		if err != nil {
			t.Fatal(err)
		}
		if len(done) > 0 {
			break
		}
		select {
		case <-look.C:
		case <-limit:
			t.Fatal("after a minute no job has a number")
		}
	}
	if err := early.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	begin("late")
	if err := result(t.Context(), store, jobs); err != nil {
		t.Fatal(err)
	}
	done, err := numbered(t.Context(), store)
	if err != nil {
		t.Fatal(err)
	}
	checkBegan(t, store, done)
	by := map[string]int{}
	for _, d := range done {
		by[d.Worker]++
	}
	if by["early"] == 0 || by["late"] == 0 || by["early"]+by["late"] != jobs {
		t.Errorf("got jobs %v, want some by each and %d together", by, jobs)
	}
}
