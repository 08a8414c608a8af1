// Package servers runs the servers of other systems as child processes in folders of their own: PostgreSQL, Redis and
// etcd, as in Debian (apt-get install postgresql redis-server etcd-server).
package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
)

// ErrMissing is the cause if a server's program is not installed.
var ErrMissing = errors.New("not installed")

// A Server runs until Stop.
type Server struct {
	Socket  string // Redis and etcd: the socket's path. PostgreSQL: the folder where it is.
	Pid     int
	Version string // such as "PostgreSQL 15.18"
	stop    func()
}

// Stop ends the server and waits for it.
func (s *Server) Stop() { s.stop() }

// Redis starts a server with additional settings, such as "--appendfsync", "always".
func Redis(ctx context.Context, dir string, settings ...string) (*Server, error) {
	bin, err := program("redis-server", "")
	if err != nil {
		return nil, err
	}
	socket := filepath.Join(dir, "redis.sock")
	cmd := exec.Command(bin, append([]string{"--port", "0", "--unixsocket", socket, "--dir", dir, "--appendonly", "yes", "--save", ""}, settings...)...)
	return serve(ctx, "Redis", cmd, socket, filepath.Join(dir, "redis.log"), func(ctx context.Context) error {
		client := redis.NewClient(&redis.Options{Network: "unix", Addr: socket})
		defer func() { _ = client.Close() }()
		return client.Ping(ctx).Err()
	})
}

// Etcd starts a cluster of one server, with all defaults.
func Etcd(ctx context.Context, dir string) (*Server, error) {
	bin, err := program("etcd", "")
	if err != nil {
		return nil, err
	}
	// Such a URL means a socket of that name in the working directory.
	const clients, peers = "unix://etcd:1", "unix://etcd:2"
	cmd := exec.Command(bin, "--data-dir", "data", "--listen-client-urls", clients, "--advertise-client-urls", clients,
		"--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster", "default="+peers)
	cmd.Dir = dir
	socket := filepath.Join(dir, "etcd:1")
	client := &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
	return serve(ctx, "etcd", cmd, socket, filepath.Join(dir, "etcd.log"), func(ctx context.Context) error {
		ask, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://etcd/health", nil)
		if err != nil {
			return err
		}
		answer, err := client.Do(ask)
		if err != nil {
			return err
		}
		if answer.StatusCode != http.StatusOK {
			err = errors.New(answer.Status)
		}
		return errors.Join(err, answer.Body.Close())
	})
}

// Postgres makes a cluster and starts its server, with additional settings such as "synchronous_commit=off".
// PostgreSQL refuses to run as root; then it runs as the user postgres of Debian's package.
func Postgres(ctx context.Context, dir string, settings ...string) (*Server, error) {
	const debian = "/usr/lib/postgresql/*/bin"
	initdb, err := program("initdb", debian)
	if err != nil {
		return nil, err
	}
	server, err := program("postgres", debian)
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		return nil, err
	}
	var as *syscall.SysProcAttr
	if os.Getuid() == 0 {
		if as, err = owner("postgres", dir, data); err != nil {
			return nil, err
		}
	}
	run := func(bin string, args ...string) *exec.Cmd {
		cmd := exec.Command(bin, args...)
		cmd.Dir, cmd.SysProcAttr = dir, as
		return cmd
	}
	if out, err := run(initdb, "-D", data, "-U", "postgres", "-A", "trust", "--no-locale", "-E", "UTF8").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	args := []string{"-D", data, "-k", dir, "-c", "listen_addresses=", "-c", "max_connections=300"}
	for _, s := range settings {
		args = append(args, "-c", s)
	}
	return serve(ctx, "PostgreSQL", run(server, args...), dir, filepath.Join(dir, "postgres.log"), func(ctx context.Context) error {
		return Execute(ctx, PostgresURL(dir, "postgres"), "SELECT 1")
	})
}

// PostgresURL is the URL for pgx of a database on a server that Postgres started.
func PostgresURL(socket, database string) string {
	return fmt.Sprintf("host=%s user=postgres dbname=%s", socket, database)
}

// Execute runs one statement on a connection of its own.
func Execute(ctx context.Context, url, statement string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, statement)
	return errors.Join(err, conn.Close(ctx))
}

// owner gives folders to a user, and returns the attributes to run a program as that user.
func owner(name string, folders ...string) (*syscall.SysProcAttr, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return nil, fmt.Errorf("user %s: %w: %w", name, ErrMissing, err)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	for _, folder := range folders {
		if err := os.Chown(folder, int(uid), int(gid)); err != nil {
			return nil, err
		}
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
}

var numbers = regexp.MustCompile(`[0-9]+(\.[0-9]+)+`)

// serve starts a server and waits until it answers.
func serve(ctx context.Context, name string, cmd *exec.Cmd, socket, log string, ask func(context.Context) error) (*Server, error) {
	version, err := exec.CommandContext(ctx, cmd.Path, "--version").Output()
	if err != nil {
		return nil, fmt.Errorf("%s --version: %w", cmd.Path, err)
	}
	file, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // the process has its own
	cmd.Stdout, cmd.Stderr = file, file
	DieWithUs(cmd)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &Server{Socket: socket, Pid: cmd.Process.Pid, Version: name + " " + numbers.FindString(string(version)), stop: func() {
		_ = cmd.Process.Signal(os.Interrupt) // for PostgreSQL that is a fast shutdown
		late := time.AfterFunc(10*time.Second, func() { _ = cmd.Process.Kill() })
		defer late.Stop()
		_ = cmd.Wait()
	}}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		err := ask(ctx)
		if err == nil {
			return s, nil
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			s.Stop()
			return nil, fmt.Errorf("%s doesn't answer, its log is %s: %w", filepath.Base(cmd.Path), log, err)
		}
	}
}

// program finds a program in PATH, or where Debian keeps several versions of it.
func program(name, pattern string) (string, error) {
	if found, err := filepath.Glob(filepath.Join(pattern, name)); pattern != "" && err == nil && len(found) > 0 {
		return found[len(found)-1], nil
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%s is %w: %w", name, ErrMissing, err)
	}
	return path, nil
}
