package operator

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/host/internal/boot"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/ops/acts"
	"github.com/millrace-go/millrace/spool"
	"github.com/millrace-go/millrace/storage"
)

// Doctor finds what stays in a spool although the store is there.
func TestDoctorFindsSpools(t *testing.T) {
	t.Parallel()
	x := newStranger(t, worldtest.OpenStore(t, ""))
	now := time.Now()
	for key, r := range map[string]spool.Report{
		"a": {Program: "/shop", Host: "web1", File: "/data/web.spool", Refused: 2, Reason: "no route \x1b[31m", At: now.Add(-time.Minute)},
		"b": {Program: "/shop", Host: "web2", File: "/data/web.spool", Waiting: 1, Oldest: now.Add(-time.Hour), At: now},
		"c": {Program: "/shop", Host: "web3", File: "/data/web.spool", Waiting: 1, Oldest: now.Add(-time.Second), At: now},
		"d": {Program: "/shop", Host: "web4", File: "/data/web.spool", Fault: "spool: its file was removed", At: now},
	} {
		data, err := json.Marshal(r)
		if err == nil {
			_, err = x.Store.Table("spools").Put(t.Context(), "spools", key, data, storage.Condition{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	contains(t, "doctor", x.want(t, exitWrong, "", "doctor"),
		`WRONG 2 messages in the spool /data/web.spool of /shop on web1 can't be sent (1m0s ago) They stay in that file`, "The reason: millrace spool reports --reveal --why TEXT.",
		"WRONG 1 message waits in the spool /data/web.spool of /shop on web2 for 1h0m although the store is there",
		"WRONG the spool /data/web.spool of /shop on web4 takes nothing (0s ago) The program", "put the file back", "The error: millrace spool reports --reveal --why TEXT", "3 things are wrong.")
	for _, open := range []string{"no route", "its file was removed"} {
		if out := x.want(t, exitWrong, "", "doctor") + x.want(t, 0, "", "spool", "reports"); strings.Contains(out, open) {
			t.Errorf("%q is shown:\n%s", open, out)
		}
		contains(t, "revealed", x.want(t, 0, "", "spool", "reports", "-reveal", "-why", "x"), open)
	}
}

// The verb spool needs no store.
func TestSpoolVerb(t *testing.T) {
	t.Parallel()
	x := newStranger(t, worldtest.OpenStore(t, ""))
	path := filepath.Join(t.TempDir(), "web.spool")
	for _, args := range [][]string{{"spool", path}, {"spool", "list", path}, {"spool", "release", path}, {"spool", "discard", path, "0", "-yes", "-why", "a"}, {"spool", "discard", path, "0", "-dry-run", "-why", "a"}} {
		contains(t, "no file", x.want(t, exitNothing, "", args...), "spool: there is no file "+storage.Quote(path))
	}
	s := openSpool(t, path, closedStore(t), channel.Command[worldtest.Add]("adds"))
	contains(t, "an empty one", x.want(t, 0, "", "spool", path), "Nothing waits in the spool.")
	if err := s.Channels().Send(t.Context(), worldtest.Add{To: "a"}); err != nil {
		t.Fatal(err)
	}
	contains(t, "one message", x.want(t, 0, "", "spool", path), "1 message waits in the spool, the oldest for", "All have",
		"It belongs to program /web for store sqlite ")
	if l := oneLine[acts.Spool](t, x.want(t, 0, "", "spool", path, "-json")); l.File != path || l.Waiting != 1 || l.Refused != 0 || l.Bytes == 0 || l.Oldest == nil || l.Program != "/web" || !strings.HasPrefix(l.Store, "sqlite ") {
		t.Errorf("as JSON: got %+v", l)
	}
	contains(t, "nothing is set aside", x.want(t, 0, "", "spool", "list", path), "Nothing is set aside")
	contains(t, "all", x.want(t, 0, "", "spool", "list", path, "-all"), "ENTRY", "0", "test.add.v1", "waits")
	contains(t, "all as JSON", x.want(t, 0, "", "spool", "list", path, "-all", "-json"), `{"entry":"0","kept":"`, `"kind":"test.add.v1"}]}`)
	contains(t, "a discard without both", x.want(t, boot.ExitUsage, "", "spool", "discard", path, "0"), "add --why TEXT")
	contains(t, "a discard without -yes", x.want(t, boot.ExitUsage, "", "spool", "discard", path, "0", "-why", "a"), "add --yes to do it, or --dry-run")
	contains(t, "a discard without -why", x.want(t, boot.ExitUsage, "", "spool", "discard", path, "0", "-yes"), "add --why TEXT")
	contains(t, "a discard of nothing", x.want(t, exitNothing, "", "spool", "discard", path, "7", "-yes", "-why", "a"), "there is no entry")
	contains(t, "a discard of no ID", x.want(t, boot.ExitUsage, "", "spool", "discard", path, "x", "-yes", "-why", "a"), "not the ID of an entry")
	contains(t, "a dry run", x.want(t, 0, "", "spool", "discard", path, "0", "-dry-run", "-why", "a"), "Entry 0 would be discarded.")
	contains(t, "a dry run as JSON", x.want(t, 0, "", "spool", "discard", path, "0", "-dry-run", "-why", "a", "-json"), `{"entry":"0","result":"selected"}`)
	contains(t, "a dry run of nothing", x.want(t, exitNothing, "", "spool", "discard", path, "7", "-dry-run", "-why", "a"), "there is no entry")
	contains(t, "after the dry runs", x.want(t, 0, "", "spool", "list", path, "-all"), "waits")
	contains(t, "a discard", x.want(t, 0, "", "spool", "discard", path, "0", "-yes", "-why", "a"), "Entry 0 is discarded.")
	if err := s.Channels().Send(t.Context(), worldtest.Add{To: "b"}); err != nil {
		t.Fatal(err)
	}
	contains(t, "a discard as JSON", x.want(t, 0, "", "spool", "discard", path, "1", "-yes", "-why", "a", "-json"), `{"entry":"1","result":"discarded"}`)
	contains(t, "an emptied one", x.want(t, 0, "", "spool", "list", path, "-all"), "The spool is empty.")
	if err := s.Channels().Send(t.Context(), worldtest.Add{To: "a"}); err != nil {
		t.Fatal(err)
	}
	contains(t, "a release of one in use", x.want(t, 1, "", "spool", "release", path), "in use")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	contains(t, "a release", x.want(t, 0, "", "spool", "release", path), "The spool belongs to the program that opens it next.")
	contains(t, "a release as JSON", x.want(t, 0, "", "spool", "release", path, "-json"), `{"file":"`+path+`","result":"released"}`)
	contains(t, "a released one", x.want(t, 0, "", "spool", path), "1 message waits in the spool", "It belongs to the program that opens it next.")
}

// The verb spool tells what was set aside from what waits for the store.
func TestSpoolTellsWhatIsSetAside(t *testing.T) {
	t.Parallel()
	x := newStranger(t, worldtest.OpenStore(t, ""))
	path := filepath.Join(t.TempDir(), "web.spool")
	closed := closedStore(t)
	s := openSpool(t, path, closed, channel.Command[worldtest.Add]("adds"))
	if err := s.Channels().Send(t.Context(), worldtest.Add{To: "a"}, worldtest.Add{To: "b"}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openSpool(t, path, closed, channel.Command[wish]("wishes"))
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Run(stopped); err != nil { // it tries to send once
		t.Fatal(err)
	}
	contains(t, "all are set aside", x.want(t, 0, "", "spool", path), "Nothing waits in the spool.", "Set aside: 2 messages. millrace spool list "+path+" shows why.")
	if err := s.Channels().Send(t.Context(), wish{For: "a"}); err != nil {
		t.Fatal(err)
	}
	contains(t, "one waits", x.want(t, 0, "", "spool", path), "1 message waits in the spool", "Set aside: 2 messages.")
	if l := oneLine[acts.Spool](t, x.want(t, 0, "", "spool", path, "-json")); l.Waiting != 1 || l.Refused != 2 || l.Oldest == nil {
		t.Errorf("as JSON: got %+v, want 1 that waits and 2 that were refused", l)
	}
}

// A shell completes the name of a spool's file.
func TestCompletionOfSpools(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{"spool ": ":0\n", "spool list ": ":0\n", "spool discard web.spool ": ":4\n"} {
		r := finish(t, commandAs("millrace", t.TempDir(), "", append([]string{"__complete"}, strings.Split(line, " ")...)...))
		if r.code != 0 || !strings.HasSuffix(r.out, want) {
			t.Errorf("completion of %q: got %q, want %q at the end", line, r.out+r.err, want)
		}
	}
}

// Every verb that answers something answers in JSON, too, also one that needs no store.
func TestEveryVerbHasJSON(t *testing.T) {
	t.Parallel()
	verbs := 0
	for _, noun := range new(session).root(nil).Commands() {
		for _, verb := range append(noun.Commands(), noun) {
			if verbs++; verb.InheritedFlags().Lookup("json") == nil {
				t.Errorf("%s has no --json", verb.CommandPath())
			}
		}
	}
	if verbs < len(new(session).table()) {
		t.Errorf("got %d verbs", verbs)
	}
}
