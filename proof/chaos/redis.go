package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A redisServer syncs each write to the disk before it answers. So it is killed in the middle of its work, without any
// warning, and nothing that it has acknowledged may be lost. Package redistest would remove the data and the log with the
// server; a run keeps both for whoever looks for a fault.
type redisServer struct {
	bin  string
	dir  string // its data
	log  string // file
	port int

	cmd   *exec.Cmd
	ended chan struct{}
}

var errNoRedis = errors.New("there is no redis-server here: run scripts/setup.sh")

const redisPrefix = "chaos"

func newRedis(dir string) (*redisServer, error) {
	r := &redisServer{dir: filepath.Join(dir, "redis"), log: filepath.Join(dir, "redis.log")}
	var err error
	if r.bin, err = exec.LookPath("redis-server"); err != nil {
		return nil, fmt.Errorf("%w: %w", errNoRedis, err)
	}
	if r.port, err = freePort(redisStore); err != nil {
		return nil, err
	}
	return r, os.MkdirAll(r.dir, 0o700)
}

func (r *redisServer) addr() string { return fmt.Sprintf("127.0.0.1:%d", r.port) }

// redisURL is the URL of the store on a server at an address.
func redisURL(addr string) string { return "redis://" + addr + "/?prefix=" + redisPrefix }

// start starts the server, and returns when it has read its file.
func (r *redisServer) start(ctx context.Context) error {
	file, err := os.OpenFile(r.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // the process has its own
	r.cmd = exec.Command(r.bin, "--bind", "127.0.0.1", "--port", strconv.Itoa(r.port), "--dir", r.dir, "--save", "",
		"--appendonly", "yes", "--appendfsync", "always", "--maxmemory-policy", "noeviction", "--loglevel", "warning")
	r.cmd.Stdout, r.cmd.Stderr = file, file
	r.cmd.SysProcAttr = diesWithUs()
	if err := r.cmd.Start(); err != nil {
		return fmt.Errorf("start Redis: %w", err)
	}
	r.ended = make(chan struct{})
	go func(cmd *exec.Cmd, ended chan struct{}) {
		_ = cmd.Wait() // how it ended is in ProcessState
		close(ended)
	}(r.cmd, r.ended)
	err = until(ctx, time.Minute, func() (bool, error) {
		select {
		case <-r.ended:
			return false, fmt.Errorf("it has ended: %v", r.cmd.ProcessState)
		default:
		}
		answer, err := r.ask("PING")
		return err == nil && answer == "+PONG", nil
	})
	if err != nil {
		return fmt.Errorf("start Redis, see %s: %w", r.log, err)
	}
	return nil
}

// ask runs a command, and returns the first line of the answer; of a text, the text.
func (r *redisServer) ask(command string) (string, error) {
	conn, err := net.DialTimeout("tcp", r.addr(), time.Second)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return "", err
	}
	if _, err := fmt.Fprintf(conn, "%s\r\n", command); err != nil {
		return "", err
	}
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		if line := lines.Text(); !strings.HasPrefix(line, "$") || line == "$-1" {
			return line, nil
		}
	}
	return "", errors.Join(lines.Err(), errors.New("no answer"))
}

// kill ends the server at once.
func (r *redisServer) kill(context.Context) error {
	r.close()
	return nil
}

// stall stops the server for a while.
func (r *redisServer) stall(ctx context.Context, d time.Duration) {
	_ = r.cmd.Process.Signal(syscall.SIGSTOP) // if it has ended, the run says so elsewhere
	wait(ctx, d)
	_ = r.cmd.Process.Signal(syscall.SIGCONT)
}

func (r *redisServer) close() {
	if r.cmd == nil || r.ended == nil {
		return
	}
	_ = r.cmd.Process.Kill() // it may have ended
	<-r.ended
}

// trouble returns the server's warnings but those of each start. After a kill the end of its file may be half a write,
// which nobody was told of.
func (r *redisServer) trouble() string {
	said, err := os.ReadFile(r.log)
	if err != nil {
		return err.Error()
	}
	var odd []string
	for line := range strings.Lines(string(said)) {
		start := slices.ContainsFunc([]string{"Redis is starting", "Redis version=", "Configuration loaded", "Server initialized", "Memory overcommit"},
			func(says string) bool { return strings.Contains(line, says) })
		if strings.Contains(line, " # ") && !start {
			odd = append(odd, strings.TrimSpace(line))
		}
	}
	return strings.Join(odd, " | ")
}

// lost says what the store on the server itself knows to be lost, "" if nothing is.
func (r *redisServer) lost() string {
	n, err := r.ask(fmt.Sprintf("HGET {%s} lost", redisPrefix))
	switch {
	case err != nil:
		return err.Error()
	case n == "$-1":
		return ""
	}
	return n + " acknowledged changes"
}
