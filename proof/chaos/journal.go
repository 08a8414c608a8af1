package main

import (
	"fmt"
	"os"
	"sync"
	"time"
)

// A journal prints for people when something happened, and collects what the verdict needs. It is safe for concurrent
// use.
type journal struct {
	begun time.Time
	file  *os.File

	mu    sync.Mutex
	done  map[kind]int // disturbances that took place
	notes map[string]int
	found []finding
	hard  int // disturbances under way that excuse a program that can't start or stop well
	eased time.Time
}

func newJournal(file string) (*journal, error) {
	f, err := os.Create(file)
	if err != nil {
		return nil, err
	}
	return &journal{begun: time.Now(), file: f, done: map[kind]int{}, notes: map[string]int{}}, nil
}

// begin starts the clock.
func (j *journal) begin() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.begun = time.Now()
}

func (j *journal) close() error { return j.file.Close() }

// say writes a line. A failure to write doesn't end a run.
func (j *journal) say(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	_, _ = fmt.Fprintf(j.file, "%9.3fs  %s\n", time.Since(j.begun).Seconds(), fmt.Sprintf(format, args...))
}

// did counts a disturbance.
func (j *journal) did(k kind) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.done[k]++
}

// note counts something for the report that isn't judged.
func (j *journal) note(what string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.notes[what]++
}

// fault notes a finding for the verdict.
func (j *journal) fault(check, format string, args ...any) {
	f := finding{check, fmt.Sprintf(format, args...)}
	j.say("FOUND %v", f)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.found = append(j.found, f)
}

// hardship begins a time in which a program may fail to start or to stop in order, because the store or the disk is
// away. ease ends it.
func (j *journal) hardship() (ease func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.hard++
	return sync.OnceFunc(func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.hard--
		j.eased = time.Now()
	})
}

// excused reports whether there was a hardship after since, or so shortly before it that a program may still suffer
// from it.
func (j *journal) excused(since time.Time) bool {
	const impression = 20 * time.Second
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.hard > 0 || j.eased.After(since.Add(-impression))
}
