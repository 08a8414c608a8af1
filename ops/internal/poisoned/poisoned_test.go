package poisoned_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/catalog"
	"github.com/millrace-go/millrace/ops/internal/poisoned"
	"github.com/millrace-go/millrace/poison"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// heard keeps the notes of an act.
type heard struct {
	notes []string
	next  string
}

func (h *heard) Table(string, []string) error                          { return nil }
func (h *heard) Row(any, []any) error                                  { return nil }
func (h *heard) Thing(any, []act.Part, string) error                   { return nil }
func (h *heard) Draw(any, func(int, func(string) string) string) error { return nil }
func (h *heard) Say(any, string) error                                 { return nil }
func (h *heard) Note(text string) error {
	h.notes = append(h.notes, text)
	return nil
}
func (h *heard) Next(_, text, note string) {
	h.next, h.notes = text, append(h.notes, note)
}
func (h *heard) Begin(string, int) act.Progress { return nobody{} }
func (h *heard) End() error                     { return nil }

type nobody struct{}

func (nobody) Add(int) {}
func (nobody) End()    {}

// Guest is a message with a member that never leaves the process.
type Guest struct {
	Name  string `json:"name"`
	Card  string `json:"card" millrace:"secret"`
	Lines []Line `json:"lines"`
}

// Line is a part of a Guest.
type Line struct {
	Item string `json:"item"`
	N    int    `json:"n"`
}

// Kind implements channel.Message.
func (Guest) Kind() channel.Kind { return "test.guest.v1" }

// failed puts a message into the poison queue of a queue.
func failed(t *testing.T, s *storage.Store, queue string, g Guest, fault string, last time.Time) (id string) {
	t.Helper()
	id = channel.NewID()
	data, err := json.Marshal(g)
	if err != nil {
		t.Fatal(err)
	}
	body := fmt.Appendf(nil, `{"specversion":"1.0","id":%q,"source":"/test","type":"test.guest.v1","data":%s}`, id, data)
	key := fmt.Sprintf("%032x", last.UnixNano())
	raw, err := json.Marshal(poison.Entry{Key: key, Queue: queue, Reason: handlers.ReasonAttempts, Error: fault, First: last, Last: last, ID: id, Kind: "test.guest.v1", Body: body})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Blobs("poison").Put(t.Context(), queue+"/"+key, raw, storage.Condition{}); err != nil {
		t.Fatal(err)
	}
	return id
}

// A desk picks entries of a store whose program has published its kinds.
type desk struct {
	*act.Desk
	t *testing.T
}

func newDesk(t *testing.T, s *storage.Store) *desk {
	t.Helper()
	w := worldtest.NewBare(t, s, handlers.Config{}, channel.Command[Guest]("mails"))
	handlers.React(w.Registry, "mails", func(context.Context, Guest) error { return nil })
	if err := catalog.Publish(t.Context(), w.Registry, catalog.Program{Name: "inn", Version: "v1"}); err != nil {
		t.Fatal(err)
	}
	d, err := act.Open(t.Context(), s, act.Program{})
	if err != nil {
		t.Fatal(err)
	}
	return &desk{d, t}
}

// ask does f as an act that may reveal.
func (d *desk) ask(reveal bool, f func(context.Context, *act.Call) error) (notes []string, err error) {
	d.t.Helper()
	r := act.New(act.Act{Noun: "guests", Verb: "look", Role: act.Viewer, Reveals: true}, nil, func(ctx context.Context, c *act.Call, _ *act.None) error {
		return f(ctx, c)
	}).Request()
	for _, x := range []string{"reveal=" + fmt.Sprint(reveal), "why=lost dinner"} {
		name, text, _ := strings.Cut(x, "=")
		if err := r.Field(name).Set(text); err != nil {
			d.t.Fatal(err)
		}
	}
	h := new(heard)
	err = r.Do(d.t.Context(), act.NewCall(d.Desk, "ada", h))
	return h.notes, err
}

// pick returns the IDs of the entries that are picked.
func (d *desk) pick(reveal bool, in poisoned.Selection) (ids, notes []string, err error) {
	d.t.Helper()
	notes, err = d.ask(reveal, func(ctx context.Context, c *act.Call) error {
		p, err := in.Pick(ctx, c)
		for _, e := range p.Entries {
			ids = append(ids, e.ID)
		}
		return cmp.Or(err, p.Missing)
	})
	return ids, notes, err
}

// page is pick with what the next page begins with.
func (d *desk) page(in poisoned.Selection) (ids []string, next string, err error) {
	d.t.Helper()
	h := new(heard)
	look := act.New(act.Act{Noun: "guests", Verb: "look", Role: act.Viewer}, nil, func(ctx context.Context, c *act.Call, _ *act.None) error {
		p, err := in.Pick(ctx, c)
		for _, e := range p.Entries {
			ids = append(ids, e.ID)
		}
		return err
	})
	err = look.Request().Do(d.t.Context(), act.NewCall(d.Desk, "ada", h))
	return ids, h.next, err
}

// Law: errors of one cause have one fingerprint, which tells nothing of their text.
func TestLawFingerprintsNameCauses(t *testing.T) {
	t.Parallel()
	same := []string{
		`dial tcp 10.0.0.7:25: connect: connection refused after 3 attempts of "ada@example.org"`,
		`dial tcp 192.168.14.9:587: connect: connection refused after 12 attempts of "bob@example.org"`,
	}
	one := poisoned.Fingerprint(same[0])
	worldtest.Want(t, "another mail", poisoned.Fingerprint(same[1]), one)
	worldtest.Want(t, "other IDs", poisoned.Fingerprint("order 0192ab3c-7d11-7def-8f00-0123456789ab is 0xdeadbeef"), poisoned.Fingerprint("order 01777777-7d11-7def-8f00-abcdefabcdef is 0x1"))
	if len(one) != 8 || poisoned.Fingerprint("no route to host") == one || poisoned.Fingerprint("") != "" {
		t.Errorf("got %q, %q and %q", one, poisoned.Fingerprint("no route to host"), poisoned.Fingerprint(""))
	}
}

// Law: a limit bounds the work, whatever the queues hold. The latest entries are looked at, and a note says so.
func TestLawALimitBoundsTheWork(t *testing.T) {
	t.Parallel()
	var gets atomic.Int64
	s := storagetest.Intercept(worldtest.OpenStore(t, "?sync=normal"), func(_ context.Context, op storagetest.Op, do func() error) error {
		if op.Name == "get blob" {
			gets.Add(1)
		}
		return do()
	})
	d := newDesk(t, s)
	began := time.Now().Add(-time.Hour)
	var all []string
	for i := range 2500 {
		all = append(all, failed(t, s, "mails", Guest{Name: "Ada"}, "no route", began.Add(time.Duration(i)*time.Second)))
	}
	slices.Reverse(all)
	before := gets.Load()
	ids, notes, err := d.pick(false, poisoned.Selection{Limit: 100})
	if err != nil || !slices.Equal(ids, all[:100]) || len(notes) != 1 || !strings.Contains(notes[0], "There are more") {
		t.Errorf("got %d entries, notes %q, %v", len(ids), notes, err)
	}
	if n := gets.Load() - before; n == 0 || n > 150 {
		t.Errorf("100 of 2500 entries: %d blobs were read", n)
	}
	ids, notes, err = d.pick(false, poisoned.Selection{Limit: 100, Kind: "nobody.v1"})
	if len(ids) > 0 || err == nil || len(notes) != 2 || !strings.Contains(notes[0], "only the latest 2016 of 2500 messages were looked at") {
		t.Errorf("got %d entries, notes %q, %v", len(ids), notes, err)
	}
	var paged []string
	for after, n := "", 0; n == 0 || after != ""; n++ {
		ids, after, err = d.page(poisoned.Selection{Limit: 700, After: after})
		if err != nil || n > 4 {
			t.Fatalf("page %d after %q: %v", n, after, err)
		}
		paged = append(paged, ids...)
	}
	if !slices.Equal(paged, all) {
		t.Errorf("page by page: got %d entries, want %d in their order", len(paged), len(all))
	}
	if _, _, err := d.page(poisoned.Selection{Limit: 5, After: "x"}); err == nil || !strings.Contains(err.Error(), "note of the list before") {
		t.Errorf("got %v", err)
	}
}

// Law: somebody who looks for content may see it. A secret is never found.
func TestLawSearchesRevealNothing(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, "")
	d := newDesk(t, s)
	now := time.Now()
	ada := failed(t, s, "mails", Guest{Name: "Ada", Card: "4111", Lines: []Line{{"soup", 2}, {"bread", 7}}}, "no address", now)
	failed(t, s, "mails", Guest{Name: "Bob", Card: "5222"}, "no route", now.Add(time.Second))
	for _, in := range []poisoned.Selection{
		{Text: "Ada"}, {Text: "no address"}, {Data: "name=Ada"}, {Data: "lines.item=bread"}, {Data: "lines.n=7"},
		{Text: "Ada", Limit: 5}, {Data: "name=Ada", Limit: 5},
	} {
		ids, _, err := d.pick(true, in)
		if err != nil || !slices.Equal(ids, []string{ada}) {
			t.Errorf("%+v: got %v, %v; want %s", in, ids, err, ada)
		}
		if _, _, err := d.pick(false, in); err == nil || !strings.Contains(err.Error(), "add --reveal") {
			t.Errorf("%+v by somebody who may not see it: got %v", in, err)
		}
	}
	for _, in := range []poisoned.Selection{{Text: "4111"}, {Data: "card=4111"}, {Data: "name=ada"}, {Data: "lines.item=so"}, {Data: "lines=7"}} {
		if ids, _, err := d.pick(true, in); len(ids) > 0 || err == nil {
			t.Errorf("%+v: got %v, %v", in, ids, err)
		}
	}
	if _, _, err := d.pick(true, poisoned.Selection{Data: "name"}); err == nil || !strings.Contains(err.Error(), "want PATH=VALUE") {
		t.Errorf("got %v", err)
	}
}

// Groups are counted by what most likely is their cause, and tell no text of an error to somebody who may not see it.
func TestGroups(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, "")
	d := newDesk(t, s)
	now := time.Now()
	for i := range 7 {
		failed(t, s, "mails", Guest{}, fmt.Sprintf("no route to %d", i), now.Add(time.Duration(i)*time.Second))
	}
	failed(t, s, "mails", Guest{}, "no address", now.Add(-time.Second))
	for _, reveal := range []bool{true, false} {
		var got []poisoned.Group
		if _, err := d.ask(reveal, func(ctx context.Context, c *act.Call) (err error) {
			got, err = (&poisoned.Selection{Limit: 100}).Groups(ctx, c)
			return err
		}); err != nil || len(got) != 2 || got[0].Messages != 7 || got[1].Messages != 1 || got[0].Print != poisoned.Fingerprint("no route to 1") ||
			!got[0].Latest.Equal(now.Add(6*time.Second)) || (got[0].Error == "no route to 6") != reveal || got[0].Error == "" {
			t.Errorf("got %+v, %v", got, err)
		}
	}
}
