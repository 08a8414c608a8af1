//go:build unix

package leader_test

import (
	"strings"
	"syscall"
	"testing"

	"github.com/millrace-go/millrace/internal/agreetest"
	"github.com/millrace-go/millrace/storage/redis/redistest"
)

// A leader on Redis stands still for longer than its term, and meanwhile the server dies and comes back. Another
// process leads by then. The old leader finds its context ended when it goes on, and its write is refused.
func TestALeaderOnRedisOutlivesItsTerm(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for a TTL to pass")
	}
	t.Parallel()
	server := redistest.Start(t, redistest.Config{Always: true})
	url := server.URL(redistest.Fresh())
	a := start(t, "a", url)
	term := says(t, a, "leads ")
	a.Says("wrote " + term)
	b := start(t, "b", url)
	a.Signal(syscall.SIGSTOP)
	server.Kill(t)
	server.Restart(t)
	next := says(t, b, "leads ")
	b.Says("wrote " + next)
	a.Signal(syscall.SIGCONT)
	a.Says("lost " + term)
	a.Says("fenced " + term)
	if err := b.In.Close(); err != nil {
		t.Error(err)
	}
	b.Says("stopped")
	last := says(t, a, "leads ") // it stood again
	a.Says("wrote " + last)
	if term == next || next == last {
		t.Errorf("terms %s, %s and %s", term, next, last)
	}
	if err := a.In.Close(); err != nil {
		t.Error(err)
	}
	a.Says("stopped")
}

// The server is restarted under a leader, for less than its term. It goes on to lead.
func TestALeaderOnRedisOutlivesTheServersRestart(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Config{Always: true})
	a := start(t, "a", server.URL(redistest.Fresh()))
	term := says(t, a, "leads ")
	a.Says("wrote " + term)
	server.Kill(t)
	server.Restart(t)
	if err := a.In.Close(); err != nil {
		t.Error(err)
	}
	a.Says("stopped") // and neither lost its term nor began another one
}

// says waits for the next line, and returns what stands behind its beginning.
func says(t *testing.T, p *agreetest.Process, beginning string) string {
	t.Helper()
	line := p.Read()
	rest, ok := strings.CutPrefix(line, beginning)
	if !ok {
		t.Fatalf("a process says %q, want %q", line, beginning+"…")
	}
	return rest
}
