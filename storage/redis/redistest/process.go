package redistest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// patience bounds the time for anything that takes Redis a moment on an idle machine.
const patience = 60 * time.Second

// step is the time between two looks at what can't be waited for.
const step = 5 * time.Millisecond

// errPortTaken is in the error of a start that another process's port has prevented.
var errPortTaken = errors.New("the port is taken")

// A child is a redis-server with a folder of its own, running or not. Its methods may be called concurrently.
type child struct {
	bin, dir string
	args     []string
	env      []string       // beside this process's
	guard    *exec.Cmd      // removes the process and the folder when pids is closed, also by the end of this process
	pids     io.WriteCloser // a line for each start with the process's number, and an empty one for each end

	mu   sync.Mutex // for the fields below; an end holds it until the process has ended
	cmd  *exec.Cmd
	gone chan struct{} // closed when the process has ended
}

// guardian is a shell's script. Ctrl-C reaches it, too, and the folder is still there then.
const guardian = `trap '' INT HUP TERM QUIT
while read -r pid; do last=$pid; done
[ -z "$last" ] || kill -9 "$last"
rm -rf "$1"`

// newChild makes the folder, whose path is short, because a socket's may have some hundred bytes only.
func newChild(bin string) (*child, error) {
	dir, err := os.MkdirTemp("", "redis")
	if err != nil {
		return nil, err
	}
	c := &child{bin: bin, dir: dir, guard: exec.Command("sh", "-c", guardian, "guardian", dir)}
	if c.pids, err = c.guard.StdinPipe(); err == nil {
		err = c.guard.Start()
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return c, nil
}

// file is the path of a file in the folder.
func (c *child) file(name string) string { return filepath.Join(c.dir, name) }

// setting is a line of a file of settings, whose value is the path of a file in the folder.
func (c *child) setting(name, file string) string { return name + " " + strconv.Quote(c.file(file)) }

// write writes a file of settings, a line each.
func (c *child) write(file string, settings []string) error {
	return os.WriteFile(c.file(file), []byte(strings.Join(settings, "\n")+"\n"), 0o600)
}

// run starts the process, and doesn't wait until it answers.
func (c *child) run() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone != nil && !closed(c.gone) {
		return errors.New("it runs already")
	}
	out, err := os.OpenFile(c.file(logFile), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }() // the process has its own
	cmd, gone := exec.Command(c.bin, c.args...), make(chan struct{})
	cmd.Dir, cmd.Stdout, cmd.Stderr = c.dir, out, out
	cmd.Env = append(os.Environ(), c.env...)
	if err := cmd.Start(); err != nil {
		return err
	}
	c.cmd, c.gone = cmd, gone
	_, err = fmt.Fprintln(c.pids, cmd.Process.Pid)
	go func() {
		_ = cmd.Wait() // ProcessState tells how it ended
		close(gone)
	}()
	return err
}

// end sends a signal that ends the process, and returns when the process has ended.
func (c *child) end(sig os.Signal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	late := time.After(patience)
	for !closed(c.gone) {
		_ = c.cmd.Process.Signal(sig) // it may have ended
		select {
		case <-c.gone:
		case <-time.After(100 * time.Millisecond): // a server that writes its first file refuses to shut down
		case <-late:
			return fmt.Errorf("it runs %v after the signal %v", patience, sig)
		}
	}
	_, err := fmt.Fprintln(c.pids)
	return err
}

// stall stops the process, and returns when it has stopped, which only Linux tells.
func (c *child) stall(stop os.Signal) error {
	p, gone := c.process()
	if err := p.Signal(stop); err != nil {
		return err
	}
	late := time.After(patience)
	for {
		// The state is the first word after the program's name, which stands in brackets.
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(p.Pid) + "/stat")
		if _, state, _ := bytes.Cut(stat, []byte(") ")); err != nil || bytes.HasPrefix(state, []byte("T")) {
			return nil
		}
		select {
		case <-gone:
			return c.ended()
		case <-late:
			return fmt.Errorf("it still runs after %v", patience)
		case <-time.After(step):
		}
	}
}

// remove ends the process and removes the folder.
func (c *child) remove() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cmd != nil {
		_ = c.cmd.Process.Kill() // it may have ended
		<-c.gone
		_, _ = fmt.Fprintln(c.pids) // else the guardian kills a process that has got the number since
	}
	_ = c.pids.Close()
	_ = c.guard.Wait()
}

// process is the running process, or the last one.
func (c *child) process() (*os.Process, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cmd.Process, c.gone
}

// ended returns an error if the process has ended.
func (c *child) ended() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !closed(c.gone) {
		return nil
	}
	log := c.log()
	err := fmt.Errorf("the server has ended (%v), having said:\n%s", c.cmd.ProcessState, log)
	if bytes.Contains(log, []byte("already in use")) {
		err = fmt.Errorf("%w: %w", errPortTaken, err)
	}
	return err
}

// log is the end of what the process has said.
func (c *child) log() []byte {
	const most = 8192
	log, err := os.ReadFile(c.file(logFile))
	if err != nil {
		return []byte(err.Error())
	}
	return log[max(0, len(log)-most):]
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// freePort returns a port of 127.0.0.1 that nobody listens on. The kernel never gives it to a client. Otherwise, while
// the server is down, a connection of anybody could take the port, and a client that dials could even reach itself.
func freePort() (string, error) {
	const least, most = 20000, 32767
	for range 100 {
		port := strconv.Itoa(least + rand.IntN(most-least))
		l, err := net.Listen("tcp", net.JoinHostPort(host, port))
		if err == nil {
			return port, l.Close()
		}
	}
	return "", errors.New("found no free port")
}
