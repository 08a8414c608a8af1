package operator

import (
	"context"
	"encoding/json"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/host/internal/boot"
	"github.com/millrace-go/millrace/internal/worldtest"
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
		`WRONG 2 messages in the spool /data/web.spool of /shop on web1 can't be sent (1m0s ago): no route \x1b[31m They stay in that file`,
		"WRONG 1 message waits in the spool /data/web.spool of /shop on web2 for 1h0m although the store is there",
		"WRONG the spool /data/web.spool of /shop on web4 takes nothing (0s ago): spool: its file was removed", "put the file back", "3 things are wrong.")
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

// The verb spool needs no store.
func TestSpoolVerb(t *testing.T) {
	t.Parallel()
	x := newStranger(t, worldtest.OpenStore(t, ""))
	path := filepath.Join(t.TempDir(), "web.spool")
	for _, args := range [][]string{{"spool", path}, {"spool", "list", path}, {"spool", "release", path}, {"spool", "discard", path, "0", "-yes", "-why", "a"}} {
		contains(t, "no file", x.want(t, exitNothing, "", args...), "spool: there is no file "+storage.Quote(path))
	}
	s := openSpool(t, path, closedStore(t), channel.Command[worldtest.Add]("adds"))
	contains(t, "an empty one", x.want(t, 0, "", "spool", path), "Nothing waits in the spool.")
	if err := s.Channels().Send(t.Context(), worldtest.Add{To: "a"}); err != nil {
		t.Fatal(err)
	}
	contains(t, "one message", x.want(t, 0, "", "spool", path), "1 message waits in the spool, the oldest for", "All have",
		"It belongs to program /web for store sqlite ")
	if l := oneLine[spoolLine](t, x.want(t, 0, "", "spool", path, "-json")); l.File != path || l.Waiting != 1 || l.Refused != 0 || l.Bytes == 0 || l.Oldest == nil || l.Program != "/web" || !strings.HasPrefix(l.Store, "sqlite ") {
		t.Errorf("as JSON: got %+v", l)
	}
	contains(t, "nothing is set aside", x.want(t, 0, "", "spool", "list", path), "Nothing is set aside")
	contains(t, "all", x.want(t, 0, "", "spool", "list", path, "-all"), "ENTRY", "0", "test.add.v1", "waits")
	contains(t, "all as JSON", x.want(t, 0, "", "spool", "list", path, "-all", "-json"), `{"entry":"0","kept":"`, `"kind":"test.add.v1"}]}`)
	contains(t, "a discard without both", x.want(t, boot.ExitUsage, "", "spool", "discard", path, "0"), "add -yes to delete them, and say -why")
	contains(t, "a discard without -yes", x.want(t, boot.ExitUsage, "", "spool", "discard", path, "0", "-why", "a"), "add -yes")
	contains(t, "a discard without -why", x.want(t, boot.ExitUsage, "", "spool", "discard", path, "0", "-yes"), "say -why")
	contains(t, "a discard of nothing", x.want(t, exitNothing, "", "spool", "discard", path, "7", "-yes", "-why", "a"), "there is no entry")
	contains(t, "a discard of no ID", x.want(t, boot.ExitUsage, "", "spool", "discard", path, "x", "-yes", "-why", "a"), "not the ID of an entry")
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
	if l := oneLine[spoolLine](t, x.want(t, 0, "", "spool", path, "-json")); l.Waiting != 1 || l.Refused != 2 || l.Oldest == nil {
		t.Errorf("as JSON: got %+v, want 1 that waits and 2 that were refused", l)
	}
}

// Every verb that answers something answers in JSON, too, also one that needs no store.
func TestEveryVerbHasJSON(t *testing.T) {
	t.Parallel()
	for _, v := range (tool{}).verbs() {
		if has := v.newFlags(&options{}).Lookup("json") != nil; has == (v.name == "completion" || v.name == hiddenVerb) {
			t.Errorf("%s: it has -json: %v", v.name, has)
		}
	}
}
