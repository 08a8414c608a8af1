package operator

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/audit"
	"github.com/millrace-go/millrace/worker"
)

// A verb that only reads writes nothing, in no state of the store. The other tests see to that, too: their stores are
// readOnly for such a verb.
func TestAVerbThatReadsWritesNothing(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, "")
	x, trips := newStranger(t, s), newTraveller(t, s)
	x.publish(t)
	trips.start(t, trip{ID: "o17"})
	worldtest.Send(x.World, worldtest.Add{To: "ada", Amount: 5})
	x.work(t)
	poisoned := x.poisoned(t, worldtest.Add{To: "bob", Amount: 1})
	stop := trips.Start(worker.Config{})
	trips.until(t, "o17", "-plan", "trip")
	worldtest.WantErr(t, stop(), nil)
	x.haltAs(t, "bob", poisoned, 0)
	openHall(t, s, "hall", "a")
	for _, line := range []string{
		"ids raise orders 7 -yes -why x", "gates open release", "queues pause notes -why x", "settings set seats=60 -of hall", "settings set seats=61 -of hall",
	} {
		x.want(t, 0, "", strings.Fields(line)...)
	}
	putBlob(t, s, "gates", "due", `{"opensAt":"2026-01-02T03:04:05Z","by":"ada","since":"2026-01-01T03:04:05Z","epoch":1,"id":"x"}`)
	putBlob(t, s, "bulk", "act/"+aBulkAct, `{"id":"`+aBulkAct+`","verb":"retry","state":"done","ended":"2026-01-02T03:04:05Z"}`)
	acquire(t, s, "nightly", "export-7")
	for _, container := range []string{"schedules", "guards", "gates", "ids", "locks", "programs", "processes", "poison", "shares"} {
		putBlob(t, s, container, "junk", "junk")
	}
	file := filepath.Join(t.TempDir(), "web.spool")
	sp := openSpool(t, file, closedStore(t), channel.Command[worldtest.Add]("adds"))
	if err := sp.Channels().Send(t.Context(), worldtest.Add{To: "a"}); err != nil {
		t.Fatal(err)
	}
	if err := sp.Close(); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}

	acted := jsonLines[audit.Entry](t, result{out: x.want(t, 0, "", "audit", "list", "-json")})[0].ID
	arguments := map[string]string{
		"poison show": poisoned, "values list": "accounts", "values show": "accounts ada", "views list": "totals", "views show": "totals ada", "schedules show": "junk",
		"turns list": worldtest.Accounts, "processes show": "o17 -plan trip", "processes list": "-plan trip", "settings diff": "1 2 -of hall", "top": "-n 2 -every 100ms",
		"bulk show": aBulkAct, "guards show": "junk", "spool": file, "spool list": file + " -all", "queues peek": worldtest.Accounts,
		"queues show": worldtest.Accounts, "messages show": worldtest.Accounts + " " + poisoned, "values about": "totals ada", "programs show": "stranger", "find": "ada", "files show": "junk", "audit show": acted,
	}
	for _, a := range new(session).table() {
		if a.Role != act.Viewer || a.Noun == "ops" || a.Name() == "values try" { // these serve until a signal, and need the program's code
			continue
		}
		line := append(strings.Fields(a.Name()), strings.Fields(arguments[a.Name()])...)
		for _, flags := range [][]string{nil, {"-json"}} {
			args := append(slices.Clone(line), flags...)
			if code, out, told := x.do(t, "", args...); code != 0 && code != exitWrong && !slices.Contains([]string{"schedules show", "files show"}, a.Name()) {
				t.Errorf("millrace %q: got exit code %d\n%s%s", args, code, out, told)
			}
		}
	}
	for _, args := range [][]string{{"completion", "bash"}, {"__complete", "values", "show", "a"}} {
		if code, out, _ := x.do(t, "", args...); code != 0 || out == "" {
			t.Errorf("millrace %q: got exit code %d and %q", args, code, out)
		}
	}
	if after, err := os.ReadFile(file); err != nil || string(after) != string(before) {
		t.Errorf("the spool's file has changed (%v)", err)
	}
}

// A verb that only reads is refused where the file has an older schema, says what to do, and leaves the file as it is:
// the programs that have it open couldn't use it any more.
func TestAVerbThatReadsLeavesAnOlderFileAsItIs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store, spool := filepath.Join(dir, "r.db"), filepath.Join(dir, "web.spool")
	if err := worldtest.OpenAt(t, store).Close(); err != nil {
		t.Fatal(err)
	}
	if err := openSpool(t, spool, closedStore(t), channel.Command[worldtest.Add]("adds")).Close(); err != nil {
		t.Fatal(err)
	}
	for args, file := range map[string]string{"queues list": store, "doctor": store, "values list": store, "spool web.spool": spool, "spool list web.spool -all": spool} {
		outdate(t, file)
		before, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		r := finish(t, commandAs("millrace", dir, "sqlite:r.db", strings.Fields(args)...))
		if r.code != 1 || r.out != "" || !strings.Contains(r.err, "the file has schema version 3") || !strings.Contains(r.err, "use the command of their version") {
			t.Errorf("%s: got exit code %d and %q", args, r.code, r.out+r.err)
		}
		if after, err := os.ReadFile(file); err != nil || !bytes.Equal(after, before) {
			t.Errorf("%s has changed the file (%v)", args, err)
		}
	}
}

// outdate gives a file of SQLite that nobody has open the schema before its own.
func outdate(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt([]byte{0, 0, 0, 3}, 60) // where SQLite keeps user_version
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}
