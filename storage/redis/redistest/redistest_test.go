package redistest

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
)

// childVar makes the test binary a process that launches a server and waits to be killed.
const childVar = "MILLRACE_REDISTEST_CHILD"

func TestMain(m *testing.M) {
	if mode := os.Getenv(childVar); mode != "" {
		os.Exit(launchAndWait(mode))
	}
	os.Exit(m.Run())
}

// redis is the server of all tests that don't harm it.
var redis = sync.OnceValues(Launch)

func TestStart(t *testing.T) {
	t.Parallel()
	s := Start(t, Config{Settings: []string{"--maxmemory", "3mb"}})
	for _, c := range []struct {
		want string
		args []string
	}{
		{"OK", []string{"SET", "a", "1"}},
		{"1", []string{"GET", "a"}},
		{"2", []string{"INCR", "a"}},
		{"", []string{"GET", "b"}},
		{"1\na\n\n0.5", []string{"EVAL", "return {1, 'a', '', '0.5'}", "0"}},
		{"appendonly\nyes", []string{"CONFIG", "GET", "appendonly"}},
		{"appendfsync\neverysec", []string{"CONFIG", "GET", "appendfsync"}},
		{"save\n", []string{"CONFIG", "GET", "save"}},
		{"maxmemory-policy\nnoeviction", []string{"CONFIG", "GET", "maxmemory-policy"}},
		{"maxmemory\n3145728", []string{"CONFIG", "GET", "maxmemory"}},
		{"dir\n" + s.Dir(), []string{"CONFIG", "GET", "dir"}},
	} {
		if got := s.Do(t, c.args...); got != c.want {
			t.Errorf("%q answers %q, want %q", c.args, got, c.want)
		}
	}
	if got, want := field(s.Do(t, "INFO", "server"), "process_id:"), fmt.Sprint(s.Pid()); got != want {
		t.Errorf("process %s answers, want %s", got, want)
	}
	for _, args := range [][]string{nil, {"NONSENSE"}, {"LPUSH", "a", "1"}} {
		if answer, err := s.Ask(t.Context(), args...); err == nil {
			t.Errorf("%q: got %q, want an error", args, answer)
		}
	}
}

// A URL leads to its server, by the port, by TLS and by the socket.
func TestURL(t *testing.T) {
	t.Parallel()
	const password = `pass "word"`
	for _, c := range []struct {
		name   string
		config Config
		url    func(*Server, string) string
		scheme string
	}{
		{"port", Config{}, (*Server).URL, "redis"},
		{"socket", Config{}, (*Server).SocketURL, "redis+unix"},
		{"password", Config{Password: password}, (*Server).URL, "redis"},
		{"TLS", Config{TLS: true}, (*Server).URL, "rediss"},
		{"socket beside TLS", Config{TLS: true}, (*Server).SocketURL, "redis+unix"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := Start(t, c.config)
			u, err := url.Parse(c.url(s, "shop & more"))
			if err != nil {
				t.Fatal(err)
			}
			if u.Scheme != c.scheme || u.Query().Get("prefix") != "shop & more" || u.User != nil {
				t.Errorf("got %s, want the scheme %s, the prefix and no user", u, c.scheme)
			}
			s.Do(t, "SET", "a", c.name)
			got, err := get(t, u, c.config.Password)
			if err != nil || got != c.name {
				t.Errorf("the server at %s has %q, %v, want %q", u, got, err, c.name)
			}
			if c.config.Password != "" {
				if got, err := get(t, u, ""); err == nil {
					t.Errorf("without the password: got %q, want an error", got)
				}
			}
		})
	}
}

// get reads the value of the key a by a store's URL, as the URL's users do.
func get(t *testing.T, u *url.URL, password string) (string, error) {
	t.Helper()
	option := rueidis.ClientOption{InitAddress: []string{u.Host}, Password: password, ForceSingleClient: true}
	switch u.Scheme {
	case "redis+unix":
		option.InitAddress = []string{u.Path}
		option.DialCtxFn = func(ctx context.Context, socket string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return d.DialContext(ctx, "unix", socket)
		}
	case "rediss":
		ca, err := os.ReadFile(u.Query().Get("ca"))
		if err != nil {
			t.Fatal(err)
		}
		option.TLSConfig = &tls.Config{RootCAs: x509.NewCertPool()}
		if !option.TLSConfig.RootCAs.AppendCertsFromPEM(ca) {
			t.Fatalf("no certificate in %s", ca)
		}
	}
	client, err := rueidis.NewClient(option)
	if err != nil {
		return "", err
	}
	defer client.Close()
	return client.Do(t.Context(), client.B().Get().Key("a").Build()).ToString()
}

// The server's data outlives kills and shutdowns; its address stays.
func TestKillAndRestart(t *testing.T) {
	t.Parallel()
	s := Start(t, Config{Always: true})
	if got, want := s.Do(t, "CONFIG", "GET", "appendfsync"), "appendfsync\nalways"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for i, end := range []func(testing.TB){s.Kill, s.Shutdown, s.Kill} {
		want, pid, addr := Fresh(), s.Pid(), s.Addr()
		s.Do(t, "RPUSH", "all", want)
		end(t)
		if answer, err := s.Ask(t.Context(), "PING"); err == nil {
			t.Fatalf("end %d: the server still answers %q", i, answer)
		}
		s.Restart(t)
		if got := s.Do(t, "LINDEX", "all", "-1"); got != want {
			t.Errorf("end %d: got %q, want %q", i, got, want)
		}
		if s.Addr() != addr || s.Pid() == pid {
			t.Errorf("end %d: got address %s and process %d, want %s and another than %d", i, s.Addr(), s.Pid(), addr, pid)
		}
	}
	if err := s.begin(); err == nil {
		t.Error("a server that runs was started again")
	}
}

func TestStall(t *testing.T) {
	t.Parallel()
	s := Start(t, Config{})
	for range 20 { // as fast as possible
		s.Stall(t)
		s.Resume(t)
	}
	s.Resume(t)
	s.Do(t, "SET", "a", "1")
	s.Stall(t)
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if answer, err := s.Ask(short, "GET", "a"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a stalled server: got %q, %v, want silence until the deadline", answer, err)
	}
	s.Resume(t)
	if got := s.Do(t, "GET", "a"); got != "1" {
		t.Errorf("got %q, want 1", got)
	}
	s.Stall(t)
	s.Kill(t)
	s.Restart(t)
	s.Stall(t) // until the end of the test
}

// A replica has what its master had at the start, and goes its own way when it is promoted, after a restart, too.
func TestPromote(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]Config{"plain": {}, "secret": {Password: "secret", TLS: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			master := Start(t, c)
			master.Do(t, "SET", "a", "1")
			replica := Start(t, Config{ReplicaOf: master})
			if got := replica.Do(t, "GET", "a"); got != "1" {
				t.Errorf("the replica has %q, want 1", got)
			}
			answer, err := replica.Ask(t.Context(), "SET", "a", "2")
			if err == nil || !strings.HasPrefix(err.Error(), "READONLY") {
				t.Errorf("a write to the replica: got %q, %v, want READONLY", answer, err)
			}
			replica.Promote(t)
			master.Do(t, "SET", "a", "2")
			replica.Shutdown(t)
			replica.Restart(t)
			if got := replica.Do(t, "INCRBY", "a", "10"); got != "11" {
				t.Errorf("the promoted server has %q, want 11", got)
			}
		})
	}
}

// When the master dies, the sentinels name its replica, and the old master follows it when it comes back.
func TestSentinels(t *testing.T) {
	t.Parallel()
	for name, password := range map[string]string{"plain": "", "secret": "secret"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			master := Start(t, Config{Password: password})
			replica := Start(t, Config{ReplicaOf: master})
			sentinels := StartSentinels(t, 3, master, "mymaster")
			a, b, c := sentinels.All[0].Addr(), sentinels.All[1].Addr(), sentinels.All[2].Addr()
			want := fmt.Sprintf("redis+sentinel://%s,%s,%s/mymaster?prefix=shop", a, b, c)
			if got := sentinels.URL("shop"); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			sentinels.Await(t, master)
			master.Kill(t)
			sentinels.Await(t, replica)
			sentinels.All[1].Kill(t)
			sentinels.Await(t, replica)
			replica.Do(t, "SET", "a", "1")
			master.Restart(t)
			if err := master.await("the old master follows the new one", func(ctx context.Context) bool {
				got, err := master.Ask(ctx, "GET", "a")
				return err == nil && got == "1"
			}); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestShared(t *testing.T) {
	t.Parallel()
	launch := sync.OnceValues(Launch)
	s := Shared(t, launch)
	if again := Shared(t, launch); again != s {
		t.Error("the second call returned another server")
	}
	one, two := Place(t, launch), Place(t, launch)
	if one == two || !strings.HasPrefix(one, "redis://"+s.Addr()+"/?prefix=") {
		t.Errorf("got the places %s and %s, want two on %s", one, two, s.Addr())
	}
	s.Stop()
	s.Stop()
	if _, err := os.Stat(s.Dir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder of a stopped server: got %v, want none", err)
	}
	if err := s.child.ended(); err == nil {
		t.Error("a stopped server hasn't ended")
	}
}

// A port that another process has taken in the meantime is given up for another one.
func TestPortTaken(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	attempts := 0
	s, err := launch(func(s *Server) error {
		if attempts++; attempts == 1 {
			_, s.port, _ = net.SplitHostPort(l.Addr().String())
		}
		return s.configure(Config{})
	})
	if errors.Is(err, ErrNotInstalled) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	if attempts != 2 {
		t.Errorf("%d attempts, want 2", attempts)
	}
}

// A server that refuses its settings says so.
func TestRefusedSettings(t *testing.T) {
	t.Parallel()
	Shared(t, redis) // skips the test where Redis is missing
	s, err := LaunchWith(Config{Settings: []string{"--nonsense", "1"}})
	if err == nil {
		s.Stop()
	}
	if err == nil || errors.Is(err, ErrNotInstalled) || !strings.Contains(err.Error(), "nonsense") {
		t.Errorf("got %v, want an error with what Redis said", err)
	}
}

func TestSupported(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]bool{"7.0.15": true, "8.2": true, "10.0.0": true, "6.2.14": false, "": false} {
		if got := supported(version); got != want {
			t.Errorf("version %q: got %v, want %v", version, got, want)
		}
	}
}

// A killed process leaves nothing of its server behind, even of a stalled one.
func TestGoneAfterAKill(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"running", "stalled"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			Shared(t, redis) // skips the test where Redis is missing
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), childVar+"="+mode)
			cmd.Stderr = t.Output()
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			end := sync.OnceFunc(func() {
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
			})
			t.Cleanup(end)
			line, err := bufio.NewReader(out).ReadString('\n')
			if err != nil {
				t.Fatalf("the process that launches said %q: %v", line, err)
			}
			addr, dir, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
			conn, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			end()
			if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
				t.Fatal(err)
			}
			if n, err := conn.Read(make([]byte, 1)); n > 0 || err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("got %d bytes and %v, want the end of the connection", n, err)
			}
			for late := time.After(patience); ; {
				if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
					return
				}
				select {
				case <-late:
					t.Fatalf("the folder is still there after %v", patience)
				case <-time.After(step):
				}
			}
		})
	}
}

// launchAndWait launches a server, reports where it is, and doesn't stop it.
func launchAndWait(mode string) int {
	s, err := Launch()
	if err == nil && mode == "stalled" {
		stop, _ := stallSignals()
		err = s.child.stall(stop)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(s.Addr(), s.Dir())
	_, gone := s.child.process()
	<-gone
	return 1
}

// failVar makes TestFails fail.
const failVar = "MILLRACE_REDISTEST_FAIL"

func TestFails(t *testing.T) {
	s := Start(t, Config{Settings: []string{"--loglevel", "notice"}})
	if os.Getenv(failVar) != "" {
		t.Errorf("process %d", s.Pid())
	}
}

// A missing Redis skips a test, or fails it if Redis is required. A failed test shows the log.
func TestSkipsAndFails(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ env, want, reason string }{
		{"PATH=", "--- SKIP: TestFails", "apt-get install redis-server"},
		{"PATH= MILLRACE_REQUIRE=chromium", "--- SKIP: TestFails", "apt-get install redis-server"},
		{"PATH= MILLRACE_REQUIRE=chromium,redis", "--- FAIL: TestFails", "apt-get install redis-server"},
		{failVar + "=1", "--- FAIL: TestFails", "Ready to accept connections"},
	} {
		if strings.HasPrefix(c.env, failVar) {
			Shared(t, redis) // skips the rest where Redis is missing
		}
		cmd := exec.Command(os.Args[0], "-test.run=^TestFails$", "-test.v")
		cmd.Env = append(append(os.Environ(), "MILLRACE_REQUIRE="), strings.Fields(c.env)...)
		out, err := cmd.CombinedOutput()
		said := strings.Contains(string(out), c.want) && strings.Contains(string(out), c.reason)
		if !said || strings.Contains(c.want, "FAIL") != (err != nil) {
			t.Errorf("%s: got %v and this, want %s and %q:\n%s", c.env, err, c.want, c.reason, out)
		}
	}
}
