package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/coord/gate"
	"github.com/millrace-go/millrace/coord/ids"
	"github.com/millrace-go/millrace/coord/lease"
	"github.com/millrace-go/millrace/coord/signal"
	"github.com/millrace-go/millrace/host/internal/boot"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

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

// testCoord walks through the verbs of coordination on an empty store.
func testCoord(t *testing.T, x *stranger) {
	t.Helper()
	for verb, none := range map[string]string{"ids": "No counters.", "gates": "No gates.", "locks": "No locks are held or waited for.", "leaders": "No leaders."} {
		contains(t, verb, x.want(t, 0, "", verb, "list"), none)
		worldtest.Want(t, verb+" list -json", x.want(t, 0, "", verb, "list", "-json"), "")
	}
	contains(t, "locks list -all", x.want(t, 0, "", "locks", "list", "-all"), "No locks.")

	contains(t, "made", x.want(t, 0, "", "ids", "raise", "orders", "1041-0", "-yes"), `Made counter "orders", which nobody has used: the next number is 1042.`)
	q, err := ids.Open(x.Store, "orders", ids.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := q.Next(t.Context()); n != 1042 || err != nil {
		t.Errorf("got number %d, %v", n, err)
	}
	contains(t, "ids list", x.want(t, 0, "", "ids", "list"), "NAME NEXT RESERVED BY WHEN orders 1052")
	contains(t, "raised", x.want(t, 0, "", "ids", "raise", "orders", "2000", "-yes"), `Raised counter "orders": the next number is 2001 in place of 1052. Programs that run first`)

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
		{"5 -dry-run", selected, 0, 6},
		{"0 -yes", made, 0, 1},
		{"5 -yes", raised, 1, 6},
		{"5 -yes", unchanged, 6, 6},
		{"5 -dry-run", unchanged, 6, 6},
		{"7-6 -dry-run", selected, 6, 8},
		{"9223372036854775806 -yes", raised, 6, 9223372036854775807},
		{"junk", "", 0, 0},
		{"41 -dry-run", selected, 0, 42},
		{"41 -yes", repaired, 0, 42},
	} {
		if c.args == "junk" {
			putBlob(t, x.Store, "counters", "orders", "junk \x1b[31m")
			continue
		}
		got := oneLine[raisedLine](t, x.want(t, 0, "", append([]string{"ids", "raise", "orders", "-json"}, strings.Fields(c.args)...)...))
		was := int64(0)
		if got.Was != nil {
			was = *got.Was
		}
		if got.Name != "orders" || got.Result != c.result || was != c.was || got.Next != c.next {
			t.Errorf("%s: got %+v, want %+v", c.args, got, c)
		}
	}
	contains(t, "lowered", x.want(t, 1, "", "ids", "raise", "orders", "7", "-yes"), `counter "orders" stays as it is: its next number is 42, which is past 7 already`)
	contains(t, "lowered", x.want(t, 1, "", "ids", "raise", "orders", "7", "-dry-run"), "stays as it is")
	contains(t, "would", x.want(t, 0, "", "ids", "raise", "orders", "50", "-dry-run"), `Would raise counter "orders": the next number would be 51 in place of 42.`)
	contains(t, "would", x.want(t, 0, "", "ids", "raise", "o", "50", "-dry-run"), `Would make counter "o", which nobody has used: the next number would be 51.`)
	if c, err := ids.State(t.Context(), x.Store, "orders"); err != nil || c.Next != 42 {
		t.Errorf("after dry runs: got %+v, %v", c, err)
	}
	link := storagetest.NewLink(x.Store)
	link.Cut()
	tl := &call{tool: tool{Program{Command: "millrace"}}, args: []string{"orders", "50"}, options: options{yes: true}, store: link.Store}
	if err := idsRaise(t.Context(), tl); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("without the store: got %v", err)
	}
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
			{"open g -by ada -why go", gateOpened, true, time.Time{}, "ada"},
			{"open g -by bob", unchanged, true, time.Time{}, "ada"},
			{"close g -by bob", gateClosed, false, time.Time{}, "bob"},
			{"close g -by cy", unchanged, false, time.Time{}, "bob"},
			{"open g -by ada -at " + later, gateAnnounced, false, at, "ada"},
			{"open g -by bob -at " + later, unchanged, false, at, "ada"},
			{"close g -by bob", gateClosed, false, time.Time{}, "bob"},
			{"open g -by ada", gateOpened, true, time.Time{}, "ada"},
			{"close new -by ada", gateClosed, false, time.Time{}, "ada"},
		} {
			got := oneLine[turnedLine](t, x.want(t, 0, "", strings.Fields("gates "+c.args+" -json")...))
			var opensAt time.Time
			if got.OpensAt != nil {
				opensAt = *got.OpensAt
			}
			if got.Result != c.result || *got.Open != c.open || !opensAt.Equal(c.at) || got.By != c.by {
				t.Errorf("%s: got %+v, want %+v", c.args, got, c)
			}
		}
		contains(t, "a time that has passed", x.want(t, 2, "", "gates", "open", "late", "-at", before), "has passed; to open the gate now, leave -at out")
		contains(t, "a name that is new", x.want(t, 0, "", "gates", "close", "other"), "Note: nobody has opened or closed a gate of this name before.")
		contains(t, "open already", x.want(t, 0, "", "gates", "open", "g"), `Gate "g" was open already, since 0s ago, by ada.`)
		contains(t, "open already", x.want(t, 1, "", "gates", "open", "g", "-at", later), "open already", "close it first")
		contains(t, "default of -by", x.want(t, 0, "", "gates", "close", "g"), `Gate "g" is closed.`)
		contains(t, "default of -by", x.want(t, 0, "", "gates", "close", "g"), `Gate "g" was closed already, since 0s ago, by `+coordCall{&call{}}.author())
		x.want(t, 0, "", "gates", "open", "g", "-at", later, "-why", "the season begins")
		contains(t, "announced already", x.want(t, 0, "", "gates", "open", "g", "-at", later), "was to open at "+clock(at)+" already", ": the season begins.")

		time.Sleep(2 * time.Hour)
		contains(t, "due", x.want(t, 0, "", "gates", "list"), "g due "+clock(at)+" 2h0m ago ")
		contains(t, "due", x.want(t, 3, "", "doctor"), `NOTE gate g was to open at `+clock(at)+`, and no program has looked at it since`)
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
		for _, g := range jsonLines[gateLine](t, result{out: out}) {
			got = append(got, g.Name)
		}
		if told == "" {
			break
		}
		contains(t, "the note", told, fmt.Sprintf(`-after 'it'\''s %d' lists`, len(got)-1))
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if _, out, told := x.do(t, "", "gates", "list"); strings.Count(out, corrupt) != 8 || strings.Count(told, "Note: gate: list") != 8 {
		t.Errorf("got %q and %q", out, told)
	}
}

// Doctor finds a counter, a gate and a lock that nobody can read.
func TestDoctorLooksAtCoordination(t *testing.T) {
	t.Parallel()
	x := newStranger(t, worldtest.OpenStore(t, ""))
	x.want(t, 0, "", "ids", "raise", "good", "7", "-yes")
	x.want(t, 0, "", "gates", "open", "good")
	x.want(t, 0, "", "gates", "open", "later", "-at", time.Now().Add(time.Hour).Format(time.RFC3339))
	if out := x.want(t, exitNothing, "", "doctor"); strings.Contains(out, "counter") || strings.Contains(out, "gate ") {
		t.Errorf("got %s", out)
	}
	putBlob(t, x.Store, "counters", "it's", "junk")
	putBlob(t, x.Store, "gates", "season", "junk")
	putBlob(t, x.Store, "leases", "nightly", "junk")
	contains(t, "doctor", x.want(t, exitWrong, "", "doctor"), `WRONG counter it's can't be read`, `millrace ids raise 'it'\''s' NUMBER -yes`, "WRONG gate season can't be read", "millrace gates repair season", "WRONG lock nightly can't be read", "millrace locks raise nightly FENCE", "3 things are wrong.")
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
		got := oneLine[turnedLine](t, x.want(t, 0, "", "gates", "close", "season", "-json"))
		if got.Result != unchanged {
			t.Errorf("got %+v", got)
		}
		contains(t, "a lock", x.want(t, 0, "", "locks", "raise", "nightly", "41", "-by", "ada", "-why", "restored", "-ttl", "6s"), `Lock "nightly" goes on after fence 41. Others can have it 7s after they have seen that.`)
		contains(t, "a lock again", x.want(t, 1, "", "locks", "raise", "nightly", "41"), "its fence is 41 already")
		raisedLock := oneLine[raisedLockLine](t, x.want(t, 0, "", "locks", "raise", "nightly", "50", "-json"))
		if raisedLock != (raisedLockLine{"nightly", raised, 50, 35}) {
			t.Errorf("got %+v", raisedLock)
		}
		for _, args := range []string{"0", "x", "9223372036854775806", "5 -ttl 1s", "5 -ttl 25h"} {
			x.want(t, 2, "", append([]string{"locks", "raise", "nightly"}, strings.Fields(args)...)...)
		}
		if l := acquire(t, s, "nightly", "next"); l.Fence() != 51 {
			t.Errorf("the next fence is %d, want 51", l.Fence())
		} else if err := l.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestSignals(t *testing.T) {
	t.Parallel()
	x := newStranger(t, worldtest.OpenStore(t, ""))
	contains(t, "nobody", x.want(t, 3, "", "signals", "send", "reload"), `no program waits for "reload"`)
	x.want(t, 1, "", "signals", "send", "no name")
	var all []*signal.Listener
	for range 2 {
		l, err := signal.Listen(t.Context(), x.Store, "reload.*")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		all = append(all, l)
	}
	contains(t, "all", x.want(t, 0, "", "signals", "send", "reload.prices", "-data", "now"), "Signal reload.prices was taken by 2 listeners.")
	if got := oneLine[signalLine](t, x.want(t, 0, "", "signals", "send", "reload.x", "-one", "-json")); got != (signalLine{"reload.x", 1}) {
		t.Errorf("one: got %+v", got)
	}
	ones := 0
	for _, l := range all {
		if s, ok, err := l.Try(); !ok || err != nil || s.Name != "reload.prices" || string(s.Data) != "now" {
			t.Errorf("got %+v, %v, %v", s, ok, err)
		}
		if s, ok, _ := l.Try(); ok && s.Name == "reload.x" {
			ones++
		}
	}
	if ones != 1 {
		t.Errorf("%d listeners took the signal for one", ones)
	}
}

// The names in the store complete the verbs that take one.
func TestCompletionOfNames(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	x := newStranger(t, worldtest.OpenAt(t, filepath.Join(dir, "r.db")))
	for _, name := range []string{"orders", "other"} {
		putBlob(t, x.Store, "counters", name, "junk")
	}
	putBlob(t, x.Store, "gates", "season", "junk")
	l := acquire(t, x.Store, "nightly", "one")
	if err := acquire(t, x.Store, "free", "one").Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"ids raise o": "orders\t\nother\t\n", "ids raise orders ": "", "gates open ": "season\t\n", "gates close -by x s": "season\t\n", "locks break ": "nightly\t\n", "ids list ": "",
	} {
		r := finish(t, commandAs("millrace", dir, "sqlite:r.db", append([]string{hiddenVerb}, strings.Split(line, " ")...)...))
		if r.code != 0 || r.out != want {
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
		containers := []string{"counters", "gates", "leases"}
		for _, c := range containers {
			putBlob(t, d.store, c, name, string(body))
		}
		for _, args := range [][]string{{"ids", "list"}, {"gates", "list"}, {"locks", "list"}, {"locks", "list", "-all"}, {"leaders", "list"}} {
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
		if out, code := d.do(t, "ids", "raise", "-yes", "--", name, "9223372036854775806"); code != boot.ExitOK {
			t.Errorf("ids raise: got exit code %d and %q", code, out)
		}
		for _, c := range containers {
			if err := d.store.Blobs(c).Delete(t.Context(), name, storage.Condition{}); err != nil {
				t.Fatal(err)
			}
		}
	})
}
