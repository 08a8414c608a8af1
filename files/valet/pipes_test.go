package valet_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Pipes are the connections of a real server in virtual time.
type pipes struct {
	conns chan net.Conn
	end   func()
	ended chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.ended:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.end(); return nil }
func (p *pipes) Addr() net.Addr { return here }

// here is this machine's address, as each end of a pipe has it.
var here = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1234}

type pipe struct{ net.Conn }

func (pipe) RemoteAddr() net.Addr { return here }
func (pipe) LocalAddr() net.Addr  { return here }

// serve runs a real server of the town's keys until the test ends.
func (w *town) serve() (dial func() net.Conn, end func()) {
	p := &pipes{conns: make(chan net.Conn), ended: make(chan struct{})}
	p.end = sync.OnceFunc(func() { close(p.ended) })
	s := &http.Server{Handler: w.v}
	var all sync.WaitGroup
	all.Go(func() { _ = s.Serve(p) })
	dial = func() net.Conn {
		mine, its := net.Pipe()
		p.conns <- pipe{its}
		return mine
	}
	return dial, func() {
		_ = s.Close()
		p.end()
		all.Wait()
		time.Sleep(time.Second) // the server waits a little before it closes a connection whose body it has refused
	}
}

// answerTo writes a request by pieces, with a pause after each, and returns the answer.
func answerTo(conn net.Conn, pause time.Duration, pieces ...string) (*http.Response, error) {
	var all sync.WaitGroup
	defer all.Wait()
	answered := make(chan struct{})
	defer close(answered)
	defer func() { _ = conn.Close() }()
	all.Go(func() {
		for _, piece := range pieces {
			if _, err := io.WriteString(conn, piece); err != nil {
				return
			}
			select {
			case <-time.After(pause):
			case <-answered:
			}
		}
	})
	r, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	return r, err
}

// putHead is the head of a request that puts a part: of so many bytes, or chunked where that is negative.
func putHead(url string, length int) string {
	fields := fmt.Sprintf("Content-Length: %d", length)
	if length < 0 {
		fields = "Transfer-Encoding: chunked"
	}
	return "PUT " + url + " HTTP/1.1\r\nHost: x\r\n" + fields + "\r\n\r\n"
}

func chunk(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }
