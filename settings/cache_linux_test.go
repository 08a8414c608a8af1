package settings

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// The cache follows no link. Where root writes it, it belongs to the owner of the spool that it lies beside, or of its
// folder.
func TestTheCacheFollowsNoLink(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	target, path := filepath.Join(dir, "precious"), filepath.Join(dir, "web.spool.settings")
	kept := cached{Name: "hall", Values: json.RawMessage("{}")}
	if err := kept.save(target); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(target)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
	if _, err := load(path, "hall"); err == nil || !strings.Contains(err.Error(), "is a link") {
		t.Errorf("got %v, want that it is a link", err)
	}
	kept.Version = 7
	if err := kept.save(path); err != nil {
		t.Error(err)
	}
	if after, err := os.ReadFile(target); err != nil || string(after) != string(before) {
		t.Errorf("the target is now %q (%v)", after, err)
	}
	if got, err := load(path, "hall"); err != nil || got.Version != 7 {
		t.Errorf("got %+v, %v; want what was saved", got, err)
	}
	const nobody = 65534
	spool := filepath.Join(dir, "web.spool")
	if err := os.WriteFile(spool, nil, 0o600); err != nil || os.Getuid() != 0 {
		t.Skip("only root can give files away", err)
	}
	if err := os.Chown(spool, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	if err := kept.save(path); err != nil {
		t.Error(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if s := info.Sys().(*syscall.Stat_t); s.Uid != nobody {
		t.Errorf("the cache is of user %d; want %d", s.Uid, nobody)
	}
}
