package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-go/millrace/internal/boottest"
)

// peak returns the most memory that a program has used so far, in bytes.
func peak(t *testing.T, p *boottest.Program) (bytes int64) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells a process's peak of memory in /proc")
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			if _, err := fmt.Sscan(value, &bytes); err != nil {
				t.Fatal(err)
			}
			return bytes << 10
		}
	}
	t.Fatalf("no VmHWM in %s", status)
	return 0
}

// wantGrowth checks that the peak of a program's memory has hardly grown.
func wantGrowth(t *testing.T, p *boottest.Program, before int64) {
	t.Helper()
	const most = 64 << 20
	if grown := peak(t, p) - before; grown > most {
		t.Errorf("the program's memory has grown by %d MiB, want less than %d", grown>>20, most>>20)
	} else {
		t.Logf("the peak of memory has grown by %d KiB, from %d KiB", grown>>10, before>>10)
	}
}

func dial(t *testing.T, url string) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(within(t), "tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// endless is a body without an end.
type endless struct{}

func (endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'a'
	}
	return len(b), nil
}

// flood sends a head and a body of 1 GiB, and returns the answer's status and how much of the body got through.
func flood(t *testing.T, url, head string) (status int, sent int64) {
	t.Helper()
	conn := dial(t, url)
	var writing sync.WaitGroup
	writing.Go(func() {
		w := bufio.NewWriter(conn)
		_, _ = w.WriteString(head) // a failure shows in the answer
		sent, _ = io.Copy(w, io.LimitReader(endless{}, 1<<30))
	})
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Errorf("%q: %v", head, err)
	} else {
		status = res.StatusCode
	}
	_, _ = io.Copy(io.Discard, conn) // until the server closes it
	_ = conn.Close()
	writing.Wait()
	return status, sent
}

// A body of a gigabyte is cut off where it is larger than a reservation needs. It costs no memory, even when many
// come.
func TestHugeBodies(t *testing.T) {
	t.Parallel()
	p := start(t, "-worker=false")
	url := p.URL(t)
	book(t, url)
	boottest.Get(t, url)
	before := peak(t, p)
	const post, jsonType, form = "POST /reservations HTTP/1.1\r\nHost: x\r\n", "Content-Type: application/json\r\n", "Content-Type: application/x-www-form-urlencoded\r\n"
	const length, chunked = "Content-Length: 1073741824\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n40000000\r\n"
	var all sync.WaitGroup
	for head, want := range map[string]int{
		post + jsonType + length:  http.StatusRequestEntityTooLarge,
		post + jsonType + chunked: http.StatusRequestEntityTooLarge,
		post + form + length:      http.StatusRequestEntityTooLarge,
		post + form + chunked:     http.StatusRequestEntityTooLarge,
		post + "Content-Type: multipart/form-data; boundary=x\r\n" + length:   http.StatusUnsupportedMediaType,
		"POST /reservations/12345678/cancel HTTP/1.1\r\nHost: x\r\n" + length: http.StatusNotFound,
		"GET / HTTP/1.1\r\nHost: x\r\n" + length:                              http.StatusOK,
		"GET /metrics HTTP/1.1\r\nHost: x\r\n" + chunked:                      http.StatusOK,
	} {
		for range 2 {
			all.Go(func() {
				status, sent := flood(t, url, head)
				if status != want || sent > 64<<20 {
					t.Errorf("%q: got %d after %d MiB, want %d soon", head, status, sent>>20, want)
				}
			})
		}
	}
	all.Wait()
	wantGrowth(t, p, before)
	if code, _ := boottest.Get(t, url); code != http.StatusOK {
		t.Errorf("afterwards: got %d", code)
	}
}

// A client that asks too often is refused, by the address that the proxy tells. The metrics tell how often, and not
// whom.
func TestTooManyReservations(t *testing.T) {
	t.Parallel()
	p := start(t, "-worker=false", "-proxies", "1", "-per-address", "2", "-per-mail", "1000")
	url := p.URL(t)
	ask := func(from string) int {
		r, err := http.NewRequestWithContext(within(t), http.MethodPost, url+"/reservations", strings.NewReader(fmt.Sprintf(reservation, bookable())))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-Forwarded-For", from)
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		return res.StatusCode
	}
	got := []int{ask("198.51.100.7"), ask("203.0.113.1, 198.51.100.7"), ask("203.0.113.2, 198.51.100.7"), ask("198.51.100.8")}
	if want := []int{202, 202, 429, 202}; !slices.Equal(got, want) {
		t.Errorf("got %d, want %d", got, want)
	}
	_, metrics := boottest.Get(t, url+"/metrics")
	for _, want := range []string{`millrace_throttle_accepted_total{limiter="per-mail"} 3`, `millrace_throttle_refused_total{limiter="per-address",quota="per-address"} 1`} {
		if !strings.Contains(metrics, want) {
			t.Errorf("the metrics don't have %s", want)
		}
	}
	if strings.Contains(metrics, "198.51.100") {
		t.Error("the metrics have addresses")
	}
}

// Heads that are too long are refused, whichever part is long.
func TestLongHeads(t *testing.T) {
	t.Parallel()
	p := start(t, "-worker=false")
	url := p.URL(t)
	boottest.Get(t, url)
	before := peak(t, p)
	for name, head := range map[string]string{
		"one header":   "GET / HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 1<<20) + "\r\n\r\n",
		"many headers": "GET / HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("X: y\r\n", 100_000) + "\r\n",
		"cookies":      "GET / HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("Cookie: a=b\r\n", 50_000) + "\r\n",
		"address":      "GET /?month=" + strings.Repeat("x", 1<<20) + " HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		conn := dial(t, url)
		go func() { _, _ = io.WriteString(conn, head) }() // fails once the server closes the connection
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || res.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("%s: got %+v (%v), want 431", name, res, err)
		}
	}
	wantGrowth(t, p, before)
}

// Some connections send nothing, never end their head, or never end their body. They keep nobody else from being
// served. Those without a head are closed.
func TestSlowConnections(t *testing.T) {
	t.Parallel()
	p := start(t, "-worker=false")
	url := p.URL(t)
	receipt := book(t, url)
	before := peak(t, p)
	const each = 50
	var headless []net.Conn
	for range each {
		headless = append(headless, dial(t, url))
		for _, said := range []string{
			"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ",
			"POST /reservations HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 60000\r\n\r\n{",
			"GET " + receipt + "/events HTTP/1.1\r\nHost: x\r\n\r\n",
		} {
			conn := dial(t, url)
			if _, err := io.WriteString(conn, said); err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(said, "Slow: ") {
				headless = append(headless, conn)
			}
		}
	}
	for range 20 {
		book(t, url)
		for path, want := range map[string]int{"/": 200, receipt: 200, "/readyz": 200} {
			if got, _ := boottest.Get(t, url+path); got != want {
				t.Errorf("beside %d slow connections: GET %s: got %d, want %d", 4*each, path, got, want)
			}
		}
	}
	for _, conn := range headless {
		if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) {
			t.Error("a connection without a head is never closed")
			break
		}
	}
	wantGrowth(t, p, before)
}
