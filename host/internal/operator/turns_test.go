package operator

import (
	"strings"
	"testing"

	"github.com/millrace-go/millrace/coord/turn"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
)

// An operator sees what keys wait for, and lets them go on, with a name and a reason.
func TestTurns(t *testing.T) {
	t.Parallel()
	store := worldtest.OpenStore(t, worldtest.Virtual)
	w := newStranger(t, store)
	ts, err := turn.New(store, "mails", turn.Config{Holder: "worker-7"})
	if err != nil {
		t.Fatal(err)
	}
	leave := func(key string, change func(*turn.State)) {
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
	leave("free", func(*turn.State) {})
	leave("halted", func(s *turn.State) { s.Halt("m1", "kitchen closed", 0) })
	leave("gap", func(s *turn.State) { s.WaitFor("m2", 9, 7) })
	leave("skipped", func(s *turn.State) { s.Skip("m3", "no"); s.Wait("m4", 0, 0) })
	held, err := ts.Take(t.Context(), "held", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = held.End(t.Context(), held.State()) }()
	if _, err := store.Table("turns").Put(t.Context(), "mails", "broken", []byte("x"), storage.Condition{}); err != nil {
		t.Fatal(err)
	}
	out := w.want(t, 0, "", "turns", "list", "mails")
	for _, want := range []string{"broken corrupt", "halted halted by message m1", "kitchen closed", "gap gap event 9 waits for event 7", "skipped waiting for message m4", "held held by worker-7"} {
		if !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
			t.Errorf("want %q in\n%s", want, out)
		}
	}
	if strings.Contains(out, "free") {
		t.Errorf("a free key is listed:\n%s", out)
	}
	contains(t, "all", w.want(t, 0, "", "turns", "list", "mails", "-all"), "free")
	contains(t, "json", w.want(t, 0, "", "turns", "list", "mails", "-json"), `"state":"halted"`, `"why":"kitchen closed"`)
	contains(t, "release", w.want(t, 0, "", "turns", "release", "mails", "halted", "-why", "open again", "-by", "ada"), `Key "halted" goes on`)
	contains(t, "again", w.want(t, 0, "", "turns", "release", "mails", "halted", "-why", "x", "-json"), `"result":"unchanged"`)
	contains(t, "gap", w.want(t, 0, "", "turns", "release", "mails", "gap", "-why", "x", "-json"), `"result":"released"`)
	contains(t, "who", w.want(t, 0, "", "turns", "list", "mails", "-all", "-json"), `"by":"ada"`, `"why":"open again"`)
}
