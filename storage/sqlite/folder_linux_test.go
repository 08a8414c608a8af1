package sqlite

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// nobody is a user and a group other than root.
const nobody = 65534

// foreignFile returns the path of a database that a service run by nobody has made. The service has stopped.
func foreignFile(t *testing.T) string {
	t.Helper()
	if os.Getuid() != 0 {
		unable(t, "only root can run a process as another user")
	}
	dir := t.TempDir()
	for _, mine := range []string{dir, filepath.Dir(dir)} {
		if err := os.Chmod(mine, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(dir, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "test.db")
	startNobody(t, "open", path).stop()
	if err := os.RemoveAll(path + "-wake"); err != nil {
		t.Fatal(err)
	}
	return path
}

// startNobody starts a process as nobody. Its log is complete once it has ended.
func startNobody(t *testing.T, role, path string) *process {
	t.Helper()
	self, err := os.Open(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	cmd := exec.Command("/proc/self/fd/3") // nobody may not enter the folder of the test's binary
	cmd.ExtraFiles = []*os.File{self}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	cmd.Stderr = new(bytes.Buffer)
	return startAs(t, cmd, role, path)
}

func (p *process) log() string { return p.cmd.Stderr.(*bytes.Buffer).String() }

func ownerOf(info fs.FileInfo) (uid, gid uint32) {
	s := info.Sys().(*syscall.Stat_t)
	return s.Uid, s.Gid
}

// wantNobodys demands that the folder and so many files in it belong to nobody.
func wantNobodys(t *testing.T, dir string, files int) {
	t.Helper()
	n := -1 // without the folder
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if uid, gid := ownerOf(info); uid != nobody || gid != nobody {
			t.Errorf("%s is of user %d, group %d; want %d", path, uid, gid, nobody)
		}
		n++
		return nil
	})
	if err != nil || n != files {
		t.Errorf("%d files, %v; want %d", n, err, files)
	}
}

// TestRootBeforeTheService has root send and receive before a service that runs as another user starts.
func TestRootBeforeTheService(t *testing.T) {
	t.Parallel()
	path := foreignFile(t)
	s := openAt(t, path, "")
	ring, stop := wake(s, "pong")
	defer stop()
	send(t, s, "queue", "a")
	receive(t, s, "queue", 1)
	until(t, "no signal", func() bool {
		names, err := os.ReadDir(path + "-wake")
		return err == nil && len(names) == 2
	})
	wantNobodys(t, path+"-wake", 2)

	p := startNobody(t, "ping", path)
	if got := p.read(1); !slices.Equal(got, []string{"ready"}) {
		t.Fatalf("the service said %q", got)
	}
	<-ring // the one at the beginning
	send(t, s, "ping", "a")
	for got := false; !got; {
		select {
		case <-ring:
			got = len(receive(t, s, "pong", 1)) == 1
		case <-time.After(time.Minute):
			t.Fatal("the service doesn't ring")
		}
	}
	if _, err := s.Listener().Subscribe(t.Context(), "topic", func([]byte, int) int { return 1 }); err != nil {
		t.Fatal(err)
	}
	other := startNobody(t, "subscribe", path)
	if got := other.read(1); !slices.Equal(got, []string{"ready"}) {
		t.Fatalf("another service said %q", got)
	}
	until(t, "the service isn't published", func() bool {
		n, err := s.Listener().Publish(t.Context(), "topic", []byte("a"), false)
		return n == 2 && err == nil
	})
	tell := startNobody(t, "publish", path)
	if got := tell.read(1); !slices.Equal(got, []string{"2"}) {
		t.Errorf("a service published %q; want root's store and the other service", got)
	}
	tell.stop()
	other.stop()
	p.stop()
	if log := p.log() + other.log() + tell.log(); log != "" {
		t.Errorf("the services logged %q", log)
	}
}

// TestRootMends opens a file as root. Its folder belongs to root, and is given to the database's owner.
func TestRootMends(t *testing.T) {
	t.Parallel()
	path := foreignFile(t)
	if err := os.Mkdir(path+"-wake", 0o700); err != nil {
		t.Fatal(err)
	}
	dead := filepath.Join(path+"-wake", "process-1")
	if err := os.WriteFile(dead, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := openAt(t, path, "")
	wantNobodys(t, path+"-wake", 1)
	p := startNobody(t, "hold", path)
	if got := p.read(1); len(got) != 1 {
		t.Fatal("the service received nothing")
	}
	if got := presenceFiles(t, s); len(got) != 1 || got[0] == dead {
		t.Errorf("files %q; want the service's, and the dead one's removed by it", got)
	}
	p.kill()
	if got := receive(t, lookNow(s), "queue", 10); len(got) != 1 {
		t.Errorf("received %d; want the one that the dead service had", len(got))
	}
	if log := p.log(); log != "" {
		t.Errorf("the service logged %q", log)
	}
}

// TestFolderOfAnother checks that a service works without its folder, and logs so once.
func TestFolderOfAnother(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]os.FileMode{"closed": 0o700, "read-only": 0o755} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := foreignFile(t)
			if err := os.Mkdir(path+"-wake", mode); err != nil {
				t.Fatal(err)
			}
			p := startNobody(t, "hold", path)
			if got := p.read(1); len(got) != 1 {
				t.Fatal("the service received nothing")
			}
			p.stop()
			log := p.log()
			if strings.Count(log, "\n") != 1 || strings.Count(log, "WARN") != 1 {
				t.Errorf("the service logged %q; want one warning", log)
			}
			for _, want := range []string{path + "-wake", "permission denied", "polling only", "chown -R"} {
				if !strings.Contains(log, want) {
					t.Errorf("the warning %q doesn't say %q", log, want)
				}
			}
		})
	}
}

// TestRootFollowsNoLink checks that root doesn't give away, fill or tidy a folder behind a link of the database's
// owner.
func TestRootFollowsNoLink(t *testing.T) {
	t.Parallel()
	path, target := foreignFile(t), t.TempDir()
	old := filepath.Join(target, "old")
	if err := os.WriteFile(old, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(old, time.Time{}, time.Now().Add(-48*time.Hour)); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, path+"-wake"); err != nil {
		t.Fatal(err)
	}
	s := openAt(t, path, "")
	_, stop := wake(s, "queue")
	defer stop()
	send(t, s, "queue", "a")
	receive(t, s, "queue", 1)
	if err := s.Close(); err != nil { // it gives the signal that waits
		t.Fatal(err)
	}
	entries, err := os.ReadDir(target)
	if err != nil || len(entries) != 1 {
		t.Errorf("root made or removed files: %v, %v", entries, err)
	}
	info, err := os.Stat(target)
	if err != nil {
		t.Fatal(err)
	}
	if uid, _ := ownerOf(info); uid != 0 {
		t.Errorf("root gave the folder to user %d", uid)
	}
}
