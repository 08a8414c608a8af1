package operator

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/coord/lease"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/host/internal/boot"
	"github.com/millrace-go/millrace/host/internal/terminal"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/catalog"
	"github.com/millrace-go/millrace/spool"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/views"
	"github.com/millrace-go/millrace/worker"
)

// wish is a command of a stranger's program. It has no subject, so only the program knows its document.
type wish struct {
	For   string   `json:"for"`
	Items []string `json:"items"`
	Price float64  `json:"price,omitempty"`
}

func (wish) Kind() channel.Kind { return "stranger.wish.v1" }

// Check refuses what costs too much.
func (w wish) Check() error {
	if w.Price > 100 {
		return errors.New("price: at most 100")
	}
	return nil
}

// A stranger is a store whose program is none that this binary has: the accounts of worldtest, which also count
// refusals, wishes, a ReactOnce and a plain reaction. Nobody consumes queue lists.
type stranger struct {
	*worldtest.World
	tool Program // what the operator's binary has
	file string  // of the store, for doctor; may be empty
	fail func(worldtest.Add) error
}

func newStranger(t *testing.T, s *storage.Store) *stranger {
	t.Helper()
	x := &stranger{fail: func(worldtest.Add) error { return nil }}
	x.World = worldtest.New(t, s, worldtest.Config{Groups: []string{worldtest.Totals, "notes", "lists"}, Routes: []channel.Route{channel.Command[wish]("wishes"), channel.Event[wished]("thanks")}})
	x.register(x.Registry)
	return x
}

// wished is an event.
type wished struct {
	To string `json:"to"`
}

func (wished) Kind() channel.Kind { return "stranger.wished.v1" }

func (x *stranger) register(r *handlers.Registry) {
	handlers.Decide(r, x.Accounts, worldtest.Add.Subject, func(a worldtest.Account, m worldtest.Add) (worldtest.Account, []channel.Message, error) {
		if err := x.fail(m); err != nil {
			return a, nil, err
		}
		return a.Add(m)
	}, worldtest.Added{}, worldtest.Refused{})
	views.Project(r, x.Totals, worldtest.Added.Subject, worldtest.Total.Add)
	handlers.Decide(r, x.Accounts, func(w wish) string { return w.For }, func(a worldtest.Account, w wish) (worldtest.Account, []channel.Message, error) {
		if w.Price < 0 {
			return a, nil, handlers.Poison("unpriced", errors.New("a price is negative"))
		}
		a.Count++
		return a, []channel.Message{wished{w.For}}, nil
	}, wished{})
	handlers.On(r, worldtest.Audits, x.Accounts, func(e worldtest.Refused) string { return e.To }, func(a worldtest.Account, _ worldtest.Refused) (worldtest.Account, []channel.Message, error) {
		a.Count++
		return a, nil, nil
	})
	handlers.OnPoison(r, func(w wish, _ handlers.Poisoned) []channel.Message { return []channel.Message{wished{w.For}} }, wished{})
	handlers.ReactOnce(r, "notes", func(_ context.Context, e worldtest.Added) error {
		if e.Note == "bad" {
			return handlers.Poison("bad note", errors.New("bad"))
		}
		return nil
	})
	handlers.React(r, "thanks", func(_ context.Context, e wished) error {
		if e.To == "nobody" {
			return handlers.Poison("nobody", errors.New("nobody"))
		}
		return nil
	})
}

func (x *stranger) publish(t *testing.T) {
	t.Helper()
	if err := catalog.Publish(t.Context(), x.Registry, catalog.Program{Name: "stranger", Version: "v1"}); err != nil {
		t.Fatal(err)
	}
}

// work runs a worker until all queues that it consumes are empty.
func (x *stranger) work(t *testing.T) {
	t.Helper()
	stop := x.Start(worker.Config{MaxAttempts: 1})
	worldtest.Eventually(t, func() error {
		for _, q := range x.Registry.Queues() {
			if n := worldtest.Queued(t, x.Store, q); n != 0 {
				return fmt.Errorf("queue %s holds %d messages", q, n)
			}
		}
		return nil
	})
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

// own is the program's own binary.
func (x *stranger) own() Program {
	return Program{Program: act.Program{Routes: func() (*channel.Routes, error) { return x.Channels.Routes(), nil }, Register: func(r *handlers.Registry) error {
		x.register(r)
		return nil
	}}}
}

// do runs a command line in this process. It has the code of x.tool, which is none at first.
func (x *stranger) do(t *testing.T, input string, args ...string) (code int, out, told string) {
	t.Helper()
	return x.doOn(t, x.Store, input, args...)
}

func (x *stranger) doOn(t *testing.T, s *storage.Store, input string, args ...string) (code int, out, told string) {
	t.Helper()
	return doIn(t, x.tool, s, x.file, input, args...)
}

// doIn runs a command line in this process, on an open store.
func doIn(t *testing.T, p Program, s *storage.Store, file, input string, args ...string) (code int, out, told string) {
	t.Helper()
	var printed, said strings.Builder
	x := sessionIn(t, p, s, file, args...)
	x.in, x.out, x.process.Stderr = strings.NewReader(input), terminal.NewOutput(&printed), &said
	code = x.tell(x.runIn(t.Context()))
	return code, printed.String(), said.String()
}

// errIn is doIn for a command line of which only the error counts.
func errIn(t *testing.T, p Program, s *storage.Store, args ...string) error {
	t.Helper()
	return sessionIn(t, p, s, "", args...).runIn(t.Context())
}

// sessionIn is a session on an open store. A request that only reads gets a store that complains of all else.
func sessionIn(t testing.TB, p Program, s *storage.Store, file string, args ...string) *session {
	p.Command = cmp.Or(p.Command, "millrace")
	x := &session{Program: p, in: strings.NewReader(""), out: terminal.NewOutput(io.Discard), process: boot.Process{Args: args, Stderr: io.Discard, Getenv: func(string) string { return "" }}}
	x.opens = func(ctx context.Context, r *act.Request) (*act.Desk, func(*error), error) {
		if r == nil || !r.Noted() {
			s = readOnly(t, s, args)
		}
		desk, err := act.Open(ctx, s, p.Program)
		if err == nil {
			inFile(desk, file)
		}
		return desk, func(*error) {}, err
	}
	return x
}

// readOnly is a store that complains of each call that isn't one of those that read. Doctor rings, too: that is how it
// finds who can't be reached, and a ring changes nothing.
func readOnly(t testing.TB, s *storage.Store, args []string) *storage.Store {
	return storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
		doctors := op.Name == "publish" && args[0] == "doctor"
		if !doctors && !slices.Contains([]string{"get blob", "list blobs", "list queues", "get row", "query", "stats", "find", "peek"}, op.Name) {
			t.Errorf("millrace %q only reads, and calls %s of %s", args, op.Name, op.Resource)
		}
		return do()
	})
}

// want checks the exit code, and returns both outputs together.
func (x *stranger) want(t *testing.T, code int, input string, args ...string) string {
	t.Helper()
	got, out, told := x.do(t, input, args...)
	if got != code {
		t.Errorf("millrace %q: got exit code %d, want %d\n%s%s", args, got, code, out, told)
	}
	return out + told
}

// firstLine is the output of send without its notes.
func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// contains checks a text, whose blanks may be any.
func contains(t *testing.T, what, got string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(strings.Join(strings.Fields(got), " "), w) {
			t.Errorf("%s: got\n%s\nwant %q", what, got, w)
		}
	}
}

// putBlob writes what somebody else has put there.
func putBlob(t testing.TB, s *storage.Store, container, key, body string) {
	t.Helper()
	if _, err := s.Blobs(container).Put(context.WithoutCancel(t.Context()), key, []byte(body), storage.Condition{}); err != nil {
		t.Fatal(err)
	}
}

// oneLine reads the one line that -json has printed.
func oneLine[T any](t *testing.T, out string) (x T) {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(out))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&x); err != nil || strings.Count(out, "\n") != 1 {
		t.Fatalf("%q: %v", out, err)
	}
	return x
}

// acquire acquires a lock, and releases it at the end.
func acquire(t *testing.T, s *storage.Store, name, holder string) *lease.Lease {
	t.Helper()
	l, err := lease.Acquire(t.Context(), s, name, lease.Config{Holder: holder})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func pass(t *testing.T, d time.Duration) {
	t.Helper()
	if err := worldtest.Pause(t.Context(), d); err != nil {
		t.Fatal(err)
	}
}

func inVirtualTime(t *testing.T, test func(t *testing.T, x *stranger)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := newStranger(t, worldtest.OpenStore(t, worldtest.Virtual))
		x.publish(t)
		test(t, x)
	})
}

// closedStore returns a store that takes nothing.
func closedStore(t *testing.T) *storage.Store {
	t.Helper()
	s := worldtest.OpenStore(t, "")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return s
}

// openSpool opens the spool of a store, for one route.
func openSpool(t *testing.T, path string, of *storage.Store, route channel.Route) *spool.Spool {
	t.Helper()
	routes, err := channel.NewRoutes(route)
	if err != nil {
		t.Fatal(err)
	}
	c, err := channel.New(of, routes, "/web")
	if err != nil {
		t.Fatal(err)
	}
	s, err := spool.Open(t.Context(), path, c, spool.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil { // maybe again
			t.Error(err)
		}
	})
	return s
}

// A desk is an operator's desk of the sample in this process.
type desk struct{ store *storage.Store }

func newDesk(t testing.TB) *desk {
	t.Helper()
	store, err := drivers.Open(context.WithoutCancel(t.Context()), "sqlite:"+filepath.Join(t.TempDir(), "r.db")+"?sync=normal&wake=off", storage.OpenConfig{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return &desk{store}
}

// do runs a command line, and returns its output and exit code. No output may control the terminal.
func (d *desk) do(t *testing.T, args ...string) (out string, code int) {
	t.Helper()
	code, printed, told := doIn(t, programs()["sample"], d.store, "", "", args...)
	for _, text := range []string{printed, told} {
		if strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }) {
			t.Errorf("millrace %q: %q reaches the terminal", args, text)
		}
	}
	if slices.Contains(args, "-json") {
		for line := range strings.Lines(printed) {
			if !json.Valid([]byte(line)) {
				t.Errorf("millrace %q: %q is no JSON line", args, line)
			}
		}
	}
	return printed + told, code
}
