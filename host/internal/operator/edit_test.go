package operator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/poison"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// poisoned sends an Add and lets it fail. It returns its ID.
func (x *stranger) poisoned(t *testing.T, m worldtest.Add) string {
	t.Helper()
	fail := x.fail
	x.fail = func(worldtest.Add) error { return handlers.Poison("closed", errors.New("closed")) }
	worldtest.Send(x.World, m)
	x.work(t)
	x.fail = fail
	all := x.Poisoned(worldtest.Accounts)
	if len(all) != 1 {
		t.Fatalf("got %d messages in the poison queue, want 1", len(all))
	}
	return all[0].ID
}

// keep puts an entry into the poison queue once more, as if it had come again, or had never been removed.
func (x *stranger) keep(t *testing.T, queue string, act func()) {
	t.Helper()
	kept := map[string][]byte{}
	for info, err := range x.Store.Blobs("poison").List(t.Context(), queue+"/") {
		if err != nil {
			t.Fatal(err)
		}
		b, err := x.Store.Blobs("poison").Get(t.Context(), info.Key, "")
		if err != nil {
			t.Fatal(err)
		}
		kept[info.Key] = b.Body
	}
	act()
	for key, body := range kept {
		if _, err := x.Store.Blobs("poison").Put(t.Context(), key, body, storage.Condition{}); err != nil {
			t.Fatal(err)
		}
	}
}

// The law of edits: the edited message is another one, caused by the old one, and the same edit made twice has its
// effect once, wherever the first one ended.
func TestTheSameEditTwiceHasItsEffectOnce(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"", "order-17"} { // an ID with a time, and one without
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			x := newStranger(t, worldtest.OpenStore(t, ""))
			x.publish(t)
			old := x.poisoned(t, worldtest.Add{Key: id, To: "ada", Amount: 1, Note: "old"})
			away := storagetest.Intercept(x.Store, func(_ context.Context, op storagetest.Op, do func() error) error {
				if op.Name == "delete blob" && strings.Contains(op.Resource, "poison") {
					return op.Fail(storage.ErrUnavailable)
				}
				return do()
			})
			code, out, told := x.doOn(t, away, `{"to":"ada","amount":2}`, "poison", "edit", "-why", "x", old, "-")
			if code != 1 || !strings.Contains(told, "is the same message") || !strings.Contains(out, "in place of "+old) {
				t.Errorf("interrupted: got exit code %d, %q and %q", code, out, told)
			}
			x.keep(t, worldtest.Accounts, func() { // another form of the same JSON
				x.want(t, 0, `{ "amount": 2, "to": "\u0061da" }`, "poison", "edit", "-why", "x", old, "-again", "-")
			})
			x.want(t, 0, `{"to":"ada","amount":2}`, "poison", "edit", "-why", "x", old, "-", "-json")
			if n := worldtest.Queued(t, x.Store, worldtest.Accounts); n != 3 {
				t.Errorf("got %d messages, want one for each edit", n)
			}
			x.work(t)
			worldtest.Want(t, "balance", x.Balance("ada"), 2)
			if got := x.Poisoned(worldtest.Accounts); len(got) > 0 {
				t.Errorf("got %+v in the poison queue, want nothing", got)
			}
		})
	}
}

// The same edit by the program's own binary, and by one without its code, is one message with one content.
func TestTheSameEditByTwoBinariesHasItsEffectOnce(t *testing.T) {
	t.Parallel()
	x := newStranger(t, worldtest.OpenStore(t, ""))
	x.publish(t)
	old := x.poisoned(t, worldtest.Add{Key: "order-17", To: "ada", Amount: 1, Note: "old"})
	edit := func() { // the type has its members in another order
		x.want(t, 0, `{"to":"ada","amount":2,"note":""}`, "poison", "edit", "-why", "x", old, "-")
	}
	x.keep(t, worldtest.Accounts, edit)
	x.tool = x.own()
	edit()
	got := worldtest.Take(t, x.Store, worldtest.Accounts)
	if len(got) != 2 || got[0].ID != got[1].ID || string(got[0].Data) != string(got[1].Data) {
		t.Fatalf("got %+v, want one message twice", got)
	}
	for _, e := range got {
		x.enqueue(t, worldtest.Accounts, e)
	}
	x.work(t)
	worldtest.Want(t, "balance", x.Balance("ada"), 2)
	if got := x.Poisoned(worldtest.Accounts); len(got) > 0 {
		t.Errorf("got %+v in the poison queue, want nothing", got)
	}
}

// An edited message continues the chain of the old one, and is still of its source.
func TestEditedMessage(t *testing.T) {
	t.Parallel()
	x := newStranger(t, worldtest.OpenStore(t, ""))
	x.publish(t)
	worldtest.Send(x.World, worldtest.Add{To: "ada", Amount: 1, Note: "bad"})
	x.work(t) // the event's reaction fails
	entry := x.Poisoned("notes")[0]
	old, err := wire.Decode(entry.Body)
	if err != nil {
		t.Fatal(err)
	}
	contains(t, "a body that was not changed", x.want(t, 2, string(old.Data), "poison", "edit", "-why", "x", old.ID, "-"), "the body is as it was")
	contains(t, "a body that doesn't fit", x.want(t, 2, `{"to":"ada"}`, "poison", "edit", "-why", "x", old.ID, "-"), `member "amount" is missing`)
	contains(t, "JSON", x.want(t, 0, `{"to":"ada","amount":1,"balance":1,"note":"`+strings.Repeat("good", 30_000)+`"}`, "poison", "edit", "-why", "x", entry.Key, "-", "-json"),
		`"kind":"test.added.v1","queue":"notes","edited":"`+old.ID+`","result":"sent"}`)
	got := worldtest.Take(t, x.Store, "notes")
	if len(got) != 1 {
		t.Fatalf("got %d messages, want 1", len(got))
	}
	e := got[0]
	if err := x.Channels.Outbox().FetchBody(t.Context(), &e); err != nil { // it is claim-checked
		t.Fatal(err)
	}
	if e.Causation != old.ID || e.Correlation != old.Correlation || e.Source != old.Source || e.Sequence != old.Sequence || e.Subject != old.Subject || e.Attempts != 0 ||
		!strings.Contains(string(e.Data), "goodgood") || e.ID == old.ID {
		t.Errorf("got %+v, edited from %+v", e, old)
	}
	if a, b := e.Born(), old.Born(); !a.Equal(b) {
		t.Errorf("it counts from %v, want the old one's %v", a, b)
	}
}

// Law: an edit is refused if the old message was applied, wherever that is recorded, and if nobody can tell.
func TestEditIsRefusedIfApplied(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, "")
	x := newStranger(t, s)
	x.publish(t)
	for i := range 80 { // so many that the first ones leave the document's record
		worldtest.Send(x.World, worldtest.Add{Key: fmt.Sprintf("order-%d", i), To: "ada", Amount: 1})
	}
	worldtest.Send(x.World, worldtest.Add{To: "ada", Amount: 1})
	x.work(t)
	rows := 0
	for _, err := range s.Table("accounts-applied").Query(t.Context(), "ada", storage.RowRange{}) {
		if err != nil {
			t.Fatal(err)
		}
		rows++
	}
	if rows == 0 {
		t.Fatal("no message has left the record")
	}
	own := x.own()
	noted := worldtest.Envelope("noted", worldtest.Added{To: "x"})
	x.enqueue(t, "notes", noted)
	refused := worldtest.Envelope("refused", worldtest.Refused{To: "x"})
	x.enqueue(t, worldtest.Audits, refused)
	x.work(t)
	seen := map[string]bool{}
	notes := func() (fresh storage.Row) {
		for row, err := range s.Table("once").Query(t.Context(), "notes", storage.RowRange{}) {
			if err != nil {
				t.Fatal(err)
			}
			if !seen[row.Key] {
				seen[row.Key], fresh = true, row
			}
		}
		return fresh
	}
	notes()
	begun := worldtest.Envelope("begun", worldtest.Added{To: "x"})
	x.enqueue(t, "notes", begun)
	x.work(t)
	row := notes()
	if _, err := s.Table("once").Put(t.Context(), "notes", row.Key, []byte(strings.Replace(string(row.Data), `"done":true`, `"done":false`, 1)), storage.Condition{}); err != nil {
		t.Fatal(err)
	}
	// Copies of applied messages are put into the poison queue, as a retry that was interrupted leaves them.
	copyOf := func(queue string, e channel.Envelope) {
		body := x.enqueue(t, queue, e)
		got, err := s.Queue(queue).Receive(t.Context(), 1, time.Minute)
		if err == nil {
			err = poison.Put(t.Context(), s, &e, poison.Entry{Queue: queue, ID: e.ID, Kind: e.Kind, Reason: "closed", Body: body, Last: time.Now()},
				func(context.Context) (storage.Claim, error) {
					return storage.Claim{Queue: queue, Receipt: got[0].Receipt}, nil
				})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	add := func(id, subject string) channel.Envelope {
		e := worldtest.Envelope(id, worldtest.Add{To: "ada", Amount: 1})
		e.Subject = subject
		return e
	}
	for _, c := range []struct {
		name, queue string
		e           channel.Envelope
		own         bool
		want        string // "" is allowed
	}{
		{"in the record", "accounts", add("order-79", "ada"), false, `document "ada" in accounts has it`},
		{"in a row", "accounts", add("order-0", "ada"), false, `document "ada" in accounts has it`},
		{"of no subject", "accounts", add("order-78", ""), false, `document "ada" in accounts has it`},
		{"in a row, of another subject", "accounts", add("order-1", "bob"), false, `document "ada" in accounts has it`},
		{"by the program's own code", "accounts", add("order-77", ""), true, `document "ada" in accounts has it`},
		{"never applied", "accounts", add("order-never", "ada"), false, ""},
		{"never applied, by the program's own code", "accounts", add("order-never", ""), true, ""},
		{"a reaction", "thanks", worldtest.Envelope("thanks", wished{To: "x"}), false, "nobody can tell whether the old message has had its effect: react thanks is a reaction"},
		{"a queue of no handler", "lists", worldtest.Envelope("lists", worldtest.Added{To: "x"}), false, "no program says how it handles"},
		{"by a subscriber group", "audits", refused, false, `document "x" in accounts has it`},
		{"by a subscriber group, by the program's own code", "audits", refused, true, `document "x" in accounts has it`},
		{"noted as done", "notes", noted, false, "its reaction in queue notes is noted as done"},
		{"noted as begun", "notes", begun, false, "its reaction in queue notes has begun"},
		{"never noted", "notes", worldtest.Envelope("never noted", worldtest.Added{To: "x"}), false, ""},
	} {
		copyOf(c.queue, c.e)
		x.tool = Program{}
		if c.own {
			x.tool = own
		}
		body := map[string]string{"accounts": `{"to":"ada","amount":1000}`, "thanks": `{"to":"y"}`, "audits": `{"to":"y"}`}[c.queue]
		if body == "" {
			body = `{"to":"y","amount":1,"balance":1}`
		}
		if c.want == "" {
			x.want(t, 0, body, "poison", "edit", "-why", "x", c.e.ID, "-queue", c.queue, "-")
			worldtest.Take(t, s, c.queue)
			continue
		}
		contains(t, c.name, x.want(t, 1, body, "poison", "edit", "-why", "x", c.e.ID, "-queue", c.queue, "-"), c.want, "--again")
		if got := len(x.Poisoned(c.queue)); got != 1 {
			t.Errorf("%s: got %d entries after a refusal, want 1", c.name, got)
		}
		x.want(t, 0, body, "poison", "edit", "-why", "x", c.e.ID, "-queue", c.queue, "-again", "-")
		worldtest.Take(t, s, c.queue)
	}
}

// enqueue sends an envelope as it is.
func (x *stranger) enqueue(t *testing.T, queue string, e channel.Envelope) (body []byte) {
	t.Helper()
	body, err := e.Encode()
	if err == nil {
		err = x.Store.Queue(queue).Send(t.Context(), []storage.Message{{Body: body}})
	}
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// An entry that is no message can't be edited, and an ID that stands for several messages needs a key.
func TestEditNeedsOneMessage(t *testing.T) {
	t.Parallel()
	x := newStranger(t, worldtest.OpenStore(t, ""))
	x.publish(t)
	if err := x.Store.Queue(worldtest.Accounts).Send(t.Context(), []storage.Message{{Body: []byte("junk")}}); err != nil {
		t.Fatal(err)
	}
	x.work(t)
	key := x.Poisoned(worldtest.Accounts)[0].Key
	contains(t, "junk", x.want(t, 1, `{"to":"ada","amount":1}`, "poison", "edit", "-why", "x", key, "-"), "holds no message that could be edited", "millrace send")
	x.want(t, 0, "", "poison", "discard", "-why", "x", "-id", key, "-yes")
	x.poisoned(t, worldtest.Add{Key: "twice", To: "ada", Amount: 1})
	x.keep(t, worldtest.Accounts, func() {
		x.want(t, 0, "", "poison", "discard", "-why", "x", "-id", "twice", "-yes")
		x.poisoned(t, worldtest.Add{Key: "twice", To: "ada", Amount: 2})
	})
	all := x.Poisoned(worldtest.Accounts)
	contains(t, "two", x.want(t, 2, `{"to":"ada","amount":3}`, "poison", "edit", "-why", "x", "twice", "-"), `"twice" stands for several messages`, all[0].Key, all[1].Key)
	x.want(t, 0, `{"to":"ada","amount":3}`, "poison", "edit", "-why", "x", all[0].Key, "-")
	if left := x.Poisoned(worldtest.Accounts); len(left) != 1 || left[0].Key != all[1].Key {
		t.Errorf("got %d entries left, want the other one", len(left))
	}
	x.want(t, 3, `{}`, "poison", "edit", "-why", "x", "nope", "-")
}

// A message that the program has compensated for is edited only by who knows better. With the program's code an edit is
// decoded, checked by the message itself, and addressed to the right document.
func TestEditWithTheProgramsCode(t *testing.T) {
	t.Parallel()
	x := newStranger(t, worldtest.OpenStore(t, ""))
	x.publish(t)
	x.tool = x.own()
	id := strings.TrimSpace(x.want(t, 0, `{"for":"eve","items":null,"price":-1}`, "send", "stranger.wish.v1", "-"))
	contains(t, "send", x.want(t, 2, `{"for":"eve","items":null,"price":101}`, "send", "stranger.wish.v1", "-"), "standard input: refused by its check: price: at most 100")
	x.work(t)
	contains(t, "edit", x.want(t, 2, `{"for":"eve","items":[],"price":101}`, "poison", "edit", "-why", "x", id, "-"), "price: at most 100")
	contains(t, "edit", x.want(t, 1, `{"for":"eve","items":[],"price":1}`, "poison", "edit", "-why", "x", id, "-"), "the program has compensated for the old message, by ", "--again")
	contains(t, "retry", x.want(t, 0, "", "poison", "retry", "-all", "-dry-run"), "Note: the program has compensated for 1 message. ")
	x.want(t, 0, `{"price":1,"items":[],"for":"eve"}`, "poison", "edit", "-why", "x", id, "-again", "-")
	if got := worldtest.Take(t, x.Store, "wishes"); len(got) != 1 || string(got[0].Data) != `{"for":"eve","items":[],"price":1}` {
		t.Errorf("got %+v, want the form that the type has", got)
	}
}

// An edited message counts from the same time as the old one. So the edit of one that is too old to judge is refused,
// with advice; -again sends it with a note.
func TestEditOfWhatIsOld(t *testing.T) {
	t.Parallel()
	x := newStranger(t, worldtest.OpenStore(t, ""))
	x.publish(t)
	const id = "01900000-0000-7000-8000-000000000001" // a UUIDv7 begins with its time, here 2024
	x.enqueue(t, "notes", worldtest.Envelope(id, worldtest.Added{To: "x", Note: "bad"}))
	x.work(t)
	const body = `{"to":"y","amount":1,"balance":1}`
	contains(t, "refused", x.want(t, 1, body, "poison", "edit", "-why", "x", id, "-"), "more than 30 days ago", "millrace send", "--again")
	if got := len(x.Poisoned("notes")); got != 1 {
		t.Errorf("got %d entries after a refusal, want 1", got)
	}
	contains(t, "again", x.want(t, 0, body, "poison", "edit", "-why", "x", id, "-again", "-"), "Note: the old message counts from more than 30 days ago")
}
