package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/millrace-go/millrace/channel"
)

// A file is what a bare server serves from memory.
type file struct {
	Path, ETag string
	Header     http.Header
	Body       []byte
}

// serveBare serves files until ctx ends, as simply as net/http can.
func serveBare(ctx context.Context, files []file, say func(saying)) error {
	mux := http.NewServeMux()
	for _, f := range files {
		mux.HandleFunc("GET "+f.Path, func(w http.ResponseWriter, r *http.Request) {
			h := w.Header()
			maps.Copy(h, f.Header)
			if r.Header.Get("If-None-Match") == f.ETag {
				h.Del("Content-Type")
				h.Del("Content-Length")
				w.WriteHeader(http.StatusNotModified)
				return
			}
			_, _ = w.Write(f.Body) // the client may have gone
		})
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	say(saying{Ready: true, Addr: ln.Addr().String()})
	if err := server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// A clientSpec says what a client requests again and again. The client writes requests and reads answers by itself,
// so that it takes less of the processor than the server under test.
type clientSpec struct {
	Addr        string        `json:"addr"`
	Connections int           `json:"connections"`
	For         time.Duration `json:"for"`
	Path        string        `json:"path"`
	ETag        string        `json:"etag,omitempty"` // of If-None-Match
	Book        bool          `json:"book,omitempty"` // POST reservations for days of a year
	Want        int           `json:"want"`           // status
}

// loadStats are a client's measurements.
type loadStats struct {
	Rate float64 `json:"rate"` // answers a second
	P50  float64 `json:"p50"`  // milliseconds
	P99  float64 `json:"p99"`
}

func (s *clientSpec) run(ctx context.Context, begin <-chan struct{}, say func(saying)) error {
	say(saying{Ready: true})
	select {
	case <-begin:
	case <-ctx.Done():
		return nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	times := make([][]time.Duration, s.Connections)
	var all sync.WaitGroup
	began := time.Now()
	for i := range s.Connections {
		all.Go(func() {
			var err error
			if times[i], err = s.ask(ctx, began.Add(s.For), i); err != nil {
				cancel(err)
			}
		})
	}
	all.Wait()
	took := time.Since(began)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	flat := slices.Concat(times...)
	slices.Sort(flat)
	if len(flat) == 0 {
		return errors.New("there was no time for a request")
	}
	say(saying{Load: &loadStats{rate(len(flat), took), quantile(flat, 0.5), quantile(flat, 0.99)}})
	return nil
}

// quantile returns a quantile of sorted times, in milliseconds.
func quantile(sorted []time.Duration, q float64) float64 {
	return micros(sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]) / 1e3
}

// ask keeps one connection busy until a time.
func (s *clientSpec) ask(ctx context.Context, end time.Time, connection int) (times []time.Duration, err error) {
	conn, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", s.Addr)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(end.Add(30 * time.Second)); err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	in := bufio.NewReader(conn)
	request := s.request(connection, 0)
	for i := 0; i == 0 || time.Now().Before(end); i++ {
		if s.Book {
			request = s.request(connection, i)
		}
		began := time.Now()
		if _, err := conn.Write(request); err != nil {
			return times, err
		}
		status, err := answer(in)
		if err != nil {
			return times, err
		}
		if status != s.Want {
			return times, fmt.Errorf("%s: status %d, want %d", s.Path, status, s.Want)
		}
		times = append(times, time.Since(began))
	}
	return times, nil
}

// request returns the i-th request of a connection.
func (s *clientSpec) request(connection, i int) []byte {
	if !s.Book {
		head := "GET " + s.Path + " HTTP/1.1\r\nHost: " + s.Addr + "\r\nAccept: application/json\r\n"
		if s.ETag != "" {
			head += "If-None-Match: " + s.ETag + "\r\n"
		}
		return []byte(head + "\r\n")
	}
	body := booking(channel.NewID(), time.Now().AddDate(0, 0, 7+(i*s.Connections+connection)%300).Format(time.DateOnly))
	return fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", s.Path, s.Addr, len(body), body)
}

func booking(id, date string) string {
	return fmt.Sprintf(`{"id":"%s","date":"%s","name":"Guest","email":"guest@example.org","quantity":1}`, id, date)
}

// answer reads one answer, whose body is empty or has a Content-Length, and returns its status.
func answer(in *bufio.Reader) (status int, err error) {
	first := true
	length := 0
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		line = bytes.TrimRight(line, "\r\n")
		switch {
		case first:
			first = false
			fields := bytes.Fields(line)
			if len(fields) < 2 || !bytes.HasPrefix(line, []byte("HTTP/1.1 ")) {
				return 0, fmt.Errorf("not an HTTP answer: %.40q", line)
			}
			if status, err = strconv.Atoi(string(fields[1])); err != nil {
				return 0, err
			}
		case len(line) == 0:
			if status == http.StatusNotModified {
				return status, nil
			}
			_, err := in.Discard(length)
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return status, err
		default:
			name, value, _ := bytes.Cut(line, []byte(":"))
			switch {
			case bytes.EqualFold(name, []byte("Content-Length")):
				if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
					return 0, err
				}
			case bytes.EqualFold(name, []byte("Transfer-Encoding")):
				return 0, errors.New("the answer has no Content-Length")
			}
		}
	}
}
