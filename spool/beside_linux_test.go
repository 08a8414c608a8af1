package spool

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/millrace-go/millrace/internal/worldtest"
)

// The lock file follows no link. The file behind a link stays as it is, and the error says what to do.
func TestTheLockFileFollowsNoLink(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, target := filepath.Join(dir, "web.spool"), filepath.Join(dir, "precious")
	c := sender(t, worldtest.OpenStore(t, ""), "/web")
	keeps(t, file, c)
	if err := os.Remove(file + "-lock"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(target, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, file+"-lock"); err != nil {
		t.Fatal(err)
	}
	_, opened := Open(t.Context(), file, c, Config{Logger: slog.New(slog.DiscardHandler)})
	for what, err := range map[string]error{"open": opened, "release": Release(t.Context(), file)} {
		if err == nil || !strings.Contains(err.Error(), "web.spool-lock is a link") || !strings.Contains(err.Error(), "remove it") {
			t.Errorf("%s: got %v, want that the lock is a link, and what to do", what, err)
		}
	}
	if data, err := os.ReadFile(target); err != nil || string(data) != "precious" {
		t.Errorf("the target is now %q (%v)", data, err)
	}
}

// The lock that root leaves beside the spool of a service can be opened by the service's user.
func TestRootLeavesTheLockToTheSpoolsOwner(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can give files away")
	}
	const nobody = 65534
	file := filepath.Join(t.TempDir(), "web.spool")
	keeps(t, file, sender(t, worldtest.OpenStore(t, ""), "/web"))
	if err := os.Chown(file, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	if err := Release(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(file + "-lock")
	if err != nil {
		t.Fatal(err)
	}
	if s := info.Sys().(*syscall.Stat_t); s.Uid != nobody || s.Gid != nobody {
		t.Errorf("the lock is of user %d, group %d; want %d", s.Uid, s.Gid, nobody)
	}
}
