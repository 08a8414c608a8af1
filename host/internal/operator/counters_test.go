package operator

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/coord/ids"
	"github.com/millrace-go/millrace/host/internal/boot"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/ops/acts"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// Counters are listed, made and raised, and programs go on after the raise.
func TestIDs(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		x := newStranger(t, s)
		contains(t, "none", x.want(t, 0, "", "ids", "list"), "No counters.")
		worldtest.Want(t, "ids list -json", x.want(t, 0, "", "ids", "list", "-json"), "")
		contains(t, "made", x.want(t, 0, "", "ids", "raise", "-why", "x", "orders", "1041-0", "-yes"), `Counter "orders", which nobody has used, is made: the next number is 1042.`)
		q, err := ids.Open(x.Store, "orders", ids.Config{})
		if err != nil {
			t.Fatal(err)
		}
		if n, err := q.Next(t.Context()); n != 1042 || err != nil {
			t.Errorf("got number %d, %v", n, err)
		}
		contains(t, "ids list", x.want(t, 0, "", "ids", "list"), "NAME NEXT RESERVED BY WHEN orders 1052")
		contains(t, "raised", x.want(t, 0, "", "ids", "raise", "-why", "x", "orders", "2000", "-yes"), `Counter "orders" is raised: the next number is 2001 in place of 1052. Programs that run first`)
	})
}

// A counter goes up and never down, is made and repaired, and says which of these it was.
func TestIDsRaise(t *testing.T) {
	t.Parallel()
	x := newStranger(t, worldtest.OpenStore(t, ""))
	for _, c := range []struct {
		args   string
		result string
		was    int64 // 0: unknown
		next   int64
	}{
		{"5 -dry-run", "selected", 0, 6},
		{"0 -yes", "made", 0, 1},
		{"5 -yes", "raised", 1, 6},
		{"5 -yes", "unchanged", 6, 6},
		{"5 -dry-run", "unchanged", 6, 6},
		{"7-6 -dry-run", "selected", 6, 8},
		{"9223372036854775806 -yes", "raised", 6, 9223372036854775807},
		{"junk", "", 0, 0},
		{"41 -dry-run", "selected", 0, 42},
		{"41 -yes", "repaired", 0, 42},
	} {
		if c.args == "junk" {
			putBlob(t, x.Store, "counters", "orders", "junk \x1b[31m")
			continue
		}
		got := oneLine[acts.CounterRaised](t, x.want(t, 0, "", append([]string{"ids", "raise", "-why", "x", "orders", "-json"}, strings.Fields(c.args)...)...))
		was := int64(0)
		if got.Was != nil {
			was = *got.Was
		}
		if got.Name != "orders" || got.Result != c.result || was != c.was || got.Next != c.next {
			t.Errorf("%s: got %+v, want %+v", c.args, got, c)
		}
	}
	contains(t, "lowered", x.want(t, 1, "", "ids", "raise", "-why", "x", "orders", "7", "-yes"), `counter "orders" stays as it is: its next number is 42, which is past 7 already`)
	contains(t, "lowered", x.want(t, 1, "", "ids", "raise", "-why", "x", "orders", "7", "-dry-run"), "stays as it is")
	contains(t, "would", x.want(t, 0, "", "ids", "raise", "-why", "x", "orders", "50", "-dry-run"), `Counter "orders" would be raised: the next number would be 51 in place of 42.`)
	contains(t, "would", x.want(t, 0, "", "ids", "raise", "-why", "x", "o", "50", "-dry-run"), `Counter "o", which nobody has used, would be made: the next number would be 51.`)
	if c, err := ids.State(t.Context(), x.Store, "orders"); err != nil || c.Next != 42 {
		t.Errorf("after dry runs: got %+v, %v", c, err)
	}
	link := storagetest.NewLink(x.Store)
	link.Cut()
	worldtest.WantErr(t, errIn(t, Program{}, link.Store, "ids", "raise", "-why", "x", "orders", "50", "-yes"), storage.ErrUnavailable)
}

// A repair says what it was, and a raise that changes nothing says so.
func TestIDsRaiseTellsPeople(t *testing.T) {
	t.Parallel()
	x := newStranger(t, worldtest.OpenStore(t, ""))
	putBlob(t, x.Store, "counters", "orders", "junk")
	contains(t, "would repair", x.want(t, 0, "", "ids", "raise", "-why", "x", "orders", "41", "-dry-run"), `Counter "orders", which could not be read, would be repaired: the next number would be 42.`)
	contains(t, "repaired", x.want(t, 0, "", "ids", "raise", "-why", "x", "orders", "41", "-yes"), `Counter "orders", which could not be read, is repaired: the next number is 42. Programs that run first give out`)
	for _, flag := range []string{"-yes", "-dry-run"} {
		contains(t, "unchanged", x.want(t, 0, "", "ids", "raise", "-why", "x", "orders", "41", flag), `Counter "orders" stays as it is: the next number is 42.`)
	}
}

// A raise can't be taken back, and takes a number.
func TestBadIDsRaises(t *testing.T) {
	t.Parallel()
	x := newStranger(t, worldtest.OpenStore(t, ""))
	for args, want := range map[string]string{
		"orders":                           "NAME NUMBER",
		"orders 7":                         "add --yes to do it, or --dry-run",
		"orders 7 -yes=0":                  "add --yes to do it, or --dry-run",
		"orders 7-5 -yes":                  "the check digit doesn't fit",
		"orders seven -yes":                "want a number such as 1041",
		"a\x1bb 7 -yes":                    "control characters",
		"orders 7 -yes":                    "add --why TEXT",
		"orders 7 -yes -dry-run":           "not both",
		"orders 9223372036854775807 -yes":  "want at most 9223372036854775806",
		"orders 99999999999999999999 -yes": "want at most 9223372036854775806",
	} {
		contains(t, args, x.want(t, 2, "", append([]string{"ids", "raise"}, strings.Split(args, " ")...)...), want)
	}
	contains(t, "nothing is made", x.want(t, 0, "", "ids", "list"), "No counters.")
}

// Doctor finds a counter that nobody can read, and the list marks it.
func TestCountersThatCannotBeRead(t *testing.T) {
	t.Parallel()
	x := newStranger(t, worldtest.OpenStore(t, ""))
	x.want(t, 0, "", "ids", "raise", "-why", "x", "good", "7", "-yes")
	if out := x.want(t, exitNothing, "", "doctor"); strings.Contains(out, "counter") {
		t.Errorf("got %s", out)
	}
	putBlob(t, x.Store, "counters", "it's", "junk")
	contains(t, "doctor", x.want(t, exitWrong, "", "doctor"), `WRONG counter it's can't be read`, `millrace ids raise 'it'\''s' NUMBER --yes`)
	contains(t, "doctor -json", x.want(t, exitWrong, "", "doctor", "-json"), `"check":"counters"`)
	contains(t, "ids list", x.want(t, 0, "", "ids", "list"), "good 8 ", "it's corrupt – –", `Note: ids: state of "it's": the counter is corrupt`)
}

// The names of counters complete a raise.
func TestCompletionOfCounters(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	x := newStranger(t, worldtest.OpenAt(t, filepath.Join(dir, "r.db")))
	for _, name := range []string{"orders", "other"} {
		putBlob(t, x.Store, "counters", name, "junk")
	}
	for line, want := range map[string]string{"ids raise o": "orders\nother\n", "ids raise orders ": "", "ids list ": ""} {
		r := finish(t, commandAs("millrace", dir, "sqlite:r.db", append([]string{"__complete"}, strings.Split(line, " ")...)...))
		if r.code != 0 || r.out != want+":4\n" {
			t.Errorf("completion of %q: got %q, want %q", line, r.out+r.err, want)
		}
	}
}

// Others may put any documents there: the list ends well and prints nothing that a terminal obeys, and no verb changes
// a document that it can't read, but for a repair.
func FuzzCounterDocuments(f *testing.F) {
	d := newDesk(f)
	f.Add("orders", []byte(`{"counter":"orders","next":7,"by":"\u001b[31m\u202e","at":"2026-11-26T22:00:00Z"}`))
	f.Add("a\u202eb", []byte(`{"counter":"a\u202eb","next":1}`))
	f.Add("x", []byte("null"))
	f.Fuzz(func(t *testing.T, name string, body []byte) {
		if storage.CheckKey(name) != nil {
			return
		}
		putBlob(t, d.store, "counters", name, string(body))
		for _, format := range []string{"-json=false", "-json"} {
			if out, code := d.do(t, "ids", "list", format); code != boot.ExitOK {
				t.Errorf("got exit code %d and %q", code, out)
			}
		}
		d.do(t, "doctor")
		if b, err := d.store.Blobs("counters").Get(t.Context(), name, ""); err != nil || string(b.Body) != string(body) {
			t.Errorf("got %q, %v; want it as it was", b.Body, err)
		}
		if out, code := d.do(t, "ids", "raise", "-why", "x", "-yes", "--", name, "9223372036854775806"); code != boot.ExitOK {
			t.Errorf("ids raise: got exit code %d and %q", code, out)
		}
		if err := d.store.Blobs("counters").Delete(t.Context(), name, storage.Condition{}); err != nil {
			t.Fatal(err)
		}
	})
}
