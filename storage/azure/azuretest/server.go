package azuretest

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// patience bounds the time for anything that takes Azurite half a second on an idle machine.
const patience = 60 * time.Second

// A Server is a running Azurite. Its methods may be called concurrently.
type Server struct {
	blob, queue, table string // URLs without a path
	given              atomic.Int64
	roots              *x509.CertPool // of LaunchOAuth

	cmd      *exec.Cmd
	commands io.Writer // to run.js, a byte each; Azurite ends when the stream does
	output   output
	gone     chan struct{} // closed when the process has ended

	mu     sync.Mutex // for the fields below; also makes pauses follow one another
	paused bool
	pauses int
}

// Launch starts a server and waits until it answers. It lives until Stop, or for as long as this process.
func Launch() (*Server, error) { return launch("--inMemoryPersistence") }

// LaunchIn is Launch with a server that keeps everything in files in a folder, whose path must be absolute. That is
// slower. But a server in memory stops answering for minutes after more than ten thousand messages in its first
// minute.
func LaunchIn(folder string) (*Server, error) { return launch("--location", folder) }

func launch(options ...string) (*Server, error) {
	dir, node, err := installation()
	if err != nil {
		return nil, err
	}
	s := &Server{gone: make(chan struct{}), output: output{changed: make(chan struct{})}}
	s.cmd = exec.Command(node, append([]string{"run.js", "--silent", "--disableTelemetry",
		"--blobPort", "0", "--queuePort", "0", "--tablePort", "0",
		// An hour, in seconds: with the default of five, clients send requests on connections just closed.
		"--blobKeepAliveTimeout", "3600", "--queueKeepAliveTimeout", "3600", "--tableKeepAliveTimeout", "3600"}, options...)...)
	s.cmd.Dir = dir
	s.cmd.Env = append(os.Environ(), "AZURITE_ACCOUNTS="+accountList())
	s.cmd.Stdout, s.cmd.Stderr = &s.output, &s.output
	if s.commands, err = s.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("azuretest: start Azurite: %w", err)
	}
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("azuretest: start Azurite: %w", err)
	}
	go func() {
		_ = s.cmd.Wait() // ProcessState tells how it ended
		close(s.gone)
	}()
	if err := s.wait(s.listening); err != nil {
		s.Stop()
		return nil, fmt.Errorf("azuretest: start Azurite: %w", err)
	}
	return s, nil
}

// installation finds scripts/azurite above the working directory. In a test, that is the package's directory.
func installation() (dir, node string, err error) {
	dir, err = os.Getwd()
	if err != nil {
		return "", "", fmt.Errorf("azuretest: find scripts/azurite: %w", err)
	}
	for {
		tool := filepath.Join(dir, "scripts", "azurite")
		if exists(filepath.Join(tool, "run.js")) {
			dir = tool
			break
		}
		above := filepath.Dir(dir)
		if above == dir {
			return "", "", fmt.Errorf("%w: no folder above the working directory has scripts/azurite", ErrNotInstalled)
		}
		dir = above
	}
	if !exists(filepath.Join(dir, "node_modules", "azurite")) {
		return "", "", fmt.Errorf("%w: run scripts/setup.sh, which needs npm", ErrNotInstalled)
	}
	if node, err = exec.LookPath("node"); err != nil {
		return "", "", fmt.Errorf("%w: no Node.js in PATH: run scripts/setup.sh", ErrNotInstalled)
	}
	return dir, node, nil
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

var listens = regexp.MustCompile(`(?m)^Azurite (\w+) service is successfully listening at (https?://\S+)$`)

// listening takes the addresses from Azurite's output, and reports whether all are there.
func (s *Server) listening(text string) bool {
	for _, found := range listens.FindAllStringSubmatch(text, -1) {
		switch found[1] {
		case "Blob":
			s.blob = found[2]
		case "Queue":
			s.queue = found[2]
		case "Table":
			s.table = found[2]
		}
	}
	return s.blob != "" && s.queue != "" && s.table != ""
}

// wait waits until enough accepts Azurite's output.
func (s *Server) wait(enough func(text string) bool) error {
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		text, changed := s.output.get()
		if enough(text) {
			return nil
		}
		select {
		case <-changed:
		case <-s.gone:
			return s.ended()
		case <-late.C:
			return fmt.Errorf("not done after %v, having said:\n%s", patience, text)
		}
	}
}

// ended returns an error if the server has ended.
func (s *Server) ended() error {
	select {
	case <-s.gone:
		text, _ := s.output.get()
		return fmt.Errorf("it has ended (%v), having said:\n%s", s.cmd.ProcessState, text)
	default:
		return nil
	}
}

// Stop kills the server, and returns when the process has ended. All its data in memory is lost. A second Stop does
// nothing.
func (s *Server) Stop() {
	_ = s.cmd.Process.Kill() // it may have ended
	<-s.gone
}

// Pause stops the server from answering until Continue or the end of the test. Connections stay open, new ones are
// accepted, and requests wait. The server carries them out when it goes on, even if their clients have given up.
func (s *Server) Pause(tb testing.TB) {
	tb.Helper()
	tb.Cleanup(s.Continue)
	if err := s.pause(); err != nil {
		tb.Fatalf("azuretest: pause Azurite: %v", err)
	}
}

func (s *Server) pause() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.paused {
		return nil
	}
	if _, err := io.WriteString(s.commands, "p"); err != nil {
		return errors.Join(err, s.ended())
	}
	s.paused = true
	s.pauses++
	return s.wait(func(text string) bool { return strings.Count(text, "paused\n") >= s.pauses })
}

// Continue ends a pause, if there is one.
func (s *Server) Continue() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.paused {
		_, _ = io.WriteString(s.commands, "c") // fails if the server has been stopped meanwhile
		s.paused = false
	}
}

// output keeps what a process prints.
type output struct {
	mu      sync.Mutex
	text    bytes.Buffer
	changed chan struct{} // closed and replaced by each write
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text.Write(p)
	close(o.changed)
	o.changed = make(chan struct{})
	return len(p), nil
}

// get returns the output so far, and a channel that is closed by the next write.
func (o *output) get() (string, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String(), o.changed
}
