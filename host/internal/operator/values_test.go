package operator

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/host/internal/boot"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/sample/reservations"
	"github.com/millrace-go/millrace/storage"
)

// full books a date out, and returns the date.
func (w *world) full(t *testing.T) string {
	t.Helper()
	m := reservation(0)
	m.Quantity = reservations.MaxQuantity
	sender, err := channel.NewSender[reservations.MakeReservation](w.channels)
	for range seats / reservations.MaxQuantity {
		m.ID = channel.NewID()
		if err == nil {
			err = sender.Send(t.Context(), m)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return m.Date
}

func (w *world) disabled(t *testing.T, date string) bool {
	t.Helper()
	m, _, err := reservations.Months(w.channels).GetFresh(t.Context(), reservations.MonthOf(date))
	if err != nil {
		t.Fatal(err)
	}
	return slices.Contains(m.DisabledDays, date)
}

func TestValuesShow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	date := w.full(t)
	w.work(t, nil)
	w.drained(t)
	var c reservations.Capacity
	if err := json.Unmarshal([]byte(w.want(t, 0, "values", "show", "capacity", date).out), &c); err != nil || c.Remaining != 0 || len(c.Accepted) != 5 {
		t.Errorf("got %+v (%v)", c, err)
	}
	got := jsonLines[documentLine](t, w.want(t, 0, "values", "show", "-json", "capacity", date))
	if len(got) != 1 {
		t.Fatalf("got %d lines, want 1", len(got))
	}
	d := got[0]
	if d.Kind != "capacity" || d.Key != date || d.Version != 5 || d.Emitted != 6 || d.Remembered != 5 || len(d.Pending) != 0 || d.Size == 0 {
		t.Errorf("got %+v", d)
	}
	if r := w.want(t, 0, "values", "show", "months", reservations.MonthOf(date)); !strings.Contains(r.out, date) {
		t.Errorf("a view: got %q", r.out)
	}
	m := w.send(t, 1)[0]
	w.drained(t)
	for _, key := range []string{m.ID, reservations.Key(m.ID)} { // people have the first, logs the second
		r := w.want(t, 0, "values", "show", "statuses", key, "-json")
		if got := jsonLines[documentLine](t, r); len(got) != 1 || got[0].Key != reservations.Key(m.ID) || !strings.Contains(r.out, m.Name) {
			t.Errorf("status by %s: got %q", key, r.out)
		}
	}
	if r := w.want(t, 3, "values", "show", "statuses", "another"); r.err != `millrace: no document "another" in statuses`+"\n" {
		t.Errorf("got %q", r.err)
	}
}

// A lost view is rebuilt from the values, and so is a wrong one after -clear, even while a worker runs.
func TestViewsRebuild(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	date := w.full(t)
	w.work(t, nil)
	w.drained(t)
	if !w.disabled(t, date) {
		t.Fatal("the test needs a date that is sold out")
	}
	month := reservations.MonthOf(date)
	if err := w.store.Blobs("months").Delete(t.Context(), month, storage.Condition{}); err != nil {
		t.Fatal(err)
	}
	if r := w.want(t, 0, "views", "rebuild", "months"); r.out != "Rebuilt months from 1 value.\n" || !w.disabled(t, date) {
		t.Errorf("lost: got %q, disabled %v", r.out, w.disabled(t, date))
	}
	blob, err := w.store.Blobs("months").Get(t.Context(), month, "")
	if err == nil {
		wrong := strings.Replace(string(blob.Body), date, "", 1)
		_, err = w.store.Blobs("months").Put(t.Context(), month, []byte(wrong), storage.Condition{})
	}
	if err != nil {
		t.Fatal(err)
	}
	w.want(t, 0, "views", "rebuild", "months")
	if w.disabled(t, date) {
		t.Error("wrong: repaired without -clear; its help says otherwise")
	}
	if r := w.want(t, 0, "views", "rebuild", "months", "-clear", "-json"); r.out != `{"values":1,"view":"months"}`+"\n" || !w.disabled(t, date) {
		t.Errorf("wrong: got %q, disabled %v", r.out, w.disabled(t, date))
	}
	w.send(t, 10)
	w.drained(t)
	if !w.disabled(t, date) {
		t.Error("what came afterwards has spoiled it")
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
		{"cancel", ``, "want a JSON object"},
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
	if r := finish(t, cmd); r.code != 1 || !strings.Contains(r.err, "standard input: more than") {
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
