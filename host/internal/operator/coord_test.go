package operator

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace-go/millrace/coord/gate"
	"github.com/millrace-go/millrace/coord/ids"
	"github.com/millrace-go/millrace/coord/lease"
	"github.com/millrace-go/millrace/host/internal/boot"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/acts"
	"github.com/millrace-go/millrace/storage"
)

// testCoord walks through the verbs of coordination on an empty store.
func testCoord(t *testing.T, x *stranger) {
	t.Helper()
	for verb, none := range map[string]string{"gates": "No gates.", "locks": "No locks are held or waited for.", "leaders": "No leaders."} {
		contains(t, verb, x.want(t, 0, "", verb, "list"), none)
		worldtest.Want(t, verb+" list -json", x.want(t, 0, "", verb, "list", "-json"), "")
	}
	contains(t, "locks list -all", x.want(t, 0, "", "locks", "list", "-all"), "No locks.")

	contains(t, "opened", x.want(t, 0, "", "gates", "open", "release", "-by", "ada", "-why", "go"), "Note: nobody has opened or closed", `Gate "release" is open`)
	if err := gate.At(x.Store, "release").Wait(t.Context()); err != nil {
		t.Error(err)
	}
	contains(t, "announced", x.want(t, 0, "", "gates", "open", "season", "-at", time.Now().Add(49*time.Hour).Format(time.RFC3339)), `Gate "season" opens at `, ", in 2d, by the clocks")
	contains(t, "gates list", x.want(t, 0, "", "gates", "list"), "release open – ", " ago ada go season closed 2")
	contains(t, "closed", x.want(t, 0, "", "gates", "close", "season"), `Gate "season" is closed, and doesn't open at`)

	l, err := lease.Acquire(t.Context(), x.Store, "nightly", lease.Config{Holder: "export-7"})
	if err != nil {
		t.Fatal(err)
	}
	contains(t, "locks list", x.want(t, 0, "", "locks", "list"), "NAME HOLDER FENCE SINCE TTL BROKEN WAITING nightly export-7 1 ", " ago 30s – –")
	contains(t, "broken", x.want(t, 0, "", "locks", "break", "nightly", "-why", "it hangs"),
		`Lock "nightly" is taken away from export-7 (fence 1). Others can have it when export-7 releases it, or 35s after they have seen the break.`)
	if err := l.Release(t.Context()); err != nil && !errors.Is(err, lease.ErrLost) {
		t.Error(err)
	}
	contains(t, "free", x.want(t, 0, "", "locks", "break", "nightly", "-why", "it hangs"), `Nobody holds lock "nightly"`)
}

// printed is the standard output of a command line that does it, without notes.
func (x *stranger) printed(t *testing.T, args ...string) string {
	t.Helper()
	code, out, told := x.do(t, "", args...)
	if code != boot.ExitOK {
		t.Errorf("millrace %q: got exit code %d and %q", args, code, told)
	}
	return out
}

// A gate is opened, announced and closed, and the answer tells what has become of it.
func TestGates(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		x := newStranger(t, s)
		at := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
		later, before := at.Format(time.RFC3339), at.Add(-2*time.Hour).Format(time.RFC3339)
		for _, c := range []struct {
			args   string
			result string
			open   bool
			at     time.Time
			by     string
		}{
			{"open g -by ada -why go", "opened", true, time.Time{}, "ada"},
			{"open g -by bob", "unchanged", true, time.Time{}, "ada"},
			{"close g -by bob", "closed", false, time.Time{}, "bob"},
			{"close g -by cy", "unchanged", false, time.Time{}, "bob"},
			{"open g -by ada -at " + later, "announced", false, at, "ada"},
			{"open g -by bob -at " + later, "unchanged", false, at, "ada"},
			{"close g -by bob", "closed", false, time.Time{}, "bob"},
			{"open g -by ada", "opened", true, time.Time{}, "ada"},
			{"close new -by ada", "closed", false, time.Time{}, "ada"},
		} {
			got := oneLine[acts.GateTurned](t, x.printed(t, strings.Fields("gates "+c.args+" -json")...))
			var opensAt time.Time
			if got.OpensAt != nil {
				opensAt = *got.OpensAt
			}
			if got.Result != c.result || *got.Open != c.open || !opensAt.Equal(c.at) || got.By != c.by {
				t.Errorf("%s: got %+v, want %+v", c.args, got, c)
			}
		}
		contains(t, "a time that has passed", x.want(t, 2, "", "gates", "open", "late", "-at", before), "has passed; to open the gate now, leave --at out")
		contains(t, "a name that is new", x.want(t, 0, "", "gates", "close", "other"), "Note: nobody has opened or closed a gate of this name before.")
		contains(t, "open already", x.want(t, 0, "", "gates", "open", "g"), `Gate "g" was open already, since 0s ago, by ada.`)
		contains(t, "open already", x.want(t, 1, "", "gates", "open", "g", "-at", later), "open already", "close it first")
		contains(t, "default of -by", x.want(t, 0, "", "gates", "close", "g"), `Gate "g" is closed.`)
		contains(t, "default of -by", x.want(t, 0, "", "gates", "close", "g"), `Gate "g" was closed already, since 0s ago, by `+author())
		x.want(t, 0, "", "gates", "open", "g", "-at", later, "-why", "the season begins")
		contains(t, "announced already", x.want(t, 0, "", "gates", "open", "g", "-at", later), "was to open at "+act.Clock(at)+" already", ": the season begins.")

		time.Sleep(2 * time.Hour)
		contains(t, "due", x.want(t, 0, "", "gates", "list"), "g due "+act.Clock(at)+" 2h0m ago ")
		contains(t, "due", x.want(t, 3, "", "doctor"), `NOTE gate g was to open at `+act.Clock(at)+`, and no program has looked at it since`)
		if state, err := gate.At(s, "g").State(t.Context()); err != nil || !state.Open {
			t.Errorf("got %+v, %v", state, err)
		}
		contains(t, "open", x.want(t, 0, "", "gates", "list", "-prefix", "g"), "g open – 0s ago ")
	})
}

// A list has a beginning, a bound, and the name to go on after.
func TestCoordListsInPages(t *testing.T) {
	t.Parallel()
	x := newStranger(t, worldtest.OpenStore(t, ""))
	var want []string
	for i := range 7 {
		name := fmt.Sprintf("it's %d", i)
		want = append(want, name)
		putBlob(t, x.Store, "gates", name, "junk")
	}
	putBlob(t, x.Store, "gates", "other", "junk")
	var got []string
	for args := []string{"gates", "list", "-prefix", "it's", "-limit", "3"}; ; args = append(args[:6:6], "-after", got[len(got)-1]) {
		_, out, told := x.do(t, "", append(args, "-json")...)
		for _, g := range jsonLines[acts.Gate](t, result{out: out}) {
			got = append(got, g.Name)
		}
		if !strings.Contains(told, "There are more") {
			break
		}
		contains(t, "the note", told, fmt.Sprintf(`-after 'it'\''s %d' shows`, len(got)-1))
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if _, out, told := x.do(t, "", "gates", "list"); strings.Count(out, act.Corrupt) != 8 || strings.Count(told, "Note: gate: list") != 8 {
		t.Errorf("got %q and %q", out, told)
	}
}

// Doctor finds a counter, a gate and a lock that nobody can read.
func TestDoctorLooksAtCoordination(t *testing.T) {
	t.Parallel()
	x := newStranger(t, worldtest.OpenStore(t, ""))
	if err := ids.Raise(t.Context(), x.Store, "good", 7); err != nil {
		t.Fatal(err)
	}
	x.want(t, 0, "", "gates", "open", "good")
	x.want(t, 0, "", "gates", "open", "later", "-at", time.Now().Add(time.Hour).Format(time.RFC3339))
	if out := x.want(t, exitNothing, "", "doctor"); strings.Contains(out, "counter") || strings.Contains(out, "gate ") {
		t.Errorf("got %s", out)
	}
	putBlob(t, x.Store, "counters", "it's", "junk")
	putBlob(t, x.Store, "gates", "season", "junk")
	putBlob(t, x.Store, "leases", "nightly", "junk")
	contains(t, "doctor", x.want(t, exitWrong, "", "doctor"), `WRONG counter it's can't be read`, `millrace ids raise 'it'\''s' NUMBER --yes`, "WRONG gate season can't be read", "millrace gates repair season", "WRONG lock nightly can't be read", "millrace locks raise nightly FENCE", "3 things are wrong.")
	contains(t, "doctor -json", x.want(t, exitWrong, "", "doctor", "-json"), `"check":"counters"`, `"check":"gates"`)
}

// Gates and locks that can't be read are repaired, and only those.
func TestRepairs(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		x := newStranger(t, s)
		putBlob(t, s, "gates", "season", "junk")
		putBlob(t, s, "leases", "nightly", "junk")
		contains(t, "a gate", x.want(t, 0, "", "gates", "repair", "season"), `Gate "season" is repaired, and closed.`)
		contains(t, "a gate again", x.want(t, 1, "", "gates", "repair", "season"), "it is a gate; open or close it")
		x.want(t, 1, "", "gates", "repair", "nobody's")
		got := oneLine[acts.GateTurned](t, x.want(t, 0, "", "gates", "close", "season", "-json"))
		if got.Result != "unchanged" {
			t.Errorf("got %+v", got)
		}
		contains(t, "a lock", x.want(t, 0, "", "locks", "raise", "-why", "x", "nightly", "41", "-by", "ada", "-why", "restored", "-ttl", "6s"), `Lock "nightly" goes on after fence 41. Others can have it 7s after they have seen that.`)
		contains(t, "a lock again", x.want(t, 1, "", "locks", "raise", "-why", "x", "nightly", "41"), "its fence is 41 already")
		raisedLock := oneLine[acts.LockRaised](t, x.want(t, 0, "", "locks", "raise", "-why", "x", "nightly", "50", "-json"))
		if raisedLock != (acts.LockRaised{Name: "nightly", Result: "raised", Fence: 50, Within: 35}) {
			t.Errorf("got %+v", raisedLock)
		}
		for _, args := range []string{"0", "x", "9223372036854775806", "5 -ttl 1s", "5 -ttl 25h"} {
			x.want(t, 2, "", append([]string{"locks", "raise", "-why", "x", "nightly"}, strings.Fields(args)...)...)
		}
		if l := acquire(t, s, "nightly", "next"); l.Fence() != 51 {
			t.Errorf("the next fence is %d, want 51", l.Fence())
		} else if err := l.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// The names in the store complete the verbs that take one.
func TestCompletionOfNames(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	x := newStranger(t, worldtest.OpenAt(t, filepath.Join(dir, "r.db")))
	putBlob(t, x.Store, "gates", "season", "junk")
	l := acquire(t, x.Store, "nightly", "one")
	if err := acquire(t, x.Store, "free", "one").Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"gates open ": "season\n", "gates open season ": "", "gates close -by x s": "season\n", "locks break ": "nightly\n", "gates list ": "",
	} {
		r := finish(t, commandAs("millrace", dir, "sqlite:r.db", append([]string{cobra.ShellCompNoDescRequestCmd}, strings.Split(line, " ")...)...))
		if r.code != 0 || r.out != want+":4\n" { // no files are offered
			t.Errorf("completion of %q: got %q, want %q", line, r.out+r.err, want)
		}
	}
	if err := l.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

// Others may put any documents there: every list ends well and prints nothing that a terminal obeys, and no verb
// changes a document that it can't read, but for a repair.
func FuzzCoordDocuments(f *testing.F) {
	d := newDesk(f)
	f.Add("orders", []byte(`{"counter":"orders","next":7,"by":"\u001b[31m\u202e","at":"2026-11-26T22:00:00Z"}`))
	f.Add("a\u202eb", []byte(`{"open":true,"by":"\u001b[31m","why":"\u202e","since":"9999-12-31T23:59:59Z","epoch":1,"openings":1,"id":"x"}`))
	f.Add("season", []byte(`{"open":false,"opensAt":"0001-01-02T00:00:00Z","by":"","since":"2026-11-26T22:00:00Z","epoch":3,"id":"x"}`))
	f.Add("leader/x", []byte(`{"holder":"\u001b[31m","id":"y","fence":7,"ttl":30000,"beat":1,"broken":{"by":"\u001b[31m","why":"\u202e","fence":7,"at":"2026-11-26T22:00:00Z"}}`))
	f.Add("nightly", []byte(`{"holder":"x","id":"","fence":7,"ttl":30000,"beat":1,"next":"\u202e"}`))
	f.Add("x", []byte("null"))
	f.Fuzz(func(t *testing.T, name string, body []byte) {
		if storage.CheckKey(name) != nil {
			return
		}
		containers := []string{"gates", "leases"}
		for _, c := range containers {
			putBlob(t, d.store, c, name, string(body))
		}
		for _, args := range [][]string{{"gates", "list"}, {"locks", "list"}, {"locks", "list", "-all"}, {"leaders", "list"}} {
			for _, format := range []string{"-json=false", "-json"} {
				if out, code := d.do(t, append(args, format)...); code != boot.ExitOK {
					t.Errorf("millrace %q: got exit code %d and %q", args, code, out)
				}
			}
		}
		d.do(t, "doctor")
		for _, c := range containers {
			if b, err := d.store.Blobs(c).Get(t.Context(), name, ""); err != nil || string(b.Body) != string(body) {
				t.Errorf("%s: got %q, %v; want it as it was", c, b.Body, err)
			}
		}
		for _, args := range [][]string{{"locks", "break", "-why=x"}, {"gates", "close"}, {"gates", "open"}} {
			d.do(t, append(args, "--", name)...)
		}
		for _, c := range containers {
			if err := d.store.Blobs(c).Delete(t.Context(), name, storage.Condition{}); err != nil {
				t.Fatal(err)
			}
		}
	})
}
