package operator

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/ops/acts"
	"github.com/millrace-go/millrace/ops/doctor"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/azure"
	"github.com/millrace-go/millrace/storage/azure/azuretest"
)

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
	contains(t, "values show", x.want(t, 0, "", "values", "show", "-reveal", "-why=x", "accounts", "ada"), `{ "balance": 5, "count": 1 }`)
	contains(t, "views list", x.want(t, 0, "", "views", "list", "totals"), "ada")
	contains(t, "views show", x.want(t, 0, "", "views", "show", "-reveal", "-why=x", "totals", "ada"), `{ "sum": 5, "count": 1 }`)
	contains(t, "views show", x.want(t, 0, "", "views", "show", "-reveal", "-why=x", "totals", "ada", "-json"), `{"key":"ada","value":{"sum":5,"count":1},"view":"totals"}`)
	contains(t, "views rebuild", x.want(t, 2, "", "views", "rebuild", "totals"), "use the program's own binary")
	contains(t, "top", x.want(t, 0, "", "top", "-n", "2", "-every", "100ms"), "lists ready 1", "in – out – p99 –", "Note: no worker publishes what it does")
	contains(t, "doctor", x.want(t, 4, "", "doctor"), "WRONG queue lists is consumed by nobody, with 1 message ready", "1 thing is wrong.")

	x.fail = func(m worldtest.Add) error { return handlers.Poison("closed", errors.New("closed")) }
	old := firstLine(x.want(t, 0, `{"to":"ada","amount":1}`, "send", "test.add.v1", "-"))
	x.work(t)
	x.fail = func(m worldtest.Add) error { return nil }
	x.want(t, 0, `{"to":"ada","amount":2}`, "poison", "edit", "-why", "x", old, "-")
	x.work(t)
	worldtest.Want(t, "balance after an edit", x.Balance("ada"), 7)
	x.want(t, 3, "", "poison", "show", "-reveal", "-why=x", old)
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
	if r := run("doctor", "-json"); r.code != exitWrong || len(jsonLines[doctor.Finding](t, r)) != 1 || r.err != "" {
		t.Errorf("doctor: got exit code %d and %q", r.code, r.out+r.err)
	}
	for line, want := range map[string]string{
		"values show t": "totals", "send test.a": "test.add.v1", "poison list -queue wi": "wishes", "views show ": "totals", "send -store sqlite:r.db stranger.": "stranger.wish.v1",
	} {
		r := run(append([]string{cobra.ShellCompRequestCmd}, strings.Split(line, " ")...)...)
		if got, _, _ := strings.Cut(r.out, "\n"); got != want {
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
			var k acts.DocumentKey
			if err := json.Unmarshal([]byte(line), &k); err != nil || k.Size == 0 || time.Since(k.Modified) > time.Hour {
				t.Fatalf("%q: %v", line, err)
			}
			got = append(got, k.Key)
		}
		after = got[len(got)-1]
		if told == "" {
			break
		}
		if want := fmt.Sprintf(`-after 'it'\''s %s' shows`, strings.Fields(after)[1]); !strings.Contains(told, want) {
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
	const id, check = "this kind chooses its own ID; give it by --id", "its Check runs in the worker"
	for _, own := range []bool{false, true} {
		if own {
			x.tool = x.own()
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
