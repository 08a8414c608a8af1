package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

const patience = time.Minute

func journalOf(t *testing.T) *journal {
	t.Helper()
	j, err := newJournal(filepath.Join(t.TempDir(), "journal.log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.close() })
	return j
}

// Each disturbance of a proxy has its effect, and no effect after its end.
func TestWire(t *testing.T) {
	t.Parallel()
	for _, k := range []kind{cut, reset, delay, oneWay, torn} {
		t.Run(string(k), func(t *testing.T) {
			t.Parallel()
			var heard atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				heard.Add(1)
				_, _ = io.WriteString(w, strings.Repeat("x", 2000))
			}))
			defer server.Close()
			wire, err := newWire("server", "127.0.0.1:0", server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer wire.down()
			client := &http.Client{Timeout: 300 * time.Millisecond}
			ask := func() error {
				res, err := client.Get("http://" + wire.proxy.Listen)
				if err != nil {
					return err
				}
				_, err = io.Copy(io.Discard, res.Body)
				return errors.Join(err, res.Body.Close())
			}
			if err := ask(); err != nil {
				t.Fatal(err)
			}
			ctx, over := context.WithCancel(t.Context())
			done := make(chan error)
			go func() { done <- wire.disturb(ctx, k, patience, 99) }()
			if err := until(t.Context(), patience, func() (bool, error) { return ask() != nil, nil }); err != nil {
				t.Errorf("nothing is felt: %v", err)
			}
			if k == oneWay {
				before := heard.Load()
				if err := ask(); err == nil || heard.Load() == before {
					t.Errorf("got %v and %d requests heard, want an error, and the request heard", err, heard.Load()-before)
				}
			}
			over()
			if err := <-done; err != nil {
				t.Error(err)
			}
			client.Timeout = patience
			client.CloseIdleConnections()
			if err := ask(); err != nil {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}

func TestDiskIsFull(t *testing.T) {
	t.Parallel()
	d, why := newDisk(filepath.Join(t.TempDir(), "disk"), 4<<20)
	if d == nil {
		t.Fatal(why)
	}
	if why != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("in CI this has to run: %v", why)
		}
		t.Skipf("a small disk can't be mounted here: %v", why)
	}
	defer func() {
		if err := d.close(); err != nil {
			t.Error(err)
		}
	}()
	write := func() error { return os.WriteFile(filepath.Join(d.dir, "file"), make([]byte, 10_000), 0o600) }
	ctx, over := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- d.fill(ctx, patience) }()
	if err := until(t.Context(), patience, func() (bool, error) { return errors.Is(write(), syscall.ENOSPC), nil }); err != nil {
		t.Errorf("it doesn't get full: %v", err)
	}
	over()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := write(); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// script is a program made of a shell script, not started yet. It prints "hello" when it has started.
func script(t *testing.T, text string) *program {
	t.Helper()
	dir := t.TempDir()
	p := &program{name: "script", bin: "/bin/sh", args: []string{"-c", text}, dir: dir, logs: dir, says: "hello", j: journalOf(t)}
	t.Cleanup(p.close)
	return p
}

func (p *program) greeted(t *testing.T) *life {
	t.Helper()
	all := p.all()
	l := all[len(all)-1]
	if err := until(t.Context(), patience, func() (bool, error) { return l.started(), nil }); err != nil {
		t.Fatal(err)
	}
	return l
}

func TestProgramIsKilledAndStopped(t *testing.T) {
	t.Parallel()
	p := script(t, `trap "exit 0" TERM; echo hello; while :; do sleep 0.01; done`)
	if err := p.start(); err != nil {
		t.Fatal(err)
	}
	p.greeted(t)
	p.kill()
	if err := p.start(); err != nil {
		t.Fatal(err)
	}
	l := p.greeted(t)
	p.stall(t.Context(), time.Nanosecond)
	p.stop()
	if lives := p.all(); len(lives) != 2 || lives[0].killed.IsZero() || !lives[1].killed.IsZero() || len(l.stalls) != 1 {
		t.Errorf("got %d lives and %d stalls, want one that was killed, and one that stood still and was stopped", len(lives), len(l.stalls))
	}
	if found := p.j.found; len(found) > 0 {
		t.Errorf("got %v, want nothing", found)
	}
}

// A program that ends without being asked, or with an error, is a finding, unless the store or the disk is away.
func TestProgramEndsWrongly(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script   string
		hardship bool
		stop     bool
		want     string // in the findings; "" wants no finding
	}{
		"by itself":             {script: "echo hello; echo no more; exit 3", want: "script ended by itself (exit status 3): no more"},
		"by itself in hardship": {script: "echo hello; exit 3", hardship: true, want: "ended by itself"},
		"at the start":          {script: "echo sorry; exit 1", want: "script could not start (exit status 1): sorry"},
		"start in hardship":     {script: "exit 1", hardship: true},
		"badly":                 {script: `trap "echo oh; exit 1" TERM; echo hello; while :; do sleep 0.01; done`, stop: true, want: "stopped with exit status 1: oh"},
		"badly in hardship":     {script: `trap "exit 1" TERM; echo hello; while :; do sleep 0.01; done`, stop: true, hardship: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := script(t, c.script)
			if c.hardship {
				p.j.hardship()
			}
			if err := p.start(); err != nil {
				t.Fatal(err)
			}
			if c.stop {
				p.greeted(t)
				p.stop()
			} else if err := until(t.Context(), patience, func() (bool, error) { return len(p.all()) > 1, nil }); err != nil {
				t.Errorf("it isn't started again: %v", err)
			}
			p.close()
			p.j.mu.Lock()
			defer p.j.mu.Unlock()
			if c.want == "" && len(p.j.found) > 0 || c.want != "" && (len(p.j.found) == 0 || !strings.Contains(p.j.found[0].what, c.want)) {
				t.Errorf("got %v, want %q", p.j.found, c.want)
			}
		})
	}
}
