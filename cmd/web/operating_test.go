package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/quotedprintable"
	"net/http"
	"net/http/httptest"
	"net/mail"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/boottest"
)

// eventually repeats ok until it is true.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for ctx := within(t); ctx.Err() == nil; <-again.C {
		if ok() {
			return
		}
	}
	t.Fatalf("never came true: %s", what)
}

// post sends a reservation and returns the answer's status.
func post(t *testing.T, url, id string) int {
	t.Helper()
	body, err := json.Marshal(map[string]any{"id": id, "date": bookable(), "name": "Ada", "email": "ada@example.org", "quantity": 1})
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.Post(url+"/reservations", "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if err := res.Body.Close(); err != nil {
		t.Error(err)
	}
	return res.StatusCode
}

// Everybody who knows a reservation's ID may cancel the reservation. So no log line and no metric holds an ID, even
// when mails fail.
func TestTellsNoID(t *testing.T) {
	t.Parallel()
	p := start(t, "-log", "debug", "-smtp", "smtp://127.0.0.1:1", "-url", "https://tables.example.org") // nobody listens there
	url, id := p.URL(t), channel.NewID()
	receipt := url + "/reservations/" + id
	for range 2 { // the second one is a repeat
		if got := post(t, url, id); got != http.StatusAccepted {
			t.Fatalf("got %d, want 202", got)
		}
	}
	follow(t, receipt)
	res, err := http.Post(receipt+"/cancel", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := res.Body.Close(); err != nil {
		t.Error(err)
	}
	eventually(t, "the reservation is cancelled", func() bool {
		_, page := boottest.Get(t, receipt)
		return strings.Contains(page, `data-status="cancelled"`)
	})
	for _, kind := range []string{"numbered", "cancelled"} {
		p.Line(t, `"kind":"reservations.`+kind+`.v1","handler":"react mails"`) // the test proves something only if the mail failed
	}
	if _, metrics := boottest.Get(t, url+"/metrics"); strings.Contains(metrics, id) {
		t.Error("the metrics tell the reservation's ID")
	}
	p.Signal(t, syscall.SIGTERM)
	if code := p.Wait(t); code != 0 {
		t.Errorf("got exit code %d, want 0", code)
	}
	if strings.Contains(p.Output(), id) {
		t.Errorf("the output tells the reservation's ID %s", id)
	}
}

// refusingStore is the setting of a store in the cloud that counts requests and refuses them all.
func refusingStore(t *testing.T) string {
	t.Helper()
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("x-ms-error-code", "AuthorizationFailure")
		w.WriteHeader(http.StatusForbidden)
	}))
	t.Cleanup(service.Close)
	return fmt.Sprintf("MILLRACE_STORE=azure:AccountName=secret;AccountKey=a2V5;QueueEndpoint=%[1]s/q;BlobEndpoint=%[1]s/b;TableEndpoint=%[1]s/t", service.URL)
}

// /readyz says why the store can't be read. It names no address and no account, because everybody who sees the pages
// can ask.
func TestReadyTellsWhy(t *testing.T) {
	t.Parallel()
	const want, nowhere = "not ready: can't read from the store: ", "127.0.0.1:1/" // nothing listens there
	for name, c := range map[string]struct{ store, want string }{
		"refused":  {store: "MILLRACE_STORE=azure:AccountName=secret;AccountKey=a2V5;QueueEndpoint=http://" + nowhere + ";BlobEndpoint=http://" + nowhere + ";TableEndpoint=http://" + nowhere, want: want + "connection refused\n"},
		"no right": {store: refusingStore(t), want: want + "403 AuthorizationFailure\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := boottest.Start(t, bin, t.TempDir(), []string{c.store}, "-addr", "127.0.0.1:0", "-worker=false")
			if code, body := boottest.Get(t, p.URL(t)+"/readyz"); code != http.StatusServiceUnavailable || body != c.want {
				t.Errorf("got %d %q, want 503 %q", code, body, c.want)
			}
		})
	}
}

// At the end the program prints what it has asked of the store. The numbers are for each command that it sent, or
// with a worker, for each command that it handled.
func TestSummaryAtTheEnd(t *testing.T) {
	t.Parallel()
	p := start(t, "-worker=false")
	receipt := book(t, p.URL(t))
	p.Signal(t, syscall.SIGTERM)
	if code := p.Wait(t); code != 0 {
		t.Errorf("got exit code %d, want 0", code)
	}
	p.Line(t, " storage requests for 1 command sent: ")
	p.Line(t, " 1              1.00  commit ") // the command and its document; the others are for settings

	p = boottest.Start(t, bin, p.Dir, nil, "-addr", "127.0.0.1:0")
	follow(t, p.URL(t)+receipt)
	p.Signal(t, syscall.SIGTERM)
	if code := p.Wait(t); code != 0 {
		t.Errorf("got exit code %d, want 0", code)
	}
	p.Line(t, " storage requests for 1 command handled: ")
}

// Programs read the log: a duration has its unit, and a nil error has no field.
func TestLogLines(t *testing.T) {
	t.Parallel()
	p := start(t)
	for event, want := range map[string]string{"worker starts": `"drain_timeout":"20s"`, "worker consumes": `"visibility":"30s"`} {
		if line := p.Line(t, event); !strings.Contains(line, want) {
			t.Errorf("got %s, want durations with their units", line)
		}
	}
	p.Signal(t, syscall.SIGTERM)
	p.Wait(t)
	if line := p.Line(t, "worker stopped"); strings.Contains(line, "error") {
		t.Errorf("got %s, want nothing of an error", line)
	}
}

// With the site's address, a mail links to the receipt.
func TestMailLinksToTheReceipt(t *testing.T) {
	t.Parallel()
	p := boottest.Start(t, bin, t.TempDir(), []string{"RESERVATIONS_URL=https://tables.example.org"}, "-addr", "127.0.0.1:0")
	receipt := book(t, p.URL(t))
	var mails []string
	eventually(t, "a mail is written", func() bool {
		mails, _ = filepath.Glob(filepath.Join(p.Dir, "data", "mail", "*.eml")) // fails for a malformed pattern only
		return len(mails) == 1
	})
	f, err := os.Open(mails[0])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	m, err := mail.ReadMessage(f)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(quotedprintable.NewReader(m.Body))
	if err != nil {
		t.Fatal(err)
	}
	if want := "https://tables.example.org" + receipt; !strings.Contains(string(text), want) {
		t.Errorf("got\n%s\nwant the link %s", text, want)
	}
}

// A program without work uses hardly any processor time; one that spins would use a whole core.
func TestIdle(t *testing.T) {
	t.Parallel()
	p := start(t)
	url := p.URL(t)
	book(t, url)
	eventually(t, "all is done", func() bool { return metric(t, url, `millrace_deliveries_total{outcome="done",queue="mails"}`) == 1 })

	const idle, most = 3 * time.Second, 0.1 // of a core
	before, began := metric(t, url, "process_cpu_seconds_total"), time.Now()
	<-time.After(idle) // the time itself is measured
	used := (metric(t, url, "process_cpu_seconds_total") - before) / time.Since(began).Seconds()
	t.Logf("%.4f of a core", used)
	if before == 0 {
		t.Error("the program doesn't tell its processor time")
	}
	if used > most {
		t.Errorf("got %.2f of a core, want less than %.2f", used, most)
	}
}

// metric returns a metric's value; 0 if the program doesn't have it.
func metric(t *testing.T, url, name string) (n float64) {
	t.Helper()
	_, all := boottest.Get(t, url+"/metrics")
	for line := range strings.Lines(all) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			if _, err := fmt.Sscan(value, &n); err != nil {
				t.Fatal(err)
			}
		}
	}
	return n
}

// On a full disk the web refuses requests properly, and doesn't fill the rest of the disk with its log. It can't tidy
// up when it stops, and says so. Everything accepted is there once the disk has room again.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	dir := smallDisk(t)
	args := []string{"-addr", "127.0.0.1:0", "-worker=false"}
	p := boottest.Start(t, bin, dir, nil, args...)
	url := p.URL(t)
	fill := filepath.Join(dir, "fill")
	if err := os.WriteFile(fill, make([]byte, 4<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("got %v, want a disk that is full", err)
	}
	if err := os.Truncate(fill, 1<<20); err != nil { // leaves room for some
		t.Fatal(err)
	}
	began := time.Now()
	var taken, refused []string
	for len(refused) < 200 {
		id := channel.NewID()
		switch code := post(t, url, id); code {
		case http.StatusAccepted:
			taken = append(taken, id)
		case http.StatusServiceUnavailable:
			refused = append(refused, id)
		default:
			t.Fatalf("got %d, want 202 or 503", code)
		}
	}
	p.Signal(t, syscall.SIGTERM)
	if code := p.Wait(t); code != 1 {
		t.Errorf("got exit code %d, want 1", code)
	}
	lines := strings.Count(p.Output(), "request failed")
	if most := 2 + int(time.Since(began)/time.Second); lines < 1 || lines > most {
		t.Errorf("got %d log lines for %d refused requests, want 1 to %d", lines, len(refused), most)
	}
	if said := p.Line(t, "web: stopped"); !strings.Contains(said, "disk is full") || !strings.Contains(said, "Nothing is lost") || strings.Contains(said, "goes on by itself") {
		t.Errorf("got %q, want it said plainly", said)
	}
	for _, id := range append(taken, refused...) {
		if strings.Contains(p.Output(), id) {
			t.Fatalf("the output tells the reservation's ID %s", id)
		}
	}

	if err := os.Remove(fill); err != nil {
		t.Fatal(err)
	}
	p = boottest.Start(t, bin, dir, nil, args...)
	url = p.URL(t)
	for _, id := range taken {
		if code, _ := boottest.Get(t, url+"/reservations/"+id); code != http.StatusOK {
			t.Errorf("%s: got %d after the restart, want 200", id, code)
		}
	}
	t.Logf("%d taken, %d refused", len(taken), len(refused))
}

// smallDisk returns a folder on a file system of its own of 3 MiB. Without one the test is skipped; where CI is set
// that is a failure.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.CommandContext(within(t), "mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", dir).CombinedOutput(); err != nil {
		why := fmt.Sprintf("can't mount a small disk, which only root on Linux may: %v: %s", err, out)
		if os.Getenv("CI") != "" {
			t.Fatal(why)
		}
		t.Skip(why)
	}
	t.Cleanup(func() { // runs after the program's cleanup, which is registered later
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
	return dir
}
