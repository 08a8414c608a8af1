//go:build unix

package redis_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/redis"
	"github.com/millrace-go/millrace/storage/redis/redistest"
)

// programIn makes TestTheProgram the program of another process: its role, a queue, and the URL of a store.
const programIn = "MILLRACE_REDIS_PROGRAM"

// TestTheProgram holds all messages of a queue for ten minutes, and deletes them when its input ends; or it sends, one
// line for each message that is acknowledged.
func TestTheProgram(t *testing.T) {
	role, queue, url := "", "", ""
	if n, _ := fmt.Sscan(os.Getenv(programIn), &role, &queue, &url); n != 3 {
		return // it isn't another process
	}
	q := openPlace(t, url).Queue(queue)
	if role == "send" {
		var all sync.WaitGroup
		for g := range 8 {
			all.Go(func() {
				for n := 0; ; n++ {
					body := fmt.Sprintf("%d-%d-%d", os.Getpid(), g, n)
					if err := q.Send(t.Context(), []storage.Message{{Body: []byte(body)}}); err != nil {
						return
					}
					fmt.Println(body) // one write, so lines don't mix
				}
			})
		}
		all.Wait()
		return
	}
	got, err := q.Receive(t.Context(), 100, 10*time.Minute)
	fmt.Println(len(got), err)
	_, _ = io.Copy(io.Discard, os.Stdin)
	var receipts []storage.Receipt
	for _, d := range got {
		receipts = append(receipts, d.Receipt)
	}
	fmt.Println("deleted", q.Delete(t.Context(), receipts))
}

// A program is a process of TestTheProgram.
type program struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.Closer
	lines *bufio.Scanner
}

func startProgram(t *testing.T, role, queue, url string) *program {
	t.Helper()
	p := &program{t: t, cmd: exec.Command(os.Args[0], "-test.run=^TestTheProgram$")}
	p.cmd.Env, p.cmd.Stderr = append(os.Environ(), programIn+"="+role+" "+queue+" "+url), os.Stderr
	in, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.in, p.lines = in, bufio.NewScanner(out)
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it may have ended
		_ = p.cmd.Wait()
	})
	return p
}

// holds starts a process that holds the n messages of a queue.
func holds(t *testing.T, queue, url string, n int) *program {
	t.Helper()
	p := startProgram(t, "hold", queue, url)
	p.wantLine(strconv.Itoa(n) + " <nil>")
	return p
}

func (p *program) wantLine(want string) {
	p.t.Helper()
	if !p.lines.Scan() || p.lines.Text() != want {
		p.t.Fatalf("the other process says %q; want %q", p.lines.Text(), want)
	}
}

func (p *program) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

func openPlace(t *testing.T, url string) *storage.Store {
	t.Helper()
	s, err := redis.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func sendTo(t *testing.T, q *storage.Queue, bodies ...string) {
	t.Helper()
	for _, body := range bodies {
		if err := q.Send(t.Context(), []storage.Message{{Body: []byte(body)}}); err != nil {
			t.Fatal(err)
		}
	}
}

func receiveFrom(t *testing.T, q *storage.Queue, visibility time.Duration) []storage.Delivery {
	t.Helper()
	got, err := q.Receive(t.Context(), 100, visibility)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// A process that was killed hands back what it holds long before the end of the visibility, but not what may have
// killed it. A process that stands still keeps what it holds.
func TestClaimsOfDeadProcesses(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t, redistest.Config{}).URL(redistest.Fresh())
	s := openPlace(t, url)
	dead, kills, still := s.Queue("dead"), s.Queue("kills"), s.Queue("still")
	sendTo(t, dead, "a", "b", "c")
	sendTo(t, kills, "k")
	sendTo(t, still, "s")
	for range 3 {
		got := receiveFrom(t, kills, time.Minute)
		if len(got) != 1 {
			t.Fatalf("got %d messages, want 1", len(got))
		}
		if _, err := kills.Extend(t.Context(), got[0].Receipt, 0); err != nil {
			t.Fatal(err)
		}
	}
	stopped := holds(t, "still", url, 1)
	all := []*program{holds(t, "kills", url, 1), holds(t, "dead", url, 3)} // the last one tells when all are looked at
	stopped.signal(syscall.SIGSTOP)
	for _, p := range all {
		p.signal(os.Kill)
		_ = p.cmd.Wait()
	}
	back := map[string]int{}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for limit := time.After(time.Minute); len(back) < 3; {
		for _, d := range receiveFrom(t, dead, time.Minute) {
			back[string(d.Body)] = d.Deliveries
		}
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("after a minute: got back %v, want a, b and c", back)
		}
	}
	for body, n := range back {
		if n != 2 {
			t.Errorf("%s: got delivery %d, want 2", body, n)
		}
	}
	for name, q := range map[string]*storage.Queue{"what may have killed": kills, "what a process that stands still holds": still} {
		if got := receiveFrom(t, q, time.Minute); len(got) != 0 {
			t.Errorf("%s has come back", name)
		}
	}
	stopped.signal(syscall.SIGCONT)
	if err := stopped.in.Close(); err != nil {
		t.Fatal(err)
	}
	stopped.wantLine("deleted <nil>")
}

// Each message that a process knew to be sent when it was killed is there once.
func TestKilledSendersLoseNothing(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t, redistest.Config{}).URL(redistest.Fresh())
	acknowledged := map[string]bool{}
	note := func(line string) {
		if strings.Count(line, "-") == 2 { // the last one may be torn, and is a prefix of a longer one at worst
			acknowledged[line] = true
		}
	}
	for round := range 4 {
		p := startProgram(t, "send", "queue", url)
		for n := 0; n < 100*(round+1) && p.lines.Scan(); n++ {
			note(p.lines.Text())
		}
		p.signal(os.Kill)
		rest := []string{}
		for p.lines.Scan() {
			rest = append(rest, p.lines.Text())
		}
		for _, line := range rest[:max(0, len(rest)-1)] {
			note(line)
		}
	}
	q, got := openPlace(t, url).Queue("queue"), map[string]bool{}
	for more := true; more; {
		list := receiveFrom(t, q, time.Hour)
		for _, d := range list {
			if got[string(d.Body)] {
				t.Errorf("%s is there twice", d.Body)
			}
			got[string(d.Body)] = true
		}
		more = len(list) > 0
	}
	for body := range acknowledged {
		if !got[body] {
			t.Errorf("%s was acknowledged and is gone", body)
		}
	}
	if len(acknowledged) < 900 {
		t.Errorf("only %d were acknowledged", len(acknowledged))
	}
}
