package deploy

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	patience = 2 * time.Minute  // for a busy machine to start a program
	requests = 10 * time.Second // the most that a server takes to finish requests when it stops
	outcomes = 10 * time.Second // the most that a worker takes to record the outcomes of deliveries, after DrainTimeout
)

// A program is what a running program says about itself.
type program struct {
	settings map[string]string // defaults by flag
	paths    map[string]int    // the statuses of its own server
}

type programs struct {
	web, worker program
	queues      []string // queues that the worker consumes
	commands    []string // those with commands
	drain       time.Duration
}

// folder has the programs once built has returned.
var folder string

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
	var err error
	if folder, err = os.MkdirTemp("", "millrace-deploy-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(folder) }()
	return m.Run()
}

// built builds the programs once for all tests.
var built = sync.OnceValue(func() error {
	build := exec.Command("go", "build", "-buildvcs=false", "-o", folder+"/", "./cmd/web", "./cmd/worker", "./cmd/millrace")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w\n%s", build, err, out)
	}
	return nil
})

// The tests ask the programs themselves, so that no list here can be out of date.
var askPrograms = sync.OnceValues(func() (p programs, err error) {
	if err := built(); err != nil {
		return p, err
	}
	dir, err := os.MkdirTemp(folder, "data")
	if err != nil {
		return p, err
	}
	if p.web, _, err = ask(dir, "web", "Stop with", "-addr=127.0.0.1:0", "-worker=false"); err != nil {
		return p, err
	}
	worker, log, err := ask(dir, "worker", "worker starts", "-admin=127.0.0.1:0")
	if err != nil {
		return p, err
	}
	p.worker = worker
	for line := range strings.Lines(log) {
		var l struct {
			Msg   string
			Drain string `json:"drain_timeout"`
			Queue string
			Kinds string
		}
		if json.Unmarshal([]byte(line), &l) != nil {
			continue // for people only
		}
		switch l.Msg {
		case "worker starts":
			if p.drain, err = time.ParseDuration(l.Drain); err != nil {
				return p, err
			}
		case "worker consumes":
			p.queues = append(p.queues, l.Queue)
			if strings.Contains(l.Kinds, "decide") && l.Queue != "schedules" { // whose commands only workers send
				p.commands = append(p.commands, l.Queue)
			}
		}
	}
	return p, nil
})

func running(t *testing.T) programs {
	t.Helper()
	p, err := askPrograms()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// ask reads a program's -help, runs the program until it prints ready, requests the paths of the probes, and stops
// it. It also returns all output of the program.
func ask(dir, name, ready string, args ...string) (p program, output string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	help, err := exec.CommandContext(ctx, filepath.Join(folder, name), "-help").Output()
	if err != nil {
		return p, "", fmt.Errorf("%s -help: %w", name, err)
	}
	p.settings, p.paths = map[string]string{}, map[string]int{}
	for _, m := range regexp.MustCompile(`(?ms)^  -([a-z-]+).*?^ +Default: (.*?)\. Environment: ((?:MILLRACE|RESERVATIONS)_[A-Z_]+)$`).FindAllStringSubmatch(string(help), -1) {
		if flagOf(m[3]) != m[1] {
			return p, "", fmt.Errorf("%s -help: flag %s is variable %s", name, m[1], m[3])
		}
		p.settings[m[1]] = m[2]
	}

	cmd := exec.CommandContext(ctx, filepath.Join(folder, name), args...)
	cmd.Dir = dir
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return setting.MatchString(v) })
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return p, "", err
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		return p, "", err
	}
	var all strings.Builder
	url := ""
	for lines := bufio.NewScanner(pipe); lines.Scan(); {
		all.WriteString(lines.Text() + "\n")
		if at := strings.Index(lines.Text(), "http://"); at >= 0 && url == "" && !strings.Contains(lines.Text(), "/ops/") { // the link of the operators' pages comes before
			url = lines.Text()[at:]
		}
		if url == "" || !strings.Contains(all.String(), ready) || len(p.paths) > 0 {
			continue
		}
		for _, path := range []string{"/healthz", "/readyz", "/nowhere"} {
			if p.paths[path], err = get(ctx, url+path); err != nil {
				return p, "", err
			}
		}
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			return p, "", err
		}
	}
	if err := cmd.Wait(); err != nil {
		return p, "", fmt.Errorf("%s: %w\n%s", name, err, all.String())
	}
	return p, all.String(), nil
}

// setting begins the environment variables of settings: those of the framework and those of the sample.
var setting = regexp.MustCompile(`^(MILLRACE|RESERVATIONS)_`)

// flagOf is the flag that an environment variable sets.
func flagOf(variable string) string {
	return strings.ReplaceAll(strings.ToLower(setting.ReplaceAllString(variable, "")), "_", "-")
}

func get(ctx context.Context, url string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	return res.StatusCode, res.Body.Close()
}

// A container is one program in an image, in a form for both kinds of template.
type container struct {
	name    string
	command string
	args    []string
	env     []string // names
	probes  map[string]probe
	grace   time.Duration // from the signal to the kill
}

type probe struct {
	path string
	port string
}

// check compares a container with the program that it runs.
func (c container) check(t *testing.T, all programs) {
	t.Helper()
	p, listen, least := all.web, "addr", requests
	if c.name == "worker" {
		p, listen, least = all.worker, "admin", all.drain+outcomes+requests
	}
	if want := binFolder + c.name; c.command != want {
		t.Errorf("%s runs %s, want %s, where the Dockerfile puts it", c.name, c.command, want)
	}
	values := map[string]string{}
	for _, arg := range c.args {
		flag, value, ok := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if _, known := p.settings[flag]; !known || !ok || !strings.HasPrefix(arg, "-") {
			t.Errorf("%s gets the argument %q; want -flag=value, of its -help", c.name, arg)
		}
		values[flag] = value
	}
	for _, name := range c.env {
		if _, known := p.settings[flagOf(name)]; !known && setting.MatchString(name) {
			t.Errorf("%s gets the variable %s, which its -help doesn't know", c.name, name)
		}
	}
	for _, name := range []string{"MILLRACE_STORE", "RESERVATIONS_SEATS", "AZURE_TOKEN_CREDENTIALS"} {
		if !slices.Contains(c.env, name) {
			t.Errorf("%s lacks the variable %s", c.name, name)
		}
	}
	if c.name == "web" && values["worker"] != "false" {
		t.Error("the web runs a worker, which scales with requests then, not with queues")
	}
	if values["doorbell"] == "off" {
		t.Errorf("%s rings nobody, or can't be rung", c.name)
	}
	if c.name == "worker" && !slices.Contains(c.env, "RESERVATIONS_SMTP") {
		t.Error("the worker has no mail server: its mails become files that go with the container")
	}

	address := p.settings[listen]
	if a, ok := values[listen]; ok {
		address = a
	}
	host, port, _ := strings.Cut(address, ":")
	if host != "" && host != "0.0.0.0" {
		t.Errorf("%s listens on %s, where probes don't reach it", c.name, address)
	}
	for kind, path := range map[string]string{"liveness": "/healthz", "readiness": "/readyz"} {
		got, ok := c.probes[kind]
		if !ok {
			t.Errorf("%s has no %s probe", c.name, kind)
			continue
		}
		if got.path != path || got.port != port {
			t.Errorf("%s: the %s probe asks %s at %s; want %s at %s", c.name, kind, got.path, got.port, path, port)
		}
		if answer := p.paths[got.path]; answer != http.StatusOK {
			t.Errorf("%s answers %d at %s; want 200", c.name, answer, got.path)
		}
	}
	if c.grace < least {
		t.Errorf("%s is killed %v after the signal; it may take %v to stop", c.name, c.grace, least)
	}
}

// The programs must be able to refuse, or the checks above prove nothing.
func TestProgramsAnswer(t *testing.T) {
	t.Parallel()
	p := running(t)
	for name, got := range map[string]program{"web": p.web, "worker": p.worker} {
		if got.paths["/healthz"] != http.StatusOK || got.paths["/nowhere"] != http.StatusNotFound {
			t.Errorf("%s: got answers %v", name, got.paths)
		}
		if got.settings["store"] != "sqlite:data/reservations.db" || got.settings["seats"] == "" {
			t.Errorf("%s: got settings %v from -help", name, got.settings)
		}
	}
	if p.drain <= 0 || len(p.queues) == 0 || len(p.commands) == 0 || len(p.commands) == len(p.queues) {
		t.Errorf("got %v, %q, %q from the worker's log", p.drain, p.queues, p.commands)
	}
}
