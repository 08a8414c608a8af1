package peers

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

func serve(t *testing.T, w *world) {
	t.Helper()
	if err := w.Serve(); err != nil {
		t.Fatal(err)
	}
}

func others(t *testing.T, w *world) *Sockets {
	t.Helper()
	s, err := w.Others()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// echo sends something to a socket and wants it back.
func echo(t *testing.T, s *Sockets, name string) {
	t.Helper()
	conn, err := s.Dial(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Minute))
	want, got := []byte("hello"), make([]byte, 5)
	if _, err := conn.Write(want); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, got); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("got %q, %v; want it back", got, err)
	}
}

// A store reaches the sockets of others, for its own user alone, and not its own. A closed store's file is gone.
func TestSocketReachesOthers(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	a, b, c := newWorld(t, db), newWorld(t, db), newWorld(t, db)
	if s := others(t, a); len(s.Names) != 0 {
		t.Errorf("sockets %q before any store serves", s.Names)
	}
	for range 2 {
		serve(t, a)
		serve(t, b)
	}
	for _, x := range []struct {
		w    *world
		want int
	}{{a, 1}, {b, 1}, {c, 2}} {
		s := others(t, x.w)
		if len(s.Names) != x.want {
			t.Fatalf("sockets %q; want %d", s.Names, x.want)
		}
		for _, name := range s.Names {
			echo(t, s, name)
		}
	}
	for _, name := range files(t, db, socketPrefix) {
		if info, err := os.Lstat(name); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("mode %v, %v; want a socket for its user alone", info.Mode(), err)
		}
	}
	b.Close()
	if names := files(t, db, socketPrefix); len(names) != 1 || len(files(t, db, newPrefix)) != 0 {
		t.Errorf("sockets %q after Close of one store; want the other's", names)
	}
	if err := b.Serve(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after Close: error %v", err)
	}
}

// The old sockets of killed processes are removed by the next store with receivers, even if nobody publishes anything.
func TestOldDeadSocketsAreRemoved(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	a := newWorld(t, db)
	serve(t, a)
	old := time.Now().Add(-2 * socketOld)
	for _, name := range []string{"dead", "dying"} {
		path := shortPath(t, db, socketPrefix+name)
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		l.SetUnlinkOnClose(false)
		l.Close()
		if name == "dead" {
			if err := os.Chtimes(path, old, old); err != nil {
				t.Fatal(err)
			}
		}
	}
	live := filepath.Join(db+"-wake", a.socket.name)
	if err := os.Chtimes(live, old, old); err != nil {
		t.Fatal(err)
	}
	b := newWorld(t, db)
	serve(t, b)
	again, limit := time.NewTicker(time.Millisecond), time.After(10*time.Second)
	defer again.Stop()
	for len(files(t, db, socketPrefix)) != 3 {
		select {
		case <-again.C:
		case <-limit:
			t.Fatalf("sockets %q; want those of the two stores, and the one that is new", files(t, db, socketPrefix))
		}
	}
	if _, err := os.Stat(live); err != nil {
		t.Errorf("the socket of a living store is gone: %v", err)
	}
}

// The socket of a process that was killed is removed by the store that finds it dead.
func TestDeadSocketIsRemoved(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	a, b := newWorld(t, db), newWorld(t, db)
	serve(t, a)
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: shortPath(t, db, socketPrefix+"dead"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	dead.Close()
	s := others(t, b)
	if len(s.Names) != 2 {
		t.Fatalf("sockets %q", s.Names)
	}
	if _, err := s.Dial(t.Context(), socketPrefix+"dead"); err == nil {
		t.Fatal("a dead socket accepts")
	}
	if again := others(t, b); len(again.Names) != 1 {
		t.Errorf("sockets %q after that; want the living one's", again.Names)
	}
}

// shortPath returns a path for a socket in the folder: by a link, because the folder's own may be too long.
func shortPath(t *testing.T, db, name string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "s")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Symlink(db+"-wake", filepath.Join(dir, "l")); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "l", name)
}

// A socket whose file is removed is lost, which is told once. Serve makes another one.
func TestRemovedSocketIsLost(t *testing.T) {
	t.Parallel()
	for what, remove := range map[string]func(t *testing.T, db string){
		"the file": func(t *testing.T, db string) {
			if err := os.Remove(files(t, db, socketPrefix)[0]); err != nil {
				t.Fatal(err)
			}
		},
		"the folder": func(t *testing.T, db string) {
			until(t, "the folder can't be removed", func() bool { return os.RemoveAll(db+"-wake") == nil })
		},
	} {
		db := newDatabase(t)
		a, b := newWorld(t, db), newWorld(t, db)
		serve(t, a)
		remove(t, db)
		until(t, what+" is removed, and that isn't published", func() (lost bool) {
			a.set(func() { lost = a.lost > 0 })
			return lost
		})
		serve(t, a)
		s := others(t, b)
		if len(s.Names) != 1 {
			t.Fatalf("%s was removed: sockets %q; want one", what, s.Names)
		}
		echo(t, s, s.Names[0])
		a.set(func() {
			if a.lost != 1 {
				t.Errorf("%s was removed: the loss was published %d times", what, a.lost)
			}
		})
	}
}

// Paths of sockets are short by themselves on Linux. Elsewhere a long one is refused, with its length.
func TestLongPathOfSocket(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), strings.Repeat("d", 200))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	db := filepath.Join(dir, "test.db")
	if err := os.WriteFile(db, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	a, b := newWorld(t, db), newWorld(t, db)
	if err := a.Serve(); runtime.GOOS == "linux" {
		if err != nil {
			t.Fatal(err)
		}
		s := others(t, b)
		echo(t, s, s.Names[0])
	} else if !errors.Is(err, ErrPathTooLong) {
		t.Errorf("error %v", err)
	}
	if _, err := (at{folder: db + "-wake"}).path("receiver"); !errors.Is(err, ErrPathTooLong) {
		t.Errorf("without /proc: error %v; want that it is too long", err)
	}
}

// A store serves so many connections at a time, and the others wait. Close ends them all.
func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	a, b := newWorld(t, db), newWorld(t, db)
	serve(t, a)
	s := others(t, b)
	var conns []net.Conn
	for range maxConns + 1 {
		conn, err := s.Dial(t.Context(), s.Names[0])
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conns = append(conns, conn)
	}
	last := conns[maxConns]
	until(t, "not all are served", func() (all bool) {
		a.set(func() { all = a.serving == maxConns })
		return all
	})
	conns[0].Close()
	last.SetDeadline(time.Now().Add(time.Minute))
	if _, err := last.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(last, make([]byte, 1)); err != nil {
		t.Errorf("the connection that waited is not served: %v", err)
	}
	a.Close()
	if a.served != maxConns || a.serving != 0 {
		t.Errorf("%d connections served at a time, %d after Close; want %d and none", a.served, a.serving, maxConns)
	}
	if _, err := io.ReadFull(last, make([]byte, 1)); err == nil {
		t.Error("a connection is left open")
	}
}

// Without a folder nothing is served, and nobody is there.
func TestSocketsOfZeroPeers(t *testing.T) {
	t.Parallel()
	var p Peers
	if err := p.Serve(); err != nil {
		t.Error(err)
	}
	s, err := p.Others()
	if err != nil || len(s.Names) != 0 {
		t.Errorf("sockets %q, %v", s.Names, err)
	}
	s.Close()
}

// A folder that can't be used is an error, and a context ends a wait for a connection.
func TestSocketFails(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	if err := os.WriteFile(db+"-wake", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, db)
	if err := w.Serve(); err == nil {
		t.Error("a socket in a file")
	}
	if s, err := w.Others(); err == nil {
		t.Error("sockets in a file")
	} else {
		s.Close()
	}
	other := newDatabase(t)
	a, b := newWorld(t, other), newWorld(t, other)
	serve(t, a)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	s := others(t, b)
	if _, err := s.Dial(ended, s.Names[0]); err == nil {
		t.Error("a connection after the end of the context")
	}
	if _, err := s.Dial(t.Context(), "ear-nobody"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nobody's socket: error %v", err)
	}
}
