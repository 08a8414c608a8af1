package main

import (
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/boottest"
	"github.com/millrace-go/millrace/spool"
)

// A spool on a full disk refuses as if there were none, and takes messages again once there is room. All that it has
// accepted is in its file.
func TestSpoolOnAFullDisk(t *testing.T) {
	t.Parallel()
	dir := smallDisk(t)
	fill := filepath.Join(dir, "fill")
	if err := os.WriteFile(fill, make([]byte, 1<<20), 0o600); err != nil { // room that no log of SQLite takes ahead
		t.Fatal(err)
	}
	env := []string{"MILLRACE_STORE=azure:AccountName=acct;AccountKey=a2V5;QueueEndpoint=http://127.0.0.1:1/q;BlobEndpoint=http://127.0.0.1:1/b;TableEndpoint=http://127.0.0.1:1/t"}
	p := boottest.Start(t, bin, dir, env, "-addr", "127.0.0.1:0", "-worker=false", "-doorbell", "off", "-spool", "web.spool")
	url := p.URL(t)
	accepted := int64(0)
	take := func(want int) {
		t.Helper()
		switch code := post(t, url, channel.NewID()); code {
		case want:
		default:
			t.Fatalf("got %d, want %d", code, want)
		}
		if want == http.StatusAccepted {
			accepted++
		}
	}
	for range 20 {
		take(http.StatusAccepted)
	}
	if err := os.WriteFile(filepath.Join(dir, "more"), make([]byte, 4<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("got %v, want a disk that is full", err)
	}
	for refused := 0; refused < 3; {
		switch code := post(t, url, channel.NewID()); code {
		case http.StatusAccepted: // the log of SQLite had some room
			accepted++
		case http.StatusServiceUnavailable:
			refused++
		default:
			t.Fatalf("got %d, want 202 or 503", code)
		}
	}
	if code, body := boottest.Get(t, url+"/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "; the spool takes nothing: its file can't be written") {
		t.Errorf("readyz: got %d %s, want 503 and that the spool takes nothing", code, body)
	}
	p.Line(t, "the spool takes nothing: its file can't be written")
	if err := os.Remove(fill); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		take(http.StatusAccepted)
	}
	if code, body := boottest.Get(t, url+"/readyz"); code != http.StatusOK || !strings.HasPrefix(body, "ready: the spool takes messages") {
		t.Errorf("readyz: got %d %s, want that the spool takes messages", code, body)
	}
	p.Signal(t, syscall.SIGKILL)
	p.Wait(t)
	if st, err := spool.Look(t.Context(), filepath.Join(dir, "web.spool")); err != nil || st.Waiting < accepted {
		t.Errorf("got %+v, %v; want the %d messages that were accepted", st, err, accepted)
	}
	if out, err := exec.CommandContext(within(t), "mount", "-o", "remount,ro", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	again := boottest.Start(t, bin, dir, env, "-addr", "127.0.0.1:0", "-worker=false", "-doorbell", "off", "-spool", "web.spool")
	if code := again.Wait(t); code != 1 || !strings.Contains(again.Output(), "read-only") {
		t.Errorf("on a disk that can't be written: got exit code %d and %s, want 1 and why", code, again.Output())
	}
}

// A web whose spool is removed under it refuses from the next request on, and says what to do.
func TestSpoolIsRemoved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	env := []string{"MILLRACE_STORE=azure:AccountName=acct;AccountKey=a2V5;QueueEndpoint=http://127.0.0.1:1/q;BlobEndpoint=http://127.0.0.1:1/b;TableEndpoint=http://127.0.0.1:1/t"}
	p := boottest.Start(t, bin, dir, env, "-addr", "127.0.0.1:0", "-worker=false", "-doorbell", "off", "-spool", "web.spool")
	url := p.URL(t)
	if code := post(t, url, channel.NewID()); code != http.StatusAccepted {
		t.Fatalf("got %d, want 202", code)
	}
	if err := os.Remove(filepath.Join(dir, "web.spool")); err != nil {
		t.Fatal(err)
	}
	if code := post(t, url, channel.NewID()); code != http.StatusServiceUnavailable {
		t.Errorf("got %d, want 503", code)
	}
	if code, body := boottest.Get(t, url+"/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "its file was removed or replaced; put it back and start this program again") {
		t.Errorf("readyz: got %d %s, want 503, why, and what to do", code, body)
	}
	p.Line(t, "the spool takes nothing: its file was removed or replaced")
}
