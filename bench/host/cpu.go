package host

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Proc is where Linux tells of processes.
const Proc = "/proc"

// OwnCPU is the CPU time that this process has used, in seconds.
func OwnCPU() (float64, error) {
	var own syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &own); err != nil {
		return 0, err
	}
	return time.Duration(own.Utime.Nano() + own.Stime.Nano()).Seconds(), nil
}

// CPU is the CPU time of a process and its descendants, in seconds. Linux only. Living threads are counted in
// nanoseconds, ended ones in hundredths of a second, because the kernel keeps no more of them.
func CPU(proc string, root int) (float64, error) {
	stats, err := filepath.Glob(filepath.Join(proc, "[0-9]*", "stat"))
	if err != nil {
		return 0, err
	}
	children, ended := map[int][]int{}, map[int]float64{}
	for _, file := range stats {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended meanwhile
		}
		// The name is in brackets and may hold anything. The fields after it: state, parent, … children's user and
		// system time.
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		if len(fields) < 15 {
			return 0, fmt.Errorf("%s: %q", file, text)
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		parent, _ := strconv.Atoi(fields[1])
		children[parent] = append(children[parent], pid)
		for _, ticks := range fields[13:15] {
			n, _ := strconv.ParseFloat(ticks, 64)
			ended[pid] += n / 100
		}
	}
	var total float64
	for todo := []int{root}; len(todo) > 0; todo = todo[1:] {
		pid := todo[0]
		todo = append(todo, children[pid]...)
		total += ended[pid]
		threads, err := filepath.Glob(filepath.Join(proc, strconv.Itoa(pid), "task", "*", "schedstat"))
		if err != nil {
			return 0, err
		}
		if len(threads) == 0 && pid == root {
			return 0, fmt.Errorf("no CPU time of process %d in %s", pid, proc)
		}
		for _, file := range threads {
			text, err := os.ReadFile(file)
			if err != nil {
				continue
			}
			var ns float64
			if _, err := fmt.Sscan(string(text), &ns); err != nil {
				return 0, fmt.Errorf("%s: %w", file, err)
			}
			total += ns / 1e9
		}
	}
	return total, nil
}
