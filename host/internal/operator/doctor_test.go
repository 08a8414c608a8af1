package operator

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/ops/catalog"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/values"
)

// described is a version of a program that routes kinds to queue orders, and handles some of them. It was first
// published so long ago, and last an hour ago.
func described(name, version string, first time.Duration, routed, handled string) catalog.Description {
	now := time.Now()
	d := catalog.Description{Program: catalog.Program{Name: name, Version: version}, First: now.Add(-first), Last: now.Add(-time.Hour), Stored: now.Add(-time.Hour)}
	q := catalog.Queue{Name: "orders"}
	for _, k := range strings.Fields(routed) {
		q.Kinds = append(q.Kinds, channel.Kind(k))
	}
	for _, k := range strings.Fields(handled) {
		q.Handlers = append(q.Handlers, catalog.Handler{Kind: channel.Kind(k), Name: "decide orders", Collection: "orders"})
	}
	d.Queues = []catalog.Queue{q}
	return d
}

// lastSeen makes a description one that was last published long ago.
func lastSeen(d catalog.Description, since time.Duration) catalog.Description {
	d.Last = time.Now().Add(-since)
	d.Stored = d.Last
	return d
}

// ahead makes a description one that a machine with a fast clock has published.
func ahead(d catalog.Description, by time.Duration) catalog.Description {
	d.Last = d.Last.Add(by)
	return d
}

// keeping makes a description one of a program that keeps something under a name.
func keeping(d catalog.Description, name, form, kind string) catalog.Description {
	d.Collections = []catalog.Collection{{Name: name, Form: form, Type: kind}}
	return d
}

// Each finding is found, says what to do, and is not found where it isn't.
func TestDoctorFinds(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	healthy, web := described("shop", "v1", 10*day, "a b", "a b"), described("shop", "", 0, "a b", "")
	for _, c := range []struct {
		name   string
		known  []catalog.Description
		faulty []catalog.Description
		own    []catalog.Description // of this binary's program
		stats  storage.Stats
		poison int64
		want   string // CHECK: part of the text; part of the fix; empty for none
	}{
		{name: "healthy", known: []catalog.Description{healthy}},
		{name: "messages on their way", known: []catalog.Description{healthy}, stats: storage.Stats{Ready: 5, InFlight: 5, Oldest: time.Second}},
		{name: "unknown numbers", known: []catalog.Description{healthy}, stats: storage.Stats{Ready: -1, InFlight: -1, Delayed: -1, Oldest: -1}},
		{name: "an update that goes on", known: []catalog.Description{healthy, described("shop", "v2", time.Minute, "a b", "a b")}},
		{name: "a version that is gone", known: []catalog.Description{lastSeen(described("shop", "v0", 20*day, "a b", "a"), 11*day), healthy}},
		{name: "a queue that was given up", known: []catalog.Description{lastSeen(described("shop", "v0", 20*day, "a b", "a"), 11*day), {Program: catalog.Program{Name: "shop", Version: "v1"}, Last: time.Now(), Stored: time.Now()}}},
		{name: "an older kind", known: []catalog.Description{described("web", "v1", day, "a", ""), healthy}},
		{name: "nobody", want: "catalog: no program has published; catalog.Keep"},
		{name: "no consumer", known: []catalog.Description{described("web", "v1", day, "a b", "")}, want: "consumers: queue orders is consumed by nobody; Start a worker"},
		{name: "no consumer any more", known: []catalog.Description{lastSeen(described("shop", "v0", 9*day, "a", "a"), 5*day)}, stats: storage.Stats{Ready: 2},
			want: "consumers: queue orders is consumed by nobody (shop v0 did, seen last 5d ago), with 2 messages ready; Start a worker"},
		{name: "no route", known: []catalog.Description{{Program: catalog.Program{Name: "other", Version: "v1"}, Last: time.Now(), Stored: time.Now()}}, stats: storage.Stats{Ready: 2},
			want: "consumers: 2 messages in orders, which nothing routes to; until it is empty"},
		{name: "a queue that was renamed", known: []catalog.Description{healthy, {Program: catalog.Program{Name: "shop", Version: "v2"}, First: time.Now(), Last: time.Now(), Stored: time.Now()}}, stats: storage.Stats{Ready: 9, Delayed: 3},
			want: "consumers: 12 messages in orders, to which only older versions of programs route: shop v1; run until the queue is empty"},
		{name: "a queue that was renamed long ago", stats: storage.Stats{Delayed: 1}, known: []catalog.Description{lastSeen(described("shop", "v0", 9*day, "a", "a"), 5*day), {Program: catalog.Program{Name: "shop", Version: "v2"}, Last: time.Now(), Stored: time.Now()}},
			want: "consumers: 1 message in orders, which nothing routes to (shop v0 did, seen last 5d ago); Was the queue renamed?"},
		{name: "a queue that is renamed back", known: []catalog.Description{described("shop", "v1", time.Hour, "a", "a"), {Program: catalog.Program{Name: "shop", Version: "v2"}, First: time.Now().Add(-9 * day), Last: time.Now(), Stored: time.Now()}}, stats: storage.Stats{Ready: 2}},
		{name: "no handler", known: []catalog.Description{described("web", "v1", day, "a b c", ""), healthy}, want: "kinds: c comes to queue orders, and its consumers have no handler for it: shop v1; handed back for an hour"},
		{name: "lag", known: []catalog.Description{healthy}, stats: storage.Stats{Ready: 3, Oldest: 6 * time.Minute}, want: "lag: the oldest of 3 ready messages was sent 6m0s ago; Nothing of it is being handled: does a worker run? millrace top shows"},
		{name: "lag of a worker that runs", known: []catalog.Description{healthy}, stats: storage.Stats{Ready: 3, InFlight: 2, Oldest: 6 * time.Minute}, want: "lag: 3 ready messages; or start more workers"},
		{name: "lag where nobody knows what is in flight", known: []catalog.Description{healthy}, stats: storage.Stats{Ready: 3, InFlight: -1, Oldest: 6 * time.Minute}, want: "lag: 3 ready messages; Does a worker run? millrace top shows"},
		{name: "no worker ever", own: []catalog.Description{web}, stats: storage.Stats{Ready: 1}, want: "consumers: 1 message waits in orders, and no worker has ever run that consumes it; Start one."},
		{name: "no worker of this queue ever", own: []catalog.Description{web}, known: []catalog.Description{{Program: catalog.Program{Name: "other", Version: "v1"}, Last: time.Now(), Stored: time.Now()}},
			stats: storage.Stats{Ready: 2}, want: "consumers: 2 messages wait in orders, and no worker has ever run; Start one."},
		{name: "nothing is sent yet", own: []catalog.Description{web}, want: "catalog: poison queues, queues with messages and the queues of this binary; catalog.Keep"},
		{name: "a web of the same version", own: []catalog.Description{web}, known: []catalog.Description{healthy}},
		{name: "a web of a newer version", own: []catalog.Description{described("shop", "", 0, "a b c", "a b c")}, known: []catalog.Description{healthy},
			want: "kinds: c comes to queue orders by the routes of this binary, and its consumers have no handler for it: shop v1; handed back for an hour"},
		{name: "a collection of two types in an update", known: []catalog.Description{keeping(healthy, "orders", "", "1"), keeping(described("shop", "v2", time.Minute, "a b", "a b"), "orders", "", "2")}},
		{name: "a collection of two programs", known: []catalog.Description{keeping(healthy, "orders", "", "1"), keeping(described("mail", "v7", day, "a b", "a b"), "orders", "", "1")}},
		{name: "a collection of an older framework", known: []catalog.Description{keeping(healthy, "orders", "", ""), keeping(described("mail", "v7", day, "a b", "a b"), "orders", "plan", "")}},
		{name: "a collection and a plan of one name", known: []catalog.Description{keeping(healthy, "orders", "", "1"), keeping(described("mail", "v7", day, "a b", "a b"), "orders", "plan", "")},
			want: "collections: orders is a collection of shop v1 and a plan of mail v7: both write into the same documents; give what it keeps another name"},
		{name: "a plan that was a collection", known: []catalog.Description{keeping(healthy, "orders", "", "1"), keeping(described("shop", "v2", time.Minute, "a b", "a b"), "orders", "plan", "")},
			want: "collections: orders is a collection of shop v1 and a plan of shop v2; another name"},
		{name: "a collection and a plan of this binary", known: []catalog.Description{keeping(healthy, "orders", "", "1")}, own: []catalog.Description{keeping(web, "orders", "plan", "")},
			want: "collections: orders is a collection of shop v1 and a plan of this binary; another name"},
		{name: "a collection of two types", known: []catalog.Description{keeping(healthy, "orders", "", "1"), keeping(described("mail", "v7", day, "a b", "a b"), "orders", "", "2")},
			want: "collections: the types of the values in collection orders differ: mail v7, shop v1; share its type"},
		{name: "poison", known: []catalog.Description{healthy}, poison: 1, want: "poison: the poison queue of orders holds 1 message; millrace poison list -queue orders"},
		{name: "a fast clock", known: []catalog.Description{ahead(healthy, 5*time.Minute)}, want: "clocks: shop v1 is 5m0s ahead of the store's; NTP"},
		{name: "a slow clock", known: []catalog.Description{ahead(healthy, -5*time.Minute)}, want: "clocks: shop v1 is 5m0s behind the store's; NTP"},
		{name: "a slow clock here", known: []catalog.Description{lastSeen(healthy, -time.Hour)}, want: "clocks: shop v1 is 1h0m0s ahead of this machine's; NTP"},
		{name: "two versions", known: []catalog.Description{healthy, described("shop", "v2", 3*day, "a b", "a b")}, want: "versions: shop v1 still runs beside v2, which came 3d ago; stop the workers of v1"},
		{name: "a description that is none", known: []catalog.Description{healthy}, faulty: []catalog.Description{{Program: catalog.Program{Name: "x\x1b[31m", Version: "y"}, Fault: "junk"}},
			want: `catalog: can't be read: junk; in container programs`},
	} {
		k := &call{tool: tool{Program{Command: "millrace"}}, options: options{lag: 5 * time.Minute}, known: knowledge{published: c.known, faulty: c.faulty, queues: map[string]bool{}}}
		for i := range c.own {
			k.known.own = &c.own[i]
		}
		for _, d := range k.known.all() {
			for _, q := range d.Queues {
				k.known.queues[q.Name] = true
			}
		}
		got := examination{k}.findings([]string{"orders"}, []storage.Stats{c.stats}, map[string]int64{"orders": c.poison})
		check, rest, _ := strings.Cut(c.want, ": ")
		text, fix, _ := strings.Cut(rest, "; ")
		if c.own != nil && check != "catalog" { // the note that nobody has published is a case of its own
			got = slices.DeleteFunc(got, func(f finding) bool { return f.Check == "catalog" })
		}
		switch {
		case c.want == "":
			if len(got) > 0 {
				t.Errorf("%s: got %+v, want nothing", c.name, got)
			}
		case len(got) != 1 || got[0].Check != check || !strings.Contains(got[0].Text, text) || !strings.Contains(got[0].Fix, fix):
			t.Errorf("%s: got %+v, want %s", c.name, got, c.want)
		}
	}
}

// A plan and a collection of one name have the same documents. No registry has both, but two programs may.
func TestDoctorFindsAPlanWithTheNameOfACollection(t *testing.T) {
	t.Parallel()
	x := newTraveller(t, worldtest.OpenStore(t, ""))
	contains(t, "a plan", x.want(t, 0, "", "doctor"), "Nothing is wrong.")
	w := worldtest.NewBare(t, x.Store, handlers.Config{}, channel.Command[wish]("wishes"))
	trips := values.New(w.Channels, "trip", values.Config[int]{})
	handlers.Decide(w.Registry, trips, func(w wish) string { return w.For }, func(n int, _ wish) (int, []channel.Message, error) { return n + 1, nil, nil })
	if err := catalog.Publish(t.Context(), w.Registry, catalog.Program{Name: "counter", Version: "v1"}); err != nil {
		t.Fatal(err)
	}
	contains(t, "a collection, too", x.want(t, exitWrong, "", "doctor"), "WRONG trip is a collection of counter v1 and a plan of traveller v1: both write into the same documents", "1 thing is wrong.")
}

// A queue that is renamed in one version of a program is known: most programs in development have no version. Nothing
// of an empty queue is told.
func TestDoctorFindsARenamedQueue(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, "")
	publish := func(queue string) *stranger {
		w := worldtest.New(t, s, worldtest.Config{Groups: []string{worldtest.Totals}, Routes: []channel.Route{channel.Command[wish](queue)}})
		w.Decide()
		w.Project()
		handlers.React(w.Registry, worldtest.Audits, func(context.Context, worldtest.Refused) error { return nil })
		handlers.ReactOnce(w.Registry, queue, func(context.Context, wish) error { return nil })
		if err := catalog.Publish(t.Context(), w.Registry, catalog.Program{Name: "shop"}); err != nil {
			t.Fatal(err)
		}
		return &stranger{World: w}
	}
	x := publish("wishes")
	worldtest.Send(x.World, wish{For: "ada"})
	worldtest.Send(x.World, wish{For: "bob"})
	contains(t, "as it was", x.want(t, 0, "", "doctor"), "Nothing is wrong.")
	x = publish("hopes")
	contains(t, "renamed", x.want(t, exitWrong, "", "doctor"), "WRONG 2 messages in wishes, which nothing routes to (an earlier shop unknown did, until ", "Was the queue renamed?", "1 thing is wrong.")
	contains(t, "queues", x.want(t, 0, "", "queues"), "wishes 2 0 0 0", "in no route")
	for range 2 {
		m, err := s.Queue("wishes").Receive(t.Context(), 1, time.Minute)
		if err == nil && len(m) == 1 {
			err = s.Queue("wishes").Delete(t.Context(), []storage.Receipt{m[0].Receipt})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	contains(t, "empty", x.want(t, 0, "", "doctor"), "Nothing is wrong.")
}

// Messages in a queue that no program has published are found: a web was started before its worker. Its lanes are one
// queue. A store that lists no queues is said to.
func TestDoctorFindsAQueueThatNobodyHasPublished(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, "")
	x := newStranger(t, s)
	x.publish(t)
	send := func(queue string, n int) {
		t.Helper()
		for range n {
			if err := s.Queue(queue).Send(t.Context(), []storage.Message{{Body: []byte("{}")}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	send("purchases", 3)
	send("orders-lane-2", 1)
	send("orders-high-lane-3", 1)
	send("orders-slow", 2)
	_, out, _ := x.do(t, "", "doctor")
	contains(t, "doctor", out, "WRONG 3 messages in purchases, which nothing routes to", "WRONG 4 messages in orders, which nothing routes to")
	_, out, _ = x.do(t, "", "queues", "list")
	contains(t, "queues", out, "purchases 3 0 0 0", "orders 4 0 0 0", "in no route")
	if strings.Contains(out, "-lane-") || strings.Contains(out, "-slow") {
		t.Errorf("lanes are listed by themselves:\n%s", out)
	}
	_, out, _ = x.doOn(t, storagetest.Plain(s), "", "doctor")
	contains(t, "a store that lists no queues", out, "NOTE queues of which no program tells are not looked at")
	if strings.Contains(out, "purchases") {
		t.Errorf("the store lists no queues, and doctor says\n%s", out)
	}
}

// A log that a reader keeps from shrinking is found by its size.
func TestDoctorFindsALogThatCantShrink(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "r.db")
	for size, want := range map[int64]int{0: 0, 200 << 20: 0, 300 << 20: 1} {
		f, err := os.Create(file + "-wal")
		if err == nil {
			err = f.Truncate(size) // no disk is needed for it
		}
		if err == nil {
			err = f.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		got := logFindings(file)
		if len(got) != want || want == 1 && (!strings.Contains(got[0].Text, "300 MB") || !strings.Contains(got[0].Fix, "fuser -v "+file)) {
			t.Errorf("%d bytes: got %+v, want %d findings", size, got, want)
		}
	}
	if got := logFindings(""); len(got) > 0 {
		t.Errorf("of another store: got %+v", got)
	}
}

// Wrong things come before notes, and decide the exit code. Nothing of a description moves the cursor.
func TestDoctorsOutput(t *testing.T) {
	t.Parallel()
	x := newStranger(t, worldtest.OpenStore(t, ""))
	for key, body := range map[string]string{"nasty/\u202e": "junk \x1b[31m"} {
		if _, err := x.Store.Blobs("programs").Put(t.Context(), key, []byte(body), storage.Condition{}); err != nil {
			t.Fatal(err)
		}
	}
	code, out, told := x.do(t, "", "doctor")
	if want := `WRONG  the description of nasty \u202e can't be read`; code != exitWrong || !strings.HasPrefix(out, want) || !strings.Contains(out, "\nNOTE   no program") || !strings.HasSuffix(out, "1 thing is wrong.\n") || told != "" {
		t.Errorf("got exit code %d, %q and %q", code, out, told)
	}
	code, out, _ = x.do(t, "", "doctor", "-json")
	if code != exitWrong || strings.Count(out, "\n") != 2 || !strings.HasPrefix(out, `{"severity":"wrong","check":"catalog","program":"nasty","text":`) {
		t.Errorf("-json: got exit code %d and %s", code, out)
	}
	if err := x.Store.Blobs("programs").Delete(t.Context(), "nasty/\u202e", storage.Condition{}); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"doctor"}, {"doctor", "-json"}} {
		code, out, told := x.do(t, "", args...)
		if code != exitNothing || strings.Contains(out, "Nothing is wrong") || strings.Count(out, "only poison queues") != 1 || !strings.Contains(told, "no queue is known") {
			t.Errorf("%q where no queue is known: got exit code %d, %q and %q", args, code, out, told)
		}
	}
}

// A program's own binary knows its queues before any worker has run.
func TestDoctorKnowsTheQueuesOfItsProgram(t *testing.T) {
	t.Parallel()
	x := newStranger(t, worldtest.OpenStore(t, ""))
	x.tool = Program{Routes: func() (*channel.Routes, error) { return x.Channels.Routes(), nil }} // a web: it handles nothing
	contains(t, "a note alone", x.want(t, 0, "", "doctor"), "NOTE no program has published", "Nothing is wrong.")
	worldtest.Send(x.World, wish{For: "ada"})
	contains(t, "a backlog", x.want(t, exitWrong, "", "doctor"), "WRONG 1 message waits in wishes, and no worker has ever run that consumes it Start one.", "1 thing is wrong.")
	contains(t, "queues", x.want(t, 0, "", "queues"), "wishes 1 0 0 0", "s nobody")
}
