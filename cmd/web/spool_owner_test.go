package main

import (
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/boottest"
)

// A web that was killed keeps its messages for itself: one with another store doesn't get them, and the same one does.
func TestSpoolOfAKilledWeb(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	start := func(account string) *boottest.Program {
		env := []string{"MILLRACE_STORE=azure:AccountName=" + account + ";AccountKey=a2V5;QueueEndpoint=http://127.0.0.1:1/q;BlobEndpoint=http://127.0.0.1:1/" + account + ";TableEndpoint=http://127.0.0.1:1/t"}
		return boottest.Start(t, bin, dir, env, "-addr", "127.0.0.1:0", "-worker=false", "-doorbell", "off", "-spool", "web.spool")
	}
	p := start("one")
	if code := post(t, p.URL(t), channel.NewID()); code != http.StatusAccepted {
		t.Fatalf("got %d, want 202", code)
	}
	p.Signal(t, syscall.SIGKILL)
	p.Wait(t)
	other := start("two")
	if code := other.Wait(t); code != 2 || !strings.Contains(other.Output(), "azure 127.0.0.1:1/one") || !strings.Contains(other.Output(), "spool release") || strings.Contains(other.Output(), "a2V5") {
		t.Errorf("another store: got exit code %d and %s, want 2, whose the spool is, and what to do", code, other.Output())
	}
	again := start("one")
	if _, ready := boottest.Get(t, again.URL(t)+"/readyz"); !strings.Contains(ready, "holds 1;") {
		t.Errorf("the same store: got %q, want the message", ready)
	}
}
