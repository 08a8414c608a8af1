package peers

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/millrace-go/millrace/internal/beside"
)

const (
	// socketPrefix begins the names of sockets. A socket that isn't ready yet has newPrefix before that.
	socketPrefix = "ear-"
	newPrefix    = "new-"

	maxConns  = 256                   // of one store at the same time; others wait
	maxPath   = 103                   // bytes in the path of a socket, on the strictest system
	fullPause = 5 * time.Millisecond  // before another try, where too many wait for a connection
	busyPause = 50 * time.Millisecond // likewise, where the process has too many files open

	socketOld   = time.Minute            // a new store looks whether sockets of this age are dead
	removeLimit = 100 * time.Millisecond // for one of them
)

// ErrPathTooLong means that a socket can't be made or reached, because of its path.
var ErrPathTooLong = errors.New("the path is too long for a socket")

// A socket is that by which other stores reach this one.
type socket struct {
	mu       sync.Mutex
	name     string // empty: there is none
	info     fs.FileInfo
	listener net.Listener
	end      context.CancelFunc // of its connections
	closed   bool
}

// Serve makes sure that other stores reach this one by a socket in the folder. Each of their connections is given to
// [Config].Serve. When the socket is gone, [Config].Lost is called, and Serve makes another one.
func (p *Peers) Serve() error {
	if p.folder == nil {
		return nil
	}
	p.Watch() // it looks after the socket
	p.CheckSocket()
	s := &p.socket
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return net.ErrClosed
	}
	if s.name != "" {
		return nil
	}
	name := socketPrefix + rand.Text()
	listener, info, err := p.folder.listen(name)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.name, s.info, s.listener, s.end = name, info, listener, cancel
	p.all.Go(func() { p.accept(ctx, listener) })
	p.all.Go(func() { p.removeDeadSockets(ctx) })
	return nil
}

// removeDeadSockets removes the old sockets of killed processes. Otherwise they stay until a store tells something.
func (p *Peers) removeDeadSockets(ctx context.Context) {
	others, err := p.Others()
	if err != nil {
		others.Close()
		return
	}
	defer others.Close()
	for _, name := range others.Names {
		info, err := others.root.Lstat(name)
		if err != nil || time.Since(info.ModTime()) < socketOld {
			continue
		}
		call, cancel := context.WithTimeout(ctx, removeLimit)
		conn, err := others.Dial(call, name)
		cancel()
		if err == nil {
			conn.Close()
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// accept serves connections until the socket is closed.
func (p *Peers) accept(ctx context.Context, l net.Listener) {
	slots := make(chan struct{}, maxConns)
	for {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		conn, err := l.Accept()
		switch {
		case err == nil:
			p.all.Go(func() {
				defer func() { <-slots }()
				p.cfg.Serve(ctx, conn)
			})
			continue
		case ctx.Err() != nil:
			return
		case !isShortage(err):
			p.loseSocket(l)
			return
		}
		<-slots
		select {
		case <-ctx.Done():
		case <-time.After(busyPause):
		}
	}
}

// isShortage reports an error that may pass.
func isShortage(err error) bool {
	for _, e := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOBUFS, syscall.ECONNABORTED} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// CheckSocket gives up the socket if its file was removed or replaced. [Config].Lost has been called when it returns.
func (p *Peers) CheckSocket() {
	s := &p.socket
	s.mu.Lock()
	name, info, listener := s.name, s.info, s.listener
	s.mu.Unlock()
	if name == "" {
		return
	}
	if p.folder.lost(name, info) {
		p.loseSocket(listener)
	}
}

// loseSocket gives up a socket, unless that has happened already.
func (p *Peers) loseSocket(l net.Listener) {
	s := &p.socket
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.name != "" && l == s.listener {
		s.give(p.folder)
		p.cfg.Lost() // under mu, so that the loss is known when CheckSocket returns, whoever found it
	}
}

// give closes the socket and removes its file; mu is held.
func (s *socket) give(dir *folder) {
	if s.name == "" {
		return
	}
	dir.remove(s.name) // before the listener is closed, so that others don't find it dead
	s.end()
	s.listener.Close()
	s.name, s.listener = "", nil
}

// close gives up the socket for good.
func (s *socket) close(dir *folder) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.give(dir)
}

// listen makes a socket in the folder. It gets its name when it is ready, because others take one that refuses them for
// a dead process's.
func (d *folder) listen(name string) (net.Listener, fs.FileInfo, error) {
	root, err := d.open(true)
	if err != nil {
		return nil, nil, err
	}
	defer root.Close()
	at, err := d.at(root)
	if err != nil {
		return nil, nil, err
	}
	defer at.close()
	path, err := at.path(newPrefix + name)
	if err != nil {
		return nil, nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, nil, err
	}
	l.SetUnlinkOnClose(false) // its path holds only now
	info, err := d.finishSocket(root, name)
	if err != nil {
		root.Remove(newPrefix + name)
		l.Close()
		return nil, nil, err
	}
	return l, info, nil
}

// finishSocket gives a socket its mode, its owner and its name.
func (d *folder) finishSocket(root *os.Root, name string) (fs.FileInfo, error) {
	made := newPrefix + name
	info, err := root.Lstat(made)
	if err != nil {
		return nil, err
	}
	if err := root.Chmod(made, 0o600); err != nil {
		return nil, err
	}
	if uid, gid, ok := beside.Owner(info, d.db); ok {
		if err := root.Lchown(made, uid, gid); err != nil {
			return nil, err
		}
	}
	return info, root.Rename(made, name)
}

// Sockets are those of the other stores.
type Sockets struct {
	Names []string

	folder *folder
	root   *os.Root
	at     at
}

// Others lists the sockets of the other stores. Close it.
func (p *Peers) Others() (*Sockets, error) {
	s := &Sockets{folder: p.folder}
	if p.folder == nil {
		return s, nil
	}
	root, err := p.folder.open(false)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil // no store has made it yet
	}
	if err != nil {
		return s, err
	}
	s.root = root
	if s.at, err = p.folder.at(root); err != nil {
		return s, err
	}
	entries, err := fs.ReadDir(root.FS(), ".")
	p.socket.mu.Lock()
	own := p.socket.name
	p.socket.mu.Unlock()
	for _, e := range entries {
		if e.Type()&fs.ModeSocket != 0 && strings.HasPrefix(e.Name(), socketPrefix) && e.Name() != own {
			s.Names = append(s.Names, e.Name())
		}
	}
	return s, err
}

// Close releases what Others holds open.
func (s *Sockets) Close() {
	if s.root != nil {
		s.at.close()
		s.root.Close()
	}
}

// Dial connects to a socket. It removes the socket of a dead process.
func (s *Sockets) Dial(ctx context.Context, name string) (net.Conn, error) {
	path, err := s.at.path(name)
	if err != nil {
		return nil, err
	}
	for {
		conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
		switch {
		case err == nil:
			return conn, nil
		case errors.Is(err, syscall.ECONNREFUSED):
			s.root.Remove(name)
		case errors.Is(err, fs.ErrPermission):
			s.folder.warn(err)
		case errors.Is(err, syscall.EAGAIN): // too many wait for a connection
			select {
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			case <-time.After(fullPause):
			}
			continue
		}
		return nil, err
	}
}

// at is an open folder, by which sockets in it have short paths.
type at struct {
	file   *os.File // nil: by its own path
	folder string
}

// at opens the folder for sockets. The path of a socket has 107 bytes at most, so on Linux it leads through /proc.
func (d *folder) at(root *os.Root) (at, error) {
	if _, err := os.Stat("/proc/self/fd"); err != nil || runtime.GOOS != "linux" {
		return at{folder: d.path}, nil
	}
	f, err := root.Open(".")
	return at{f, d.path}, err
}

func (a at) path(name string) (string, error) {
	if a.file != nil {
		return "/proc/self/fd/" + strconv.Itoa(int(a.file.Fd())) + "/" + name, nil
	}
	path := filepath.Join(a.folder, name)
	if len(path) > maxPath {
		return "", fmt.Errorf("%w: it has %d bytes, of at most %d: %s", ErrPathTooLong, len(path), maxPath, path)
	}
	return path, nil
}

func (a at) close() {
	if a.file != nil {
		a.file.Close()
	}
}
