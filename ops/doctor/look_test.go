package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/audit"
	"github.com/millrace-go/millrace/ops/catalog"
	"github.com/millrace-go/millrace/ops/internal/bulk"
	"github.com/millrace-go/millrace/ops/internal/known"
	"github.com/millrace-go/millrace/poison"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// put writes blobs that nobody can read.
func put(t *testing.T, s *storage.Store, container string, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := s.Blobs(container).Put(t.Context(), name, []byte("junk"), storage.Condition{}); err != nil {
			t.Fatal(err)
		}
	}
}

// deskOf opens a desk.
func deskOf(t *testing.T, s *storage.Store) *act.Desk {
	t.Helper()
	desk, err := act.Open(t.Context(), s, act.Program{})
	if err != nil {
		t.Fatal(err)
	}
	return desk
}

// Each finding of an examination has a key of its own.
func TestLawEachFindingHasItsKey(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, "")
	put(t, s, "gates", "a", "b")
	put(t, s, "counters", "a", "b")
	put(t, s, "leases", "a", "b")
	put(t, s, "schedules", "a", "b")
	put(t, s, "programs", "a/v1", "a/v2")
	all, err := Examine(t.Context(), deskOf(t, s), time.Minute)
	if err != nil || len(all) < 10 {
		t.Fatalf("got %+v, %v; want ten findings", all, err)
	}
	seen := map[string]bool{}
	for _, f := range all {
		if seen[f.Key()] {
			t.Errorf("%s is the key of another finding, too: %+v", f.Key(), f)
		}
		seen[f.Key()] = true
	}
}

// A finding keeps its key while its numbers change.
func TestLawAKeyStays(t *testing.T) {
	t.Parallel()
	desk := &act.Desk{Known: &known.Programs{Queues: map[string]bool{"orders": true},
		Published: []catalog.Description{described("shop", "v1", time.Hour, "a", "a"), ahead(described("mail", "v7", time.Hour, "b", ""), 5*time.Minute)}}}
	keys := func(n int64) (all []string) {
		stats := storage.Stats{Ready: n, InFlight: n, Oldest: time.Duration(n) * time.Hour}
		for _, f := range programFindings(desk, queued{names: []string{"orders"}, stats: []storage.Stats{stats}, poisoned: map[string]int64{"orders": n}}, time.Minute) {
			all = append(all, f.Key())
		}
		return all
	}
	before := keys(1)
	desk.Known.Published[1].Last = desk.Known.Published[1].Last.Add(time.Minute)
	if after := keys(7); !slices.Equal(before, after) || len(before) < 4 {
		t.Errorf("got the keys %q, and later %q; want the same, and four", before, after)
	}
}

// A part of the store that can't be read hides the findings of that part alone, and the examination says which it would
// have seen.
func TestLawAPartThatFailsHidesNoOther(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, "")
	put(t, s, "gates", "a")
	put(t, s, "schedules", "a")
	put(t, s, "poison", "orders/a")
	whole := Look(t.Context(), deskOf(t, s), time.Minute)
	if err := whole.Err(); err != nil {
		t.Fatal(err)
	}
	for part, checks := range map[string][]string{
		"container gates":     {"gates", "counters", "locks"},
		"container schedules": {"schedules"},
		"container poison":    {"poison", "lag", "consumers", "kinds", "pauses", "levels", "turns", "catalog", "clocks", "collections", "log", "versions"},
		"queues":              {},
	} {
		broken := storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
			if op.Resource == part {
				return op.Fail(storage.ErrUnavailable)
			}
			return do()
		})
		desk := deskOf(t, broken)
		x := Look(t.Context(), desk, time.Minute)
		if err := x.Err(); (err != nil) != (len(checks) > 0) || err != nil && !errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("without %s: got the error %v", part, err)
		}
		if _, err := Examine(t.Context(), desk, time.Minute); (err != nil) != (len(checks) > 0) {
			t.Errorf("without %s: Examine returned %v", part, err)
		}
		for _, f := range whole.Findings {
			there := slices.ContainsFunc(x.Findings, func(g Finding) bool { return g.Key() == f.Key() })
			missed := slices.Contains(checks, f.Check)
			if there == missed || x.Saw(f) == missed {
				t.Errorf("without %s: %s is there: %v, and seen: %v", part, f.Key(), there, x.Saw(f))
			}
		}
		if part == "queues" && (x.Saw(Finding{Check: "lag", Queue: "nobodys"}) || !x.Saw(Finding{Check: "lag", Queue: "orders"})) {
			t.Error("an examination that lists no queues has seen a queue of which nobody tells, or not one with poison")
		}
	}
}

// A check that is left out finds nothing, and has seen nothing.
func TestLawAnExaminationLeavesOut(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, "")
	put(t, s, "schedules", "a")
	put(t, s, "gates", "a")
	x := Look(t.Context(), deskOf(t, s), time.Minute, "schedules", "gates")
	if err := x.Err(); err != nil {
		t.Error(err)
	}
	if x.Saw(Finding{Check: "schedules"}) || !x.Saw(Finding{Check: "gates"}) { // counters need the same requests
		t.Error("it has seen schedules, or not gates")
	}
	for _, f := range x.Findings {
		if strings.Contains(f.Check, "schedules") {
			t.Errorf("got %+v", f)
		}
	}
}

// A queue whose service is away is one finding: it is about the guard, and names the queue. Where nobody can read the
// guards, nobody knows why messages wait.
func TestLawAnOutageIsOneFinding(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		guard, doc string // of the queue, and the document of guard post
		want       string // the checks, and the severity of the guard's
		waits      []string
	}{
		"open for all":               {"post", `{"epoch":1,"open":true}`, "guards wrong", []string{"orders"}},
		"damaged":                    {"post", `junk`, "guards wrong", []string{"orders"}},
		"closed":                     {"post", `{"epoch":1}`, "lag wrong", nil},
		"open for one process":       {"post", `{"epoch":1,"ill":["x"]}`, "lag wrong, guards note", nil},
		"the guard of another queue": {"bank", `{"epoch":1,"open":true}`, "lag wrong, guards wrong", nil},
		"no guard":                   {"", `{"epoch":1,"open":true}`, "lag wrong, guards wrong", nil},
	} {
		s := worldtest.OpenStore(t, "")
		d := ahead(described("shop", "v1", time.Hour, "a", "a"), time.Hour) // it was published now
		d.Queues[0].Guard = c.guard
		doc, err := json.Marshal(d)
		if err == nil {
			_, err = s.Blobs("programs").Put(t.Context(), "shop/v1", doc, storage.Condition{})
		}
		if err == nil {
			_, err = s.Blobs("guards").Put(t.Context(), "post", []byte(c.doc), storage.Condition{})
		}
		if err == nil {
			err = s.Queue("orders").Send(t.Context(), []storage.Message{{Body: []byte("{}")}})
		}
		if err != nil {
			t.Fatal(err)
		}
		x := Look(t.Context(), deskOf(t, s), -1)
		var got, waits []string
		for _, f := range x.Findings {
			got, waits = append(got, f.Check+" "+f.Severity), append(waits, f.Waits...)
			if f.Waits != nil && !strings.HasSuffix(f.Text, "Therefore 1 message waits in queue orders") {
				t.Errorf("%s: the text is %q", name, f.Text)
			}
		}
		if strings.Join(got, ", ") != c.want || !slices.Equal(waits, c.waits) || x.Err() != nil {
			t.Errorf("%s: got %q, and %q waits, %v; want %q and %q", name, got, waits, x.Err(), c.want, c.waits)
		}
		unread := storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
			if op.Resource == "container guards" {
				return op.Fail(storage.ErrUnavailable)
			}
			return do()
		})
		x = Look(t.Context(), deskOf(t, unread), -1)
		if lag := (Finding{Check: "lag", Queue: "orders"}); len(x.Findings) > 0 || x.Err() == nil || x.Saw(lag) {
			t.Errorf("%s: without guards got %+v, %v, and lag was seen: %v", name, x.Findings, x.Err(), x.Saw(lag))
		}
	}
}

// A message that is poison for want of a handler is a finding on its kind. Another poison message is a finding, too.
func TestLawPoisonWithoutAHandlerIsAboutItsKind(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, "")
	d := ahead(described("shop", "v1", time.Hour, "a", "a"), time.Hour)
	doc, err := json.Marshal(d)
	if err == nil {
		_, err = s.Blobs("programs").Put(t.Context(), "shop/v1", doc, storage.Condition{})
	}
	if err != nil {
		t.Fatal(err)
	}
	poisoned := func(reason string, kind channel.Kind) {
		t.Helper()
		id := channel.NewID()
		doc, err := json.Marshal(poison.Entry{ID: id, Key: id, Kind: kind, Reason: reason})
		if err == nil {
			_, err = s.Blobs("poison").Put(t.Context(), "orders/"+id, doc, storage.Condition{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []string{"kinds shop.gift.v1", "kinds shop.gift.v1", "kinds shop.gift.v1, kinds shop.card.v1", "poison , kinds shop.gift.v1, kinds shop.card.v1"} {
		switch i {
		case 0, 1:
			poisoned(handlers.ReasonUnknownKind, "shop.gift.v1")
		case 2:
			poisoned(handlers.ReasonUnknownKind, "shop.card.v1")
		default:
			poisoned(handlers.ReasonTooOld, "a.v1")
		}
		x := Look(t.Context(), deskOf(t, s), time.Minute)
		var got []string
		for _, f := range x.Findings {
			got = append(got, f.Check+" "+f.About)
		}
		slices.Sort(got)
		wants := strings.Split(want, ", ")
		slices.Sort(wants)
		if !slices.Equal(got, wants) || x.Err() != nil {
			t.Errorf("after %d messages got %q, %v; want %q", i+1, got, x.Err(), wants)
		}
	}
}

// An act on many messages that nobody does is a finding. One that waits for a person, or that somebody does, is none.
func TestLawAnActThatStandsStillIsFound(t *testing.T) {
	t.Parallel()
	long, now := time.Now().Add(-2*time.Minute), time.Now()
	for name, c := range map[string]struct {
		act  bulk.Act
		want string // the acts that mend it
	}{
		"its driver is gone":       {bulk.Act{State: bulk.Running, Driver: "web-1", Driven: long}, "bulk resume, bulk cancel"},
		"no driver has come":       {bulk.Act{State: bulk.Running}, "bulk resume, bulk cancel"},
		"a cancel that nobody saw": {bulk.Act{State: bulk.Cancelled, Driver: "web-1", Driven: long}, "bulk cancel"},
		"somebody does it":         {bulk.Act{State: bulk.Running, Driver: "web-1", Driven: now}, ""},
		"it was just resumed":      {bulk.Act{State: bulk.Running, Set: now}, ""},
		"it is paused":             {bulk.Act{State: bulk.Paused}, ""},
		"it has ended":             {bulk.Act{State: bulk.Done, Ended: long}, ""},
	} {
		s := worldtest.OpenStore(t, "")
		a := c.act
		a.ID, a.Verb, a.Asked = audit.NewID(), bulk.Retry, long
		doc, err := json.Marshal(a)
		for key, body := range map[string][]byte{"act/" + a.ID: doc, "chosen/" + a.ID: {}, "chosen/" + audit.NewID(): {}} { // one was shown, and not asked for
			if err == nil {
				_, err = s.Blobs("bulk").Put(t.Context(), key, body, storage.Condition{})
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		x := Look(t.Context(), deskOf(t, s), time.Minute)
		var got []string
		for _, f := range x.Findings {
			for _, h := range f.Acts {
				if f.Check == "bulk" && f.About == a.ID && slices.Equal(h.Args, []string{a.ID}) {
					got = append(got, h.Act)
				}
			}
		}
		if strings.Join(got, ", ") != c.want || x.Err() != nil {
			t.Errorf("%s: got %q, %v; want %q", name, got, x.Err(), c.want)
		}
	}
}
