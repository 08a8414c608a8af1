package ops

import (
	"testing"

	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/ops/acts"
)

// A text of an act has code, ways and the words of buttons in place of its command lines, and no HTML of its own.
func TestProse(t *testing.T) {
	t.Parallel()
	p := prose{table: acts.All(), command: "depot", root: "./", buttons: map[string]string{"depot queues resume labels": "Resume"}}
	for text, want := range map[string]string{
		"no <b>command</b> of depot":                                  "no &lt;b&gt;command&lt;/b&gt; of depot",
		"it goes on: depot bulk show 01a2 tells how far it has come.": `it goes on: <a href="./bulk/01a2">the page of 01a2</a> tells how far it has come.`,
		"Asked. depot processes show 'o 1' tells it, and so on":       `Asked. <a href="./processes/o%201">The page of o 1</a> tells it, and so on`,
		"End it by depot queues resume labels.":                       `End it by <strong>Resume</strong>.`,
		"End it by depot queues resume notes --why TEXT, soon":        `End it by <code>depot queues resume notes --why TEXT</code>, soon`,
		"depot turns list labels --all shows those":                   `<a href="./turns?all=true&amp;queue=labels"><code>depot turns list labels --all</code></a> shows those`,
		"depot turns list QUEUE lists them":                           `<code>depot turns list QUEUE</code> lists them`,
		"send it with depot send, and depot nothing":                  `send it with <code>depot send</code>, and depot nothing`,
	} {
		worldtest.Want(t, text, string(p.html(text)), want)
	}
	p.root = ""
	worldtest.Want(t, "without ways", string(p.html("see depot bulk show 1")), "see <code>depot bulk show 1</code>")
}
