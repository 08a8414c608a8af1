package main

import (
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/millrace-go/millrace/internal/boottest"
)

// bin is the program, built.
var bin string

func TestMain(m *testing.M) { os.Exit(boottest.Main(m, &bin)) }

func TestRunsAndStops(t *testing.T) {
	t.Parallel()
	p := boottest.Start(t, bin, t.TempDir(), nil, "-admin", "127.0.0.1:0", "-concurrency", "3")
	url := p.URL(t)
	for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
		res, err := http.Get(url + path)
		if err != nil {
			t.Fatal(err)
		}
		if err := res.Body.Close(); err != nil {
			t.Error(err)
		}
		if res.StatusCode != http.StatusOK {
			t.Errorf("GET %s: got %d, want 200", path, res.StatusCode)
		}
	}
	if line := p.Line(t, "worker consumes"); !strings.Contains(line, `"concurrency":3`) {
		t.Errorf("got %s, want the concurrency that was asked for", line)
	}
	p.Signal(t, syscall.SIGTERM)
	if code := p.Wait(t); code != 0 {
		t.Errorf("got exit code %d, want 0", code)
	}
}

// With several workers on one machine, the second needs an admin address of its own, and its error says so.
func TestAdminAddress(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	dir := t.TempDir()
	p := boottest.Start(t, bin, dir, nil, "-admin", ln.Addr().String())
	if code := p.Wait(t); code != 1 {
		t.Errorf("got exit code %d, want 1", code)
	}
	if out := p.Output(); !strings.Contains(out, "another program uses this address") || !strings.Contains(out, "-admin") {
		t.Errorf("got %q, want it said plainly", out)
	}
	p = boottest.Start(t, bin, dir, nil, "-admin", "off")
	p.Line(t, "The worker is starting")
	p.Signal(t, syscall.SIGINT)
	if code := p.Wait(t); code != 0 {
		t.Errorf("got exit code %d, want 0", code)
	}
}

// A failure is reported once, with its origin and cause.
func TestStoreIsAway(t *testing.T) {
	t.Parallel()
	const nowhere = "http://127.0.0.1:1/" // nothing listens there
	p := boottest.Start(t, bin, t.TempDir(), []string{"MILLRACE_STORE=azure:AccountName=a;AccountKey=a2V5;QueueEndpoint=" + nowhere + ";BlobEndpoint=" + nowhere + ";TableEndpoint=" + nowhere},
		"-admin", "off")
	if code := p.Wait(t); code != 1 {
		t.Errorf("got exit code %d, want 1", code)
	}
	if said := p.Line(t, "worker: start: "); !strings.HasPrefix(said, "worker: start: storage: stats queue ") || !strings.Contains(said, "connection refused") {
		t.Errorf("got %q, want it to begin with worker: start: storage: stats queue, and the cause", said)
	}
}

func TestHelpAndBadSettings(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"help":           {args: []string{"-help"}, code: 0, want: "127.0.0.1:9090"},
		"web's flag":     {args: []string{"-addr", ":1"}, code: 2, want: "-addr"},
		"concurrency":    {args: []string{"-concurrency", "-1"}, code: 2, want: "whole number"},
		"admin address":  {args: []string{"-admin", "here"}, code: 2, want: "HOST:PORT"},
		"blocked folder": {args: []string{"-admin", "off", "-store", "sqlite:/dev/null/x.db"}, code: 1, want: "store"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := boottest.Start(t, bin, t.TempDir(), nil, c.args...)
			if code := p.Wait(t); code != c.code {
				t.Errorf("got exit code %d, want %d", code, c.code)
			}
			if out := p.Output(); !strings.Contains(out, c.want) {
				t.Errorf("got %q, want it to say %q", out, c.want)
			}
		})
	}
}
