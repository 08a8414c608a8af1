// Package host tells what machine a benchmark runs on, and what its host took from it: a virtual machine's processors are
// given to others in bursts of minutes, in which no number is worth anything.
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

// Share is the part of processor time, 0 to 1, that the host took between two readings. It is 0 where the system doesn't tell.
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

// Quietly measures until the host takes no more than the share most meanwhile, six times at the most and some seconds apart, and
// returns the quietest measurement with the share that it lost. What is measured has no say in which one that is. again, which may be
// nil, hears of each that is made again.
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

// Machine describes the machine in a line: processors, system, Go's version.
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
