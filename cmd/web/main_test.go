package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-go/millrace/internal/boottest"
)

// bin is the program, built.
var bin string

func TestMain(m *testing.M) { os.Exit(boottest.Main(m, &bin)) }

func start(t *testing.T, args ...string) *boottest.Program {
	t.Helper()
	return boottest.Start(t, bin, t.TempDir(), nil, append([]string{"-addr", "127.0.0.1:0"}, args...)...)
}

const reservation = `{"date":%q,"name":"Ada","email":"ada@example.org","quantity":2}`

func TestBooksInAnEmptyFolder(t *testing.T) {
	t.Parallel()
	p := start(t)
	url := p.URL(t)
	for path, want := range map[string]int{"/": 200, "/healthz": 200, "/readyz": 200, "/metrics": 200, "/nowhere": 404} {
		if got, body := boottest.Get(t, url+path); got != want {
			t.Errorf("GET %s: got %d, want %d: %s", path, got, want, body)
		}
	}

	receipt := book(t, url)
	if got := follow(t, url+receipt); got != "accepted" {
		t.Errorf("got status %q, want accepted", got)
	}

	for ctx := within(t); ; {
		_, metrics := boottest.Get(t, url+"/metrics")
		if strings.Contains(metrics, `millrace_deliveries_total{outcome="done",queue="mails"} 1`) {
			break
		}
		if ctx.Err() != nil {
			t.Fatalf("no mail is sent: %s", metrics)
		}
	}
	mails, err := filepath.Glob(filepath.Join(p.Dir, "data", "mail", "*.eml"))
	if err != nil || len(mails) != 1 {
		t.Errorf("got mails %q (%v), want one", mails, err)
	}

	p.Signal(t, syscall.SIGTERM)
	if code := p.Wait(t); code != 0 {
		t.Fatalf("got exit code %d, want 0", code)
	}
	if _, err := os.Stat(filepath.Join(p.Dir, "data", "reservations.db")); err != nil {
		t.Error(err)
	}
}

// After a restart, what was accepted is there, and the work that was left is done.
func TestRestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := boottest.Start(t, bin, dir, nil, "-addr", "127.0.0.1:0", "-worker=false")
	receipt := book(t, first.URL(t))
	first.Signal(t, syscall.SIGINT)
	if code := first.Wait(t); code != 0 {
		t.Fatalf("got exit code %d, want 0", code)
	}
	second := boottest.Start(t, bin, dir, nil, "-addr", "127.0.0.1:0")
	if got := follow(t, second.URL(t)+receipt); got != "accepted" {
		t.Errorf("got status %q, want accepted", got)
	}
}

// The first signal lets a running request finish.
func TestSignalDrains(t *testing.T) {
	t.Parallel()
	p := start(t)
	answer, finish := halfSent(t, p.URL(t))
	p.Signal(t, syscall.SIGTERM)
	p.Line(t, "stopping")
	finish()
	if got := answer(); got != http.StatusAccepted {
		t.Errorf("got %d, want 202 for a request that was under way", got)
	}
	if code := p.Wait(t); code != 0 {
		t.Errorf("got exit code %d, want 0", code)
	}
}

// Two signals at once count as one, because supervisors and shells send two: running requests are answered, and the
// summary is printed.
func TestTwoSignalsAtOnceAreOne(t *testing.T) {
	t.Parallel()
	p := start(t, "-worker=false")
	answer, finish := halfSent(t, p.URL(t))
	p.Signal(t, syscall.SIGTERM)
	p.Signal(t, syscall.SIGINT) // another signal, because the system could merge two equal ones
	p.Line(t, "already stopping")
	finish()
	if got := answer(); got != http.StatusAccepted {
		t.Errorf("got %d, want 202 for a request that was under way", got)
	}
	if code := p.Wait(t); code != 0 {
		t.Errorf("got exit code %d, want 0", code)
	}
	p.Line(t, " storage requests for 1 command sent")
}

// A later second signal ends the program at once. The summary is printed all the same.
func TestSecondSignalExits(t *testing.T) {
	t.Parallel()
	p := start(t, "-worker=false")
	url := p.URL(t)
	boottest.Get(t, url+"/readyz") // one request
	halfSent(t, url)
	p.Signal(t, syscall.SIGTERM)
	p.Line(t, "another signal ends the process at once")
	p.Signal(t, syscall.SIGTERM)
	if got, want := p.Wait(t), 128+int(syscall.SIGTERM); got != want {
		t.Errorf("got exit code %d, want %d", got, want)
	}
	p.Line(t, " storage requests for 0 commands sent")
}

// The form offers no more people than there are seats.
func TestSeatsInTheForm(t *testing.T) {
	t.Parallel()
	url := start(t, "-seats", "4").URL(t)
	if _, form := boottest.Get(t, url+"/reservations/new"); !strings.Contains(form, "1 to 4") {
		t.Errorf("the form doesn't offer 1 to 4 people:\n%s", form)
	}
}

// A page that waits for its decision doesn't delay the stop.
func TestStreamsEndAtOnce(t *testing.T) {
	t.Parallel()
	p := start(t, "-worker=false")
	url := p.URL(t)
	res := stream(t, url+book(t, url))
	defer func() { _ = res.Body.Close() }()
	p.Signal(t, syscall.SIGTERM)
	if code := p.Wait(t); code != 0 {
		t.Errorf("got exit code %d, want 0", code)
	}
}

func TestAddressInUse(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	p := start(t, "-addr", ln.Addr().String())
	if code := p.Wait(t); code != 1 {
		t.Errorf("got exit code %d, want 1", code)
	}
	if out := p.Output(); !strings.Contains(out, "another program uses this address") || !strings.Contains(out, "-addr") {
		t.Errorf("got %q, want it said plainly", out)
	}
	if _, err := os.Stat(filepath.Join(p.Dir, "data")); !os.IsNotExist(err) {
		t.Errorf("got %v, want nothing made before the port is had", err)
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	const secret = "smtps://ada:hunter2@mx.example"
	p := boottest.Start(t, bin, t.TempDir(), []string{"RESERVATIONS_SMTP=" + secret}, "-help")
	if code := p.Wait(t); code != 0 {
		t.Errorf("got exit code %d, want 0", code)
	}
	out := p.Output()
	for _, want := range []string{"-addr", "MILLRACE_ADDR", ":8080", "-store", "MILLRACE_STORE", "sqlite:data/reservations.db", "-seats", "40", "-worker", "-smtp", "-url", "RESERVATIONS_URL", "-log"} {
		if !strings.Contains(out, want) {
			t.Errorf("-help doesn't say %s", want)
		}
	}
	if strings.Contains(out, "hunter2") {
		t.Error("-help shows what stands in the environment")
	}
}

func TestBadSettings(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		env, args []string
		want      string
	}{
		"unknown flag":           {args: []string{"-port", "1"}, want: "-port"},
		"unknown argument":       {args: []string{"serve"}, want: "serve"},
		"flag with a space":      {args: []string{"-worker", "false"}, want: "-flag=false"},
		"no number":              {args: []string{"-seats", "many"}, want: "whole number"},
		"no seats":               {args: []string{"-seats", "0"}, want: "from 1"},
		"variable is no number":  {env: []string{"RESERVATIONS_SEATS=many"}, want: "RESERVATIONS_SEATS"},
		"address without a port": {args: []string{"-addr", "localhost"}, want: "HOST:PORT"},
		"unknown store":          {args: []string{"-store", "floppy:secret"}, want: "sqlite:"},
		"no doorbell":            {args: []string{"-doorbell", "here"}, want: "-doorbell: invalid argument"},
		"no doorbell address":    {args: []string{"-doorbell-address", "here"}, want: "-doorbell-address: invalid argument"},
		"store is a folder":      {args: []string{"-store", "sqlite:."}, want: "folder"},
		"no SMTP address":        {args: []string{"-smtp", "ada:secret@mx.example"}, want: "smtp://"},
		"two SMTP ports":         {args: []string{"-smtp", "smtps://ada:secret@h:465:9"}, want: "HOST:PORT"},
		"no web address":         {args: []string{"-url", "tables.example.org"}, want: "-url: want an address like https://"},
		"a login in the address": {env: []string{"RESERVATIONS_URL=https://ada:secret@h"}, want: "-url: want no user name"},
		"bad level":              {args: []string{"-log", "loud"}, want: `"loud" for flag -log: want debug, info, warn or error`},
		"neither true nor false": {args: []string{"-worker=maybe"}, want: `"maybe" for -worker: want true or false`},
		"variable is neither":    {env: []string{"MILLRACE_WORKER=maybe"}, want: `MILLRACE_WORKER: "maybe": want true or false`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// A flag given twice counts as given last, so the default address doesn't affect the case with another
			// address.
			p := boottest.Start(t, bin, t.TempDir(), c.env, append([]string{"-addr", "127.0.0.1:0"}, c.args...)...)
			if code := p.Wait(t); code != 2 {
				t.Errorf("got exit code %d, want 2", code)
			}
			out := p.Output()
			if !strings.Contains(out, c.want) || !strings.Contains(out, "-help") {
				t.Errorf("got %q, want it to say %s, and where help is", out, c.want)
			}
			if strings.Contains(out, "secret") {
				t.Errorf("got %q, which shows what may be a password", out)
			}
		})
	}
}

// The environment counts where no flag is given. A flag wins over it.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	env := []string{"MILLRACE_ADDR=127.0.0.1:0", "MILLRACE_STORE=sqlite:from-env.db", "MILLRACE_WORKER=false", "MILLRACE_LOG=", "RESERVATIONS_SEATS=many"}
	p := boottest.Start(t, bin, t.TempDir(), env, "-store", "sqlite:from-flag.db", "-seats", "5")
	p.URL(t)
	p.Line(t, "does not run here")
	if _, err := os.Stat(filepath.Join(p.Dir, "from-flag.db")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(p.Dir, "from-env.db")); !os.IsNotExist(err) {
		t.Errorf("got %v, want the flag to win", err)
	}
}

// within ends a test that would hang.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// bookable is a date that can be booked on the day of the test.
func bookable() string { return time.Now().AddDate(0, 0, 7).Format(time.DateOnly) }

// book makes a reservation and returns the path of its receipt.
func book(t *testing.T, url string) string {
	t.Helper()
	res, err := http.Post(url+"/reservations", "application/json", strings.NewReader(fmt.Sprintf(reservation, bookable())))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusAccepted {
		body, _ := io.ReadAll(res.Body)
		t.Fatalf("got %d, want 202: %s", res.StatusCode, body)
	}
	return res.Header.Get("Location")
}

func stream(t *testing.T, receipt string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, receipt+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != http.StatusOK {
		t.Fatalf("got %d, want 200 for the event stream", res.StatusCode)
	}
	return res
}

// follow reads a receipt's events until the decision comes, and returns it.
func follow(t *testing.T, receipt string) string {
	t.Helper()
	res := stream(t, receipt)
	defer func() { _ = res.Body.Close() }()
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var event struct{ Status string }
		if err := json.Unmarshal([]byte(data), &event); err != nil {
			t.Fatalf("%q: %v", data, err)
		}
		if event.Status != "pending" {
			return event.Status
		}
	}
	t.Fatal("the events ended before the decision was there")
	return ""
}

// halfSent begins a request whose handler runs and waits for the rest of the body. finish sends the rest; answer
// waits for the status.
func halfSent(t *testing.T, url string) (answer func() int, finish func()) {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(context.WithoutCancel(t.Context()), "tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	body := fmt.Sprintf(reservation, bookable())
	in := bufio.NewReader(conn)
	_, err = fmt.Fprintf(conn, "POST /reservations HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n%s",
		len(body), body[:10])
	if err != nil {
		t.Fatal(err)
	}
	// The server answers 100 when the handler begins to read.
	if line, err := in.ReadString('\n'); err != nil || !strings.Contains(line, "100") {
		t.Fatalf("got %q (%v), want 100 Continue", line, err)
	}
	if _, err := in.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	answer = func() int {
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = res.Body.Close() }()
		return res.StatusCode
	}
	finish = func() {
		if _, err := io.WriteString(conn, body[10:]); err != nil {
			t.Fatal(err)
		}
	}
	return answer, finish
}
