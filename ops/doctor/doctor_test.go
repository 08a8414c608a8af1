package doctor

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/catalog"
	"github.com/millrace-go/millrace/ops/internal/known"
	"github.com/millrace-go/millrace/storage"
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
		seen   sample // of the poison queue
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
		{name: "no handler", known: []catalog.Description{described("web", "v1", day, "a b c", ""), healthy}, want: "kinds: c comes to queue orders, and its consumers have no handler for it: shop v1; handed back for an hour (worker.Config.UnknownFor)"},
		{name: "lag", known: []catalog.Description{healthy}, stats: storage.Stats{Ready: 3, Oldest: 6 * time.Minute}, want: "lag: the oldest of 3 ready messages was sent 6m0s ago; Nothing of it is being handled: does a worker run? millrace top shows"},
		{name: "lag of a worker that runs", known: []catalog.Description{healthy}, stats: storage.Stats{Ready: 3, InFlight: 2, Oldest: 6 * time.Minute}, want: "lag: 3 ready messages; or start more workers"},
		{name: "lag where nobody knows what is in flight", known: []catalog.Description{healthy}, stats: storage.Stats{Ready: 3, InFlight: -1, Oldest: 6 * time.Minute}, want: "lag: 3 ready messages; Does a worker run? millrace top shows"},
		{name: "no worker ever", own: []catalog.Description{web}, stats: storage.Stats{Ready: 1}, want: "consumers: 1 message waits in orders, and no worker has ever run that consumes it; Start one."},
		{name: "no worker of this queue ever", own: []catalog.Description{web}, known: []catalog.Description{{Program: catalog.Program{Name: "other", Version: "v1"}, Last: time.Now(), Stored: time.Now()}},
			stats: storage.Stats{Ready: 2}, want: "consumers: 2 messages wait in orders, and no worker has ever run; Start one."},
		{name: "nothing is sent yet", own: []catalog.Description{web}, want: "catalog: poison queues, queues with messages and the queues of this binary; catalog.Keep"},
		{name: "a web of the same version", own: []catalog.Description{web}, known: []catalog.Description{healthy}},
		{name: "a web of a newer version", own: []catalog.Description{described("shop", "", 0, "a b c", "a b c")}, known: []catalog.Description{healthy},
			want: "kinds: c comes to queue orders by the routes of this binary, and its consumers have no handler for it: shop v1; handed back for an hour (worker.Config.UnknownFor)"},
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
		{name: "poison", known: []catalog.Description{healthy}, poison: 1, want: "poison: the poison queue of orders holds 1 message; millrace poison list --queue orders"},
		{name: "poison of a kind without a handler", known: []catalog.Description{healthy}, poison: 3, seen: sample{kinds: map[channel.Kind]int{"c": 3}},
			want: "kinds: no program handles c in queue orders, which is served by shop v1: 3 messages of it are in its poison queue; and then send them back: millrace poison retry --kind c --queue orders --reason 'unknown kind'"},
		{name: "much poison of a kind without a handler", known: []catalog.Description{described("web", "v1", day, "a b c", ""), healthy}, poison: 900, seen: sample{kinds: map[channel.Kind]int{"c": 5}},
			want: "kinds: its poison queue holds 900 messages, and the latest ones are of this kind; millrace poison list --kind c"},
		{name: "poison of a kind that has a handler now", known: []catalog.Description{healthy}, poison: 3, seen: sample{kinds: map[channel.Kind]int{"a": 3}}, want: "poison: holds 3 messages; shows why"},
		{name: "a fast clock", known: []catalog.Description{ahead(healthy, 5*time.Minute)}, want: "clocks: shop v1 is 5m0s ahead of the store's; NTP"},
		{name: "a slow clock", known: []catalog.Description{ahead(healthy, -5*time.Minute)}, want: "clocks: shop v1 is 5m0s behind the store's; NTP"},
		{name: "a slow clock here", known: []catalog.Description{lastSeen(healthy, -time.Hour)}, want: "clocks: shop v1 is 1h0m0s ahead of this machine's; NTP"},
		{name: "two versions", known: []catalog.Description{healthy, described("shop", "v2", 3*day, "a b", "a b")}, want: "versions: shop v1 still runs beside v2, which came 3d ago; stop the workers of v1"},
		{name: "a description that is none", known: []catalog.Description{healthy}, faulty: []catalog.Description{{Program: catalog.Program{Name: "x\x1b[31m", Version: "y"}, Fault: "junk"}},
			want: `catalog: can't be read: junk; in container programs`},
	} {
		desk := &act.Desk{Program: act.Program{Command: "millrace"}, Known: &known.Programs{Published: c.known, Faulty: c.faulty, Queues: map[string]bool{}}}
		for i := range c.own {
			desk.Known.Own = &c.own[i]
		}
		for _, d := range desk.Known.All() {
			for _, q := range d.Queues {
				desk.Known.Queues[q.Name] = true
			}
		}
		got := programFindings(desk, queued{names: []string{"orders"}, stats: []storage.Stats{c.stats}, poisoned: map[string]int64{"orders": c.poison}, samples: map[string]sample{"orders": c.seen}}, 5*time.Minute)
		check, rest, _ := strings.Cut(c.want, ": ")
		text, fix, _ := strings.Cut(rest, "; ")
		if c.own != nil && check != "catalog" { // the note that nobody has published is a case of its own
			got = slices.DeleteFunc(got, func(f Finding) bool { return f.Check == "catalog" })
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
