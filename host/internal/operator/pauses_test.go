package operator

import (
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/coord/pause"
	"github.com/millrace-go/millrace/host/internal/boot"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/acts"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// Queues are paused, listed and resumed. Each answer tells what has become of a queue.
func TestPauses(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		x := newStranger(t, s)
		x.publish(t)
		if out := x.want(t, 0, "", "queues", "list"); strings.Contains(out, "Paused") || out != x.want(t, 0, "", "queues") {
			t.Errorf("got %q", out)
		}
		until := time.Now().Add(30 * time.Minute)
		contains(t, "paused", x.want(t, 0, "", "queues", "pause", "notes", "thanks", "notes", "-for", "30m", "-why", "no mail server", "-by", "ada"),
			`Queue "notes" is paused until `+act.Clock(until)+`, in 30m0s. Queue "thanks" is paused until `)
		contains(t, "without an end", x.want(t, 0, "", "queues", "pause", "wishes", "-why", "audit"), `Queue "wishes" is paused.`)
		contains(t, "at a time", x.want(t, 0, "", "queues", "pause", "thanks", "-why", "longer", "-by", "bob", "-until", until.Add(time.Hour).Format(time.RFC3339)),
			`Queue "thanks" is paused until `+act.Clock(until.Add(time.Hour))+`, in 1h30m.`)
		time.Sleep(10 * time.Minute)
		contains(t, "listed", x.want(t, 0, "", "queues"), "Paused: notes, by ada, 10m0s ago, until "+act.Clock(until)+", in 20m0s: no mail server Paused: thanks, by bob, 10m0s ago, until ",
			"Paused: wishes, by "+author()+", 10m0s ago: audit")
		for _, line := range jsonLines[acts.Queue](t, result{out: x.want(t, 0, "", "queues", "list", "-json")}) {
			switch p := line.Paused; line.Queue {
			case "notes":
				if p == nil || p.By != "ada" || p.Why != "no mail server" || p.Until == nil || !p.Until.Equal(until) || !p.Since.Equal(until.Add(-30*time.Minute)) {
					t.Errorf("got %+v", p)
				}
			case "wishes":
				if p == nil || p.Until != nil {
					t.Errorf("got %+v", p)
				}
			case "thanks":
			default:
				if p != nil {
					t.Errorf("%s: got %+v", line.Queue, p)
				}
			}
		}
		got := jsonLines[acts.Held](t, result{out: x.want(t, 0, "", "queues", "resume", "wishes", "lists", "-json")})
		if len(got) != 2 || got[0].Queue != "lists" || got[0].Result != "unchanged" || got[1].Result != "resumed" || got[1].Paused != nil {
			t.Errorf("got %+v", got)
		}
		if got := oneLine[acts.Held](t, x.want(t, 0, "", "queues", "pause", "wishes", "-why", "again", "-json")); got.Result != "paused" || got.Paused.Why != "again" {
			t.Errorf("got %+v", got)
		}
		contains(t, "resumed", x.want(t, 0, "", "queues", "resume", "notes", "lists"), `Queue "lists" was not paused. Queue "notes" is consumed again.`)
		time.Sleep(2 * time.Hour)
		contains(t, "after the end", x.want(t, 0, "", "queues", "resume", "thanks"), `Queue "thanks" was not paused.`)
		for _, verb := range []string{"pause", "resume", "list"} {
			contains(t, "help", x.want(t, 0, "", "queues", verb, "-help"), "Usage: millrace queues "+verb)
		}
	})
}

// A queue that nobody knows is refused with those that are known, and so is a pause without a reason or a length.
func TestBadPauses(t *testing.T) {
	t.Parallel()
	x := newStranger(t, worldtest.OpenStore(t, ""))
	contains(t, "nothing is known", x.want(t, 2, "", "queues", "pause", "notes", "-why", "x"), `unknown queue "notes": no program has published its queues in this store`)
	x.publish(t)
	for args, want := range map[string]string{
		"pause note -why x":            `unknown queue "note"; want one of accounts, audits, lists, notes, thanks, totals, wishes`,
		"pause notes note -why x":      `unknown queue "note"`,
		"resume note":                  `unknown queue "note"`,
		"pause notes":                  "add --why TEXT",
		"pause -why x":                 "want QUEUE",
		"pause notes -why x -for 0s":   "--for: invalid value",
		"pause notes -why x -for soon": "--for: invalid value",
		"pause notes -why x -until 2001-01-01T00:00:00Z":     "-until: 2001-01-01",
		"pause notes -why x -until later":                    "--until: invalid value",
		"pause notes -why x -for 1h -until 2999-01-01 00:00": "--until: invalid value",
		"pause notes -why x -for 1h -until " + soon():        "not both",
		"resume":     "want QUEUE",
		"stop notes": `unknown verb queues "stop"`,
	} {
		contains(t, args, x.want(t, 2, "", append([]string{"queues"}, strings.Fields(args)...)...), want)
	}
	if p, err := pauseList(t, x.Store); err != nil || len(p) != 0 {
		t.Errorf("%+v are paused, %v", p, err)
	}
}

// soon is a time of the future.
func soon() string { return time.Now().Add(time.Hour).Format(time.RFC3339) }

// Doctor names a paused queue in which messages wait: a note at first, and wrong when they have waited for long.
func TestDoctorLooksAtPauses(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		x := newStranger(t, s)
		x.publish(t)
		x.want(t, 0, "", "queues", "pause", "wishes", "-why", "no budget", "-by", "ada")
		if out := x.want(t, exitWrong, "", "doctor"); strings.Contains(out, "paused") {
			t.Errorf("of a paused queue that is empty: %s", out)
		}
		worldtest.Send(x.World, wish{For: "ada"}, wish{For: "bob"})
		contains(t, "doctor", x.want(t, exitWrong, "", "doctor"), "NOTE queue wishes is paused by ada, 0s ago: no budget. 2 messages wait in it When the reason is gone: millrace queues resume wishes")
		time.Sleep(6 * time.Minute)
		out := x.want(t, exitWrong, "", "doctor")
		contains(t, "doctor, later", out, "WRONG queue wishes is paused by ada, 6m0s ago: no budget. 2 messages wait in it")
		if strings.Contains(out, "the oldest of") {
			t.Errorf("the pause is told twice: %s", out)
		}
		contains(t, "doctor -json", x.want(t, exitWrong, "", "doctor", "-json"), `"check":"pauses","queue":"wishes"`)
		x.want(t, 0, "", "queues", "resume", "wishes")
		contains(t, "doctor, resumed", x.want(t, exitWrong, "", "doctor"), "WRONG queue wishes: the oldest of 2 ready messages was sent 6m0s ago")
	})
}

// Pauses that can't be read are noted, found by doctor, and replaced by whoever says so.
func TestPausesThatCannotBeRead(t *testing.T) {
	t.Parallel()
	x := newStranger(t, worldtest.OpenStore(t, ""))
	x.publish(t)
	x.want(t, 1, "", "queues", "resume", "notes", "-repair")
	x.want(t, 0, "", "queues", "pause", "notes", "-why", "x")
	putBlob(t, x.Store, "pauses", "queues", "junk \x1b[31m")
	_, out, told := x.do(t, "", "queues")
	contains(t, "list", out, "wishes")
	contains(t, "the note", told, "can't be read as pauses of queues", "millrace queues resume QUEUE --repair ends all pauses")
	contains(t, "doctor", x.want(t, exitWrong, "", "doctor"), "WRONG the pauses of queues can't be read", "-repair")
	for _, verb := range []string{"pause lists -why x", "resume notes"} {
		contains(t, verb, x.want(t, 1, "", append([]string{"queues"}, strings.Fields(verb)...)...), "can't be read as pauses", "Nothing is changed", "add --repair")
	}
	contains(t, "repaired", x.want(t, 0, "", "queues", "pause", "lists", "-why", "x", "-repair"), `Queue "lists" is paused.`, "They are replaced: no other queue is paused.")
	contains(t, "repaired again", x.want(t, 1, "", "queues", "pause", "lists", "-why", "x", "-repair"), "can be read, so there is nothing to repair")
	putBlob(t, x.Store, "pauses", "queues", "junk")
	if got := oneLine[acts.Held](t, x.want(t, 0, "", "queues", "resume", "notes", "-repair", "-json")); got.Result != "repaired" || got.Paused != nil {
		t.Errorf("got %+v", got)
	}
	if p, err := pauseList(t, x.Store); err != nil || len(p) != 0 {
		t.Errorf("%+v are paused, %v", p, err)
	}
}

// A paused queue that no program has any more is still listed, can be resumed, and is offered for completion.
func TestAPausedQueueThatIsGone(t *testing.T) {
	t.Parallel()
	x := newStranger(t, worldtest.OpenStore(t, ""))
	x.publish(t)
	p, err := pause.New(x.Store, pause.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Pause(t.Context(), []string{"olden"}, 0, pause.Note{By: "ada"}); err != nil {
		t.Fatal(err)
	}
	contains(t, "list", x.want(t, 0, "", "queues"), "olden 0 0 0 0 0s in no route", "Paused: olden, by ada, 0s ago")
	contains(t, "resumed", x.want(t, 0, "", "queues", "resume", "olden"), `Queue "olden" is consumed again.`)
}

// Without the store, nothing is told to be paused or resumed.
func TestPausesWithoutTheStore(t *testing.T) {
	t.Parallel()
	link := storagetest.NewLink(worldtest.OpenStore(t, ""))
	link.Cut("get blob")
	for _, args := range [][]string{{"queues", "pause", "notes", "-why", "x"}, {"queues", "resume", "notes"}, {"queues"}} {
		worldtest.WantErr(t, errIn(t, Program{}, link.Store, args...), storage.ErrUnavailable)
	}
}

// Others may put any document there: lists and doctor end well and print nothing that a terminal obeys, and no verb
// changes a document that it can't read, but for a repair.
func FuzzPauseDocument(f *testing.F) {
	d := newDesk(f)
	f.Add(`{"pauses":{"mails":{"by":"\u001b[31m","why":"\u202e\n","since":"2026-11-26T22:00:00Z","until":"9999-12-31T23:59:59Z","id":"x"}},"epoch":1,"id":"x"}`)
	f.Add(`{"pauses":{"mails":{"by":"\u001b[31m","why":"\u202e\n","since":"9990-11-26T22:00:00+14:00","until":"9999-12-31T23:59:59-14:00","id":"x"}},"epoch":1,"id":"x"}`)
	f.Add(`{"pauses":{"\u001b":{"id":"x"}},"epoch":1,"id":"x"}`)
	f.Add("\x1b[31m")
	f.Fuzz(func(t *testing.T, body string) {
		if len(body) > 100_000 {
			return // another pause may be too much
		}
		putBlob(t, d.store, "pauses", "queues", body)
		_, err := pauseList(t, d.store)
		for _, args := range [][]string{{"queues", "list"}, {"queues", "list", "-json"}} {
			if out, code := d.do(t, args...); code != boot.ExitOK {
				t.Errorf("millrace %q: got exit code %d and %q", args, code, out)
			}
		}
		d.do(t, "doctor")
		out, code := d.do(t, "queues", "pause", "mails", "-why=x")
		if (code == boot.ExitOK) != (err == nil) {
			t.Errorf("the pauses can be read: %v; pause: got exit code %d and %q", err == nil, code, out)
		}
		if b, err := d.store.Blobs("pauses").Get(t.Context(), "queues", ""); err != nil || code != boot.ExitOK && string(b.Body) != body {
			t.Errorf("got %q, %v; want it as it was", b.Body, err)
		}
		d.do(t, "queues", "resume", "mails", "-json")
	})
}

func pauseList(t *testing.T, s *storage.Store) (map[string]pause.Pause, error) {
	t.Helper()
	p, err := pause.New(s, pause.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return p.List(t.Context())
}
