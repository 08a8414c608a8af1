// Package child is the measured side of the comparison: a process that opens one system, does one work, and says in one line
// of JSON what it saw. Package main of peers is the other side. That they are two packages lets another module join, for a
// system that can't be built beside the others.
package child

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"
)

// A Job is what is sent and handled; as JSON it has about 200 bytes.
type Job struct {
	N       int    `json:"n"` // 1, 2, …
	Payload string `json:"payload"`
}

// NewJob makes the nth job.
func NewJob(n int) Job { return Job{N: n, Payload: payload} }

var payload = strings.Repeat("7", 180)

// A Client is one process's part of a system: it sends jobs, and it handles them once it was started. Nothing is closed: the
// process ends instead.
type Client interface {
	// Send sends a job, and returns when the system says that it is safe. It is called concurrently.
	Send(ctx context.Context, j Job) error

	// Fill sends many, the quickest way that the system has.
	Fill(ctx context.Context, jobs []Job) error

	// Start begins to handle jobs, until ctx ends.
	Start(ctx context.Context, handle func(Job)) error

	// Operations is how many operations the store has been asked for so far, or Unknown.
	Operations(ctx context.Context) (int64, error)
}

// Unknown is a count of operations that can't be had.
const Unknown = -1

// A System is how a child makes a client.
type System struct {
	Name    string
	Modules []string // whose versions are told
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
	Operations int64     `json:"operations"` // of the store, or Unknown
	Stolen     float64   `json:"stolen"`     // the share of the machine's processor time that its host gave to others meanwhile; the parent tells
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

// Fail ends the child if a client broke while it was measured.
func Fail(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

var errOrphan = errors.New("the parent has ended")

// serve makes the measurement that stands in the first line of in. It gives up when in ends, because then the parent has.
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
		sample.System, sample.Work, sample.Versions = spec.System, spec.Work, versions(s.Modules)
		return json.NewEncoder(out).Encode(sample)
	}
	return fmt.Errorf("no system %q", spec.System)
}

// versions names modules as this program was built with them.
func versions(modules []string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	return versionsIn(info, modules)
}

func versionsIn(info *debug.BuildInfo, modules []string) string {
	var all []string
	for _, want := range modules {
		for _, m := range info.Deps {
			if m.Path != want {
				continue
			}
			version := m.Version
			if m.Replace != nil {
				version = m.Replace.Version
			}
			if version == "" || version == "(devel)" { // a folder of this repository
				version = revision(info)
			}
			path := strings.Split(want, "/")
			if len(path) > 2 && strings.HasPrefix(path[len(path)-1], "v") {
				path = path[:len(path)-1] // …/v4
			}
			all = append(all, path[len(path)-1]+" "+version)
		}
	}
	return strings.Join(all, ", ")
}

// revision is that of the repository which the program was built from, with a mark where files had changed.
func revision(info *debug.BuildInfo) string {
	var id, changed string
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			id = s.Value[:min(len(s.Value), 7)]
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = "+changes"
		}
	}
	return cmp.Or(id, "of an unknown revision") + changed
}
