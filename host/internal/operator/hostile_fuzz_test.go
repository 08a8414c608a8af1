package operator

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/host/internal/boot"
	"github.com/millrace-go/millrace/internal/parttest"
	"github.com/millrace-go/millrace/poison"
	"github.com/millrace-go/millrace/storage"
)

// put puts a blob into the poison queue of the commands.
func (d *desk) put(t *testing.T, key string, body []byte) {
	t.Helper()
	if _, err := d.store.Blobs("poison").Put(t.Context(), key, body, storage.Condition{}); err != nil {
		t.Fatal(err)
	}
}

// count is the number of blobs in a container.
func (d *desk) count(t *testing.T, container string) (n int) {
	t.Helper()
	for _, err := range d.store.Blobs(container).List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

// taken takes the messages that wait in the queue of the commands.
func (d *desk) taken(t *testing.T) (bodies []string) {
	t.Helper()
	q := d.store.Queue("reservations")
	for {
		ds, err := q.Receive(t.Context(), 100, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if len(ds) == 0 {
			return bodies
		}
		receipts := make([]storage.Receipt, len(ds))
		for i, x := range ds {
			bodies, receipts[i] = append(bodies, string(x.Body)), x.Receipt
		}
		if err := q.Delete(t.Context(), receipts); err != nil {
			t.Fatal(err)
		}
	}
}

const goodKey = "00112233445566778899aabbccddeeff"

// goodEntry is an entry as a worker writes it. A retry sends its message back.
func goodEntry(t testing.TB, key string) []byte {
	t.Helper()
	body := `{"specversion":"1.0","id":"good","source":"/web","type":"reservations.make.v1","data":{"name":"Ada"}}`
	b, err := json.Marshal(poison.Entry{Key: key, Queue: "reservations", Reason: "kitchen closed", ID: "good", Kind: "reservations.make.v1", Last: time.Now(), Body: []byte(body)})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// An entry that can't be decoded is listed beside the others under its key. show prints it as it is, retry never
// sends it, and discard deletes it.
func TestUnreadableEntries(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.put(t, "reservations/"+goodKey, goodEntry(t, goodKey))
	broken := map[string]string{
		"not json at all": "junk \x1b[31m\nfoo", "null": "null", "half": `{"key":"half","id"`, "number": `{"key":"number","attempts":"many"}`,
		"other": string(goodEntry(t, goodKey)), "id": `{"key":"id","id":"a\u001b[31m"}`, "kind": `{"key":"kind","kind":"No Kind"}`, "empty": "",
	}
	for key, body := range broken {
		d.put(t, "reservations/"+key, []byte(body))
	}
	d.put(t, "No Queue/x", []byte("x"))
	d.put(t, "alone", []byte("x"))

	out, code := d.do(t, "poison", "list")
	if code != 0 || !strings.Contains(out, "kitchen closed") || strings.Count(out, poison.ReasonUnreadable) != len(broken)+1 {
		t.Errorf("list: got exit code %d and\n%swant the good one and %d unreadable ones", code, out, len(broken)+1)
	}
	if out, code := d.do(t, "queues"); code != 0 || !strings.Contains(out, "No Queue") {
		t.Errorf("queues: got exit code %d and\n%s", code, out)
	}
	for key, body := range broken {
		if out, code := d.do(t, "poison", "show", key); code != 0 || !strings.Contains(out, poison.ReasonUnreadable) || body == "null" && !strings.Contains(out, "null") {
			t.Errorf("show %q: got exit code %d and\n%s", key, code, out)
		}
	}
	if out, code := d.do(t, "poison", "retry", "-all"); code != 1 || !strings.Contains(out, "discard it") {
		t.Errorf("retry: got exit code %d and\n%s", code, out)
	}
	if got := d.taken(t); len(got) != 1 || !strings.Contains(got[0], `"good"`) {
		t.Errorf("sent: got %q, want the good one", got)
	}
	if out, code := d.do(t, "poison", "discard", "-why", "x", "-yes", "-reason", poison.ReasonUnreadable); code != 0 {
		t.Errorf("discard: got exit code %d and\n%s", code, out)
	}
	if got := d.count(t, "poison"); got != 1 { // the blob that belongs to no queue
		t.Errorf("got %d blobs left, want 1", got)
	}
}

// A reason as large as a blob is short in the table, and whole in JSON.
func TestHugeFields(t *testing.T) {
	parttest.InTurn(t)
	t.Parallel()
	d := newDesk(t)
	huge := strings.Repeat("😀", 1<<20)
	b, err := json.Marshal(poison.Entry{Key: goodKey, Reason: huge, Worker: huge, Error: huge})
	if err != nil {
		t.Fatal(err)
	}
	d.put(t, "reservations/"+goodKey, b)
	if out, _ := d.do(t, "poison", "list"); len(out) > 1000 || !strings.Contains(out, "…") {
		t.Errorf("got %d bytes, want a short line: %.300s", len(out), out)
	}
	if out, _ := d.do(t, "poison", "list", "-json"); !strings.Contains(out, huge) {
		t.Errorf("got %d bytes, want the whole reason", len(out))
	}
}

// Whatever blobs the poison queues hold, every verb ends well, prints nothing that a terminal obeys, and loses
// nothing: a message that a retry takes out is in the queue, and one that it can't send stays.
func FuzzPoisonEntry(f *testing.F) {
	d := newDesk(f)
	f.Add("reservations/"+goodKey, goodEntry(f, goodKey))
	f.Add("reservations/x", []byte(`{"key":"x","reason":"\u001b[31m\u202e","body":"e30="}`))
	f.Add("mails/a\u202eb", []byte("null"))
	f.Add("0", []byte("of no queue"))
	f.Add("A B/ ", []byte(`{"key":" ","last":"9999-12-31T23:59:59Z","attempts":-1}`))
	f.Add("/", []byte(`{"key":"","body":"eyJzcGVjdmVyc2lvbiI6IjEuMCJ9"}`))
	f.Fuzz(func(t *testing.T, key string, body []byte) {
		queue, name, ok := strings.Cut(key, "/")
		if storage.CheckKey(key) != nil {
			return
		}
		d.put(t, key, body)
		for _, args := range [][]string{{"queues"}, {"queues", "-json"}, {"poison", "list"}, {"poison", "list", "-json"}, {"poison", "retry", "-all", "-dry-run"}} {
			if out, code := d.do(t, args...); code != boot.ExitOK {
				t.Errorf("millrace %q: got exit code %d and %q", args, code, out)
			}
		}
		if ok && name != "" {
			for _, args := range [][]string{{"poison", "show", "--", name}, {"poison", "show", "-json", "--", name}} {
				if out, code := d.do(t, args...); code != boot.ExitOK {
					t.Errorf("millrace %q: got exit code %d and %q", args, code, out)
				}
			}
		}
		d.do(t, "poison", "retry", "-json", "-all")
		if queue == "reservations" {
			if sent, left := len(d.taken(t)), d.count(t, "poison"); sent+left != 1 {
				t.Errorf("%d sent and %d left of 1", sent, left)
			}
		}
		if out, code := d.do(t, "poison", "discard", "-why", "x", "-yes", "-all"); ok && code != boot.ExitOK {
			t.Errorf("discard: got exit code %d and %q", code, out)
		}
		if left := d.count(t, "poison"); ok && left != 0 {
			t.Errorf("%d entries are left after all were discarded", left)
		}
		if err := d.store.Blobs("poison").Delete(t.Context(), key, storage.Condition{}); err != nil && !errors.Is(err, storage.ErrNotFound) {
			t.Fatal(err)
		}
	})
}
