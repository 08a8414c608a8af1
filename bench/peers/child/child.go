// Package child is the measured side of the comparison: a process that opens one system, does one work, and prints
// its measurement as one line of JSON. Package main of peers is the other side. With two packages, a system that
// can't be built together with the others can join from another module.
package child

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/millrace-go/millrace/bench/host"
)

// A Job is what a system sends and handles. As JSON it has about 200 bytes.
type Job struct {
	N       int    `json:"n"` // 1, 2, …
	Payload string `json:"payload"`
}

// NewJob makes the nth job.
func NewJob(n int) Job { return Job{N: n, Payload: payload} }

var payload = strings.Repeat("7", 180)

// A Client is one process's part of a system. It sends jobs, and handles them after Start. Nothing closes it: the
// process ends instead.
type Client interface {
	// Send sends a job, and returns when the system reports it as safe. It is called concurrently.
	Send(ctx context.Context, j Job) error

	// Fill sends many jobs by the system's fastest way.
	Fill(ctx context.Context, jobs []Job) error

	// Start starts the handling of jobs, until ctx ends.
	Start(ctx context.Context, handle func(Job)) error

	// Operations is how many operations the store has done so far, or Unknown.
	Operations(ctx context.Context) (int64, error)
}

// A Sized client tells how much memory its server uses, in bytes.
type Sized interface {
	Memory(ctx context.Context) (int64, error)
}

// Unknown is a count of operations that isn't available.
const Unknown = -1

// A System is how a child makes a client.
type System struct {
	Name    string
	Modules []string // whose versions are reported
	Open    func(ctx context.Context, spec Spec) (Client, error)
}

// A Spec is one measurement, as the parent asks for it.
type Spec struct {
	System    string        `json:"system"`
	Work      Work          `json:"work"`
	Dir       string        `json:"dir"`        // an empty folder
	Addr      string        `json:"addr"`       // the server's socket, if there is a server
	ServerPid int           `json:"server_pid"` // or 0
	For       time.Duration `json:"for"`        // see Work
	Backlog   int           `json:"backlog"`
	Seed      uint64        `json:"seed"`
}

// A Sample is what was measured.
type Sample struct {
	System     string    `json:"system"`
	Work       Work      `json:"work"`
	Rep        int       `json:"rep"`
	Versions   string    `json:"versions,omitempty"`
	N          int64     `json:"n"`       // jobs within the measured time
	Seconds    float64   `json:"seconds"` // the measured time
	Twice      int64     `json:"twice,omitempty"`
	Latencies  []float64 `json:"latencies_ms,omitempty"`
	ClientCPU  float64   `json:"client_cpu_s"`
	ServerCPU  float64   `json:"server_cpu_s"`
	Operations int64     `json:"operations"`       // of the store, or Unknown
	Memory     int64     `json:"memory,omitempty"` // of the server for the jobs, in bytes
	Stolen     float64   `json:"stolen"`           // the share of the machine's processor time that its host gave to others meanwhile; set by the parent
	Err        string    `json:"err,omitempty"`
}

// Main is the main function of a child. It returns the exit code.
func Main(systems []System) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, systems, os.Stdin, os.Stdout); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// Fail ends the child if a client broke during its measurement.
func Fail(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

var errOrphan = errors.New("the parent has ended")

// serve makes the measurement of the first line of in. It stops when in ends, because then the parent has ended.
func serve(ctx context.Context, systems []System, in io.Reader, out io.Writer) error {
	lines := bufio.NewReader(in)
	line, err := lines.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("read what to measure: %w", err)
	}
	var spec Spec
	if err := json.Unmarshal(line, &spec); err != nil {
		return fmt.Errorf("read what to measure: %w", err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		_, _ = io.Copy(io.Discard, lines)
		cancel(errOrphan)
	}()
	for _, s := range systems {
		if s.Name != spec.System {
			continue
		}
		c, err := s.Open(ctx, spec)
		if err != nil {
			return fmt.Errorf("open: %w", err)
		}
		sample, err := measure(ctx, c, spec)
		if err != nil {
			return err
		}
		sample.System, sample.Work, sample.Versions = spec.System, spec.Work, host.Versions(s.Modules)
		return json.NewEncoder(out).Encode(sample)
	}
	return fmt.Errorf("no system %q", spec.System)
}
