package host_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/host"
	"github.com/millrace-go/millrace/internal/parttest"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/azure"
)

// renting is a program that takes commands.
func renting() host.Program {
	return host.Program{
		Name:    "rents",
		Drivers: storage.Drivers{azure.Driver},
		Routes:  func() (*channel.Routes, error) { return channel.NewRoutes(channel.Command[rent]("rents")) },
		Web:     func(a *host.App) (http.Handler, error) { return host.Accept[rent](a, nil), nil },
	}
}

// A web with -spool takes commands while its store is away, is ready, says what it does, and finds them at its next
// start.
func TestSpool(t *testing.T) {
	t.Parallel()
	service := httptest.NewServer(http.NotFoundHandler())
	service.Close() // now nothing listens there
	store := "azure:AccountName=acct;AccountKey=a2V5;QueueEndpoint=" + service.URL + "/q;BlobEndpoint=" + service.URL + "/b;TableEndpoint=" + service.URL + "/t"
	dir := t.TempDir()
	file := filepath.Join(dir, "data", "web.spool")
	for run := range 2 {
		out := newOutput()
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan int)
		env := func(name string) string {
			return map[string]string{"MILLRACE_STORE": store, "MILLRACE_SPOOL": file}[name]
		}
		go func() {
			ended <- host.Run(ctx, host.Process{Args: []string{"-addr=127.0.0.1:0", "-doorbell=off"}, Getenv: env, Stdout: out, Stderr: out}, renting())
		}()
		line := out.line(t, "http://")
		url := line[strings.Index(line, "http://"):]
		if run == 0 {
			code, body := send(t, http.MethodPost, url, `{"days":3,"id":"rent-17"}`)
			if code != http.StatusAccepted || body != `{"spooled":true}`+"\n" {
				t.Errorf("got %d %s, want 202 and that it is in the spool", code, body)
			}
		} else {
			out.line(t, "the spool holds messages of an earlier run")
		}
		if code, body := send(t, http.MethodGet, url+"/readyz", ""); code != http.StatusOK || !strings.HasPrefix(body, "ready: the spool takes messages, and holds 1; can't read from the store") {
			t.Errorf("readyz: got %d %s", code, body)
		}
		if _, body := send(t, http.MethodGet, url+"/metrics", ""); !strings.Contains(body, "\nmillrace_spool_waiting_messages 1\n") || !strings.Contains(body, "millrace_spool_oldest_seconds") {
			t.Errorf("metrics: got %s", body)
		}
		if run == 0 {
			second := newOutput()
			code := host.Run(t.Context(), host.Process{Args: []string{"-addr=127.0.0.1:0", "-doorbell=off"}, Getenv: env, Stdout: second, Stderr: second}, renting())
			if code != host.ExitError || !strings.Contains(second.String(), "in use by another program") {
				t.Errorf("a second program: got exit code %d and %s", code, second)
			}
		}
		stop()
		if code := <-ended; code != host.ExitOK {
			t.Errorf("got exit code %d, want 0: %s", code, out)
		}
	}
}

// The file of the store is moved away while messages for it wait in the spool. A start makes no new store, which would
// take them; it begins once the file is back.
func TestASpoolWaitsForItsStore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	folder, away, file := filepath.Join(dir, "store"), filepath.Join(dir, "away"), filepath.Join(dir, "web.spool")
	args := []string{"-addr=127.0.0.1:0", "-store=sqlite:" + filepath.Join(folder, "rents.db"), "-spool=" + file}
	start := func() (out *output, url string, stop func()) {
		out = newOutput()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan int)
		go func() { ended <- host.Run(ctx, host.Process{Args: args, Stdout: out, Stderr: out}, renting()) }()
		line := out.line(t, "http://")
		return out, line[strings.Index(line, "http://"):], func() { cancel(); <-ended }
	}
	_, url, stop := start()
	if err := os.Rename(folder, away); err != nil {
		t.Fatal(err)
	}
	if code, body := send(t, http.MethodPost, url, `{"days":3,"id":"rent-17"}`); code != http.StatusAccepted || body != `{"spooled":true}`+"\n" {
		t.Errorf("got %d %s, want 202 and that it is in the spool", code, body)
	}
	stop()
	out := newOutput()
	code := host.Run(t.Context(), host.Process{Command: "web", Args: args, Stdout: out, Stderr: out}, renting())
	if code != host.ExitError || !strings.Contains(out.String(), "rents.db is not there, and messages for it wait") {
		t.Errorf("got exit code %d and %s, want 1 and that the store isn't there", code, out)
	}
	if want := "web spool release " + file; !strings.Contains(out.String(), want) {
		t.Errorf("got %s, want the command as it is typed: %s", out, want)
	}
	if _, err := os.Stat(folder); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a new store was made: %v", err)
	}
	if err := os.Rename(away, folder); err != nil {
		t.Fatal(err)
	}
	_, url, stop = start()
	worldtest.Eventually(t, func() error {
		if _, body := send(t, http.MethodGet, url+"/metrics", ""); !strings.Contains(body, "\nmillrace_spool_waiting_messages 0\n") {
			return errors.New("it still waits")
		}
		return nil
	})
	stop()
}

// A spool that can't be one is a fault of the command line.
func TestSpoolThatCantBe(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	junk := filepath.Join(dir, "junk")
	if err := os.WriteFile(junk, []byte(strings.Repeat("no database ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	store, link := filepath.Join(dir, "store.db"), filepath.Join(dir, "link")
	if err := os.Symlink(store, link); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the first run makes the file
		out := newOutput()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan int)
		args := []string{"-addr=127.0.0.1:0", "-store=sqlite:" + filepath.Join(dir, "other.db"), "-spool=" + filepath.Join(dir, "spool")}
		go func() {
			ended <- host.Run(ctx, host.Process{Args: args, Stdout: out, Stderr: out}, renting())
		}()
		out.line(t, "http://")
		cancel()
		if code := <-ended; code != host.ExitOK {
			t.Errorf("got exit code %d and %s", code, out)
		}
	}
	out := newOutput()
	args := []string{"-addr=127.0.0.1:0", "-store=sqlite:" + filepath.Join(dir, "spool")}
	if code := host.Run(t.Context(), host.Process{Args: args, Stdout: out, Stderr: out}, renting()); code != host.ExitUsage || !strings.Contains(out.String(), "the file is a spool") {
		t.Errorf("a spool as the store: got exit code %d and %s, want 2 and that it is a spool", code, out)
	}
	const isStore = "-spool: it is the file of -store"
	for file, want := range map[string]string{store: isStore, link: isStore, junk: "-spool: spool: storage: open sqlite store", dir: "it is a folder", filepath.Join(dir, "other.db"): "the file is a store, and no spool"} {
		out := newOutput()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // or it would run for ever
		code := host.Run(ctx, host.Process{Args: []string{"-addr=127.0.0.1:0", "-store=sqlite:" + store, "-spool=" + file}, Stdout: out, Stderr: out}, renting())
		cancel()
		if code != host.ExitUsage || !strings.Contains(out.String(), want) {
			t.Errorf("got exit code %d and %s, want 2 and %s", code, out, want)
		}
	}
	for _, file := range []string{junk, dir, filepath.Join(dir, "other.db")} {
		out, folder := newOutput(), filepath.Join(dir, "new")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		code := host.Run(ctx, host.Process{Args: []string{"-addr=127.0.0.1:0", "-store=sqlite:" + filepath.Join(folder, "store.db"), "-spool=" + file}, Stdout: out, Stderr: out}, renting())
		cancel()
		if code != host.ExitUsage || !strings.Contains(out.String(), "-spool: ") {
			t.Errorf("%s: got exit code %d and %s, want 2", file, code, out)
		}
		if _, err := os.Stat(folder); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: a program that was refused has made the folder of a new store: %v", file, err)
		}
	}
}

func send(t *testing.T, method, url, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	return do(t, req)
}

// do sends a request.
func do(t *testing.T, r *http.Request) (int, string) {
	t.Helper()
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

// A web with a spool that starts while its store is away runs the settings that were in force.
func TestSettingsBesideTheSpool(t *testing.T) {
	parttest.InTurn(t)
	t.Parallel()
	service := httptest.NewServer(http.NotFoundHandler())
	service.Close() // now nothing listens there
	away := "azure:AccountName=acct;AccountKey=a2V5;QueueEndpoint=" + service.URL + "/q;BlobEndpoint=" + service.URL + "/b;TableEndpoint=" + service.URL + "/t"
	dir := t.TempDir()
	l := newLively()
	l.Web = func(*host.App) (http.Handler, error) { return http.NotFoundHandler(), nil }
	l.Drivers = storage.Drivers{azure.Driver}
	r := start(t, l.Program, "web", "-addr=127.0.0.1:0", "-spool="+filepath.Join(dir, "one"))
	<-l.settings
	set(t, r, l.Program, "seats=60")
	worldtest.Eventually(t, func() error {
		kept, err := os.ReadFile(filepath.Join(dir, "one.settings"))
		if err == nil && !strings.Contains(string(kept), `"seats":60`) {
			err = fmt.Errorf("the cache has %s", kept)
		}
		return err
	})
	if err := os.Rename(filepath.Join(dir, "one.settings"), filepath.Join(dir, "other.settings")); err != nil {
		t.Fatal(err)
	}
	out := newOutput()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan int)
	go func() {
		args := []string{"web", "-addr=127.0.0.1:0", "-doorbell=off", "-store=" + away, "-spool=" + filepath.Join(dir, "other")}
		ended <- host.Run(ctx, host.Process{Args: args, Stdout: out, Stderr: out}, l.Program)
	}()
	out.line(t, "starting with the cached settings")
	worldtest.Want(t, "seats", (<-l.settings).Now().Seats, 60)
	stop()
	worldtest.Want(t, "exit code", <-ended, host.ExitOK)
}
