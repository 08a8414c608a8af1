package operator

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"unicode"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/host/internal/boot"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/acts"
	"github.com/millrace-go/millrace/poison"
	"github.com/millrace-go/millrace/sample/reservations"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// People get a first line and columns, programs each number.
func TestQueues(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	w.poison(t, 3, closed)
	w.send(t, 2)
	if err := w.store.Queue("mails").Send(t.Context(), []storage.Message{{Body: []byte("x"), Delay: 1e12}}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.store.Queue("reservations").Receive(t.Context(), 1, 1e12); err != nil {
		t.Fatal(err)
	}
	if _, err := w.store.Blobs("poison").Put(t.Context(), "former/0123", []byte(`{}`), storage.Condition{}); err != nil {
		t.Fatal(err)
	}
	r := w.want(t, 0, "queues")
	if head, _, _ := strings.Cut(r.out, "\n"); strings.Join(strings.Fields(head), " ") != "QUEUE READY IN FLIGHT DELAYED POISON OLDEST CONSUMED BY STATE" {
		t.Errorf("got the head %q", head)
	}
	for _, want := range []string{"reservations 1 1 0 3", "mails 0 0 1 0 0s", "former 0 0 0 1 0s in no route"} {
		if !strings.Contains(strings.Join(strings.Fields(r.out), " "), want) {
			t.Errorf("got\n%swant %s", r.out, want)
		}
	}
	got := map[string]acts.Queue{}
	for _, q := range jsonLines[acts.Queue](t, w.want(t, 0, "queues", "-json")) {
		got[q.Queue] = q
	}
	if q := got["reservations"]; *q.Ready != 1 || *q.InFlight != 1 || *q.Delayed != 0 || q.Poison != 3 || *q.Oldest <= 0 || !q.Routed {
		t.Errorf("reservations: got %+v", q)
	}
	if q := got["former"]; q.Routed || q.Poison != 1 || len(got) != 9 {
		t.Errorf("got %d queues, want 9; former: %+v", len(got), q)
	}
}

// list shows nothing personal, show prints everything, and neither lets a message control the terminal.
func TestListAndShow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	nasty := "red \x1b[31m\r\u009b2J\u202e\x00"
	if err := w.store.Queue("reservations").Send(t.Context(), []storage.Message{{Body: []byte("junk " + nasty)}}); err != nil {
		t.Fatal(err)
	}
	sent := w.poison(t, 2, func(m reservations.MakeReservation) error {
		return handlers.Poison(nasty, errors.New(nasty+m.Email))
	})
	id := reservations.Key(sent[0].ID)
	junk := w.poisoned(t)[""].Key

	listed := jsonLines[acts.Poisoned](t, w.want(t, 0, "poison", "list", "-json"))
	byID := map[string]acts.Poisoned{}
	for _, e := range listed {
		byID[e.ID] = e
	}
	if e := byID[id]; len(listed) != 3 || e.Kind != "reservations.make.v1" || e.Reason != nasty || e.Attempts != 1 || e.Worker != "tester" || e.Queue != "reservations" || e.Old {
		t.Errorf("got %d entries, and %+v", len(listed), e)
	}
	if e := byID[""]; e.Key != junk || e.Reason != handlers.ReasonUndecodable || e.Kind != "" {
		t.Errorf("undecodable: got %+v", e)
	}
	shows := jsonLines[acts.PoisonedMessage](t, w.want(t, 0, "poison", "show", "-reveal", "-why=x", id, junk, "-json"))
	for _, s := range shows {
		e, err := wire.Decode(s.Message)
		isJunk := string(s.Raw) == "junk "+nasty && string(s.Message) == "null" && s.Key == junk
		isWhole := err == nil && e.ID == id && strings.Contains(string(e.Data), sent[0].Email) && s.Error != "" && s.Raw == nil
		if !isJunk && !isWhole {
			t.Errorf("got %+v", s)
		}
	}
	if len(shows) != 2 {
		t.Errorf("got %d messages, want 2", len(shows))
	}
	for _, args := range [][]string{
		{"poison", "list"}, {"poison", "list", "-json"}, {"poison", "show", "-reveal", "-why=x", id, junk}, {"poison", "show", "-reveal", "-why=x", "-json", id, junk},
		{"poison", "retry", "-dry-run", "-all"}, {"poison", "retry", "-reason", "nope"}, {"poison", "retry", "-json", "-all", "-dry-run"},
	} {
		r := w.run(t, args...)
		out := r.out + r.err
		if strings.ContainsFunc(out, func(c rune) bool { return c != '\n' && !unicode.IsPrint(c) }) {
			t.Errorf("millrace %q: %q reaches the terminal", args, out)
		}
		personal := strings.Contains(out, sent[0].Email) || strings.Contains(out, sent[0].Name) || strings.Contains(out, sent[0].ID)
		if show := args[1] == "show"; show != personal {
			t.Errorf("millrace %q: got what is personal: %v, want %v\n%s", args, personal, show, out)
		}
	}
}

// The ID of a reservation, which people have, finds its commands, whose IDs are others.
func TestShowByReservation(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	cancels, err := channel.NewSender[reservations.CancelReservation](w.channels)
	if err != nil {
		t.Fatal(err)
	}
	sent := w.send(t, 2)
	cancel := reservations.CancelReservation{ID: sent[0].ID, Date: sent[0].Date}
	if err := cancels.Send(t.Context(), cancel); err != nil {
		t.Fatal(err)
	}
	stop := w.start(t, func(h *handlers.Registry) {
		handlers.React(h, "reservations", func(_ context.Context, m reservations.MakeReservation) error { return closed(m) })
		handlers.React(h, "reservations", func(context.Context, reservations.CancelReservation) error { return closed(sent[0]) })
	})
	w.drained(t, "reservations")
	stop()
	got := map[string]bool{}
	for _, s := range jsonLines[acts.PoisonedMessage](t, w.want(t, 0, "poison", "show", "-reveal", "-why=x", sent[0].ID, "-json")) {
		got[s.ID] = true
	}
	if len(got) != 2 || !got[reservations.Key(sent[0].ID)] || !got[cancel.MessageID()] {
		t.Errorf("got %v, want both commands of the reservation", got)
	}
	if r := w.want(t, 3, "poison", "show", "-reveal", "-why=x", "another"); !strings.Contains(r.err, `no message "another"`) {
		t.Errorf("got %q", r.err)
	}
}

// show prints a body that lies beside its message, and reports one that is lost.
func TestShowLargeBody(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	m := reservation(0)
	m.Name = strings.Repeat("x", 100_000) // no sender of this module would send it
	body, err := wire.EncodeBody(m)
	if err != nil {
		t.Fatal(err)
	}
	id := reservations.Key(m.ID)
	packed, err := w.channels.Outbox().Pack(t.Context(), channel.Envelope{ID: id, Source: "/else", Kind: m.Kind(), Data: body})
	if err == nil {
		err = w.channels.Outbox().SendPacked(t.Context(), packed)
	}
	if err != nil {
		t.Fatal(err)
	}
	w.poison(t, 0, closed)
	if r := w.want(t, 0, "poison", "show", "-reveal", "-why=x", id); !strings.Contains(r.out, m.Name) || strings.Contains(r.out, "dataref") {
		t.Errorf("got %.500s, want the whole body", r.out)
	}
	for info, err := range w.store.Blobs("claims").List(t.Context(), "") {
		if err == nil {
			err = w.store.Blobs("claims").Delete(t.Context(), info.Key, storage.Condition{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if r := w.want(t, 0, "poison", "show", "-reveal", "-why=x", id); !strings.Contains(r.out, "body is gone") {
		t.Errorf("got %q, want the loss told", r.out)
	}
	if r := w.want(t, 1, "poison", "retry", "-id", "nope", "-id", id); !strings.Contains(r.err, `no message "nope"`) {
		t.Errorf("got %q, want both told; what failed counts", r.err)
	}
	r := w.want(t, 1, "poison", "retry", "-all", "-json")
	if got := jsonLines[acts.Settled](t, r); len(got) != 1 || got[0].Result != "failed" || got[0].Error == "" || !strings.Contains(r.err, "1 message not settled") {
		t.Errorf("got %+v and %q", got, r.err)
	}
	if _, ok := w.poisoned(t)[id]; !ok {
		t.Error("the message is gone, though it could not be sent back")
	}
}

// A message that is sent back keeps its ID, kind and body, and is decided exactly once. Its attempts start at zero.
func TestRetry(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	sent := w.poison(t, 4, func(reservations.MakeReservation) error { return errors.New("the oven is cold") })
	id := reservations.Key(sent[0].ID)
	if got := w.poisoned(t)[id].Attempts; got != 2 {
		t.Fatalf("got %d attempts, want 2", got)
	}
	r := w.want(t, 0, "poison", "retry", "-id", id, "-id", reservations.Key(sent[1].ID))
	if r.out != "Sent back 2 messages.\n" || r.err != "" {
		t.Errorf("got %q and %q", r.out, r.err)
	}
	stop := w.work(t, func(reservations.MakeReservation) error { return errors.New("the oven is cold") })
	w.drained(t, "reservations")
	stop()
	if got := w.poisoned(t); len(got) != 4 || got[id].Attempts != 2 || got[id].Deliveries != 2 {
		t.Errorf("failed again: got %d messages, %d attempts and %d deliveries, want 4, 2 and 2", len(got), got[id].Attempts, got[id].Deliveries)
	}
	w.want(t, 3, "poison", "retry", "-all", "-id", "nope", "-dry-run=false", "-queue", "mails", "-all=false")
	w.want(t, 3, "poison", "retry", "-id", "nope", "-id", id) // one of them is there, and is sent
	key := w.poisoned(t)[reservations.Key(sent[1].ID)].Key
	got := jsonLines[acts.Settled](t, w.want(t, 0, "poison", "retry", "-json", "-reason", handlers.ReasonAttempts, "-kind", "reservations.make.v1", "-id", key))
	if len(got) != 1 || got[0].Result != "sent back" || got[0].Key != key {
		t.Errorf("by kind, reason and key: got %+v", got)
	}
	w.want(t, 0, "poison", "retry", "-all", "-queue", "reservations")
	w.work(t, nil)
	w.drained(t)
	w.audit(t, sent)
	if got := w.poisoned(t); len(got) > 0 {
		t.Errorf("got %d messages in the poison queue, want none", len(got))
	}
	if r := w.want(t, 0, "poison", "retry", "-all"); r.out != "Sent back 0 messages.\n" {
		t.Errorf("got %q", r.out)
	}
}

// A dry run shows what a retry or discard would do, and does nothing.
func TestDryRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	w.poison(t, 2, closed)
	for _, verb := range []string{"retry", "discard"} {
		if r := w.want(t, 0, "poison", verb, "-all", "-dry-run"); strings.Count(r.out, "kitchen closed") != 2 || !strings.Contains(r.out, "2 messages.") {
			t.Errorf("%s: got %q", verb, r.out)
		}
		for _, s := range jsonLines[acts.Settled](t, w.want(t, 0, "poison", verb, "-all", "-dry-run", "-json")) {
			if s.Result != "selected" {
				t.Errorf("%s: got %q, want %q", verb, s.Result, "selected")
			}
		}
	}
	st, err := w.store.Queue("reservations").Stats(t.Context())
	if got := len(w.poisoned(t)); got != 2 || err != nil || st.Ready != 0 {
		t.Errorf("got %d in the poison queue and %+v (%v), want nothing done", got, st, err)
	}
}

// retry announces a message whose ID is older than the replay records remember.
func TestRetryOfWhatIsOld(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	m := reservation(0)
	m.ID = "01900000" + m.ID[8:] // a UUIDv7 begins with its time, here 2024
	sender, err := channel.NewSender[reservations.MakeReservation](w.channels)
	if err == nil {
		err = sender.Send(t.Context(), m)
	}
	if err != nil {
		t.Fatal(err)
	}
	w.poison(t, 1, closed)
	for _, args := range [][]string{{"-dry-run"}, {"-json"}} {
		if r := w.want(t, 0, append([]string{"poison", "retry", "-all"}, args...)...); !strings.Contains(r.err, "1 message with an ID more than 30 days old") {
			t.Errorf("%s: got %q, want it said beforehand", args, r.err)
		}
	}
}

func TestDiscard(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	sent := w.poison(t, 3, closed)
	w.want(t, 2, "poison", "discard", "-why", "x", "-all")
	if r := w.want(t, 0, "poison", "discard", "-why", "x", "-yes", "-id", reservations.Key(sent[0].ID)); r.out != "Discarded 1 message.\n" {
		t.Errorf("got %q", r.out)
	}
	if got := jsonLines[acts.Settled](t, w.want(t, 0, "poison", "discard", "-why", "x", "-yes", "-json", "-all")); len(got) != 2 || got[0].Result != "discarded" {
		t.Errorf("got %+v", got)
	}
	w.want(t, 2, "poison", "discard", "-why", "x", "-all") // even if there are none
	if r := w.want(t, 0, "poison", "discard", "-why", "x", "-all", "-yes"); r.out != "Discarded 0 messages.\n" {
		t.Errorf("of none: got %q", r.out)
	}
	if got := len(w.poisoned(t)); got > 0 {
		t.Errorf("got %d messages, want none", got)
	}
}

// An entry was replaced or deleted after it was read: nothing is lost, and the output says so.
func TestChangedMeanwhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	w.poison(t, 2, closed)
	var keys []string
	for _, m := range w.poisoned(t) {
		keys = append(keys, "reservations/"+m.Key)
	}
	blobs := w.store.Blobs("poison")
	interfere := sync.OnceValue(func() error { // the first one came again, and somebody has removed the other one
		blob, err := blobs.Get(t.Context(), keys[0], "")
		if err == nil {
			_, err = blobs.Put(t.Context(), keys[0], blob.Body, storage.Condition{})
		}
		return cmp.Or(err, blobs.Delete(t.Context(), keys[1], storage.Condition{}))
	})
	late := storagetest.Intercept(w.store, func(_ context.Context, op storagetest.Op, do func() error) error {
		if op.Name == "delete blob" {
			if err := interfere(); err != nil {
				t.Error(err)
			}
		}
		return do()
	})
	code, out, told := w.do(t, late, "poison", "discard", "-why", "x", "-all", "-yes", "-json")
	if code != boot.ExitError || !strings.Contains(told, "1 message not settled") {
		t.Errorf("got exit code %d and %q, want an error for the new entry", code, told)
	}
	results := map[string]string{}
	for _, line := range jsonLines[acts.Settled](t, result{out: out}) {
		results["reservations/"+line.Key] = line.Result
	}
	if results[keys[0]] != "changed" || results[keys[1]] != "gone" {
		t.Errorf("got %v", results)
	}
	if got := len(w.poisoned(t)); got != 1 {
		t.Errorf("got %d messages, want the new entry", got)
	}
}

// A message that failed in a queue without a route goes back to that queue.
func TestRetryWithoutARoute(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	w.poison(t, 1, closed)
	for _, m := range w.poisoned(t) {
		b, err := json.Marshal(m)
		if err == nil {
			_, err = w.store.Blobs("poison").Put(t.Context(), "former/"+m.Key, b, storage.Condition{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if r := w.want(t, 0, "poison", "retry", "-all", "-queue", "former"); !strings.Contains(r.err, "former is in no route") {
		t.Errorf("got %q, want it said", r.err)
	}
	if st, err := w.store.Queue("former").Stats(t.Context()); err != nil || st.Ready != 1 {
		t.Errorf("got %+v (%v), want the message there", st, err)
	}
	if got := len(w.poisoned(t)); got != 1 {
		t.Errorf("of reservations: got %d, want it untouched", got)
	}
	for range poison.At(w.channels, "former").List(t.Context()) {
		t.Error("the entry is still there")
	}
}

// A store that can't be reached ends the run: the other entries would fail as well, each after a long wait.
func TestStoreGoesAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	w.poison(t, 200, closed)
	var sends atomic.Int64
	away := storagetest.Intercept(w.store, func(_ context.Context, op storagetest.Op, do func() error) error {
		if op.Name == "commit" && sends.Add(1) > 2 { // that this process does the act, and a page
			return op.Fail(storage.ErrUnavailable)
		}
		return do()
	})
	var told strings.Builder
	x := sessionIn(t, programs()["sample"], away, "", "poison", "retry", "-all")
	x.process.Stderr = &told
	err := x.runIn(t.Context())
	if n := strings.Count(told.String(), "\n"); n > act.MostFaults {
		t.Errorf("got %d lines of faults, want %d at most:\n%s", n, act.MostFaults, told.String())
	}
	if !errors.Is(err, storage.ErrUnavailable) || x.tell(err) != boot.ExitError {
		t.Errorf("got %v, want %v", err, storage.ErrUnavailable)
	}
	if n := sends.Load(); n > 3 {
		t.Errorf("got %d units of work, want it to stop after the first that fails", n)
	}
	if got := len(w.poisoned(t)); got != 200-page {
		t.Errorf("got %d left, want %d", got, 200-page)
	}
	id := regexp.MustCompile(`bulk resume (\S+) goes on`).FindStringSubmatch(fmt.Sprint(err))
	if id == nil {
		t.Fatalf("got %v, want the command line that goes on", err)
	}
	w.want(t, 0, "bulk", "resume", id[1])
	if got := len(w.poisoned(t)); got != 0 {
		t.Errorf("got %d left after it went on, want none", got)
	}
}
