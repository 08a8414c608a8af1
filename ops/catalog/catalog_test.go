package catalog_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/ops/catalog"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/azure"
	"github.com/millrace-go/millrace/storage/azure/azuretest"
	"github.com/millrace-go/millrace/storage/storagetest"
)

const (
	container = "programs"
	day       = 24 * time.Hour
)

// order is a message of a program that is none of ours.
type order struct {
	ID    string            `json:"id"`
	Lines []line            `json:"lines"`
	Note  *string           `json:"note,omitempty"`
	Tags  map[string]string `json:"tags,omitempty"`
}

type line struct {
	Article string `json:"article"`
	Count   int    `json:"count"`
}

func (order) Kind() channel.Kind { return "shop.order.v1" }

type oldOrder struct{ ID string }

func (oldOrder) Kind() channel.Kind { return "shop.order.v0" }

// A program has the domain of worldtest, orders with a reaction, and a queue that it doesn't consume.
func program(t testing.TB, s *storage.Store, cfg handlers.Config, more ...channel.Route) *worldtest.World {
	t.Helper()
	routes := append([]channel.Route{channel.Command[order]("orders")}, more...)
	w := worldtest.New(t, s, worldtest.Config{Handlers: cfg, Routes: routes})
	w.Decide()
	w.Project()
	handlers.ReactOnce(w.Registry, "orders", func(context.Context, order) error { return nil })
	handlers.Upgrade(w.Registry, func(o oldOrder) order { return order{ID: o.ID} })
	return w
}

func publish(t testing.TB, w *worldtest.World, name, version string) {
	t.Helper()
	if err := catalog.Publish(t.Context(), w.Registry, catalog.Program{Name: name, Version: version}); err != nil {
		t.Fatal(err)
	}
}

func read(t testing.TB, s *storage.Store) []catalog.Description {
	t.Helper()
	all, err := catalog.Read(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func names(all []catalog.Description) string {
	var names []string
	for _, d := range all {
		names = append(names, d.Name+" "+d.Version)
	}
	return strings.Join(names, ", ")
}

// A program publishes all that its registry and routes know.
func testWhatIsPublished(t *testing.T, s *storage.Store) {
	publish(t, program(t, s, handlers.Config{}), "shop/x", "v1.0.0")
	all := read(t, s)
	if len(all) != 1 || all[0].Program != (catalog.Program{Name: "shop/x", Version: "v1.0.0"}) || all[0].Fault != "" || time.Since(all[0].First).Abs() > time.Hour {
		t.Fatalf("got %+v", all)
	}
	d := all[0]
	for name, want := range map[string]string{
		"accounts": `{"name":"accounts","kinds":["test.add.v1"],"handlers":[{"kind":"test.add.v1","name":"decide accounts","collection":"accounts"}]}`,
		"totals":   `{"name":"totals","group":true,"kinds":["test.added.v1"],"handlers":[{"kind":"test.added.v1","name":"project totals","collection":"totals"}]}`,
		"audits":   `{"name":"audits","group":true,"kinds":["test.added.v1","test.refused.v1"],"handlers":[]}`,
		"orders": `{"name":"orders","kinds":["shop.order.v1"],"handlers":[{"kind":"shop.order.v0","name":"react orders","once":true},` +
			`{"kind":"shop.order.v1","name":"react orders","once":true}]}`,
	} {
		if got := queueJSON(t, d, name); got != want {
			t.Errorf("queue %s:\ngot  %s\nwant %s", name, got, want)
		}
	}
	for i, want := range []string{"collection accounts, true", "view totals, true"} {
		if c := d.Collections[i]; fmt.Sprintf("%s %s, %v", c.Noun(), c.Name, len(c.Type) == 8) != want {
			t.Errorf("got the collection %+v, want %s", c, want)
		}
	}
	if !d.Consumes("orders") || d.Consumes("audits") || d.Consumes("nope") {
		t.Error("it consumes orders, and neither audits nor what it doesn't know")
	}
	for _, k := range d.Kinds {
		if k.Kind != "shop.order.v1" {
			continue
		}
		if want := `{"id":"text","lines":[{"article":"text","count":1}],"note":"text","tags":{"text":"text"}}`; string(k.Example) != want {
			t.Errorf("got the example %s, want %s", k.Example, want)
		}
		if !k.Command || !strings.Contains(string(k.Schema), `"required":["id","lines"]`) || !strings.Contains(string(k.Schema), "2020-12") {
			t.Errorf("got %+v with the schema %s", k, k.Schema)
		}
	}
	for _, k := range d.Kinds {
		if k.ChoosesID != (k.Kind == "test.add.v1") || k.Checks {
			t.Errorf("got %s with ChoosesID %v and Checks %v; Add alone chooses its ID, and none has a Check", k.Kind, k.ChoosesID, k.Checks)
		}
	}
	if len(d.Kinds) != 4 {
		t.Errorf("got %d kinds, want 4", len(d.Kinds))
	}
}

func queueJSON(t testing.TB, d catalog.Description, name string) string {
	t.Helper()
	for _, q := range d.Queues {
		if q.Name == name {
			b, err := json.Marshal(q)
			if err != nil {
				t.Fatal(err)
			}
			return string(b)
		}
	}
	return ""
}

func TestWhatIsPublished(t *testing.T) {
	t.Parallel()
	testWhatIsPublished(t, worldtest.OpenStore(t, ""))
}

// The same on Azurite, with many workers at the same time.
func TestOnAzurite(t *testing.T) {
	t.Parallel()
	s, err := azure.Open(t.Context(), azuretest.Place(t, azuretest.Launch, azure.Wipe))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	publishTogether(t, s)
	for _, d := range read(t, s) {
		if err := s.Blobs(container).Delete(t.Context(), d.Name+"/"+d.Version, storage.Condition{}); err != nil {
			t.Fatal(err)
		}
	}
	testWhatIsPublished(t, s)
}

// Law 1: a document is written when it has changed, and otherwise once a day.
func TestLaw1IsWrittenWhenItHasChanged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := worldtest.OpenStore(t, worldtest.Virtual)
		etag := func() storage.ETag {
			b, err := s.Blobs(container).Get(t.Context(), "shop/v1", "")
			if err != nil {
				t.Fatal(err)
			}
			return b.ETag
		}
		w := program(t, s, handlers.Config{})
		publish(t, w, "shop", "v1")
		first, began := etag(), time.Now()
		time.Sleep(day - time.Second)
		publish(t, w, "shop", "v1")
		worldtest.Want(t, "the ETag after the same again", etag(), first)
		time.Sleep(time.Second)
		publish(t, w, "shop", "v1")
		second := etag()
		if d := read(t, s)[0]; second == first || !d.First.Equal(began) || !d.Last.Equal(time.Now()) {
			t.Errorf("after a day: got %v to %v, want %v to %v", d.First, d.Last, began, time.Now())
		}
		publish(t, program(t, s, handlers.Config{}, channel.Event[oldOrder]()), "shop", "v1")
		if d := read(t, s)[0]; etag() == second || len(d.Kinds) != 5 || !d.First.Equal(began) {
			t.Errorf("with a kind more: got %d kinds, first %v", len(d.Kinds), d.First)
		}
	})
}

// A queue that leaves the routes of a version is known for a month, or until it is in them again.
func TestQueuesThatAreLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := worldtest.OpenStore(t, worldtest.Virtual)
		left := func() (names []string) {
			for _, x := range read(t, s)[0].Left {
				names = append(names, x.Name)
			}
			return names
		}
		before, after := program(t, s, handlers.Config{}, channel.Command[oldOrder]("pings")), program(t, s, handlers.Config{}, channel.Command[oldOrder]("pongs"))
		publish(t, before, "shop", "")
		worldtest.Want(t, "at first", len(left()), 0)
		publish(t, after, "shop", "")
		worldtest.Want(t, "after it was renamed", strings.Join(left(), " "), "pings")
		publish(t, before, "shop", "")
		worldtest.Want(t, "after it was named as before", strings.Join(left(), " "), "pongs")
		time.Sleep(30 * day)
		publish(t, before, "shop", "")
		worldtest.Want(t, "after 30 days", strings.Join(left(), " "), "pongs")
		time.Sleep(day)
		publish(t, before, "shop", "")
		worldtest.Want(t, "after 31 days", len(left()), 0)
	})
}

// Law 2: what was not published for a month goes, and what is published stays.
func TestLaw2IsRemovedAfterAMonth(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := worldtest.OpenStore(t, worldtest.Virtual)
		w := program(t, s, handlers.Config{})
		publish(t, w, "shop", "v1")
		publish(t, w, "mail", "")
		for range 30 {
			time.Sleep(day)
			publish(t, w, "shop", "v2")
		}
		worldtest.Want(t, "after 30 days", names(read(t, s)), "mail unknown, shop v1, shop v2")
		time.Sleep(day)
		publish(t, w, "shop", "v2")
		worldtest.Want(t, "after 31 days", names(read(t, s)), "shop v2")
		time.Sleep(40 * day)
		publish(t, w, "shop", "v2")
		worldtest.Want(t, "after a long pause", names(read(t, s)), "shop v2")
	})
}

// Law 2: of more documents than the bound the oldest go.
func TestLaw2BoundsTheirNumber(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := worldtest.OpenStore(t, worldtest.Virtual)
		for i := range 205 {
			if _, err := s.Blobs(container).Put(t.Context(), fmt.Sprintf("build/%03d", i), []byte("{}"), storage.Condition{}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		publish(t, program(t, s, handlers.Config{}), "shop", "v1")
		all := read(t, s)
		if len(all) != 200 || all[0].Version != "006" || all[199].Name != "shop" {
			t.Errorf("got %d documents: %s …", len(all), names(all[:1]))
		}
	})
}

func publishTogether(t *testing.T, s *storage.Store) {
	t.Helper()
	var wg sync.WaitGroup
	w := program(t, s, handlers.Config{})
	more := program(t, s, handlers.Config{}, channel.Event[oldOrder]())
	for i := range 12 {
		p := catalog.Program{Name: "shop", Version: fmt.Sprintf("v%d", i%2)}
		registry := w.Registry
		if i%4 >= 2 { // of one version two things are said
			registry = more.Registry
		}
		wg.Go(func() {
			if err := catalog.Publish(t.Context(), registry, p); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if all := names(read(t, s)); all != "shop v0, shop v1" && all != "shop v1, shop v0" {
		t.Errorf("got %s", all)
	}
}

// Law 3: workers of two versions publish at the same time, and each version has its document.
func TestLaw3WorkersPublishTogether(t *testing.T) {
	t.Parallel()
	publishTogether(t, worldtest.OpenStore(t, ""))
}

// These are messages whose methods do what they like.
type (
	panics struct{ A code }
	exits  struct{ A code }
	fails  struct{ A code }
	hangs  struct{ A code }
	picky  struct{ A *text }
	code   struct{}
	text   string
)

func (panics) Kind() channel.Kind { return "bad.panics.v1" }
func (exits) Kind() channel.Kind  { return "bad.exits.v1" }
func (fails) Kind() channel.Kind  { return "bad.fails.v1" }
func (hangs) Kind() channel.Kind  { return "bad.hangs.v1" }
func (picky) Kind() channel.Kind  { return "bad.picky.v1" }

func (panics) MarshalJSON() ([]byte, error) { panic("no") }
func (*panics) UnmarshalJSON([]byte) error  { return nil }
func (fails) MarshalJSON() ([]byte, error)  { return nil, fmt.Errorf("no") }
func (*fails) UnmarshalJSON([]byte) error   { return nil }
func (hangs) MarshalJSON() ([]byte, error)  { time.Sleep(time.Hour); return []byte("1"), nil }
func (*hangs) UnmarshalJSON([]byte) error   { return nil }
func (exits) MarshalJSON() ([]byte, error)  { runtime.Goexit(); return nil, nil }
func (*exits) UnmarshalJSON([]byte) error   { return nil }

func (text) MarshalText() ([]byte, error) { return nil, fmt.Errorf("no") }
func (*text) UnmarshalText([]byte) error  { return nil }

// Law 4: whatever the user's methods do, the kinds are published.
func TestLaw4UsersMethodsAreGuarded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := worldtest.OpenStore(t, worldtest.Virtual)
		w := program(t, s, handlers.Config{}, channel.Event[panics](), channel.Event[exits](), channel.Event[fails](), channel.Event[picky](), channel.Event[hangs]())
		publish(t, w, "shop", "v1")
		examples := map[channel.Kind]string{}
		for _, k := range read(t, s)[0].Kinds {
			examples[k.Kind] = string(k.Example)
			if len(k.Schema) == 0 {
				t.Errorf("%s has no schema", k.Kind)
			}
		}
		if len(examples) != 9 || examples["bad.panics.v1"]+examples["bad.exits.v1"]+examples["bad.fails.v1"]+examples["bad.hangs.v1"] != "" {
			t.Errorf("got %q", examples)
		}
		if examples["bad.picky.v1"] != `{"A":null}` || examples["shop.order.v1"] == "" {
			t.Errorf("got %q, want the examples of all others", examples)
		}
		time.Sleep(time.Hour) // until the code that hangs has ended
	})
}

// wide has an example that would be too long.
type wide struct {
	A, B, C, D, E, F, G, H, I, J, K, L, M, N, O, P, Q, R [1000]int
}

func (wide) Kind() channel.Kind { return "wide.v1" }

// Law 5: an example that is too long is left out. A document that would be too large has no examples, and if need be
// no schemas.
func TestLaw5BoundsTheSize(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, "")
	publish(t, program(t, s, handlers.Config{}, channel.Event[wide]()), "shop", "v1")
	d := read(t, s)[0]
	for _, k := range d.Kinds {
		if long := k.Kind == "wide.v1"; long != (len(k.Example) == 0) || len(k.Schema) == 0 {
			t.Errorf("%s: got an example of %d bytes, and a schema of %d", k.Kind, len(k.Example), len(k.Schema))
		}
	}
	whole := len(d.Kinds)
	for i := range 100 {
		d.Kinds = append(d.Kinds, catalog.Kind{Example: json.RawMessage(`"` + strings.Repeat("e", 15_000) + `"`), Schema: json.RawMessage(`"` + strings.Repeat("s", 90*i) + `"`)})
	}
	for _, want := range []struct{ more, examples, schemas int }{{0, 0, whole + 100}, {60_000, 0, 0}} {
		for i := range 10 {
			d.Kinds[i].Schema = json.RawMessage(`"` + strings.Repeat("s", 1+want.more) + `"`)
		}
		b, err := d.Encode()
		var got catalog.Description
		if err != nil || len(b) > 1<<20 || json.Unmarshal(b, &got) != nil {
			t.Fatalf("got %d bytes (%v)", len(b), err)
		}
		examples, schemas := 0, 0
		for _, k := range got.Kinds {
			examples, schemas = examples+min(len(k.Example), 1), schemas+min(len(k.Schema), 1)
		}
		if examples != want.examples || schemas != want.schemas || len(got.Kinds) != whole+100 {
			t.Errorf("got %d examples and %d schemas, want %d and %d", examples, schemas, want.examples, want.schemas)
		}
	}
	if _, err := s.Blobs(container).Put(t.Context(), "large/v1", make([]byte, 1<<20+1), storage.Condition{}); err != nil {
		t.Fatal(err)
	}
	if d := read(t, s)[0]; d.Name != "large" || !strings.Contains(d.Fault, "1048577 bytes") {
		t.Errorf("got %+v", d)
	}
}

// Law 6: Keep publishes once a day and again after a failure, which it logs.
func TestLaw6KeepNeverFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := worldtest.NewLog()
		var works atomic.Bool
		s := storagetest.Intercept(worldtest.OpenStore(t, worldtest.Virtual), func(_ context.Context, op storagetest.Op, do func() error) error {
			if !works.Load() {
				return op.Fail(storage.ErrUnavailable)
			}
			return do()
		})
		w := program(t, s, handlers.Config{Logger: slog.New(log)})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			catalog.Keep(ctx, w.Registry, catalog.Program{Name: "shop"})
		}()
		synctest.Wait()
		worldtest.Want(t, "warnings", log.Count("WARN can't publish"), 1)
		works.Store(true)
		time.Sleep(time.Hour)
		synctest.Wait()
		first := read(t, s)[0].Last
		time.Sleep(day)
		synctest.Wait()
		if last := read(t, s)[0].Last; last.Sub(first) < day-time.Minute {
			t.Errorf("published at %v, and a day later at %v", first, last)
		}
		stop()
		<-ended
	})
}

// Law 7: a blob that is no description hides no other.
func TestLaw7FaultsHideNothing(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, "")
	publish(t, program(t, s, handlers.Config{}), "shop", "v1")
	for key, body := range map[string]string{"a%2Fb/v1": "junk", "x": `{"program":"shop","version":"v1"}`, "%zz/v1": "{}"} {
		if _, err := s.Blobs(container).Put(t.Context(), key, []byte(body), storage.Condition{}); err != nil {
			t.Fatal(err)
		}
	}
	got := map[string]bool{}
	for _, d := range read(t, s) {
		got[d.Name+" "+d.Version] = d.Fault == ""
	}
	if len(got) != 4 || !got["shop v1"] || got["a/b v1"] || got["x "] || got["%zz v1"] {
		t.Errorf("got %v", got)
	}
}

// A program without a name, or with one that can't be a key, is told so.
func TestPublishRefuses(t *testing.T) {
	t.Parallel()
	w := program(t, worldtest.OpenStore(t, ""), handlers.Config{})
	for _, p := range []catalog.Program{{}, {Name: strings.Repeat("x", 300)}, {Name: "x", Version: strings.Repeat("ä", 100)}} {
		if err := catalog.Publish(t.Context(), w.Registry, p); err == nil {
			t.Errorf("%+v: got no error", p)
		}
	}
}
