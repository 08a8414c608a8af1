package doorbell

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/sqlite"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// child is a worker in another process. It receives from a queue only when it is rung, and prints for each message
// when it was rung and the message's body. It ends with its standard input.
func child(path string) int {
	ctx := context.Background()
	inner, err := sqlite.Open(ctx, path+"?wake=off")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	s, err := Over(storagetest.Plain(inner), Config{})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	sub := s.Listen("queue")
	defer sub.Close()
	ended := make(chan struct{})
	go func() {
		bufio.NewReader(os.Stdin).ReadString(0)
		close(ended)
	}()
	q := s.Queue("queue")
	for {
		select {
		case <-sub.Rings():
		case <-ended:
			if err := s.Close(); err != nil {
				fmt.Println(err)
				return 1
			}
			return 0
		}
		rung := time.Now().UnixNano()
		got, err := q.Receive(ctx, 100, time.Hour)
		if err != nil {
			fmt.Println(err)
			return 1
		}
		for _, d := range got {
			fmt.Println(string(d.Body), rung, time.Now().UnixNano())
			if err := q.Delete(ctx, []storage.Receipt{d.Receipt}); err != nil {
				fmt.Println(err)
				return 1
			}
		}
	}
}

// TestTwoProcesses runs a real worker process with the default Config, and measures how long a ring takes.
func TestTwoProcesses(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	s := put(t, plain(t, path), Config{}, usualPace())
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "MILLRACE_DOORBELL_CHILD="+path)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	lines := make(chan string)
	go func() {
		defer close(lines)
		for scan := bufio.NewScanner(out); scan.Scan(); {
			lines <- scan.Text()
		}
	}()
	t.Logf("rung at %v", listeners(t, s, 1)[0].Addresses)

	gap := time.NewTicker(3 * pause / 2) // so that no ring waits for the one before
	defer gap.Stop()
	var rings, pickups []time.Duration
	for i := range 100 {
		<-gap.C
		body := fmt.Sprint("message", i)
		began := time.Now().UnixNano()
		if err := s.Queue("queue").Send(t.Context(), []storage.Message{{Body: []byte(body)}}); err != nil {
			t.Fatal(err)
		}
		sent := time.Now().UnixNano()
		select {
		case line := <-lines:
			var rung, got int64
			if _, err := fmt.Sscanf(line, body+" %d %d", &rung, &got); err != nil {
				t.Fatalf("the worker said %q after message %d", line, i)
			}
			rings, pickups = append(rings, time.Duration(rung-sent)), append(pickups, time.Duration(got-began))
		case <-time.After(20 * time.Second):
			t.Fatalf("message %d was not picked up", i)
		}
	}
	rings, pickups = rings[1:], pickups[1:] // the first waited for the table to be read
	slices.Sort(rings)
	slices.Sort(pickups)
	t.Logf("from the end of Send to the ring in the other process: p50 %v, p99 %v", rings[len(rings)/2], rings[len(rings)-1])
	t.Logf("from the call of Send to the message in hand: p50 %v, p99 %v", pickups[len(pickups)/2], pickups[len(pickups)-1])

	// A worker that is told to stop removes its row.
	in.Close()
	for line := range lines {
		t.Errorf("the worker said %q at its end", strings.TrimSpace(line))
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	listeners(t, s, 0)
	send(t, s, "queue") // no process listens any more, and this process doesn't know that yet
}
