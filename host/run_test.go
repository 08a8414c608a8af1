package host_test

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-go/millrace/host"
)

// output is what a program prints to both streams, line by line as it came.
type output struct {
	mu      sync.Mutex
	text    bytes.Buffer
	changed chan struct{} // closed and replaced with each write
}

func newOutput() *output { return &output{changed: make(chan struct{})} }

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.changed)
	o.changed = make(chan struct{})
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// line waits for a line that contains text.
func (o *output) line(t *testing.T, text string) string {
	t.Helper()
	for late := time.After(time.Minute); ; {
		o.mu.Lock()
		all, changed := o.text.String(), o.changed
		o.mu.Unlock()
		for line := range strings.Lines(all) {
			if strings.Contains(line, text) && strings.HasSuffix(line, "\n") {
				return strings.TrimSpace(line)
			}
		}
		select {
		case <-changed:
		case <-late:
			t.Fatalf("no line with %q in\n%s", text, all)
		}
	}
}

// A run is a program that runs in this process.
type run struct {
	*output
	dir  string
	stop context.CancelFunc
	code chan int
}

// start runs a program on a store in a new folder, and stops it at the end of the test.
func start(t *testing.T, p host.Program, args ...string) *run {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	r := &run{output: newOutput(), dir: t.TempDir(), stop: stop, code: make(chan int, 1)}
	process := host.Process{Args: append(args, "-store=sqlite:"+filepath.Join(r.dir, "shop.db")), Stdout: r, Stderr: r}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.code <- host.Run(ctx, process, p)
	}()
	t.Cleanup(func() {
		stop()
		<-ended
		if t.Failed() {
			t.Log(r.String())
		}
	})
	return r
}

// end stops the program, and returns its exit code.
func (r *run) end() int {
	r.stop()
	return <-r.code
}

// url waits for the program's address.
func (r *run) url(t *testing.T) string {
	t.Helper()
	line := r.line(t, " at http://") // a link for an operator stands in the log
	return line[strings.Index(line, "http://"):]
}

// wantOrder checks that words follow one another in a text.
func wantOrder(t *testing.T, text string, words ...string) {
	t.Helper()
	rest := text
	for _, w := range words {
		_, after, ok := strings.Cut(rest, w)
		if !ok {
			t.Errorf("%q is missing, or too early, in\n%s", w, text)
			return
		}
		rest = after
	}
}
