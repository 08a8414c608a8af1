package operator

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/host/internal/boot"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/ops/catalog"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/azure"
	"github.com/millrace-go/millrace/storage/azure/azuretest"
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
	return Program{Routes: func() (*channel.Routes, error) { return x.Channels.Routes(), nil }, Register: func(r *handlers.Registry) error {
		x.register(r)
		return nil
	}}
}

// do runs a command line in this process. It has the code of x.tool, which is none at first.
func (x *stranger) do(t *testing.T, input string, args ...string) (code int, out, told string) {
	t.Helper()
	return x.doOn(t, x.Store, input, args...)
}

func (x *stranger) doOn(t *testing.T, s *storage.Store, input string, args ...string) (code int, out, told string) {
	t.Helper()
	var printed, said strings.Builder
	tl := tool{x.tool}
	tl.Command = cmp.Or(x.tool.Command, "millrace")
	v, opt, rest, err := tl.parse(args)
	c := &call{tool: tl, options: opt, args: rest, file: x.file, out: newOutput(&printed), progress: &said, in: strings.NewReader(input), process: boot.Process{Getenv: func(string) string { return "" }}}
	if err == nil && v.before != nil {
		err = v.before(t.Context(), c)
	}
	if err == nil {
		if reads(v, opt) {
			s = readOnly(t, s, args)
		}
		err = c.use(t.Context(), s)
	}
	if err == nil {
		err = errors.Join(v.run(t.Context(), c), c.out.flush())
	}
	return tl.tell(&said, err), printed.String(), said.String()
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

// testWalk walks through all verbs on the store of a program whose code this binary hasn't got.
func testWalk(t *testing.T, s *storage.Store) {
	x := newStranger(t, s)
	contains(t, "before", x.want(t, 2, "{}", "send", "test.add.v1", "-"), "no program has published")
	contains(t, "before", x.want(t, 3, "", "doctor"), "NOTE no program has published", "no queue is known")
	x.publish(t)
	contains(t, "queues", x.want(t, 0, "", "queues"), "accounts 0", "stranger v1", "lists 0")
	contains(t, "queues", x.want(t, 0, "", "queues", "-json"), `"consumers":[{"program":"stranger","version":"v1"`, `"consumers":[]`)

	id := firstLine(x.want(t, 0, `{"to":"ada","amount":5}`, "send", "test.add.v1", "-"))
	x.want(t, 0, `{"to":"ada","amount":5}`, "send", "test.add.v1", "-", "-id", id)
	x.want(t, 0, `{"to":"bob","amount":-3}`, "send", "test.add.v1", "-")
	contains(t, "send", x.want(t, 2, `{"to":"ada","amount":"5"}`, "send", "test.add.v1", "-"), "standard input: amount: want integer, got string")
	x.work(t)
	worldtest.Want(t, "balance after the same message twice", x.Balance("ada"), 5)

	contains(t, "values list", x.want(t, 0, "", "values", "list"), "accounts values stranger.wish.v1, test.add.v1, test.refused.v1", "totals view test.added.v1")
	contains(t, "values list", x.want(t, 0, "", "values", "list", "accounts", "-json"), `{"kind":"accounts","key":"ada","size":`)
	contains(t, "values show", x.want(t, 0, "", "values", "show", "accounts", "ada"), `{ "balance": 5, "count": 1 }`)
	contains(t, "views list", x.want(t, 0, "", "views", "list", "totals"), "ada")
	contains(t, "views show", x.want(t, 0, "", "views", "show", "totals", "ada"), `{ "sum": 5, "count": 1 }`)
	contains(t, "views show", x.want(t, 0, "", "views", "show", "totals", "ada", "-json"), `{"key":"ada","value":{"sum":5,"count":1},"view":"totals"}`)
	contains(t, "views rebuild", x.want(t, 2, "", "views", "rebuild", "totals"), "use the program's own binary")
	contains(t, "top", x.want(t, 0, "", "top", "-n", "2", "-every", "100ms"), "lists ready 1", "in – out – p99 –", "Note: no worker publishes what it does")
	contains(t, "doctor", x.want(t, 4, "", "doctor"), "WRONG queue lists is consumed by nobody, with 1 message ready", "1 thing is wrong.")

	x.fail = func(m worldtest.Add) error { return handlers.Poison("closed", errors.New("closed")) }
	old := firstLine(x.want(t, 0, `{"to":"ada","amount":1}`, "send", "test.add.v1", "-"))
	x.work(t)
	x.fail = func(m worldtest.Add) error { return nil }
	x.want(t, 0, `{"to":"ada","amount":2}`, "poison", "edit", old, "-")
	x.work(t)
	worldtest.Want(t, "balance after an edit", x.Balance("ada"), 7)
	x.want(t, 3, "", "poison", "show", old)
	testCoord(t, x)
}

func TestAnyProgramsStore(t *testing.T) {
	t.Parallel()
	testWalk(t, worldtest.OpenStore(t, ""))
}

func TestOnAzuriteAnyProgramsStore(t *testing.T) {
	t.Parallel()
	s, err := azure.Open(t.Context(), azuretest.Place(t, azuretest.Launch, azure.Wipe))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	testWalk(t, s)
}

// The command millrace is a process of its own beside the program.
func TestAnyProgramsStoreFromAnotherProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	x := newStranger(t, worldtest.OpenAt(t, filepath.Join(dir, "r.db")))
	x.publish(t)
	run := func(args ...string) result { return finish(t, commandAs("millrace", dir, "sqlite:r.db", args...)) }
	if r := run("queues"); r.code != 0 || !strings.Contains(r.out, "stranger v1") {
		t.Errorf("queues: got exit code %d and %q", r.code, r.out+r.err)
	}
	if r := run("doctor", "-json"); r.code != exitWrong || len(jsonLines[finding](t, r)) != 1 || r.err != "" {
		t.Errorf("doctor: got exit code %d and %q", r.code, r.out+r.err)
	}
	for line, want := range map[string]string{
		"values show t": "totals", "send test.a": "test.add.v1", "poison list -queue wi": "wishes", "views show ": "totals", "send -store sqlite:r.db stranger.": "stranger.wish.v1",
	} {
		r := run(append([]string{hiddenVerb}, strings.Split(line, " ")...)...)
		if got, _, _ := strings.Cut(r.out, "\t"); got != want {
			t.Errorf("completion of %q: got %q, want %q", line, r.out+r.err, want)
		}
	}
}

// A list of documents has a beginning, a bound, and the key to go on after.
func TestValuesListInPages(t *testing.T) {
	t.Parallel()
	x := newStranger(t, worldtest.OpenStore(t, ""))
	x.publish(t)
	var want []string
	for i := range 25 {
		key := fmt.Sprintf("it's %02d", i)
		want = append(want, key)
		worldtest.Send(x.World, worldtest.Add{To: key, Amount: 1})
	}
	worldtest.Send(x.World, worldtest.Add{To: "other", Amount: 1})
	x.work(t)
	var got []string
	for after := ""; ; {
		args := []string{"values", "list", "accounts", "-prefix", "it's", "-limit", "10", "-json"}
		if after != "" {
			args = append(args, "-after", after)
		}
		_, out, told := x.do(t, "", args...)
		for line := range strings.Lines(out) {
			var k keyLine
			if err := json.Unmarshal([]byte(line), &k); err != nil || k.Size == 0 || time.Since(k.Modified) > time.Hour {
				t.Fatalf("%q: %v", line, err)
			}
			got = append(got, k.Key)
		}
		after = got[len(got)-1]
		if told == "" {
			break
		}
		if want := fmt.Sprintf(`-after 'it'\''s %s' lists`, strings.Fields(after)[1]); !strings.Contains(told, want) {
			t.Errorf("got %q, want %s", told, want)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Without the program's code send says what it doesn't do for a kind: choose its ID, and run its Check.
func TestSendTellsWhatItCannotDo(t *testing.T) {
	t.Parallel()
	x := newStranger(t, worldtest.OpenStore(t, ""))
	x.publish(t)
	const id, check = "this kind chooses its own ID; give it by -id", "its Check runs in the worker"
	for _, own := range []bool{false, true} {
		if own {
			x.tool = Program{Routes: func() (*channel.Routes, error) { return x.Channels.Routes(), nil }, Register: func(r *handlers.Registry) error { x.register(r); return nil }}
		}
		for _, c := range []struct {
			body string
			args []string
			want [2]bool // the note about the ID, and that about the Check
		}{
			{`{"to":"ada","amount":5}`, []string{"test.add.v1", "-"}, [2]bool{!own, false}},
			{`{"to":"ada","amount":5}`, []string{"test.add.v1", "-", "-id", "x"}, [2]bool{}},
			{`{"for":"ada","items":[]}`, []string{"stranger.wish.v1", "-"}, [2]bool{false, !own}},
		} {
			code, _, told := x.do(t, c.body, append([]string{"send"}, c.args...)...)
			if got := [2]bool{strings.Contains(told, id), strings.Contains(told, check)}; code != 0 || got != c.want {
				t.Errorf("own binary %v, send %q: got exit code %d and %q, want the notes %v", own, c.args, code, told, c.want)
			}
		}
	}
}
