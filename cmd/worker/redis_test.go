package main

import (
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-go/millrace/internal/boottest"
	"github.com/millrace-go/millrace/ops"
	"github.com/millrace-go/millrace/sample/reservations"
	"github.com/millrace-go/millrace/storage/redis/redistest"
)

// A scene is where programs run whose words are looked at.
type scene struct {
	place
	millrace string            // the operator's tool
	seen     map[string]string // what the programs have told
}

const redisPassword = "hunter2-redis"

// operate runs the operator's command line, and wants an exit code and a text.
func (s *scene) operate(t *testing.T, code int, want string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), s.millrace, args...)
	cmd.Dir, cmd.Env = s.dir, s.env
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	s.seen["millrace "+strings.Join(args, " ")] += string(out)
	if got := cmd.ProcessState.ExitCode(); got != code || !strings.Contains(string(out), want) {
		t.Errorf("millrace %s: got exit code %d and\n%s\nwant %d and %q", strings.Join(args, " "), got, out, code, want)
	}
}

// read keeps the answer of a page, for which token lets an operator in.
func (s *scene) read(t *testing.T, url, token string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	s.seen[url] += string(body)
	return string(body)
}

// eventually waits until ok is true.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for giveUp := time.After(time.Minute); !ok(); {
		select {
		case <-tick.C:
		case <-giveUp:
			t.Fatalf("never came true: %s", what)
		}
	}
}

// Two workers on a Redis server that wants a password, beside a web: a worker is killed with work in its hands, the
// server is killed and comes back, and each reservation is decided and confirmed once. The operator's tool sees the
// store, doctor tells of the server, and nothing of all that tells the password.
func TestRedisWithAPassword(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Config{Password: redisPassword, Always: true})
	url := strings.Replace(server.URL("tables"), "redis://", "redis://:"+redisPassword+"@", 1)
	s := &scene{place: place{dir: t.TempDir(), env: []string{"MILLRACE_STORE=" + url}}, millrace: boottest.Other(t, bin, "../millrace"), seen: map[string]string{}}
	token, line, err := ops.NewToken("ada", "operator")
	if err == nil {
		err = os.WriteFile(filepath.Join(s.dir, "ops.tokens"), []byte(line+"\n"), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	web := startWeb(t, s.place, "-log", "debug")
	killed := startWorker(t, s.place, "-log", "debug")
	worker := startWorker(t, s.place, "-log", "debug", "-ops-tokens", "ops.tokens")
	address, admin := web.URL(t), worker.URL(t)
	consumes(t, killed.URL(t))
	consumes(t, admin)

	posted := make(chan []reservations.MakeReservation)
	go func() { posted <- postAll(t, address, 200) }()
	eventually(t, "the first worker has done something", func() bool { return handled(t, killed.URL(t)) > 0 })
	killed.Signal(t, syscall.SIGKILL) // most likely with more in its hands
	sent := <-posted
	killed.Wait(t)
	s.seen["killed worker"] = killed.Output()
	store, channels := openSample(t, s.place)
	waitDrained(t, store, channels)

	server.Kill(t)
	if got := post(t, address, sent[0]); got != http.StatusServiceUnavailable {
		t.Errorf("without a server: got %d, want 503", got)
	}
	s.operate(t, 1, "redis store 127.0.0.1:", "queues", "list")
	server.Restart(t)
	sent = append(sent, postAll(t, address, 40)...)
	waitDrained(t, store, channels)
	audit(t, store, channels, address, s.dir, sent)

	s.operate(t, 0, "reservations", "queues", "list")
	s.operate(t, 0, "", "poison", "list")
	s.operate(t, 0, "", "doctor")
	server.Do(t, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	s.operate(t, 4, "WRONG  the server's maxmemory-policy is allkeys-lru", "doctor")
	if page := s.read(t, admin+"/ops/", token); !strings.Contains(page, "The server&#39;s maxmemory-policy is allkeys-lru") {
		t.Errorf("the operators' page doesn't tell of the server:\n%s", page)
	}
	for _, page := range []string{"/ops/queues", "/ops/programs", "/ops/doctor", "/readyz", "/metrics"} {
		s.read(t, admin+page, token)
	}
	if place := store.Props().Place; strings.Contains(place, redisPassword) || !strings.Contains(place, "tables") {
		t.Errorf("the store's place is %q", place)
	}
	s.env = []string{"MILLRACE_STORE=" + strings.Replace(url, redisPassword, redisPassword+"x", 1)}
	s.operate(t, 1, "the user or the password is wrong", "queues", "list")
	for name, p := range map[string]*boottest.Program{"web": web, "worker": worker} {
		p.Signal(t, syscall.SIGTERM)
		p.Wait(t)
		s.seen[name] = p.Output()
	}
	if !strings.Contains(s.seen["web"], "The store keeps no files") {
		t.Errorf("the web doesn't say that there are no menu wishes:\n%s", s.seen["web"])
	}
	for where, text := range s.seen {
		if strings.Contains(text, redisPassword) {
			t.Errorf("%s tells the password:\n%s", where, text)
		}
	}
}
