package ops_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/coord/gate"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/acts"
	"github.com/millrace-go/millrace/worker"
)

// Law: content is in no answer until somebody says why they need to see it, also where no program has published what
// its documents and messages are.
func TestLawContentNobodyHasDescribedIsRevealedWithAReason(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, "")
	x := &site{World: worldtest.New(t, s, worldtest.Config{Groups: []string{worldtest.Totals}}), tokens: map[act.Role]string{}}
	x.Decide()
	x.Project()
	x.serve(t, s)
	worldtest.Send(x.World, worldtest.Add{To: "ada", Amount: 4711, Note: "xyzzy"})
	x.RunUntilIdle(worker.Config{})
	for _, a := range acts.All() {
		path := "do/" + strings.ReplaceAll(a.Name(), " ", "/") + "?kind=accounts&view=totals&key=ada&queue=accounts"
		for what, header := range map[string]map[string]string{"page": nil, "answer": program} {
			code, body := x.ask(t, ask{path: path, role: act.Viewer, header: header})
			if code == http.StatusInternalServerError || strings.Contains(body, "4711") || strings.Contains(body, "xyzzy") {
				t.Errorf("%s %s: status %d:\n%s", what, path, code, body)
			}
		}
	}
	for _, path := range []string{"views/totals/ada", "values/totals/ada", "values/accounts/ada"} {
		if body := x.want(t, 200, ask{path: path, role: act.Viewer}); strings.Contains(body, "4711") {
			t.Errorf("%s shows content:\n%s", path, body)
		}
	}
	form := url.Values{"view": {"totals"}, "key": {"ada"}, "reveal": {"true"}, "why": {"x"}}
	x.want(t, 200, ask{method: "POST", path: "do/views/show", role: act.Operator, form: form}, "4711", "all of it is shown")
}

// The name of a thing is shown as it is, and not as a heading begins.
func TestNamesOfThingsStay(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, "")
	x := newSite(t, s)
	if err := gate.At(s, "émile").Close(t.Context(), gate.Note{By: "ada", Why: "x"}); err != nil {
		t.Fatal(err)
	}
	x.want(t, 200, ask{path: "gates/" + url.PathEscape("émile"), role: act.Viewer}, "<title>émile · Millrace</title>", "<h1>émile</h1>")
	x.want(t, 200, ask{path: "gates", role: act.Viewer}, "<title>Gates · Millrace</title>", "<h1>Gates</h1>")
}
