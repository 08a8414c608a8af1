package ops_test

import (
	"encoding/json"
	"errors"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/acts"
	"github.com/millrace-go/millrace/process"
	"github.com/millrace-go/millrace/worker"
)

// turned is a name that reads otherwise than it is. The last rune is one that no sixteen bits name.
const turned = "in\u202evoice\u2066\u200f\u200b\u2028\ufffd\U000e0041"

// checkSeen reports a character of a page that nobody sees.
func checkSeen(t *testing.T, what, body string) {
	t.Helper()
	for i, r := range body {
		if r != '\n' && r != '\r' && r != '\t' && !unicode.Is(unicode.Zs, r) && !unicode.IsPrint(r) {
			t.Errorf("%s has the rune %U: …%q…", what, r, body[max(0, i-100):min(len(body), i+100)])
			return
		}
	}
}

// Law: no page has a character that people can't see, whatever name, field or process has it. A form sends the name as
// it is.
func TestLawHiddenCharactersAreShown(t *testing.T) {
	t.Parallel()
	x := newTown(t)
	stop := x.Start(worker.Config{})
	parcels := process.Open[parcel](x.Channels, "fulfil")
	if err := parcels.Start(t.Context(), turned, parcel{turned, ""}); err != nil {
		t.Fatal(err)
	}
	worldtest.Eventually(t, func() error {
		i, err := parcels.Get(t.Context(), turned)
		if err == nil && i.Status != process.Stuck {
			err = errors.New("it isn't stuck yet")
		}
		return err
	})
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	in := url.PathEscape(turned)
	body := x.want(t, 200, ask{path: "processes/" + in + "?plan=fulfil", role: act.Admin}, `\u202e`)
	checkSeen(t, "the page of a process", body)
	for _, a := range acts.All() {
		if !a.OnPages() {
			continue
		}
		path, all := "do/"+strings.ReplaceAll(a.Name(), " ", "/"), url.Values{}
		for _, f := range a.Request().Fields {
			all.Set(f.Name, turned)
			for _, page := range []string{a.Noun, path} {
				_, body := x.ask(t, ask{path: page + "?" + url.Values{f.Name: {turned}}.Encode(), role: act.Admin})
				checkSeen(t, page+" with "+f.Name, body)
			}
		}
		_, body := x.ask(t, ask{method: http.MethodPost, path: path, form: all, role: act.Admin})
		checkSeen(t, "the answer of "+a.Name(), body)
	}
	body = x.want(t, 200, ask{path: "do/queues/purge?queue=" + in, role: act.Admin}, "so it stays as it is", `\u202e`)
	sent := regexp.MustCompile(`<input type="hidden" name="queue" value="([^"]*)"`).FindStringSubmatch(body)
	if sent == nil || html.UnescapeString(sent[1]) != turned {
		t.Errorf("the form sends %q, want %q", sent, turned)
	}
	// Content that somebody goes on to edit means the same.
	body = x.want(t, 400, ask{method: http.MethodPost, path: "do/send", form: url.Values{"kind": {"nope"}, "body": {`{"to":"` + turned + `"}`}}, role: act.Admin}, `\u202e`)
	edited := regexp.MustCompile(`(?s)<textarea id="f-body".*?>(.*?)</textarea>`).FindStringSubmatch(body)
	var to struct{ To string }
	if edited == nil || json.Unmarshal([]byte(html.UnescapeString(edited[1])), &to) != nil || to.To != turned {
		t.Errorf("the form has the content %q, want %q in it", edited, turned)
	}
}
