package worker_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/azure"
	"github.com/millrace-go/millrace/storage/azure/azuretest"
	"github.com/millrace-go/millrace/storage/doorbell"
	"github.com/millrace-go/millrace/storage/sqlite"
	"github.com/millrace-go/millrace/worker"
)

// latencyGap lies between two messages, so that the worker is idle when each is sent.
const latencyGap = 7 * time.Millisecond

// BenchmarkLatency measures the time from the call of Send to the start of the handler. The system is idle and has
// default settings, with sender and worker in one process and in two.
func BenchmarkLatency(b *testing.B) {
	b.Run("process=same", func(b *testing.B) {
		w := newNoops(b)
		started := make(chan time.Time, 1)
		w.call = func() { started <- time.Now() }
		w.Start(worker.Config{})
		measureLatency(b, started, func(i int) {
			if err := w.send.Send(b.Context(), noop{N: i, Payload: payload}); err != nil {
				b.Fatal(err)
			}
		})
	})
	b.Run("process=other", func(b *testing.B) {
		fromAnotherProcess(b, "sqlite:"+filepath.Join(b.TempDir(), "test.db"), func() {})
	})
	// The doorbell: the worker has been idle for longer than it polls.
	b.Run("process=other/store=azurite", func(b *testing.B) {
		account := azuretest.Start(b).Account(b).ConnectionString()
		fromAnotherProcess(b, "azure:"+account, func() { <-time.After(40 * time.Second) })
	})
}

func fromAnotherProcess(b *testing.B, store string, idle func()) {
	b.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestLatencySender$")
	cmd.Env = append(os.Environ(), "MILLRACE_LATENCY_STORE="+store)
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	w := newNoopsAt(b, store)
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { in.Close(); cmd.Wait() })
	sent := bufio.NewScanner(out)
	started := make(chan time.Time, 1)
	w.call = func() { started <- time.Now() }
	w.Start(worker.Config{})
	idle()
	measureLatency(b, started, func(i int) {
		fmt.Fprintln(in, i) // the pipe's few microseconds count too
		if !sent.Scan() {
			b.Fatal("the sending process ended")
		}
	})
}

func measureLatency(b *testing.B, started <-chan time.Time, send func(i int)) {
	b.Helper()
	tick := time.NewTicker(latencyGap)
	defer tick.Stop()
	var took []time.Duration
	for b.Loop() { // once, so that the worker doesn't become idle twice
		<-tick.C
		began := time.Now()
		send(len(took))
		took = append(took, (<-started).Sub(began))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
	b.ReportMetric(0, "ns/op")
}

// TestLatencySender is the sending process of BenchmarkLatency.
func TestLatencySender(t *testing.T) {
	store := os.Getenv("MILLRACE_LATENCY_STORE")
	if store == "" {
		return
	}
	w := newNoopsAt(t, store)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		n, err := strconv.Atoi(lines.Text())
		if err == nil {
			err = w.send.Send(context.Background(), noop{N: n, Payload: payload})
		}
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(os.Stdout, "sent\n")
	}
}

func newNoopsAt(tb testing.TB, url string) *noops {
	tb.Helper()
	s, err := storage.Drivers{sqlite.Driver, azure.Driver}.Open(context.Background(), url, storage.OpenConfig{})
	if err != nil {
		tb.Fatal(err)
	}
	bell, err := doorbell.Over(s, doorbell.Config{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { bell.Close() })
	return newNoopsOn(tb, bell.Store)
}
