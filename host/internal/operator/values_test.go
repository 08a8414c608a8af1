package operator

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/ops/acts"
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
	if err := json.Unmarshal([]byte(w.want(t, 0, "values", "show", "-reveal", "-why=x", "capacity", date).out), &c); err != nil || c.Remaining != 0 || len(c.Accepted) != 5 {
		t.Errorf("got %+v (%v)", c, err)
	}
	got := jsonLines[acts.Document](t, w.want(t, 0, "values", "show", "-reveal", "-why=x", "-json", "capacity", date))
	if len(got) != 1 {
		t.Fatalf("got %d lines, want 1", len(got))
	}
	d := got[0]
	if d.Kind != "capacity" || d.Key != date || d.Version != 5 || d.Emitted != 6 || d.Remembered != 5 || len(d.Pending) != 0 || d.Size == 0 {
		t.Errorf("got %+v", d)
	}
	if r := w.want(t, 0, "values", "show", "-reveal", "-why=x", "months", reservations.MonthOf(date)); !strings.Contains(r.out, date) {
		t.Errorf("a view: got %q", r.out)
	}
	m := w.send(t, 1)[0]
	w.drained(t)
	for _, key := range []string{m.ID, reservations.Key(m.ID)} { // people have the first, logs the second
		r := w.want(t, 0, "values", "show", "-reveal", "-why=x", "statuses", key, "-json")
		if got := jsonLines[acts.Document](t, r); len(got) != 1 || got[0].Key != reservations.Key(m.ID) || !strings.Contains(r.out, m.Name) {
			t.Errorf("status by %s: got %q", key, r.out)
		}
	}
	if r := w.want(t, 3, "values", "show", "-reveal", "-why=x", "statuses", "another"); r.err != `millrace: no document "another" in statuses`+"\n" {
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
