package main

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
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
	fill := filepath.Join(dir, "fill")
	if err := os.WriteFile(fill, make([]byte, 4<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
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
	if err := os.Remove(fill); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		take(http.StatusAccepted)
	}
	p.Signal(t, syscall.SIGKILL)
	p.Wait(t)
	if st, err := spool.Look(t.Context(), filepath.Join(dir, "web.spool")); err != nil || st.Waiting < accepted {
		t.Errorf("got %+v, %v; want the %d messages that were accepted", st, err, accepted)
	}
}
