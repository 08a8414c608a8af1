package gate_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/coord/gate"
	"github.com/millrace-go/millrace/internal/agreetest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/azure"
	"github.com/millrace-go/millrace/storage/azure/azuretest"
	"github.com/millrace-go/millrace/storage/doorbell"
	"github.com/millrace-go/millrace/storage/sqlite"
)

// TestMain runs the test binary as a process that waits for a gate when a test has started it as one.
func TestMain(m *testing.M) {
	if place := os.Getenv("MILLRACE_GATE_CHILD"); place != "" {
		if err := child(context.Background(), place); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// child waits for the gate, and prints when it went.
func child(ctx context.Context, place string) error {
	s, err := openPlace(ctx, place)
	if err != nil {
		return err
	}
	defer s.Close()
	g, err := gate.New(s, name, gate.Polling(rare))
	if err != nil {
		return err
	}
	fmt.Println("waiting")
	if err := g.Wait(ctx); err != nil {
		return err
	}
	fmt.Println(time.Now().UnixNano())
	return nil
}

// openPlace opens a file, or "azure:" and an account, with a doorbell.
func openPlace(ctx context.Context, place string) (*storage.Store, error) {
	account, ok := strings.CutPrefix(place, "azure:")
	if !ok {
		return sqlite.Open(ctx, place)
	}
	inner, err := azure.Open(ctx, account)
	if err != nil {
		return nil, err
	}
	d, err := doorbell.Over(inner, doorbell.Config{Listen: "127.0.0.1:"})
	if err != nil {
		return nil, err
	}
	return d.Store, nil
}

// start starts processes that wait for the gate. It returns when they are about to.
func start(t *testing.T, place string, n int) []*agreetest.Process {
	t.Helper()
	all := make([]*agreetest.Process, n)
	for i := range all {
		all[i] = agreetest.Start(t, "MILLRACE_GATE_CHILD="+place)
	}
	for _, p := range all {
		p.Says("waiting")
	}
	return all
}

// went returns when the processes went, in order.
func went(t *testing.T, all []*agreetest.Process) (times []time.Time) {
	t.Helper()
	for _, p := range all {
		line := p.Read()
		at, err := strconv.ParseInt(line, 10, 64)
		if err != nil {
			t.Fatalf("a process said %q", line)
		}
		times = append(times, time.Unix(0, at))
	}
	slices.SortFunc(times, time.Time.Compare)
	return times
}

// Real processes wait for a gate that another process opens. Later ones find it open.
func testProcesses(t *testing.T, place string) {
	t.Parallel()
	s, err := openPlace(t.Context(), place)
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	all := start(t, place, 8)
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for limit, heard := time.After(time.Minute), 0; heard < len(all); <-look.C { // each publication is spurious
		if heard, err = s.Publish(t.Context(), "gates", []byte(name), false); err != nil {
			t.Fatal(err)
		}
		select {
		case <-limit:
			t.Fatalf("%d of %d processes listen", heard, len(all))
		default:
		}
	}
	opened := time.Now()
	open(t, gate.At(s, name))
	told := time.Now()
	times := went(t, all)
	if times[0].Before(opened) {
		t.Errorf("a process went %v before the opening", opened.Sub(times[0]))
	}
	last := times[len(times)-1]
	t.Logf("8 processes went within %v of one another; the last one %v after Open was called, %v after it returned", last.Sub(times[0]), last.Sub(opened), last.Sub(told))
	went(t, start(t, place, 2))
}

func TestProcesses(t *testing.T) { testProcesses(t, filepath.Join(t.TempDir(), "test.db")) }

func TestProcessesOnAzure(t *testing.T) {
	testProcesses(t, "azure:"+azuretest.Place(t, azurite, azure.Wipe))
}
