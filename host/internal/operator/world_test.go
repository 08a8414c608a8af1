package operator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/coord/ids"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/host/internal/boot"
	"github.com/millrace-go/millrace/internal/boottest"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/poison"
	"github.com/millrace-go/millrace/sample/reservations"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/azure"
	"github.com/millrace-go/millrace/storage/sqlite"
	"github.com/millrace-go/millrace/worker"
)

// as is the environment variable that makes the test's own binary a program: the one that it names.
const as = "OPERATOR_TEST_AS"

// bin is this binary.
var bin string

func TestMain(m *testing.M) {
	name := os.Getenv(as)
	p, ok := programs()[name]
	if !ok {
		bin, _ = os.Executable() // tests that start it fail without it
		os.Exit(m.Run())
	}
	os.Exit(Run(context.Background(), boot.Process{Args: os.Args[1:], Getenv: os.Getenv, Stdout: os.Stdout, Stderr: os.Stderr}, os.Stdin, p))
}

// programs are what the binary can be: the sample, or the command millrace, which has no program's code.
func programs() map[string]Program {
	return map[string]Program{
		"millrace": {Drivers: drivers},
		"sample": {
			Drivers: drivers, Program: act.Program{Routes: reservations.Routes, Alias: reservations.Alias,
				Register: func(h *handlers.Registry) error {
					reservations.Register(h, seats, reservations.Mails{Mailer: postbox{}}, nil, nil)
					return nil
				},
				Rebuild: map[string]act.Rebuild{"months": {
					From:  "capacity",
					Clear: func(ctx context.Context, c *channel.Channels) error { return reservations.Months(c).Clear(ctx) },
					Run: func(ctx context.Context, c *channel.Channels) (int, error) {
						return reservations.RebuildMonths(ctx, c, 0)
					},
				}}},
		},
	}
}

const (
	seats    = 100
	patience = 3 * time.Minute // for work that takes some seconds on an idle machine
)

// A world is a store of the sample, with a folder that the program runs in.
type world struct {
	dir, url string
	store    *storage.Store
	channels *channel.Channels
}

// newWorld makes a world in a file, or in the store of url.
// drivers are those of the command millrace.
var drivers = storage.Drivers{sqlite.Driver, azure.Driver}

func newWorld(t *testing.T, url string) *world {
	t.Helper()
	w := &world{dir: t.TempDir(), url: url}
	if url == "" {
		w.url = "sqlite:" + filepath.Join(w.dir, "r.db")
	}
	var err error
	if w.store, err = drivers.Open(t.Context(), w.url, storage.OpenConfig{Logger: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.store.Close() })
	if w.channels, err = sampleChannels(w.store); err != nil {
		t.Fatal(err)
	}
	return w
}

// sampleChannels returns the sample's channels.
func sampleChannels(s *storage.Store) (*channel.Channels, error) {
	routes, err := reservations.Routes()
	if err != nil {
		return nil, err
	}
	return channel.New(s, routes, "/test")
}

// A result is the output and exit code of a run of the program.
type result struct {
	code     int
	out, err string
}

// command makes a run of the program. Of the settings it has only the store.
func command(dir, url string, args ...string) *exec.Cmd {
	return commandAs("sample", dir, url, args...)
}

// commandAs is command for another program than the sample.
func commandAs(program, dir, url string, args ...string) *exec.Cmd {
	cmd := exec.Command(bin, args...)
	cmd.Dir, cmd.Env = dir, []string{as + "=" + program, "GORACE=atexit_sleep_ms=0"}
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "MILLRACE_") {
			cmd.Env = append(cmd.Env, e)
		}
	}
	if url != "" {
		cmd.Env = append(cmd.Env, "MILLRACE_STORE="+url)
	}
	return cmd
}

func finish(t *testing.T, cmd *exec.Cmd) result {
	t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

// run runs the program on the world.
func (w *world) run(t *testing.T, args ...string) result {
	t.Helper()
	return finish(t, command(w.dir, w.url, args...))
}

// do runs a command line of the sample's operator in this process, on an open store.
func (w *world) do(t *testing.T, store *storage.Store, args ...string) (code int, out, told string) {
	t.Helper()
	return doIn(t, programs()["sample"], store, "", "", args...)
}

// begin starts the program on the world.
func (w *world) begin(t *testing.T, args ...string) *boottest.Program {
	t.Helper()
	return boottest.Start(t, bin, w.dir, []string{as + "=sample", "MILLRACE_STORE=" + w.url}, args...)
}

// want runs the program, checks its exit code, and returns the result.
func (w *world) want(t *testing.T, code int, args ...string) result {
	t.Helper()
	r := w.run(t, args...)
	if r.code != code {
		t.Fatalf("millrace %q: got exit code %d, want %d\n%s%s", args, r.code, code, r.out, r.err)
	}
	return r
}

// jsonLines reads what -json has printed.
func jsonLines[T any](t *testing.T, r result) (all []T) {
	t.Helper()
	for line := range strings.Lines(r.out) {
		var x T
		dec := json.NewDecoder(strings.NewReader(line))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&x); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		all = append(all, x)
	}
	return all
}

// reservation is a command that the sample accepts while there are seats.
func reservation(i int) reservations.MakeReservation {
	return reservations.MakeReservation{ID: channel.NewID(), Date: time.Now().AddDate(0, 1, i%10).Format(time.DateOnly),
		Name: fmt.Sprintf("Guest %d", i), Email: fmt.Sprintf("guest-%d@example.org", i), Quantity: 1 + i%4}
}

func (w *world) send(t *testing.T, n int) []reservations.MakeReservation {
	t.Helper()
	all := make([]reservations.MakeReservation, n)
	for i := range all {
		all[i] = reservation(i)
	}
	sender, err := channel.NewSender[reservations.MakeReservation](w.channels)
	if err == nil {
		err = sender.Send(t.Context(), all...)
	}
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// work runs a worker of the sample until stop is called. A command for which judge returns an error fails with it.
func (w *world) work(t *testing.T, judge func(reservations.MakeReservation) error) (stop func()) {
	t.Helper()
	return w.start(t, func(h *handlers.Registry) {
		if judge == nil {
			numbers, err := reservations.Numbers(w.channels.Store(), ids.Config{})
			if err != nil {
				t.Error(err)
			}
			reservations.Register(h, seats, reservations.Mails{Mailer: postbox{}}, numbers, nil)
			return
		}
		decide := func(c reservations.Capacity, m reservations.MakeReservation) (reservations.Capacity, []channel.Message, error) {
			if err := judge(m); err != nil {
				return c, nil, err
			}
			return c.Reserve(m)
		}
		handlers.Decide(h, reservations.Capacities(w.channels, seats), func(m reservations.MakeReservation) string { return m.Date }, decide,
			reservations.ReservationAccepted{}, reservations.ReservationRejected{}, reservations.ReservationCancelled{}, reservations.SoldOut{})
	})
}

func (w *world) start(t *testing.T, register func(*handlers.Registry)) (stop func()) {
	t.Helper()
	h := handlers.NewRegistry(w.channels, handlers.Config{Logger: slog.New(slog.DiscardHandler)})
	register(h)
	wk, err := worker.New(h, worker.Config{MaxAttempts: 2, Name: "tester", RetryDelay: func(int, string) time.Duration { return time.Millisecond }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- wk.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// postbox is a mailer that drops all mails.
type postbox struct{}

func (postbox) Send(context.Context, reservations.Mail) error { return nil }

// drained waits until the queues named, or all of them, hold nothing.
func (w *world) drained(t *testing.T, queues ...string) {
	t.Helper()
	if len(queues) == 0 {
		queues = w.channels.Routes().Queues()
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	late := time.After(patience)
	for empty := 0; ; {
		left := int64(0)
		for _, q := range queues {
			st, err := w.store.Queue(q).Stats(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			left += max(st.Ready, -st.Ready) + max(st.InFlight, -st.InFlight) + max(st.Delayed, -st.Delayed) // -1: the number is unknown and not 0
		}
		if empty++; left > 0 {
			empty = 0
		}
		if empty == 2 { // during one look a message may go to a queue that was looked at before
			return
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("%d messages are left", left)
		}
	}
}

// poison sends n commands and lets all that wait fail with judge's error.
func (w *world) poison(t *testing.T, n int, judge func(reservations.MakeReservation) error) []reservations.MakeReservation {
	t.Helper()
	sent := w.send(t, n)
	stop := w.start(t, func(h *handlers.Registry) {
		handlers.React(h, "reservations", func(_ context.Context, m reservations.MakeReservation) error { return judge(m) })
	})
	w.drained(t, "reservations")
	stop()
	return sent
}

// closed is the error of commands that fail for good.
func closed(reservations.MakeReservation) error {
	return handlers.Poison("kitchen closed", errors.New("no cook"))
}

// poisoned returns what is in the poison queue of the commands, by ID.
func (w *world) poisoned(t *testing.T) map[string]poison.Entry {
	t.Helper()
	all := map[string]poison.Entry{}
	for m, err := range poison.At(w.channels, "reservations").List(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		all[m.ID] = m
	}
	return all
}

// audit checks that each command was decided exactly once.
func (w *world) audit(t *testing.T, sent []reservations.MakeReservation) {
	t.Helper()
	byDate := map[string][]reservations.MakeReservation{}
	for _, m := range sent {
		byDate[m.Date] = append(byDate[m.Date], m)
	}
	statuses := reservations.Statuses(w.channels)
	for date, asked := range byDate {
		c, err := reservations.Capacities(w.channels, seats).Get(t.Context(), date, "")
		if err != nil {
			t.Fatal(err)
		}
		if int(c.Version) != len(asked) {
			t.Errorf("%s: %d commands applied, want %d: each exactly once", date, c.Version, len(asked))
		}
		left := c.Value.Remaining
		for _, m := range asked {
			b, accepted := c.Value.Accepted[m.ID]
			left += b.Quantity
			want := reservations.Rejected
			if accepted {
				want = reservations.Accepted
			}
			if s, _, err := statuses.GetFresh(t.Context(), reservations.Key(m.ID)); err != nil || s.Status != want {
				t.Errorf("status of %s: got %q (%v), want %q", m.Name, s.Status, err, want)
			}
		}
		if left != seats {
			t.Errorf("%s: remaining and accepted are %d seats, want %d", date, left, seats)
		}
	}
}
