package operator

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/coord/keylock"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
)

// An operator sees what keys wait for, and lets them go on, with a name and a reason.
func TestTurns(t *testing.T) {
	t.Parallel()
	store := worldtest.OpenStore(t, worldtest.Virtual)
	w := newStranger(t, store)
	ts, err := keylock.New(store, "mails", keylock.Config{Holder: "worker-7"})
	if err != nil {
		t.Fatal(err)
	}
	leave := func(key string, change func(*keylock.State)) {
		t.Helper()
		x, err := ts.Take(t.Context(), key, nil)
		if err != nil {
			t.Fatal(err)
		}
		s := x.State()
		change(&s)
		if err := x.End(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	leave("free", func(*keylock.State) {})
	leave("halted", func(s *keylock.State) { s.Halt("m1", "kitchen closed", 0) })
	leave("gap", func(s *keylock.State) { s.WaitFor("m2", 9, 7) })
	leave("skipped", func(s *keylock.State) { s.Skip("m3", "no"); s.Wait("m4", 0, 0) })
	held, err := ts.Take(t.Context(), "held", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = held.End(t.Context(), held.State()) }()
	if _, err := store.Table("turns").Put(t.Context(), "mails", "broken", []byte("x"), storage.Condition{}); err != nil {
		t.Fatal(err)
	}
	out := w.want(t, 0, "", "turns", "list", "mails", "-reveal", "-why", "x")
	for _, want := range []string{"broken corrupt", "halted halted by message m1", "kitchen closed", "gap gap event 9 waits for event 7", "skipped waiting for message m4", "held held by worker-7"} {
		if !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
			t.Errorf("want %q in\n%s", want, out)
		}
	}
	if strings.Contains(out, "free") {
		t.Errorf("a free key is listed:\n%s", out)
	}
	contains(t, "all", w.want(t, 0, "", "turns", "list", "mails", "-all"), "free")
	contains(t, "misspelt release", w.want(t, 2, "", "turns", "release", "mailz", "halted", "-why", "x"), `unknown queue "mailz"`)
	contains(t, "misspelt", w.want(t, 2, "", "turns", "list", "mailz"), `unknown queue "mailz"`)
	contains(t, "json", w.want(t, 0, "", "turns", "list", "mails", "-json", "-reveal", "-why", "x"), `"state":"halted"`, `"why":"kitchen closed"`)
	contains(t, "release", w.want(t, 0, "", "turns", "release", "mails", "halted", "-why", "open again", "-by", "ada"), `Key "halted" goes on`, "within as long as it was stopped")
	contains(t, "again", w.want(t, 0, "", "turns", "release", "mails", "halted", "-why", "x", "-json"), `"result":"unchanged"`)
	contains(t, "gap", w.want(t, 0, "", "turns", "release", "mails", "gap", "-why", "x", "-json"), `"result":"released"`)
	contains(t, "who", w.want(t, 0, "", "turns", "list", "mails", "-all", "-json"), `"by":"ada"`, `"why":"open again"`)
}

// Doctor finds keys that are halted and keys that wait for long, and says which commands help.
func TestDoctorFindsKeysThatDoNotGoOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := worldtest.OpenStore(t, worldtest.Virtual)
		w := newStranger(t, store)
		putBlob(t, store, "poison", "mails/00", "{}") // so the queue is known
		leave := func(queue, key string, change func(*keylock.State)) {
			t.Helper()
			ts, err := keylock.New(store, queue, keylock.Config{})
			if err != nil {
				t.Fatal(err)
			}
			x, err := ts.Take(t.Context(), key, nil)
			if err != nil {
				t.Fatal(err)
			}
			s := x.State()
			change(&s)
			if err := x.End(t.Context(), s); err != nil {
				t.Fatal(err)
			}
		}
		leave("mails", "free", func(*keylock.State) {})
		leave("mails", "ada@example.org", func(s *keylock.State) { s.Halt("m1", "kitchen closed", 0) })
		leave("mails", "gap", func(s *keylock.State) { s.WaitFor("m2", 9, 7) })
		leave("mails", "long delay", func(s *keylock.State) { s.Wait("m5", time.Hour, 0) })
		time.Sleep(6 * time.Minute)
		leave("mails", "later", func(s *keylock.State) { s.Halt("m3", "closed again", 0) })
		leave("mails", "new gap", func(s *keylock.State) { s.WaitFor("m4", 3, 1) })
		if _, err := store.Table("turns").Put(t.Context(), "mails", "broken", []byte("x"), storage.Condition{}); err != nil {
			t.Fatal(err)
		}
		out := w.want(t, exitWrong, "", "doctor")
		contains(t, "doctor", out,
			"WRONG 2 keys of queue mails are halted, and their messages wait; the first: by message m1, 6m0s ago millrace turns list mails shows them.",
			"millrace turns list mails shows them. Put right what is wrong, and send the message back (millrace poison retry --queue mails --id ID)",
			"Or millrace turns release mails KEY --why TEXT lets the others",
			"WRONG 1 key of queue mails waits for a message that does not come: event 9 waits for event 7, 6m0s ago",
			"NOTE 1 key of queue mails can't be read, and its messages wait:")
		contains(t, "revealed", w.want(t, 0, "", "turns", "list", "mails", "-reveal", "-why", "x"), "kitchen closed")
		if strings.Contains(out, "kitchen closed") {
			t.Errorf("an error is shown:\n%s", out)
		}
		if strings.Contains(out, "ada@example.org") {
			t.Errorf("a key is named:\n%s", out)
		}
		contains(t, "json", w.want(t, exitWrong, "", "doctor", "-json"), `"check":"turns","queue":"mails"`)
	})
}
