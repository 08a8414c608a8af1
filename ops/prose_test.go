package ops

import (
	"testing"

	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/acts"
	"github.com/millrace-go/millrace/ops/doctor"
	"github.com/millrace-go/millrace/ops/internal/login"
)

// A text of an act has code, ways and the words of buttons in place of its command lines, and no HTML of its own.
func TestProse(t *testing.T) {
	t.Parallel()
	p := prose{table: acts.All(), command: "depot", root: "./", buttons: map[string]string{
		"depot queues resume labels": "Resume", "depot settings set level=1": "",
	}}
	for text, want := range map[string]string{
		"no <b>command</b> of depot":                                  "no &lt;b&gt;command&lt;/b&gt; of depot",
		"it goes on: depot bulk show 01a2 tells how far it has come.": `it goes on: <a href="./bulk/01a2">the page of 01a2</a> tells how far it has come.`,
		"Asked. depot processes show 'o 1' tells it, and so on":       `Asked. <a href="./processes/o%201">The page of o 1</a> tells it, and so on`,
		"End it by depot queues resume labels.":                       `End it by <strong>Resume</strong>.`,
		"End it by depot queues resume notes --why TEXT, soon":        `End it by <code>depot queues resume notes --why TEXT</code>, soon`,
		"depot turns list labels --all shows those":                   `<a href="./turns?all=true&amp;queue=labels"><code>depot turns list labels --all</code></a> shows those`,
		"depot turns list QUEUE lists them":                           `<code>depot turns list QUEUE</code> lists them`,
		"depot processes skip o7001 02 --plan delivery goes on":       `<code>depot processes skip o7001 02 --plan delivery</code> goes on`,
		"depot processes skip o7001 --plan delivery goes on":          `<code>depot processes skip o7001 --plan delivery</code> goes on`,
		"depot processes skip o7001 goes on, or it waits":             `<code>depot processes skip o7001</code> goes on, or it waits`,
		"depot processes skip o7001 02 03 --plan delivery":            `<code>depot processes skip o7001</code> 02 03 --plan delivery`,
		"depot processes skip o7001 02, --plan says of which":         `<code>depot processes skip o7001</code> 02, --plan says of which`,
		"depot processes skip o7001 02 --plan delivery 03 --why TEXT": `<code>depot processes skip o7001 02 --plan delivery</code> 03 --why TEXT`,
		"lower it: depot settings set level=1. It falls by itself":    `lower it: <code>depot settings set level=1</code>. It falls by itself`,
		"send it with depot send, and depot nothing":                  `send it with <code>depot send</code>, and depot nothing`,
	} {
		worldtest.Want(t, text, string(p.html(text)), want)
	}
	p.root = ""
	worldtest.Want(t, "without ways", string(p.html("see depot bulk show 1")), "see <code>depot bulk show 1</code>")
}

// A finding has the words of its button in its text. For a person who may not do the act, the whole command line is
// code, also where nobody could tell its end from the words after it.
func TestAFindingTellsOfItsActs(t *testing.T) {
	t.Parallel()
	lower := act.Hint{Act: "settings set", Args: []string{"level=1"}}
	f := doctor.Finding{Queue: "mails", Fix: "Lower the level: " + lower.Line("depot") + ". It falls by itself, too.", Acts: []act.Hint{lower}}
	for role, want := range map[act.Role][2]string{
		act.Operator: {"Lower the level: <strong>Set</strong>. It falls by itself, too.", "./do/settings/set?values=level%3D1"},
		act.Viewer:   {"Lower the level: <code>depot settings set level=1</code>. It falls by itself, too.", "./queues/mails"},
	} {
		m := table(acts.All()).mends(view{Root: "./", Who: login.Person{Role: role}}, "depot", f)
		worldtest.Want(t, role.String()+": text", string(m.Mend), want[0])
		if len(m.Links) != 1 || m.Links[0].Path != want[1] {
			t.Errorf("%s: got the ways %+v, want %s", role, m.Links, want[1])
		}
	}
}
