package azuretest

import (
	"bufio"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// childVar makes the test binary a process that launches a server and waits to be killed.
const childVar = "MILLRACE_AZURETEST_CHILD"

func TestMain(m *testing.M) {
	if mode := os.Getenv(childVar); mode != "" {
		os.Exit(child(mode))
	}
	os.Exit(m.Run())
}

// azurite is the server of all tests that don't stop or pause it.
var azurite = sync.OnceValues(Launch)

func TestAnswers(t *testing.T) {
	t.Parallel()
	a := Shared(t, azurite).Account(t)
	for _, url := range []string{a.Blob, a.Queue, a.Table} {
		resp := get(t, url)
		if got := resp.Header.Get("Server"); !strings.HasPrefix(got, "Azurite-") {
			t.Errorf("%s answers as %q, want Azurite", url, got)
		}
		if got := resp.Header.Get("Keep-Alive"); got != "timeout=3600" {
			t.Errorf("%s keeps connections for %q, want an hour", url, got)
		}
	}
}

// A server with a folder keeps its data there, and answers like any other.
func TestLaunchIn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := Shared(t, func() (*Server, error) { return LaunchIn(dir) })
	defer s.Stop()
	a := s.Account(t)
	if got := get(t, a.Queue).Header.Get("Server"); !strings.HasPrefix(got, "Azurite-") {
		t.Errorf("%s answers as %q, want Azurite", a.Queue, got)
	}
	if kept, err := filepath.Glob(filepath.Join(dir, "*azurite*")); len(kept) == 0 {
		t.Errorf("nothing is in the folder (%v)", err)
	}
}

func TestAccountsAreApart(t *testing.T) {
	t.Parallel()
	s := Shared(t, azurite)
	one, two, last := s.Account(t), s.Account(t), s.account(accounts-1)
	for i, call := range []struct {
		method string
		in     Account
		want   int
	}{
		{http.MethodGet, one, http.StatusNotFound},
		{http.MethodPut, one, http.StatusCreated},
		{http.MethodGet, one, http.StatusOK},
		{http.MethodGet, two, http.StatusNotFound},
		{http.MethodPut, two, http.StatusCreated},
		{http.MethodGet, last, http.StatusNotFound}, // Azurite knows the account: else it would answer 403
		{http.MethodGet, Account{Name: one.Name, Key: "b3RoZXI=", Queue: one.Queue}, http.StatusForbidden},
	} {
		if got := queue(t, call.method, call.in); got != call.want {
			t.Errorf("call %d: %s of a queue in %s: got %d, want %d", i, call.method, call.in.Name, got, call.want)
		}
	}
}

func TestShared(t *testing.T) {
	t.Parallel()
	launch := sync.OnceValues(Launch)
	s := Shared(t, launch)
	if again := Shared(t, launch); again != s {
		t.Error("the second call returned another server")
	}
	open := connect(t, s.blob, s.queue, s.table)
	s.Stop()
	s.Stop()
	broken(t, open)
	if err := s.ended(); err == nil || !strings.Contains(err.Error(), "successfully listening") {
		t.Errorf("a stopped server: got %v, want an error with what it said", err)
	}
	if err := s.pause(); err == nil {
		t.Error("a stopped server was paused")
	}
	s.Continue()
}

func TestConnectionString(t *testing.T) {
	t.Parallel()
	a := Account{Name: "n", Key: "a2V5", Blob: "http://h:1/n", Queue: "http://h:2/n", Table: "http://h:3/n"}
	const want = "DefaultEndpointsProtocol=http;AccountName=n;AccountKey=a2V5;" +
		"BlobEndpoint=http://h:1/n;QueueEndpoint=http://h:2/n;TableEndpoint=http://h:3/n;"
	if got := a.ConnectionString(); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestPause(t *testing.T) {
	t.Parallel()
	s := Start(t)
	url := s.Account(t).Blob
	for range 100 { // as fast as possible
		s.Pause(t)
		s.Continue()
	}
	get(t, url)
	s.Pause(t)
	s.Pause(t)
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := request(short, url); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a paused server: got %v, want silence until the deadline", err)
	}
	s.Continue()
	s.Continue()
	get(t, url)
	t.Run("until the end of a test", func(t *testing.T) { s.Pause(t) })
	get(t, url)
	open := connect(t, s.blob, s.queue, s.table)
	s.Pause(t)
	s.Stop()
	broken(t, open)
}

// A killed process leaves nothing of its server behind, even of a paused one.
func TestGoneAfterAKill(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"running", "paused"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			Shared(t, azurite) // skips the test where Azurite is missing
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
			open := connect(t, strings.Fields(line)...)
			end()
			broken(t, open)
		})
	}
}

// child launches a server, reports its addresses, and doesn't stop it.
func child(mode string) int {
	s, err := Launch()
	if err == nil && mode == "paused" {
		err = s.pause()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(s.blob, s.queue, s.table)
	<-s.gone
	return 1
}

func TestNotInstalled(t *testing.T) {
	tool := filepath.Join(t.TempDir(), "scripts", "azurite")
	if err := os.MkdirAll(filepath.Join(tool, "above"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(filepath.Join(tool, "above"))
	demand := func(want string) {
		t.Helper()
		s, err := Launch()
		if s != nil || !errors.Is(err, ErrNotInstalled) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, %v, want an error with %q", s, err, want)
		}
	}
	demand("no folder above")
	if err := os.WriteFile(filepath.Join(tool, "run.js"), []byte("throw new Error('out of order')"), 0o600); err != nil {
		t.Fatal(err)
	}
	demand("scripts/setup.sh")
	if err := os.MkdirAll(filepath.Join(tool, "node_modules", "azurite"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := exec.LookPath("node"); err == nil {
		if _, err := Launch(); err == nil || errors.Is(err, ErrNotInstalled) || !strings.Contains(err.Error(), "out of order") {
			t.Errorf("got %v, want an error with what Node.js printed", err)
		}
	}
	t.Setenv("PATH", t.TempDir())
	demand("no Node.js")
}

// A missing Azurite skips a test, or fails it if Azurite is required.
func TestSkips(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ require, want string }{
		{"", "--- SKIP: TestAnswers"},
		{"chromium", "--- SKIP: TestAnswers"},
		{"chromium,azurite", "--- FAIL: TestAnswers"},
	} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestAnswers$", "-test.v")
		cmd.Env = append(os.Environ(), "PATH="+t.TempDir(), "MILLRACE_REQUIRE="+c.require)
		out, err := cmd.CombinedOutput()
		if strings.Contains(c.want, "FAIL") != (err != nil) || !strings.Contains(string(out), c.want) || !strings.Contains(string(out), "not installed") {
			t.Errorf("MILLRACE_REQUIRE=%s: got %v and this, want %s and the reason:\n%s", c.require, err, c.want, out)
		}
	}
}

// request uses its own connection, so that it tells whether the server accepts new ones.
func request(ctx context.Context, url string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"?comp=list", nil)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return resp, errors.Join(err, resp.Body.Close())
}

func get(t *testing.T, url string) *http.Response {
	t.Helper()
	resp, err := request(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// queue makes a signed request for a queue, and returns the answer's status.
func queue(t *testing.T, method string, a Account) int {
	t.Helper()
	url, query := a.Queue+"/apart", ""
	if method == http.MethodGet {
		url, query = url+"?comp=metadata", "\ncomp:metadata"
	}
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	date := time.Now().UTC().Format(http.TimeFormat)
	req.Header.Set("x-ms-date", date)
	req.Header.Set("x-ms-version", "2021-06-08")
	secret, err := base64.StdEncoding.DecodeString(a.Key)
	if err != nil {
		t.Fatal(err)
	}
	sum := hmac.New(sha256.New, secret)
	// The account is in it twice: once as in every request, and once from this request's path.
	fmt.Fprintf(sum, "%s%sx-ms-date:%s\nx-ms-version:2021-06-08\n/%s/%s/apart%s", method, strings.Repeat("\n", 12), date, a.Name, a.Name, query)
	req.Header.Set("Authorization", "SharedKey "+a.Name+":"+base64.StdEncoding.EncodeToString(sum.Sum(nil)))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Error(err)
	}
	return resp.StatusCode
}

// connect opens a connection to each of the three addresses.
func connect(t *testing.T, urls ...string) []net.Conn {
	t.Helper()
	if len(urls) != 3 {
		t.Fatalf("got addresses %q, want three", urls)
	}
	var open []net.Conn
	for _, url := range urls {
		conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		open = append(open, conn)
	}
	return open
}

// broken fails the test unless the process at the other end ends. Azurite itself would close a connection later.
func broken(t *testing.T, open []net.Conn) {
	t.Helper()
	for _, conn := range open {
		if err := conn.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if n, err := conn.Read(make([]byte, 1)); n > 0 || err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: got %d bytes and %v, want the end of the connection", conn.RemoteAddr(), n, err)
		}
	}
}

// A server with identities takes a token, and nobody without one.
func TestLaunchOAuth(t *testing.T) {
	t.Parallel()
	s := Shared(t, LaunchOAuth)
	t.Cleanup(s.Stop)
	a := s.Account(t)
	token, end, err := Token()
	if err != nil || !end.After(time.Now()) {
		t.Fatalf("got a token till %v, %v", end, err)
	}
	client := s.Client()
	defer client.CloseIdleConnections()
	for _, url := range []string{a.Blob, a.Queue} {
		for authorization, want := range map[string]int{"Bearer " + token: http.StatusOK, "Bearer x": http.StatusForbidden} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/?comp=list", nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", authorization)
			req.Header.Set("x-ms-version", "2021-06-08")
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			if resp.Body.Close(); resp.StatusCode != want {
				t.Errorf("%s with %.10s: got %d, want %d", url, authorization, resp.StatusCode, want)
			}
		}
	}
}
