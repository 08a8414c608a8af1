package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	againAfter = time.Second      // how soon a program that has ended by itself is started again
	mayDrain   = 45 * time.Second // how long a program may take to stop: its drain and some time after it
)

// A program is one program under test. It is started again whenever it ends, until it is closed.
type program struct {
	name string
	bin  string
	args []string
	env  []string
	dir  string // its working directory
	logs string // folder
	says string // text in its log once it has started
	j    *journal

	busy sync.Mutex // held during a disturbance

	mu     sync.Mutex
	lives  []*life
	closed bool
}

// A life is one process of a program.
type life struct {
	cmd   *exec.Cmd
	log   string // the file with all its output
	says  string // text of its log once it has started
	born  time.Time
	ended chan struct{} // closed when the process has ended

	asked  bool      // to end; under program.mu, like the fields below
	killed time.Time // zero if it was not
	stalls []span
}

// A span is a time in which a process was stopped.
type span struct{ from, to time.Time }

// start begins a life. It does nothing for a program that is closed or runs already.
func (p *program) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.current() != nil {
		return nil
	}
	l := &life{log: filepath.Join(p.logs, fmt.Sprintf("%s.%03d.log", p.name, len(p.lives)+1)), says: p.says, ended: make(chan struct{})}
	file, err := os.Create(l.log)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // the process has its own
	l.cmd = exec.Command(p.bin, p.args...)
	l.cmd.Dir, l.cmd.Env = p.dir, append(ownEnvironment(), p.env...)
	l.cmd.Stdout, l.cmd.Stderr = file, file
	l.cmd.SysProcAttr = diesWithUs()
	if err := l.cmd.Start(); err != nil {
		return err
	}
	l.born = time.Now()
	p.lives = append(p.lives, l)
	p.j.say("%s: process %d starts", p.name, l.cmd.Process.Pid)
	go p.watch(l)
	return nil
}

// ownEnvironment keeps a developer's settings out of the run.
func ownEnvironment() []string {
	var rest []string
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "MILLRACE_") && !strings.HasPrefix(e, "RESERVATIONS_") {
			rest = append(rest, e)
		}
	}
	return rest
}

// current returns the life that is not over, nil if there is none. The caller holds mu.
func (p *program) current() *life {
	if len(p.lives) == 0 {
		return nil
	}
	l := p.lives[len(p.lives)-1]
	select {
	case <-l.ended:
		return nil
	default:
		return l
	}
}

// watch waits for the end of a life, and begins another unless the end was asked for.
func (p *program) watch(l *life) {
	_ = l.cmd.Wait() // how it ended is in ProcessState
	p.mu.Lock()
	close(l.ended)
	asked := l.asked
	p.mu.Unlock()
	if asked {
		return
	}
	switch {
	case l.started():
		p.j.fault(nothingFails, "%s ended by itself (%v): %s", p.name, l.cmd.ProcessState, l.lastWords())
	case p.j.excused(l.born):
		p.j.note("failed starts, tried again")
		p.j.say("%s could not start: %s", p.name, l.lastWords())
	default:
		p.j.fault(nothingFails, "%s could not start (%v): %s", p.name, l.cmd.ProcessState, l.lastWords())
	}
	time.AfterFunc(againAfter, func() {
		if err := p.start(); err != nil {
			p.j.fault(nothingFails, "%s: %v", p.name, err)
		}
	})
}

func (l *life) started() bool { return bytes.Contains(l.said(), []byte(l.says)) }

func (l *life) said() []byte {
	text, err := os.ReadFile(l.log)
	if err != nil {
		return []byte(err.Error())
	}
	return text
}

// lastWords returns the last line that isn't JSON: the line in which programs say why they end.
func (l *life) lastWords() string {
	lines := strings.Split(strings.TrimSpace(string(l.said())), "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		if lines[i] != "" && lines[i][0] != '{' {
			return lines[i]
		}
	}
	return lines[len(lines)-1]
}

// end sends a signal to the current life, if there is one, and returns it.
func (p *program) end(s syscall.Signal) *life {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.current()
	if l == nil {
		return nil
	}
	l.asked = true
	if s == syscall.SIGKILL {
		l.killed = time.Now()
	}
	p.j.say("%s: process %d gets %v", p.name, l.cmd.Process.Pid, s)
	_ = l.cmd.Process.Signal(s) // it may have ended
	return l
}

// kill ends the program at once.
func (p *program) kill() {
	if l := p.end(syscall.SIGKILL); l != nil {
		<-l.ended
	}
}

// stop ends the program in order. The program must manage that in time, and without an error unless the store or the
// disk is away.
func (p *program) stop() {
	began := time.Now()
	l := p.end(syscall.SIGTERM)
	if l == nil {
		return
	}
	late := time.NewTimer(mayDrain)
	defer late.Stop()
	select {
	case <-l.ended:
	case <-late.C:
		p.j.fault(nothingFails, "%s did not stop within %v", p.name, mayDrain)
		p.kill()
		return
	}
	code := l.cmd.ProcessState.ExitCode()
	p.j.say("%s: process %d has stopped after %v with code %d", p.name, l.cmd.Process.Pid, time.Since(began).Round(time.Millisecond), code)
	switch {
	case code == 0:
	case code < 0 && !l.started():
		p.j.note("stops of programs that had not quite started")
	case p.j.excused(began) && code == 1:
		p.j.note("stops that said what they could not do")
		p.j.say("%s stopped with an error: %s", p.name, l.lastWords())
	default:
		p.j.fault(nothingFails, "%s stopped with %v: %s", p.name, l.cmd.ProcessState, l.lastWords())
	}
}

// stall stops the process for a while, or until ctx ends.
func (p *program) stall(ctx context.Context, d time.Duration) {
	p.mu.Lock()
	l := p.current()
	p.mu.Unlock()
	if l == nil {
		return
	}
	from := time.Now()
	p.j.say("%s: process %d stands still for %v", p.name, l.cmd.Process.Pid, d.Round(time.Millisecond))
	_ = l.cmd.Process.Signal(syscall.SIGSTOP) // it may have ended
	wait(ctx, d)
	_ = l.cmd.Process.Signal(syscall.SIGCONT)
	p.j.say("%s: process %d goes on", p.name, l.cmd.Process.Pid)
	p.mu.Lock()
	defer p.mu.Unlock()
	l.stalls = append(l.stalls, span{from, time.Now()})
}

// close ends the program for good if it still runs.
func (p *program) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.kill()
}

// all returns the lives so far.
func (p *program) all() []*life {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]*life(nil), p.lives...)
}

// wait returns after d, or when ctx ends. It reports whether d has passed.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

var errTimeout = errors.New("it takes too long")

// until repeats so until it is true.
func until(ctx context.Context, most time.Duration, so func() (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, most, errTimeout)
	defer cancel()
	for {
		ok, err := so()
		if ok || err != nil {
			return err
		}
		if !wait(ctx, 50*time.Millisecond) {
			return context.Cause(ctx)
		}
	}
}
