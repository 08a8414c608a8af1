package redistest

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"
)

const (
	host       = "127.0.0.1"
	logFile    = "log"
	socketFile = "redis.sock"
)

// A Server is a Redis server, running or not. Its methods may be called concurrently.
type Server struct {
	child    *child
	port     string
	password string
	tls      bool
	tune     []string // the command that follows each start of a sentinel
}

// launch starts a server or a sentinel and waits until it answers. configure makes its arguments and its file.
func launch(configure func(*Server) error) (*Server, error) {
	bin, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, fmt.Errorf("redistest: %w", ErrNotInstalled)
	}
	for range 10 { // another process may take a free port before the server does
		s := &Server{}
		if s.port, err = freePort(); err != nil {
			break
		}
		if s.child, err = newChild(bin); err != nil {
			break
		}
		if err = configure(s); err == nil {
			err = s.begin()
		}
		if err == nil {
			return s, nil
		}
		s.Stop()
		if !errors.Is(err, errPortTaken) {
			break
		}
	}
	return nil, fmt.Errorf("redistest: start Redis: %w", err)
}

// configure writes the file of settings. The server changes the file itself when its role changes.
func (s *Server) configure(c Config) error {
	const file = "redis.conf"
	s.child.args = append([]string{s.child.file(file)}, c.Settings...)
	s.child.env = c.Env
	s.password, s.tls = c.Password, c.TLS
	settings := s.common()
	if m := c.ReplicaOf; m != nil {
		s.password, s.tls = m.password, m.tls
		settings = append(settings, "replicaof "+host+" "+m.port)
	}
	fsync := "everysec"
	if c.Always {
		fsync = "always"
	}
	settings = append(settings, "appendonly yes", "appendfsync "+fsync, `save ""`, "maxmemory-policy noeviction",
		"repl-diskless-sync-delay 0")
	if s.password != "" { // a failover may make each server follow another one
		settings = append(settings, "requirepass "+strconv.Quote(s.password), "masterauth "+strconv.Quote(s.password))
	}
	if !s.tls {
		return s.child.write(file, append(settings, "port "+s.port))
	}
	settings = append(settings, "port 0", "tls-port "+s.port, "tls-auth-clients no", "tls-replication yes",
		s.child.setting("tls-ca-cert-file", caFile), s.child.setting("tls-cert-file", certFile),
		s.child.setting("tls-key-file", keyFile))
	if err := s.certify(c.ReplicaOf); err != nil {
		return err
	}
	return s.child.write(file, settings)
}

// common are the settings of servers and sentinels.
func (s *Server) common() []string {
	return []string{"bind " + host, "protected-mode no", "daemonize no", "loglevel warning",
		s.child.setting("logfile", logFile), s.child.setting("unixsocket", socketFile), "dir " + strconv.Quote(s.child.dir)}
}

// begin starts the process, and waits until it answers and has loaded its data.
func (s *Server) begin() error {
	if err := s.child.run(); err != nil {
		return err
	}
	if err := s.await("Redis answers", func(ctx context.Context) bool {
		pong, err := s.Ask(ctx, "PING")
		return err == nil && pong == "PONG"
	}); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	info, err := s.Ask(ctx, "INFO", "server")
	if err != nil {
		return err
	}
	if !supported(field(info, "redis_version:")) {
		return ErrNotInstalled
	}
	if len(s.tune) > 0 {
		_, err = s.Ask(ctx, s.tune...)
	}
	return err
}

// supported tells whether the storage driver works with a version of Redis.
func supported(version string) bool {
	major, _, _ := strings.Cut(version, ".")
	n, err := strconv.Atoi(major)
	return err == nil && n >= 7
}

// await waits until something is so, or the process ends.
func (s *Server) await(what string, so func(ctx context.Context) bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, gone := s.child.process()
	for !so(ctx) {
		select {
		case <-gone:
			return s.child.ended()
		case <-ctx.Done():
			return fmt.Errorf("waited %v until %s; the log ends:\n%s", patience, what, s.child.log())
		case <-time.After(step):
		}
	}
	return nil
}

// URL is the URL of a store with a prefix on the server. It has no password.
func (s *Server) URL(prefix string) string {
	u := url.URL{Scheme: "redis", Host: s.Addr(), Path: "/"}
	query := url.Values{"prefix": {prefix}}
	if s.tls {
		u.Scheme = "rediss"
		query.Set("ca", s.child.file(caFile))
	}
	u.RawQuery = query.Encode()
	return u.String()
}

// SocketURL is URL by the socket.
func (s *Server) SocketURL(prefix string) string {
	u := url.URL{Scheme: "redis+unix", Path: s.Socket(), RawQuery: url.Values{"prefix": {prefix}}.Encode()}
	return u.String()
}

// Addr is the server's address, such as 127.0.0.1:20123. It never changes.
func (s *Server) Addr() string { return net.JoinHostPort(host, s.port) }

// Socket is the path of the server's socket.
func (s *Server) Socket() string { return s.child.file(socketFile) }

// Dir is the server's folder. It is removed with the server.
func (s *Server) Dir() string { return s.child.dir }

// Pid is the number of the running process, or of the last one.
func (s *Server) Pid() int {
	p, _ := s.child.process()
	return p.Pid
}

// Kill ends the process by SIGKILL, and returns when it has ended.
func (s *Server) Kill(tb testing.TB) {
	tb.Helper()
	s.end(tb, os.Kill)
}

// Shutdown ends the process as an operator does, and returns when it has ended. Nothing that was written is lost.
func (s *Server) Shutdown(tb testing.TB) {
	tb.Helper()
	s.end(tb, syscall.SIGTERM)
}

func (s *Server) end(tb testing.TB, sig os.Signal) {
	tb.Helper()
	if err := s.child.end(sig); err != nil {
		tb.Fatalf("redistest: end Redis: %v", err)
	}
}

// Restart starts the process again after its end, with the same port and folder. It returns when the server answers and
// has loaded its data. It doesn't wait for a replica's master.
func (s *Server) Restart(tb testing.TB) {
	tb.Helper()
	if err := s.begin(); err != nil {
		tb.Fatalf("redistest: restart Redis: %v", err)
	}
}

// Stall stops the process until Resume. Connections stay open, new ones are accepted, and commands wait. Kill ends a
// stalled process, too.
func (s *Server) Stall(tb testing.TB) {
	tb.Helper()
	stop, _ := stallSignals()
	if err := s.child.stall(stop); err != nil {
		tb.Fatalf("redistest: stall Redis: %v", err)
	}
}

// Resume ends a stall, if there is one.
func (s *Server) Resume(tb testing.TB) {
	tb.Helper()
	_, goOn := stallSignals()
	p, _ := s.child.process()
	if err := p.Signal(goOn); err != nil {
		tb.Fatalf("redistest: resume Redis: %v", err)
	}
}

// Promote makes a replica a master, also for the time after a restart.
func (s *Server) Promote(tb testing.TB) {
	tb.Helper()
	s.Do(tb, "REPLICAOF", "NO", "ONE")
	s.Do(tb, "CONFIG", "REWRITE")
}

// Stop kills the process and removes the folder. A second Stop does nothing.
func (s *Server) Stop() { s.child.remove() }

// showLog shows the end of the log after the test, if the test has failed.
func (s *Server) showLog(tb testing.TB) {
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("the log of the Redis server at %s ends:\n%s", s.Addr(), s.child.log())
		}
	})
}

// Do runs a command as an operator would, as the user named default. It returns what Ask returns, and fails the test
// after an error.
func (s *Server) Do(tb testing.TB, args ...string) string {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	answer, err := s.Ask(ctx, args...)
	if err != nil {
		tb.Fatalf("redistest: %s: %v", strings.Join(args, " "), err)
	}
	return answer
}

// Ask is Do with an error. It goes by the socket and a connection of its own. A number comes as digits, absence as "",
// and a list as lines.
func (s *Server) Ask(ctx context.Context, args ...string) (string, error) {
	if len(args) == 0 {
		return "", errors.New("no command")
	}
	const buffer = 1 << 14
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{s.Socket()},
		DialCtxFn: func(_ context.Context, socket string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			conn, err := d.DialContext(ctx, "unix", socket)
			if err == nil {
				context.AfterFunc(ctx, func() { _ = conn.Close() }) // the client's first words have no context
			}
			return conn, err
		},
		Password:            s.password,
		ForceSingleClient:   true,
		AlwaysRESP2:         true, // numbers, texts and lists only
		DisableCache:        true,
		DisableRetry:        true,
		ReadBufferEachConn:  buffer,
		WriteBufferEachConn: buffer,
	})
	if err != nil {
		return "", cmp.Or(ctx.Err(), err)
	}
	defer client.Close()
	answer, err := client.Do(ctx, client.B().Arbitrary(args...).Build()).ToMessage()
	if rueidis.IsRedisNil(err) {
		return "", nil
	}
	if err != nil {
		return "", cmp.Or(ctx.Err(), err)
	}
	return text(answer), nil
}

// text is an answer as a person reads it.
func text(m rueidis.RedisMessage) string {
	switch {
	case m.IsNil():
		return ""
	case m.IsInt64():
		n, _ := m.AsInt64() // it is one
		return strconv.FormatInt(n, 10)
	case m.IsArray():
		list, _ := m.ToArray()
		lines := make([]string, len(list))
		for i, v := range list {
			lines[i] = text(v)
		}
		return strings.Join(lines, "\n")
	}
	s, err := m.ToString()
	if err != nil {
		return err.Error() // in the list that EXEC answers
	}
	return s
}
