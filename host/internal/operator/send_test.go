package operator

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/host/internal/boot"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/ops/acts"
	"github.com/millrace-go/millrace/sample/reservations"
	"github.com/millrace-go/millrace/storage"
)

// A body comes from a file or from the standard input, and an error of it names that. A command line that can't be
// right is refused before a file is read.
func TestBodiesComeFromFiles(t *testing.T) {
	t.Parallel()
	x := newStranger(t, worldtest.OpenStore(t, ""))
	x.publish(t)
	file := filepath.Join(t.TempDir(), "add.json")
	if err := os.WriteFile(file, []byte(`{"to":"ada","amount":"5"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	old := x.poisoned(t, worldtest.Add{To: "ada", Amount: 1})
	const wrong = ": amount: want integer, got string"
	x.tool = x.own()
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"send test.add.v1 " + file, 2, "millrace: send: " + file + wrong},
		{"send test.add.v1 -", 2, "millrace: send: standard input" + wrong},
		{"send test.add.v1 nope.json", 1, "nope.json"},
		{"send test.add.v1", 2, "send: want KIND FILE"},
		{"send nope nope.json", 2, `send: unknown command "nope"; want one of stranger.wish.v1, test.add.v1`},
		{"send test.added.v1 nope.json", 2, `send: unknown command "test.added.v1"`},
		{"send test.add.v1 nope.json --delay 1h --at 2030-01-01T00:00:00Z", 2, "send: want --delay or --at, not both"},
		{"poison edit -why x " + old + " " + file, 2, "millrace: poison edit: " + file + wrong},
		{"poison edit -why x " + old + " --data " + file, 2, "millrace: poison edit: " + file + wrong},
		{"poison edit -why x " + old + " -", 2, "millrace: poison edit: standard input" + wrong},
		{"poison edit -why x " + old + " --data=-", 2, "millrace: poison edit: standard input" + wrong},
		{"poison edit -why x " + old, 2, "poison edit: want the new body: --data FILE"},
		{"poison edit -why x " + old + " nope.json", 1, "nope.json"},
		{"poison edit -why x " + old + " - --data " + file, 2, `poison edit: unknown argument "-": --data is given`},
		{"poison edit -why x " + old + " --data x y", 2, `poison edit: unknown argument "y": --data is given`},
		{"poison edit -why x " + old + " - --queue nope", 2, "poison edit: --queue: unknown queue"},
	} {
		contains(t, c.args, x.want(t, c.code, `{"to":"ada","amount":"5"}`, strings.Fields(c.args)...), c.want)
	}
	if got := oneLine[acts.Sent](t, x.want(t, 0, `{"to":"bob","amount":5}`, "send", "test.add.v1", "-", "--json", "--id", "o17")); got != (acts.Sent{ID: "o17", Kind: "test.add.v1", Queue: worldtest.Accounts}) {
		t.Errorf("got %+v", got)
	}
	if got := worldtest.Take(t, x.Store, worldtest.Accounts); len(got) != 1 {
		t.Errorf("got %d messages, want the one that was sent", len(got))
	}
}

// A command is either sent whole, or refused with what is wrong with it.
func TestSend(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	m := reservation(0)
	body, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(w.dir, "make.json")
	if err := os.WriteFile(file, append(body, '\n'), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the ID is the command's own, so both are one message
		if r := w.want(t, 0, "send", "reservations.make.v1", file); r.out != reservations.Key(m.ID)+"\n" {
			t.Errorf("got %q, want the ID of the message", r.out)
		}
	}
	stop := w.work(t, nil)
	w.drained(t)
	stop()
	w.audit(t, []reservations.MakeReservation{m})

	cmd := command(w.dir, w.url, "send", "-json", "reservations.make.v1", "-", "-delay", "1h", "-id", "another")
	cmd.Stdin = strings.NewReader(string(body))
	if r := finish(t, cmd); r.code != 0 || r.out != `{"id":"another","kind":"reservations.make.v1","queue":"reservations"}`+"\n" {
		t.Errorf("got exit code %d, %q, %q", r.code, r.out, r.err)
	}
	old := "01900000-0000-7000-8000-000000000000"
	if r := w.want(t, 0, "send", "reservations.make.v1", file, "-id", old); !strings.Contains(r.err, "more than 30 days old") {
		t.Errorf("old: got %q, want it said", r.err)
	}
	if r := w.want(t, 0, "send", "reservations.make.v1", file, "-id", old, "-delay", "8760h"); r.err != "" {
		t.Errorf("old, but due in a year: got %q, want nothing said", r.err)
	}
	if st, err := w.store.Queue("reservations").Stats(t.Context()); err != nil || st.Ready != 1 || st.Delayed != 2 {
		t.Errorf("got %+v (%v), want 2 delayed", st, err)
	}
	ds, err := w.store.Queue("reservations").Find(t.Context(), old)
	if err != nil || len(ds) != 1 {
		t.Fatalf("found %d, %v; want the delayed one", len(ds), err)
	}
	if e, err := wire.Decode(ds[0].Body); err != nil || time.Until(e.Due) < 8759*time.Hour || !e.Since.Equal(e.Due) {
		t.Errorf("got %+v, %v; want it due in a year", e, err)
	}
}

func TestSendRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	for _, c := range []struct{ kind, body, want string }{
		{"cancel", ``, "it is empty"},
		{"cancel", `[]`, "want a JSON object"},
		{"cancel", `{`, "not closed"},
		{"cancel", `{"id":"a","date":"b"`, "not closed"},
		{"cancel", `{"id":"a","date":"b"} {}`, "unexpected text after"},
		{"cancel", `{"id":"a"}`, `"date" is missing`},
		{"cancel", `{"id":"a","Date":"b"}`, `"date" is missing`},
		{"cancel", "{\"id\":\"caf\xe9\",\"date\":\"b\"}", "want UTF-8"},
		{"cancel", `{"id":"a","date":"b","date":"c"}`, `"date" occurs twice`},
		{"cancel", `{"id":"a","date":"b","Date":"c"}`, `unknown member "Date"`},
		{"cancel", `{"id":"a","date":"b","x":1}`, `"x"`},
		{"cancel", `{"id":1,"date":"b"}`, "number"},
		{"make", `{"id":"12345678","date":"2026-12-24","name":"A","email":"a@example.org","quantity":-1}`, "quantity: Choose 1 to 20 seats."},
		{"make", `{"id":"12345678","date":"24 Dec","name":"A","email":"a","quantity":1}`, " email: "},
		{"make", `{"id":"12345678","date":"2026-12-24","name":"A","email":"a@example.org","quantity":"1"}`, "quantity: want integer, got string"},
		{"make", `{"id":1,"date":"24 Dec","name":"A","email":true,"quantity":1}`, "\n  "},
	} {
		cmd := command(w.dir, w.url, "send", "reservations."+c.kind+".v1", "-")
		cmd.Stdin = strings.NewReader(c.body)
		if r := finish(t, cmd); r.code != 2 || !strings.Contains(r.err, "standard input: ") || !strings.Contains(r.err, c.want) {
			t.Errorf("%s: got exit code %d and %q, want 2 and %q", c.body, r.code, r.err, c.want)
		}
	}
	cmd := command(w.dir, w.url, "send", "reservations.make.v1", "-")
	cmd.Stdin = strings.NewReader(strings.Repeat(" ", channel.MaxData+1))
	if r := finish(t, cmd); r.code != 2 || !strings.Contains(r.err, "standard input: more than") {
		t.Errorf("too long: got exit code %d and %q", r.code, r.err)
	}
	if st, err := w.store.Queue("reservations").Stats(t.Context()); err != nil || st != (storage.Stats{}) {
		t.Errorf("got %+v (%v), want nothing sent", st, err)
	}
}

// pausing is an input that never comes.
type pausing struct {
	began func()
	end   <-chan struct{}
}

func (p pausing) Read([]byte) (int, error) {
	p.began()
	<-p.end
	return 0, io.EOF
}

// A signal ends a send that waits for its input. No store is open meanwhile: this one would be refused.
func TestSendIsStopped(t *testing.T) {
	t.Parallel()
	ctx, signal := context.WithCancel(t.Context())
	end := make(chan struct{})
	defer close(end)
	var told strings.Builder
	code := Run(ctx, boot.Process{Args: []string{"send", "reservations.make.v1", "-"}, Getenv: func(string) string { return "" }, Stdout: io.Discard, Stderr: &told},
		pausing{signal, end}, programs()["sample"])
	if code != boot.ExitError || told.String() != "millrace: stopped by a signal\n" {
		t.Errorf("got exit code %d and %q", code, told.String())
	}
}
