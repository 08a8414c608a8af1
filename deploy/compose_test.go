package deploy

import (
	"bytes"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/millrace-go/millrace/internal/boottest"
	"github.com/millrace-go/millrace/storage/redis/redistest"
)

// A composition is what deploy/compose.yaml says. A field that isn't here is a mistake, in the file or in this list.
type (
	composition struct {
		Name     string
		Program  composed `yaml:"x-program"`
		Services map[string]composed
		Volumes  map[string]any
		Secrets  map[string]struct{ File string }
	}
	composed struct {
		Build, Image    string
		DependsOn       map[string]struct{ Condition string } `yaml:"depends_on"`
		Environment     texts
		Secrets         []string
		Restart         string
		ReadOnly        bool     `yaml:"read_only"`
		CapDrop         []string `yaml:"cap_drop"`
		SecurityOpt     []string `yaml:"security_opt"`
		Healthcheck     health
		Command         []string
		Ports, Volumes  []string
		StopGracePeriod time.Duration `yaml:"stop_grace_period"`
		MemLimit        string        `yaml:"mem_limit"`
		Deploy          struct{ Replicas int }
	}
	health struct {
		Test              []string
		Interval, Timeout time.Duration
		StartPeriod       time.Duration `yaml:"start_period"`
	}
)

func readComposition(t *testing.T) composition {
	t.Helper()
	var c composition
	d := yaml.NewDecoder(bytes.NewReader([]byte(read(t, "compose.yaml"))))
	d.KnownFields(true)
	if err := d.Decode(&c); err != nil {
		t.Fatal(err)
	}
	return c
}

// A machine runs what deploy/compose.yaml says, without containers: paths, names and ports are those of a folder and of
// this machine. The rest is the file's own.
type machine struct {
	composition
	dir, port string
	env       []string // PATH
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	redistest.Start(t, redistest.Config{}).Stop() // or the test is skipped, or fails, as Redis is missing
	m := &machine{composition: readComposition(t), dir: t.TempDir(), port: freePort(t)}
	m.env = []string{"PATH=" + m.dir + "/bin:" + os.Getenv("PATH")}
	if err := built(); err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{"bin", "data", "run/secrets"} {
		if err := os.MkdirAll(filepath.Join(m.dir, folder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	cli, err := exec.LookPath("redis-cli")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"run/secrets/redis-password": "a secret of the test\n",
		"bin/docker-entrypoint.sh":   "#!/bin/sh\nexec \"$@\" --port " + m.port + " --bind 127.0.0.1\n",
		"bin/redis-cli":              "#!/bin/sh\nexec " + cli + " -p " + m.port + " \"$@\"\n",
	} {
		if err := os.WriteFile(filepath.Join(m.dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return port
}

// here turns what the file says into what is so on this machine.
func (m *machine) here(text string) string {
	return strings.NewReplacer("$$", "$", "/run/secrets/", m.dir+"/run/secrets/", "/data ", m.dir+"/data ", binFolder, folder+"/",
		"redis:6379", "127.0.0.1:"+m.port, "0.0.0.0:9090", "127.0.0.1:0").Replace(text)
}

// environment is that of a service.
func (m *machine) environment(service string) []string {
	env := slices.Clone(m.env)
	for name, value := range m.Services[service].Environment {
		env = append(env, name+"="+m.here(value))
	}
	return append(env, "MILLRACE_ADDR=127.0.0.1:0")
}

// start starts the command of a service.
func (m *machine) start(t *testing.T, service string) *boottest.Program {
	t.Helper()
	command := slices.Clone(m.Services[service].Command)
	for i := range command {
		command[i] = m.here(command[i])
	}
	bin := command[0]
	if _, err := os.Stat(folder + "/" + bin); err == nil {
		bin = folder + "/" + bin
	}
	return boottest.Start(t, bin, m.dir, m.environment(service), command[1:]...)
}

// healthy reports whether a service's own check finds it healthy.
func (m *machine) healthy(t *testing.T, service string) (ok bool, output []byte) {
	t.Helper()
	test := m.Services[service].Healthcheck.Test
	if len(test) < 2 || test[0] != "CMD" {
		t.Fatalf("%s has the health check %q, want a CMD", service, test)
	}
	var args []string
	for _, word := range test[1:] {
		args = append(args, m.here(word))
	}
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Dir, cmd.Env = m.dir, m.environment(service)
	output, err := cmd.CombinedOutput()
	return err == nil, output
}

func (m *machine) awaitHealth(t *testing.T, service string) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(patience); ; {
		ok, output := m.healthy(t, service)
		if ok {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("%s isn't healthy: %s", service, output)
		}
	}
}

// redis asks the server as an operator does.
func (m *machine) redis(t *testing.T, password string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(m.dir, "bin/redis-cli"), args...)
	if cmd.Env = os.Environ(); password != "" {
		cmd.Env = append(cmd.Env, "REDISCLI_AUTH="+password)
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("redis-cli %q: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// book asks for a reservation, and returns the address of its receipt.
func book(t *testing.T, url string, n int) string {
	t.Helper()
	date := time.Now().AddDate(0, 0, 14).Format(time.DateOnly)
	body := fmt.Sprintf(`{"date":%q,"name":"Ada","email":"ada-%d@example.org","quantity":1}`, date, n)
	res, err := http.Post(url+"/reservations", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusAccepted {
		t.Fatalf("got %d, want 202", res.StatusCode)
	}
	return url + res.Header.Get("Location")
}

// await waits until a reservation is accepted.
func await(t *testing.T, receipt string) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(patience); ; {
		_, page := boottest.Get(t, receipt)
		if strings.Contains(page, `data-status="accepted"`) {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("%s isn't accepted", receipt)
		}
	}
}

// The programs and the server of compose.yaml, with their very commands, settings and health checks, keep the promise:
// what was acknowledged before a worker and the server are killed is done once, and its mail is written once.
func TestCompositionKeepsThePromise(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	if ok, _ := m.healthy(t, "web"); ok {
		t.Error("the web's check is content without a server, so it proves nothing")
	}
	server := m.start(t, "redis")
	m.awaitHealth(t, "redis")
	for name, want := range map[string]string{"appendonly": "yes", "appendfsync": "always", "maxmemory-policy": "noeviction", "save": "", "maxmemory": "536870912"} {
		if got := strings.TrimSpace(strings.TrimPrefix(m.redis(t, "a secret of the test", "CONFIG", "GET", name), name)); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if got := m.redis(t, "", "GET", "x"); !strings.Contains(got, "NOAUTH") {
		t.Errorf("without a password: got %q, want it refused", got)
	}
	web, first := m.start(t, "web"), m.start(t, "worker")
	url := web.URL(t)
	first.URL(t)
	m.start(t, "worker").URL(t)
	m.awaitHealth(t, "web")
	m.awaitHealth(t, "worker")

	const many = 30 // of 40 seats
	var receipts []string
	for n := range many {
		switch n {
		case many / 3:
			first.Signal(t, syscall.SIGKILL)
			first.Wait(t)
		case 2 * many / 3:
			server.Signal(t, syscall.SIGKILL)
			server.Wait(t)
			m.start(t, "redis")
			m.awaitHealth(t, "redis")
		}
		receipts = append(receipts, book(t, url, n))
	}
	for _, receipt := range receipts {
		await(t, receipt)
	}
	mails := map[string]int{}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(patience); len(mails) < many; {
		files, err := filepath.Glob(filepath.Join(m.dir, "data", "mail", "*.eml"))
		if err != nil {
			t.Fatal(err)
		}
		clear(mails)
		for _, f := range files {
			_, to, _ := strings.Cut(read(t, f), "<ada-")
			to, _, _ = strings.Cut(to, "@")
			mails[to]++
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("got mails to %d people, want %d", len(mails), many)
		}
	}
	for to, n := range mails {
		if n != 1 {
			t.Errorf("ada-%s got %d mails, want one", to, n)
		}
	}
	for _, service := range []string{"web", "worker", "redis"} {
		if ok, output := m.healthy(t, service); !ok {
			t.Errorf("%s isn't healthy: %s", service, output)
		}
	}
}

// The commands of docs/redis.md work as they stand there: the server, the user with its rights, and the program.
func TestPageOfRedis(t *testing.T) {
	t.Parallel()
	m, page := newMachine(t), read(t, "../docs/redis.md")
	command := func(begin string) []string {
		line := regexp.MustCompile(`(?m)^` + begin + `.*$`).FindString(page)
		if line == "" {
			t.Fatalf("docs/redis.md has no line that begins with %q", begin)
		}
		return strings.Fields(strings.ReplaceAll(line, "'", ""))
	}
	args := slices.DeleteFunc(command("redis-server "), func(word string) bool { return word == "redis-server" })
	for i, word := range args {
		if word == "--save" { // whose value is empty
			args = slices.Insert(args, i+1, "")
			break
		}
	}
	boottest.Start(t, filepath.Join(m.dir, "bin/docker-entrypoint.sh"), m.dir+"/data", m.env, append([]string{"redis-server"}, args...)...)
	m.awaitHealth(t, "redis")
	if got := m.redis(t, "", command("ACL SETUSER tables ")...); got != "OK" {
		t.Fatalf("ACL SETUSER: got %q", got)
	}
	words := command("go run ./cmd/web -store ")
	url := strings.Replace(words[len(words)-1], "localhost:6379", "127.0.0.1:"+m.port, 1)
	env := append(slices.Clone(m.env), "MILLRACE_STORE="+url, "MILLRACE_REDIS_USER=tables", "MILLRACE_REDIS_PASSWORD=PASSWORD", "MILLRACE_ADDR=127.0.0.1:0")
	await(t, book(t, boottest.Start(t, folder+"/web", m.dir, env).URL(t), 1))
	doctor := boottest.Start(t, folder+"/millrace", m.dir, env, "doctor")
	if code := doctor.Wait(t); code != 0 {
		t.Errorf("doctor: got exit code %d, want 0", code)
	}
	if log := m.redis(t, "", "ACL", "LOG"); log != "" {
		t.Errorf("the user lacks rights: %s", log)
	}
}

// A container of the file may no more than it needs, and keeps what it must, beyond what its processes show.
func TestComposition(t *testing.T) {
	t.Parallel()
	c, p := readComposition(t), running(t)
	if got := slices.Sorted(maps.Keys(c.Services)); !slices.Equal(got, []string{"redis", "web", "worker"}) {
		t.Fatalf("got services %q", got)
	}
	for name, least := range map[string]time.Duration{"web": requests, "worker": p.drain + outcomes + requests} {
		s, known := c.Services[name], p.web
		if name == "worker" {
			known = p.worker
		}
		if s.Command[0] != name || s.Build != ".." || !s.ReadOnly || s.Restart == "" || s.DependsOn["redis"].Condition != "service_healthy" {
			t.Errorf("%s: got %+v", name, s)
		}
		if s.StopGracePeriod < least {
			t.Errorf("%s is killed %v after the signal; it may take %v to stop", name, s.StopGracePeriod, least)
		}
		for _, arg := range s.Command[1:] {
			if flag, _, ok := strings.Cut(strings.TrimLeft(arg, "-"), "="); !ok || known.settings[flag] == "" {
				t.Errorf("%s gets the argument %q; want -flag=value, of its -help", name, arg)
			}
		}
		for variable := range s.Environment {
			if _, ok := known.settings[flagOf(variable)]; setting.MatchString(variable) && !ok && !strings.HasPrefix(variable, "MILLRACE_REDIS_") {
				t.Errorf("%s gets the variable %s, which its -help doesn't know", name, variable)
			}
		}
	}
	if c.Services["worker"].Deploy.Replicas != 2 {
		t.Errorf("got %d workers, want 2", c.Services["worker"].Deploy.Replicas)
	}
	redis := c.Services["redis"]
	if len(redis.Ports) > 0 {
		t.Errorf("the server is reached from outside, at %q", redis.Ports)
	}
	if _, kept := c.Volumes["redis"]; !kept || !slices.Contains(redis.Volumes, "redis:/data") {
		t.Errorf("the server's data is in %q, which go with the container", redis.Volumes)
	}
	for name, s := range c.Services {
		for _, secret := range s.Secrets {
			if c.Secrets[secret].File == "" {
				t.Errorf("%s: the secret %s is of no file", name, secret)
			}
		}
	}
}
