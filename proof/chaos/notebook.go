package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// A what is the kind of a line in a child's journal.
type what string

// A line is a line of a child's journal.
type line struct {
	At    int64  `json:"at"` // by the clock that all processes share
	What  what   `json:"what"`
	Name  string `json:"name,omitempty"` // of what is held, or of the signal
	N     int64  `json:"n,omitempty"`
	Count int64  `json:"count,omitempty"`
	Text  string `json:"text,omitempty"`
}

// A notebook is the journal of a process, which others read when it is over. Safe for concurrent use.
type notebook struct {
	mu   sync.Mutex
	file *os.File
}

// write appends a line by one call, so that a kill leaves it whole or leaves it out. Without a journal there is no
// audit.
func (n *notebook) write(line any) {
	text, err := json.Marshal(line)
	if err == nil {
		n.mu.Lock()
		_, err = n.file.Write(append(text, '\n'))
		n.mu.Unlock()
	}
	if err != nil {
		panic(fmt.Sprintf("write the journal: %v", err))
	}
}

// note writes a line with the time, if it has none.
func (n *notebook) note(l line) {
	if l.At == 0 {
		l.At = clock()
	}
	n.write(l)
}

func (n *notebook) close() error { return n.file.Close() }

const journalEnds = ".lines"

// newJournalFile makes the file of a life's journal.
func newJournalFile(dir, life string) (*os.File, error) {
	return os.OpenFile(filepath.Join(dir, life+journalEnds), os.O_CREATE|os.O_EXCL|os.O_APPEND|os.O_WRONLY, 0o600)
}

// readJournals reads the journals of all lives. A line that a kill has broken off doesn't count.
func readJournals(dir string) (map[string][]line, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*"+journalEnds))
	if err != nil {
		return nil, err
	}
	lives := map[string][]line{}
	for _, file := range files {
		life := strings.TrimSuffix(filepath.Base(file), journalEnds)
		if lives[life], err = readJournal(dir, life); err != nil {
			return nil, err
		}
	}
	return lives, nil
}

func readJournal(dir, life string) ([]line, error) {
	text, err := os.ReadFile(filepath.Join(dir, life+journalEnds))
	if err != nil {
		return nil, err
	}
	lines, err := decodeLines[line](text[:bytes.LastIndexByte(text, '\n')+1])
	if err != nil {
		return nil, fmt.Errorf("journal of %s: %w", life, err)
	}
	return lines, nil
}

func decodeLines[T any](text []byte) (lines []T, err error) {
	for text := range bytes.Lines(text) {
		var l T
		if err := json.Unmarshal(text, &l); err != nil {
			return nil, err
		}
		lines = append(lines, l)
	}
	return lines, nil
}
