package ops_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/storage"
)

// putPoison lets the queue of accounts have a poison message.
func putPoison(t *testing.T, s *storage.Store) {
	t.Helper()
	const body = `{"reason":"odd","error":"x","worker":"w","attempts":1,"body":"e30="}`
	if _, err := s.Blobs("poison").Put(t.Context(), worldtest.Accounts+"/00000000000000000000000000000001", []byte(body), storage.Condition{}); err != nil {
		t.Fatal(err)
	}
}

// A form of one thing is called after it, has no field that selects many, and offers nothing that is then refused.
func TestAFormOfOneThing(t *testing.T) {
	t.Parallel()
	x := newDoubts(t, 1)
	for path, want := range map[string]string{
		"do/processes/retry?id=o1&plan=pay&step=charge": "Retry step charge of process o1", "do/processes/retry?id=o1": "Retry process o1", "do/queues/resume?queues=pay": "Resume queue pay",
		"do/queues/resume?queues=pay%0Anotes": "Resume queues", "do/guards/close?name=post": "Close guard post", "do/poison/retry?id=m-1": "Retry poison message m-1", "do/processes/retry": "Retry processes",
	} {
		x.want(t, 200, ask{path: path, role: act.Operator}, "<h1>"+want+"</h1>", "<button>"+want+"</button>")
	}
	const dry, stuck = "Show what it would do", `name="stuck"`
	x.want(t, 200, ask{path: "do/processes/retry", role: act.Operator}, dry, stuck)
	for _, path := range []string{"do/processes/retry?id=o1", "do/processes/rerun?id=o1&step=01", "do/poison/retry?id=m-1"} {
		body := x.want(t, 200, ask{path: path, role: act.Operator})
		for _, not := range []string{dry, stuck, `name="status"`, `name="reason"`, `name="all"`} {
			if strings.Contains(body, not) {
				t.Errorf("%s: the form has %s", path, not)
			}
		}
	}
}

// A page says how far an act has come, and has the ways to what it was about and to where its person was.
func TestAPageSaysWhatHasBecomeOfAnAct(t *testing.T) {
	t.Parallel()
	x := newDoubts(t, 1)
	post := func(path string, form url.Values, want ...string) string {
		t.Helper()
		return x.want(t, 200, ask{method: "POST", path: "do/" + path, role: act.Admin, form: form}, want...)
	}
	asked := post("processes/retry", url.Values{"id": {"o1"}, "step": {"charge"}, "plan": {"pay"}, "came-from": {"."}}, ">Asked. The", `<a href="./../../processes/o1">The page of o1</a> tells what has become of it`,
		`href="./../../processes/o1?plan=pay">To process o1</a>`, `href="./../../">Back to the overview</a>`)
	none := post("poison/retry", url.Values{"all": {"true"}}, ">Nothing was done. The", "none was chosen")
	post("queues/pause", url.Values{"queues": {"pay"}, "why": {"x"}, "came-from": {"queues?prefix=p"}}, ">Done. The", `href="./../../queues/pay">To queue pay</a>`, `href="./../../queues?prefix=p">Back to queues</a>`)
	post("queues/resume", url.Values{"queues": {"pay"}}, ">Done. The")
	post("queues/resume", url.Values{"queues": {"pay"}}, ">Nothing was done. The", "was not paused")
	for _, bad := range []string{"//evil.example", "https://evil.example/", "/evil", "../../evil", "do/queues/purge"} {
		if body := post("queues/pause", url.Values{"queues": {"pay"}, "why": {"x"}, "came-from": {bad}}); strings.Contains(body, "evil") || strings.Contains(body, `href="./../../do/`) {
			t.Errorf("%s: the page leads there:\n%s", bad, body)
		}
	}
	putPoison(t, x.Store)
	begun := post("poison/retry", url.Values{"all": {"true"}}, ">Begun. The", "it goes on in the background: <a href=")
	for name, body := range map[string]string{"asked": asked, "none": none, "begun": begun} {
		if strings.Contains(body, "Done.") {
			t.Errorf("the page of an act that has %s says that it is done", name)
		}
	}
	x.want(t, 200, ask{path: "do/queues/pause?queues=pay", role: act.Operator, header: map[string]string{"Referer": "http://localhost/a/b/ops/queues/pay"}}, `name="came-from" value="queues/pay"`)
}

// The acts below a list that is filtered are about what the list shows.
func TestActsKeepTheFilterOfTheirList(t *testing.T) {
	t.Parallel()
	x := newSite(t, worldtest.OpenStore(t, ""))
	putPoison(t, x.Store)
	x.want(t, 200, ask{path: "poison?reason=odd&queue=accounts&limit=5", role: act.Admin}, `do/poison/retry?queue=accounts&amp;reason=odd"`, `do/poison/discard?queue=accounts&amp;reason=odd"`)
	x.want(t, 200, ask{path: "do/poison/retry?queue=accounts&reason=odd", role: act.Admin}, `<option selected>odd</option>`)
}
