package main

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/millrace-go/millrace/coord/gate"
)

func appendFile(t *testing.T, name, text string) {
	t.Helper()
	old, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, name, string(old)+text)
}

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Children that nothing disturbs do everything, and the auditor is content with what they did.
func TestChildren(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	url := "sqlite:" + filepath.Join(dir, "coordination.db?sync=normal")
	store, err := openPatiently(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	h := &history{opened: map[int64]int64{1: clock(), 2: clock()}, rounds: 2}
	working, stop := context.WithCancel(t.Context())
	stopped := make(chan error, 2)
	for _, name := range []string{"one", "two"} {
		more := []string{"sqlite:" + filepath.Join(dir, "second.db?sync=normal"), "sqlite:" + filepath.Join(dir, "third.db?sync=normal")}
		spec, err := json.Marshal(childSpec{Name: name, Store: url, More: more, Dir: dir, Pace: 10 * time.Millisecond, Rounds: 2})
		if err != nil {
			t.Fatal(err)
		}
		c, err := newChild(string(spec))
		if err != nil {
			t.Fatal(err)
		}
		h.final = append(h.final, c.life)
		go func() { stopped <- c.run(working, io.Discard) }()
	}
	for round := range h.rounds {
		if err := gate.At(store, gateName(round+1)).Open(t.Context(), gate.Note{}); err != nil {
			t.Fatal(err)
		}
	}
	err = until(t.Context(), patience, func() (bool, error) {
		var err error
		h.lives, err = readJournals(dir)
		return len(h.missing(0)) == 0, err
	})
	if err != nil {
		t.Errorf("%v: %q", err, h.missing(0))
	}
	stop()
	for range h.final {
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	}
	if h.lives, err = readJournals(dir); err != nil {
		t.Fatal(err)
	}
	if err := h.collect(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	for _, f := range h.audit() {
		t.Error(f)
	}
	h.each(trouble, func(life string, l line) { t.Errorf("%s: %s", life, l.Text) })
}
