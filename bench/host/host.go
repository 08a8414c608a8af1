// Package host describes the machine of a benchmark, and what its host took from it. A host gives a virtual machine's
// processors to others for minutes at a time. Numbers measured meanwhile are worthless.
package host

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

// Ticks are processor time since the machine started, in an unknown unit.
type Ticks struct{ stolen, all float64 }

// Share is the part of processor time, 0 to 1, that the host took between two readings. It is 0 where the system
// doesn't tell.
func (t Ticks) Share(later Ticks) float64 {
	if later.all <= t.all {
		return 0
	}
	return (later.stolen - t.stolen) / (later.all - t.all)
}

const (
	tries = 6
	pause = 15 * time.Second
)

// Quietly repeats a measurement until the host takes no more than the share most meanwhile, at most six times and
// some seconds apart. It returns the quietest measurement and the share that this one lost. The measured values don't
// affect the choice. again is called for each measurement that is repeated; it may be nil.
func Quietly[T any](ctx context.Context, most float64, measure func() (x T, lost float64, err error), again func(x T, lost float64)) (best T, lost float64, err error) {
	for try := range tries {
		x, share, err := measure()
		if err != nil {
			return x, share, err
		}
		if try == 0 || share < lost {
			best, lost = x, share
		}
		if lost <= most || try == tries-1 {
			break
		}
		if again != nil {
			again(x, share)
		}
		select {
		case <-ctx.Done():
			return best, lost, context.Cause(ctx)
		case <-time.After(pause):
		}
	}
	return best, lost, nil
}

// Machine describes the machine in one line: processors, system, Go's version.
func Machine() string {
	cpu := runtime.GOARCH
	if file, err := os.Open("/proc/cpuinfo"); err == nil {
		defer func() { _ = file.Close() }()
		for lines := bufio.NewScanner(file); lines.Scan(); {
			if key, value, _ := strings.Cut(lines.Text(), ":"); strings.TrimSpace(key) == "model name" {
				cpu = strings.TrimSpace(value)
				break
			}
		}
	}
	return fmt.Sprintf("%d × %s, %s, %s", runtime.NumCPU(), cpu, runtime.GOOS, runtime.Version())
}

// Load is the machine's load average of the last minute, or empty where the system doesn't tell.
func Load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(string(text), " ")
	return first
}
