package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/files/valet"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/millracetest"
	"github.com/millrace-go/millrace/worker"
)

// eicar is the text that every scanner takes for a virus. It is in two pieces, so that none takes this file for one.
var eicar = `X5O!P%@AP[4\PZX54(P^)7CC)7}$` + `EICAR-STANDARD-ANTIVIRUS-TEST-FILE!$H+H*`

// limit is the daemon's StreamMaxLength.
const limit = 1 << 20

// startDaemon starts what speaks the daemon's side of INSTREAM, and returns its address.
func startDaemon(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return // closed
			}
			go func() {
				defer func() { _ = conn.Close() }()
				_, _ = io.WriteString(conn, judge(bufio.NewReader(conn))+"\x00") // the client may have gone
			}()
		}
	}()
	return l.Addr().String()
}

// judge reads a command, and returns the daemon's answer.
func judge(r *bufio.Reader) string {
	if command, err := r.ReadString(0); err != nil || command != "zINSTREAM\x00" {
		return "UNKNOWN COMMAND"
	}
	var all []byte
	for {
		var size uint32
		if err := binary.Read(r, binary.BigEndian, &size); err != nil {
			return "INSTREAM: Can't read stream ERROR"
		}
		if size == 0 {
			break
		}
		if len(all)+int(size) > limit {
			return "INSTREAM size limit exceeded. ERROR"
		}
		chunk := make([]byte, size)
		if _, err := io.ReadFull(r, chunk); err != nil {
			return "INSTREAM: Can't read stream ERROR"
		}
		all = append(all, chunk...)
	}
	switch {
	case strings.Contains(string(all), eicar):
		return "stream: Eicar-Test-Signature FOUND"
	case strings.Contains(string(all), "out of memory"):
		return "stream: Can't allocate memory ERROR"
	}
	return "stream: OK"
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	daemon := clamd{startDaemon(t)}
	for _, test := range []struct {
		name, content string
		want          valet.Verdict
		fails         bool
	}{
		{"clean", "hello", valet.Pass(), false},
		{"several chunks", strings.Repeat("0123456789", 90_000), valet.Pass(), false},
		{"whole chunks", strings.Repeat("x", 128<<10), valet.Pass(), false},
		{"a virus", eicar, valet.Refuse("it has the virus Eicar-Test-Signature"), false},
		{"a virus behind the first chunk", strings.Repeat("x", 70_000) + eicar, valet.Refuse("it has the virus Eicar-Test-Signature"), false},
		{"more than the daemon takes", strings.Repeat("x", 20*limit), valet.Unclear("it is too large for the scanner"), false},
		{"another fault of the daemon", "out of memory", valet.Verdict{}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := daemon.scan(t.Context(), valet.File{}, strings.NewReader(test.content))
			if got != test.want || (err != nil) != test.fails {
				t.Errorf("got %+v, %v; want %+v", got, err, test.want)
			}
		})
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("the store is away") }

// Without the whole content there is no verdict, nor without an answer.
func TestNoVerdict(t *testing.T) {
	t.Parallel()
	daemon := clamd{startDaemon(t)}
	ctx, cancel := context.WithCancel(t.Context())
	if v, err := daemon.scan(ctx, valet.File{}, io.MultiReader(strings.NewReader(strings.Repeat("x", 100_000)), waits{ctx, cancel})); err == nil {
		t.Errorf("a call that is given up: got %+v", v)
	}
	if v, err := daemon.scan(t.Context(), valet.File{}, broken{}); err == nil || !strings.Contains(err.Error(), "the store is away") {
		t.Errorf("a content that ends early: got %+v, %v", v, err)
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := silent.Addr().String()
	_ = silent.Close()
	if v, err := (clamd{addr}).scan(t.Context(), valet.File{}, strings.NewReader("x")); err == nil {
		t.Errorf("nobody listens: got %+v", v)
	}
}

// waits is a content whose reader is told to give up, and gets no more.
type waits struct {
	ctx    context.Context
	giveUp func()
}

func (w waits) Read([]byte) (int, error) { w.giveUp(); <-w.ctx.Done(); return 0, w.ctx.Err() }

// While nobody listens at the daemon's address, files wait, and none is given up. Afterwards each gets its verdict.
func TestFilesWaitForTheDaemon(t *testing.T) {
	t.Parallel()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	var addr atomic.Value
	addr.Store(closed.Addr().String())
	there, scanner := startDaemon(t), newGuard() // outside of the virtual time, which a connection would stop
	open := func(h *handlers.Registry) (*valet.Valet, error) {
		return valet.New(h.Channels(), valet.Config{Rules: map[string]valet.Rules{"any": {MaxSize: limit}}, Guard: scanner,
			Scan: func(ctx context.Context, f valet.File, content io.Reader) (valet.Verdict, error) {
				return clamd{addr.Load().(string)}.scan(ctx, f, content)
			}})
	}
	p := millracetest.Program{
		Routes: routes,
		Register: func(h *handlers.Registry) error {
			v, err := open(h)
			if err == nil {
				v.Register(h)
			}
			return err
		},
		Queues: map[string]worker.QueueConfig{valet.CheckQueue: {Limiter: scanner.Limiter}},
	}
	millracetest.Run(t, p, func(t *testing.T, app *millracetest.App) {
		v, err := files(app.Channels(), clamd{}, scanner)
		if err != nil {
			t.Fatal(err)
		}
		put := func(content string) string {
			key, err := v.Upload(t.Context(), valet.Upload{Rule: "any", Owner: "ada", Name: "a.txt", Type: "text/plain", Size: int64(len(content))})
			if err != nil {
				t.Fatal(err)
			}
			millracetest.Upload(t, v, key, []byte(content))
			return key.ID
		}
		good, bad := put("hello"), put(eicar)
		<-time.After(12 * time.Hour)
		want := func(id string, state valet.State) {
			t.Helper()
			if f, err := v.File(t.Context(), id); err != nil || f.State != state {
				t.Errorf("got %s (%s), %v; want %s", f.State, f.Reason, err, state)
			}
		}
		want(good, valet.StateArrived)
		want(bad, valet.StateArrived)
		addr.Store(there)
		app.Drain()
		want(good, valet.StateClean)
		want(bad, valet.StateRejected)
	})
}
