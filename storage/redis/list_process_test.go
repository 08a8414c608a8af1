//go:build unix

package redis_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/redis"
	"github.com/millrace-go/millrace/storage/redis/redistest"
)

// consumerEnv makes TestTheConsumer the program of another process: it takes values of the list at a URL.
const consumerEnv = "MILLRACE_TEST_LIST"

// TestTheConsumer is no test but a process that another test starts. The process takes the oldest value, the next one,
// and the newest one, tells that, and holds them until its input ends. Then it says that the first is done.
func TestTheConsumer(t *testing.T) {
	url := os.Getenv(consumerEnv)
	if url == "" {
		return // not a skip, which counts as a failure where nothing may be missing
	}
	l := newList(t, openStore(t, url))
	var all []*redis.Taken
	for _, get := range []func(context.Context) (*redis.Taken, error){l.TakeFirst, l.TakeFirst, l.TakeLast} {
		taken, err := get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, taken)
	}
	fmt.Println("holds")
	_, _ = io.Copy(io.Discard, os.Stdin)
	if err := all[0].Done(t.Context()); errors.Is(err, storage.ErrReceiptStale) {
		fmt.Println("stale")
	} else {
		fmt.Println("done", err)
	}
}

// A consumer is the process of TestTheConsumer.
type consumer struct {
	cmd   *exec.Cmd
	in    io.Closer
	lines *bufio.Scanner
}

// startConsumer returns when the consumer holds its values.
func startConsumer(t *testing.T, url string) *consumer {
	t.Helper()
	c := &consumer{cmd: exec.Command(os.Args[0], "-test.run=^TestTheConsumer$")}
	c.cmd.Env, c.cmd.Stderr = append(os.Environ(), consumerEnv+"="+url), os.Stderr
	out, err := c.cmd.StdoutPipe()
	if err == nil {
		c.in, err = c.cmd.StdinPipe()
	}
	if err == nil {
		err = c.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill() // it may have ended
		_ = c.cmd.Wait()
	})
	c.lines = bufio.NewScanner(out)
	c.says(t, "holds")
	return c
}

func (c *consumer) says(t *testing.T, want string) {
	t.Helper()
	if !c.lines.Scan() || c.lines.Text() != want {
		t.Fatalf("the consumer says %q, want %q", c.lines.Text(), want)
	}
}

// recoverAll recovers until something was recovered.
func recoverAll(t *testing.T, l *redis.List) (n int) {
	t.Helper()
	eventually(t, "something is recovered", func() bool {
		got, err := l.Recover(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		n += got
		return n > 0
	})
	return n
}

func TestLawAKilledConsumerLosesNothing(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t, redistest.Config{}).URL(redistest.Fresh())
	l := newList(t, openStore(t, url))
	push(t, l, "1", "2", "3", "4", "5")
	c := startConsumer(t, url)
	own := take(t, l.TakeFirst, "3")
	wantLen(t, l, 1, 4)
	if err := c.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.cmd.Wait() // it was killed
	if n := recoverAll(t, l); n != 3 {
		t.Errorf("%d values were recovered, want 3", n)
	}
	wantLen(t, l, 4, 1) // this process lives, so what it holds stays
	if got, want := rest(t, l), []string{"1", "2", "4", "5"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if err := own.Done(t.Context()); err != nil {
		t.Error(err)
	}
	if err := own.Done(t.Context()); !errors.Is(err, storage.ErrReceiptStale) {
		t.Errorf("a second Done: %v, want ErrReceiptStale", err)
	}
}

// A consumer that stands still keeps what it holds. Once its connection is gone, its values are given to others, and it
// is told so.
func TestLawAConsumerThatStandsStillKeepsWhatItHolds(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Config{})
	url := server.URL(redistest.Fresh())
	l := newList(t, openStore(t, url))
	push(t, l, "1", "2", "3")
	c := startConsumer(t, url)
	if err := c.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if n, err := l.Recover(t.Context()); n != 0 || err != nil {
		t.Errorf("of a process that stands still %d values were recovered, %v", n, err)
	}
	wantLen(t, l, 0, 3)
	server.Do(t, "CLIENT", "KILL", "TYPE", "pubsub") // this process opens its connection again
	if n := recoverAll(t, l); n != 3 {
		t.Errorf("%d values were recovered, want 3", n)
	}
	if err := c.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	_ = c.in.Close()
	c.says(t, "stale")
	if got, want := rest(t, l), []string{"1", "2", "3"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
