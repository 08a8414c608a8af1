package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-go/millrace/internal/boottest"
)

// silentStore is the setting of a store that takes requests and never answers them. asked gets one value for each
// request.
func silentStore(t *testing.T) (setting string, asked <-chan string) {
	t.Helper()
	requests, over := make(chan string, 100), make(chan struct{})
	service := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		requests <- r.URL.Path
		<-over
	}))
	t.Cleanup(func() {
		close(over)
		service.Close()
	})
	return fmt.Sprintf("MILLRACE_STORE=azure:AccountName=acct;AccountKey=a2V5;QueueEndpoint=%[1]s/q;BlobEndpoint=%[1]s/b;TableEndpoint=%[1]s/t", service.URL), requests
}

// say sends text on a connection of its own.
func say(t *testing.T, url, text string) net.Conn {
	t.Helper()
	conn := dial(t, url)
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	return conn
}

// Clients can't keep the program from stopping, nor make its stop look like a failure. A request that doesn't come
// whole is cut off, counted and logged. A request that is being answered gets its answer.
func TestStopCutsOffWhatDoesNotEnd(t *testing.T) {
	t.Parallel()
	setting, asked := silentStore(t)
	p := boottest.Start(t, bin, t.TempDir(), []string{setting}, "-addr", "127.0.0.1:0", "-worker=false", "-doorbell", "off")
	url := p.URL(t)

	idle := say(t, url, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
	if res, err := http.ReadResponse(bufio.NewReader(idle), nil); err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("got %+v (%v), want 200", res, err)
	}
	slow := say(t, url, "GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n") // its handler waits for the store for seconds
	for over := within(t); ; {                                     // the settings are asked for, too
		select {
		case path := <-asked:
			if !strings.Contains(path, "health") {
				continue
			}
		case <-over.Done():
			t.Fatal("the store is never asked")
		}
		break
	}
	silent, half := dial(t, url), say(t, url, "GET / HTTP/1.1\r\nHost: x\r\nX-Half: ")
	halfSent(t, url) // the last one: once its handler runs, the server has the others too
	p.Signal(t, syscall.SIGTERM)

	if res, err := http.ReadResponse(bufio.NewReader(slow), nil); err != nil || res.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("got %+v (%v), want 503 for a request that was being answered", res, err)
	}
	if code := p.Wait(t); code != 0 {
		t.Errorf("got exit code %d, want 0", code)
	}
	var line struct {
		Level    string
		Requests int
	}
	if err := json.Unmarshal([]byte(p.Line(t, "requests cut off")), &line); err != nil || line.Level != "WARN" || line.Requests != 2 {
		t.Errorf("got %+v (%v), want a warning of the 2 requests that were half sent", line, err)
	}
	for name, conn := range map[string]net.Conn{"idle": idle, "silent": silent, "half": half} {
		if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the connection %s is still open", name)
		}
	}
	if strings.Contains(p.Output(), "web: ") {
		t.Error("the program speaks of a failure")
	}
}
