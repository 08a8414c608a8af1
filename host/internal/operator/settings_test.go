package operator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/ops/acts"
	"github.com/millrace-go/millrace/settings"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// A hall is the settings of a program that the operator doesn't know.
type hall struct {
	Seats int `json:"seats"`
	Mail  struct {
		Rate int    `json:"rate"`
		From string `json:"from"`
	} `json:"mail"`
	Key settings.Secret `json:"key"`
}

// openHall starts a node.
func openHall(t *testing.T, s *storage.Store, name, node string) *settings.Settings[hall] {
	t.Helper()
	h := hall{Seats: 40}
	h.Mail.Rate = 10
	return openStaged(t, s, name, h, settings.Config{Name: node, Patience: time.Minute}) // this machine may be slow
}

// openStaged starts a node with a Config.
func openStaged(t *testing.T, s *storage.Store, name string, h hall, cfg settings.Config) *settings.Settings[hall] {
	t.Helper()
	n, err := settings.Open(t.Context(), s, name, h, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.Close(context.WithoutCancel(t.Context())) })
	return n
}

// The verbs of settings change what programs run, and show who has what.
func TestSettings(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := newStranger(t, worldtest.OpenStore(t, worldtest.Virtual))
		a, b := openHall(t, x.Store, "hall", "a"), openHall(t, x.Store, "hall", "b")
		b.Changing(func(_ context.Context, _, to hall) error {
			if to.Seats > 100 {
				return errors.New("the walls are in the way")
			}
			return nil
		})
		contains(t, "defaults", x.want(t, 0, "", "settings", "show", "-of", "hall"), `"seats": 40`, `"rate": 10`, "Settings hall: the programs' defaults are in force.")

		contains(t, "set", x.want(t, 0, "", "settings", "set", "seats=60", "mail.from=ada@example.org", "-of", "hall", "-by", "ada", "-why", "Black Friday"), "Settings hall: version 1 is in force.")
		_ = worldtest.Pause(t.Context(), time.Second)
		if a.Now().Seats != 60 || b.Now().Mail.From != "ada@example.org" || a.Now().Mail.Rate != 10 {
			t.Errorf("got %+v and %+v", a.Now(), b.Now())
		}
		contains(t, "show", x.want(t, 0, "", "settings", "show"), `"seats": 60`, "Settings hall, version 1, by ada, 1s ago: Black Friday.")
		line := oneLine[acts.SettingsShown](t, x.want(t, 0, "", "settings", "show", "-json"))
		if line.Version != 1 || line.By != "ada" || string(line.Set) != `{"mail":{"from":"ada@example.org"},"seats":60}` || !strings.Contains(string(line.Values), `"rate":10`) {
			t.Errorf("show -json: got %+v", line)
		}
		if got := oneLine[acts.SettingsChange](t, x.want(t, 0, "", "settings", "set", "seats=60", "-json")); got.Result != "unchanged" {
			t.Errorf("set -json: got %+v", got)
		}

		contains(t, "refused", x.want(t, 1, "", "settings", "set", "seats=101"), "version 2: refused by b: this program: the walls are in the way")
		contains(t, "misspelt", x.want(t, 1, "", "settings", "set", "seast=50"), `unknown member "seast"; want one of `, "the name is misspelt")
		contains(t, "wrong type", x.want(t, 1, "", "settings", "set", "seats=many"), "seats: want a whole number")
		const secret = "hunter2hunter2"
		if out := x.want(t, 1, "", "settings", "set", "key="+secret); strings.Contains(out, secret) || !strings.Contains(out, "a secret is set by a reference") {
			t.Errorf("a secret in place of its reference: got %s", out)
		}
		contains(t, "null", x.want(t, 1, "", "settings", "set", "seats=null"), "null is no value", `"millrace settings set --default seats"`)
		contains(t, "null within", x.want(t, 1, "", "settings", "set", `mail={"rate":null}`), "null is no value")
		contains(t, "twice", x.want(t, 2, "", "settings", "set", "seats=1", "seats=2"), `"seats" is set twice`)
		contains(t, "both", x.want(t, 2, "", "settings", "set", "seats=1", "-default", "seats"), `"seats" is set twice`)
		contains(t, "forced", x.want(t, 0, "", "settings", "set", "seats=102", "-force"), "version 5 is in force.", "Passed over: b (this program: hidden text of 24 characters (#")
		_ = worldtest.Pause(t.Context(), time.Second)
		contains(t, "status", x.want(t, 0, "", "settings", "status", "-reveal", "-why", "x"), "NAME VERSION FROM SINCE LOOKED ANSWER HEALTH WAITING FAULT a 5 store 1s ago 1s ago yes to 5 – – – b 5 store", "no to 5: this program: the walls are in the way")
		contains(t, "back", x.want(t, 0, "", "settings", "back", "-why", "too many"), "Settings hall: version 6 is in force.")
		_ = worldtest.Pause(t.Context(), time.Second)
		if a.Now().Seats != 60 || b.Now().Seats != 60 {
			t.Errorf("got %+v and %+v", a.Now(), b.Now())
		}
		contains(t, "default", x.want(t, 0, "", "settings", "set", "-default", "seats"), "version 7 is in force")
		contains(t, "history", x.want(t, 0, "", "settings", "history", "-reveal", "-why", "x"), "VERSION RESULT WHEN BY WHY CHANGES REASON 7 in force 0s ago", "seats 60→default – 6 in force 1s ago", "too many back to 1, seats 102→60 – 5 forced", "seats 60→102 b: this program: the walls are in the way",
			"4 refused", `3 refused`, "seast default→50", `this program: invalid argument: unknown member "seast"`, "2 refused", "seats 60→101 b: this program: the walls are in the way 1 in force", `ada Black Friday mail.from default→"ada@example.org", seats default→60 –`)
		lines := strings.Split(strings.TrimSpace(x.want(t, 0, "", "settings", "history", "-json", "-limit", "3")), "\n")
		if forced := oneLine[acts.SettingsVersion](t, lines[2]+"\n"); forced.Version != 5 || forced.Result != string(settings.Forced) || forced.Reasons[0].Node != "b" || forced.Base != 1 {
			t.Errorf("history -json: got %+v", forced)
		}
		contains(t, "diff", x.want(t, 0, "", "settings", "diff", "5"), `PATH VERSION 5 VERSION 7 seats 102 default`)
		contains(t, "no diff", x.want(t, 0, "", "settings", "diff", "1", "6"), "Versions 1 and 6 set the same.")
		contains(t, "no version", x.want(t, 3, "", "settings", "diff", "1", "60"), "version 60")
		for _, of := range []string{"show", "status", "history", "diff 1"} {
			contains(t, "nobody's", x.want(t, 3, "", append([]string{"settings"}, strings.Fields(of+" -of wall")...)...), "there are no settings wall", "there are hall")
		}
		contains(t, "nobody's path", x.want(t, 0, "", "settings", "set", "-default", "mail.rat"), `no program that runs has a value at "mail.rat"`, "so already")
		if got := x.want(t, 0, "", "settings", "set", "-default", "mail.rate"); strings.Contains(got, "misspelt") {
			t.Errorf("a path that there is: got %s", got)
		}
		for _, to := range []string{"-1", "-7", "last"} {
			contains(t, "no version", x.want(t, 2, "", "settings", "back", "-to", to), "want a version, 0 or more; without --to it undoes the last change")
		}
		contains(t, "never in force", x.want(t, 1, "", "settings", "back", "-to", "2"), "this version never was in force")
		contains(t, "none to go back to", x.want(t, 3, "", "settings", "back", "-to", "77"), "millrace: settings hall have no version 77; millrace settings history --of hall lists the versions")

		openHall(t, x.Store, "kitchen", "c")
		contains(t, "another", x.want(t, 0, "", "settings", "set", "seats=2", "-of", "kitchen"), "Settings kitchen: version 1 is in force.")
		contains(t, "several", x.want(t, 2, "", "settings", "show"), "add --of with one of hall, kitchen")
	})
}

// Law: programs read how a change has ended, also one that was refused, and the audit log has it. The person who asks
// for the change reads what the code of a program has said of it, in the error alone.
func TestLawARefusedChangeIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := newStranger(t, worldtest.OpenStore(t, worldtest.Virtual))
		openHall(t, x.Store, "hall", "a").Changing(func(context.Context, hall, hall) error { return errors.New("the walls are in the way") })
		code, out, told := x.do(t, "", "settings", "set", "seats=60", "-of", "hall")
		worldtest.Want(t, "exit code", code, 1)
		worldtest.Want(t, "output", out, "")
		contains(t, "error", told, "version 1: refused by a: this program: the walls are in the way")
		code, out, told = x.do(t, "", "settings", "set", "seats=60", "-of", "hall", "-json")
		worldtest.Want(t, "exit code", code, 1)
		contains(t, "error", told, "version 2: refused by a")
		if got := oneLine[acts.SettingsChange](t, out); got.Name != "hall" || got.Version != 2 || got.Result != string(settings.Refused) || len(got.Reasons) != 1 || got.Reasons[0].Node != "a" || !strings.HasPrefix(got.Reasons[0].Why, "this program: hidden text of 24 characters (#") || got.Restart != nil {
			t.Errorf("got %+v", got)
		}
		for _, json := range []string{"", "-json"} {
			log := x.want(t, 0, "", strings.Fields("audit list "+json)...)
			if strings.Contains(log, "walls") {
				t.Errorf("the log tells what the program's code said: %s", log)
			}
			contains(t, "log", log, "version 1: refused by a: this program: hidden text of 24 characters (#")
		}
		for row, err := range x.Store.Table("audit").Query(t.Context(), time.Now().UTC().Format(time.DateOnly), storage.RowRange{}) {
			if err != nil || strings.Contains(string(row.Data), "walls") {
				t.Errorf("the log has the row %s, %v", row.Data, err)
			}
		}
	})
}

// A program's verbs are about its own settings, whatever others there are.
func TestSettingsOfTheProgramItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := newStranger(t, worldtest.OpenStore(t, worldtest.Virtual))
		own, other := openHall(t, x.Store, "hall", "a"), openHall(t, x.Store, "kitchen", "b")
		contains(t, "other", x.want(t, 0, "", "settings", "set", "seats=2", "-of", "kitchen"), "Settings kitchen: version 1 is in force.")
		x.tool.Settings = "hall"
		contains(t, "own", x.want(t, 0, "", "settings", "set", "seats=60"), "Settings hall: version 1 is in force.")
		_ = worldtest.Pause(t.Context(), time.Second)
		if own.Now().Seats != 60 || other.Now().Seats != 2 {
			t.Errorf("got %+v and %+v", own.Now(), other.Now())
		}
	})
}

// While a change waits for restarts, all that the programs run is shown, and what waits.
func TestSettingsThatWaitAreShown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := newStranger(t, worldtest.OpenStore(t, worldtest.Virtual))
		type kiln struct {
			Cores int `json:"cores" settings:"restart"`
			Heat  int `json:"heat"`
		}
		n, err := settings.Open(t.Context(), x.Store, "kiln", kiln{1, 900}, settings.Config{Name: "a"})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = n.Close(context.WithoutCancel(t.Context())) }()
		contains(t, "set", x.want(t, 0, "", "settings", "set", "cores=4", "-of", "kiln"), "version 1 is in force. Not all of it holds yet: a (cores) needs a restart.")
		_ = worldtest.Pause(t.Context(), time.Minute)
		contains(t, "show", x.want(t, 0, "", "settings", "show"), `"cores": 1`, `"heat": 900`, "cores: the change waits for a restart")
		if line := oneLine[acts.SettingsShown](t, x.want(t, 0, "", "settings", "show", "-json")); len(line.Waiting) != 1 || line.Waiting[0] != "cores" {
			t.Errorf("got %+v", line)
		}
		contains(t, "doctor", x.want(t, 4, "", "doctor"), "version 1 of settings kiln is in force, and not all of it holds: a (cores) needs a restart")
		if line := oneLine[acts.SettingsChange](t, x.want(t, 0, "", "settings", "set", "cores=5", "heat=950", "-json")); len(line.Restart) != 1 || line.Restart[0].Name != "a" || line.Restart[0].Waiting[0] != "cores" {
			t.Errorf("got %+v", line)
		}
		contains(t, "back", x.want(t, 0, "", "settings", "back", "-to", "0"), "version 3 is in force.")
		_ = worldtest.Pause(t.Context(), time.Minute)
		if _, out, _ := x.do(t, "", "doctor"); strings.Contains(out, "restart") {
			t.Errorf("nothing waits any more: %s", out)
		}
	})
}

// Without a program nobody can check a change: it is refused, and can be forced. One that doesn't answer is named.
func TestSettingsThatNobodyChecks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := newStranger(t, worldtest.OpenStore(t, worldtest.Virtual))
		contains(t, "nobody", x.want(t, 1, "", "settings", "set", "seats=60", "-of", "hall"), "set hall: refused: no program that has these settings runs", "and then repeat the change, or force it unchecked (--force)")
		contains(t, "nothing written", x.want(t, 3, "", "settings", "show"), "nobody has set anything yet")
		contains(t, "forced", x.want(t, 0, "", "settings", "set", "seats=60", "-of", "hall", "-force"), "version 1 is in force.", "where none runs, none has checked it")
		contains(t, "shown", x.want(t, 0, "", "settings", "show"), `"seats": 60`, "Shown is what somebody has set, because no program that runs has told of its values in this version")
		a := openHall(t, x.Store, "hall", "a")
		hang := make(chan struct{})
		a.Changing(func(context.Context, hall, hall) error { <-hang; return nil })
		contains(t, "no answer", x.want(t, 1, "", "settings", "set", "seats=70", "-wait", "3s"), "version 2 is still being checked and waits for a until 00:01:", "not all programs have answered within 3s; millrace settings status --of hall tells more")
		contains(t, "awaited", x.want(t, 0, "", "settings", "status"), "none yet to 2", "Version 2 is being checked. It waits for the answer of a until 00:01:", "is passed over")
		contains(t, "checking", x.want(t, 0, "", "settings", "history"), "2 checking", "seats 60→70")
		contains(t, "checking as JSON", x.want(t, 0, "", "settings", "history", "-json"), `"result":"checking"`)
		contains(t, "checking", x.want(t, 0, "", "settings", "show"), "Version 2 is being checked.")
		contains(t, "another's", x.want(t, 1, "", "settings", "set", "seats=80", "-wait", "5s"), "Note: another change, version 2, is being checked. It waits for", ": another change, version 2, is still being checked and waits for a until")
		close(hang)
		_ = worldtest.Pause(t.Context(), time.Minute)
		putBlob(t, x.Store, "settings", "hall/current", "junk \x1b[31m")
		x.tool.Command = "shop"
		contains(t, "damaged", x.want(t, 1, "", "settings", "show"), `go back by "shop settings back --of hall" with --to VERSION`)
		contains(t, "damaged", x.want(t, 0, "", "settings", "history"), "Note: settings: read hall", `by "shop settings back --of hall"`, "2 unknown ")
		contains(t, "damaged, as JSON", x.want(t, 0, "", "settings", "history", "-json"), `"result":"unknown"`)
		contains(t, "none to repair it", x.want(t, 3, "", "settings", "back", "-to", "77"), "shop: settings hall have no version 77; shop settings history --of hall lists the versions")
		contains(t, "repaired", x.want(t, 0, "", "settings", "back", "-to", "1"), "version 3 is in force.")
		_ = worldtest.Pause(t.Context(), time.Minute)
		if a.Now().Seats != 60 || a.State().Version != 3 {
			t.Errorf("got %+v, %+v", a.Now(), a.State())
		}
	})
}

// The verbs show a change that comes in stages, drop it, and pass the stages over. Doctor finds one that stands still,
// and a program that can't run what is in force.
func TestSettingsInStages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := newStranger(t, worldtest.OpenStore(t, worldtest.Virtual))
		var ill atomic.Bool
		var nodes []*settings.Settings[hall]
		for _, name := range []string{"a", "b"} {
			nodes = append(nodes, openStaged(t, x.Store, "hall", hall{Seats: 40}, settings.Config{
				Name: name, Stages: settings.InStages(10*time.Minute, 50, 100),
				Work: func() settings.Work { return settings.Work{} },
				Health: func(context.Context) error {
					if ill.Load() {
						return errors.New("mails bounce")
					}
					return nil
				},
			}))
		}
		contains(t, "both", x.want(t, 2, "", "settings", "set", "seats=60", "-of", "hall", "-now", "-force"), "exclude one another")
		contains(t, "set", x.want(t, 0, "", "settings", "set", "seats=60", "-of", "hall"), "Settings hall: all programs agree, and version 1 is being rolled out in stages. millrace settings status --of hall shows how it goes.")
		_ = worldtest.Pause(t.Context(), 3*time.Minute)
		if sum := nodes[0].Now().Seats + nodes[1].Now().Seats; sum != 100 {
			t.Errorf("got %d seats", sum)
		}
		contains(t, "status", x.want(t, 0, "", "settings", "status"), "canary, 0 of 0 calls failed", "Version 1 is being rolled out: stage 1 of 2, 50% of the programs, baked ")
		contains(t, "show", x.want(t, 0, "", "settings", "show"), "Version 1 is being rolled out: stage 1 of 2")
		contains(t, "history", x.want(t, 0, "", "settings", "history"), "1 rolling out")
		contains(t, "history -json", x.want(t, 0, "", "settings", "history", "-json"), `"result":"rolling out"`)
		line := oneLine[acts.SettingsShown](t, x.want(t, 0, "", "settings", "show", "-json"))
		if line.Rollout == nil || line.Rollout.Stage != 0 || len(line.Rollout.Stages) != 2 {
			t.Errorf("got %+v", line.Rollout)
		}
		contains(t, "another", x.want(t, 1, "", "settings", "set", "seats=70"), "another change is being rolled out, version 1: wait for its end, or drop it by \"millrace settings back --of hall\"")
		_ = worldtest.Pause(t.Context(), time.Hour)
		waits := "the nodes that run it have counted fewer than 100 calls"
		contains(t, "waits", x.want(t, 0, "", "settings", "status"), "baked 10m0s of 10m0s; it waits: "+waits+". It goes on when that is over. To change all programs at once instead: millrace settings back --of hall, then millrace settings set --of hall --now, with the same values.")
		contains(t, "stands still", x.want(t, 4, "", "doctor"), "the roll-out of version 1 of settings hall has stood still for", "in stage 1 of 2: "+waits, "settings back --of hall")
		contains(t, "back", x.want(t, 0, "", "settings", "back", "-why", "too slow"), "Settings hall: version 1 is rolled back. What was in force stays.")
		contains(t, "now", x.want(t, 0, "", "settings", "set", "seats=50", "-now"), "Settings hall: version 2 is in force.")
		_ = worldtest.Pause(t.Context(), time.Second)
		if nodes[0].Now().Seats != 50 || nodes[1].Now().Seats != 50 {
			t.Errorf("got %+v and %+v", nodes[0].Now(), nodes[1].Now())
		}
		contains(t, "set", x.want(t, 0, "", "settings", "set", "seats=60"), "version 3 is being rolled out")
		ill.Store(true)
		_ = worldtest.Pause(t.Context(), time.Minute)
		contains(t, "ill", x.want(t, 0, "", "settings", "status", "-reveal", "-why", "x"), "Version 3 was rolled back", ": Health: mails bounce.")
		contains(t, "note", x.want(t, 3, "", "doctor"), "version 3 of settings hall was rolled back", "because of ", "settings history --of hall --reveal --why TEXT", "Version 2 is in force.")
		contains(t, "forced", x.want(t, 0, "", "settings", "set", "key=env:MILLRACE_NO_SUCH_VARIABLE", "-force"), "version 4 is in force", "Passed over")
		_ = worldtest.Pause(t.Context(), time.Second)
		contains(t, "fault", x.want(t, 4, "", "doctor"), "a runs version 2 of settings hall, and can't run 4, which is in force", "settings status --of hall --reveal --why TEXT")
		contains(t, "fault", x.want(t, 0, "", "settings", "status", "-json", "-reveal", "-why", "x"), "no such environment variable")
	})
}

// A set that takes long says which program it waits for, and until when: once, and to people only.
func TestSetSaysForWhomItWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := newStranger(t, worldtest.OpenStore(t, worldtest.Virtual))
		link := storagetest.NewLink(x.Store)
		openHall(t, x.Store, "hall", "a")
		openHall(t, link.Store, "hall", "far")
		contains(t, "quick", x.want(t, 0, "", "settings", "set", "seats=50", "-of", "hall"), "version 1 is in force")
		link.Cut()
		out := x.want(t, 0, "", "settings", "set", "seats=60", "-of", "hall")
		contains(t, "slow", out, "Note: version 2 is being checked. It waits for the answer of far until 00:01:", "version 2 is in force")
		if strings.Count(out, "Note: ") != 1 {
			t.Errorf("got %s", out)
		}
	})
}

// A signal ends a set at once. It says that the change goes on without it, which is so, and how to look and to undo it.
func TestASetThatASignalStops(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	n := openHall(t, w.store, "hall", "a")
	hang := make(chan struct{})
	n.Changing(func(context.Context, hall, hall) error { <-hang; return nil })
	l, err := settings.At(w.store, "hall")
	if err != nil {
		t.Fatal(err)
	}
	p := w.begin(t, "settings", "set", "seats=60", "-of", "hall", "-wait", "1h")
	worldtest.Eventually(t, func() error {
		if now, err := l.Current(t.Context()); err != nil || now.Candidate != 1 {
			return fmt.Errorf("candidate %d, %v", now.Candidate, err)
		}
		return nil
	})
	p.Signal(t, syscall.SIGTERM)
	if code := p.Wait(t); code != 1 {
		t.Errorf("got exit code %d", code)
	}
	contains(t, "told", p.Output(), "stopped by a signal. Version 1 goes on without this command: the programs check it, and it comes into force when all have said yes.",
		"settings status --of hall shows how it ends. Until then, and once it is in force,", "settings back --of hall takes it back")
	close(hang)
	if e, err := l.Await(t.Context(), 1); err != nil || e.Result != settings.InForce {
		t.Errorf("got %+v, %v", e, err)
	}
}
