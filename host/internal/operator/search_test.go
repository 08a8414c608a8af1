package operator

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode"

	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/acts"
	"github.com/millrace-go/millrace/storage"
)

// find tells what a word names, for people and for programs, and what it has looked through where nothing is.
func TestFind(t *testing.T) {
	t.Parallel()
	x := newStranger(t, worldtest.OpenStore(t, ""))
	x.publish(t)
	worldtest.Send(x.World, worldtest.Add{To: "ada", Amount: 5, Key: "order-17"})
	contains(t, "a message", x.want(t, 0, "", "find", "order-17"), "WHAT NAME IN message order-17 accounts")
	got := oneLine[acts.Found](t, x.want(t, 0, "", "find", "order-17", "-json"))
	worldtest.Want(t, "what is found", fmt.Sprint(got), "{message order-17 accounts { messages show map[id:order-17 queue:accounts]} 0}")
	x.work(t)
	contains(t, "documents", x.want(t, 0, "", "find", "ada"), "document ada accounts", "document of a view ada totals")
	contains(t, "a queue", x.want(t, 0, "", "find", "accounts"), "queue accounts", "collection accounts")
	if code, _, told := x.do(t, "", "find", "nope"); code != exitNothing || !strings.Contains(told, `nothing is called "nope". Looked through: `) {
		t.Errorf("got exit code %d and %s", code, told)
	}
	contains(t, "flow", x.want(t, 0, "", "messages", "show", "accounts", "order-17", "-kind", "test.add.v1", "-key", "ada"), "State gone", "Applied yes: document", "decision decide accounts ada", "event test.added.v1", "view project totals ada totals applied")
	contains(t, "a queue's page", x.want(t, 0, "", "queues", "show", "accounts"), "Ready 0", "Consumed by stranger v1")
	contains(t, "programs", x.want(t, 0, "", "programs", "list"), "stranger v1")
	contains(t, "levels", x.want(t, 0, "", "levels", "list"), "No queue waits because of a level.")
	contains(t, "rates", x.want(t, 0, "", "rates"), "No worker has published any work")
}

// Law: hostile text moves no cursor and turns no direction, and content stays hidden, whatever is looked at.
func TestLawHostileTextIsHarmlessInATerminal(t *testing.T) {
	t.Parallel()
	const hostile, secret = "x\"'><script>alert(1)</script> \u202e\u200f {{.}}", "xyzzy-4711"
	control := hostile + "\x1b[31m\a\x00\u009b"
	text := func(s string) string {
		raw, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	s := worldtest.OpenStore(t, "")
	x := newStranger(t, s)
	x.publish(t)
	worldtest.Send(x.World, worldtest.Add{To: hostile, Amount: 1, Note: secret})
	x.work(t)
	e := worldtest.Envelope(hostile, worldtest.Add{To: "ada", Amount: 3, Note: secret})
	e.Subject, e.Tenant, e.LastError, e.Attempts = hostile, hostile, secret+control, 2
	body, err := e.Encode()
	if err == nil {
		err = s.Queue(worldtest.Accounts).Send(t.Context(), []storage.Message{{Body: body}, {Body: []byte(secret + control)}})
	}
	if err != nil {
		t.Fatal(err)
	}
	putBlob(t, s, "poison", worldtest.Accounts+"/"+goodKey, `{"reason":`+text(control)+`,"error":`+text(secret+control)+`,"worker":`+text(control)+`,"body":"e30="}`)
	putBlob(t, s, "poison", worldtest.Accounts+"/"+hostile, secret)
	putBlob(t, s, "gates", "due", `{"by":`+text(control)+`,"why":`+text(control)+`,"since":"2026-01-01T03:04:05Z","epoch":1,"id":"x"}`)
	for _, container := range []string{"gates", "guards", "ids", "schedules", "leases", "accounts"} {
		putBlob(t, s, container, "junk"+hostile, secret)
	}
	putBlob(t, s, "programs", hostile+"/v1", `{"program":`+text(control)+`}`)
	lines := [][]string{{"find", hostile}, {"find", control}, {"messages", "show", "accounts", hostile}, {"queues", "show", "accounts"}, {"queues", "peek", "accounts"}, {"values", "list", "accounts"},
		{"values", "show", "accounts", hostile}, {"values", "about", "accounts", hostile}, {"values", "about", "accounts", "junk" + hostile}, {"views", "show", "totals", hostile},
		{"poison", "show", goodKey}, {"poison", "show", hostile}, {"programs", "show", hostile}, {"queues", "show", hostile}}
	for _, a := range acts.All() {
		if a.Role == act.Viewer && !a.Local {
			lines = append(lines, strings.Fields(a.Name()))
		}
	}
	for _, line := range lines {
		for _, flags := range [][]string{nil, {"-json"}} {
			_, out, told := x.do(t, "", append(append([]string{}, line...), flags...)...)
			for _, text := range []string{out, told} {
				if strings.Contains(text, secret) {
					t.Errorf("%q tells content: %q", line, text)
				}
				if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) && r != '\n' && r != '\t' }) {
					t.Errorf("%q: got %q", line, text)
				}
			}
		}
	}
}
