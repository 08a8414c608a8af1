package ops_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/coord/gate"
	"github.com/millrace-go/millrace/coord/ids"
	"github.com/millrace-go/millrace/coord/keylock"
	"github.com/millrace-go/millrace/coord/lease"
	"github.com/millrace-go/millrace/coord/pause"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/acts"
	"github.com/millrace-go/millrace/ops/catalog"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/worker"
)

const (
	// hostile is a name that breaks out of text, attributes, links and lines, where a page lets it.
	hostile = "x\"'><script>alert(1)</script><img src=q onerror=alert(2)> javascript:alert(3) \u202e\u200f {{.}}"
	// control is for what may have control characters, too.
	control = hostile + "\x1b[31m\a\x00\u009b"
	// secret stands in bodies, states and errors.
	secret = "xyzzy-4711"
)

// putAll puts hostile text into all that other people and programs may write.
func putAll(t *testing.T, x *site, s *storage.Store) {
	t.Helper()
	fail := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	blob := func(container, key, body string) {
		t.Helper()
		fail(s.Blobs(container).Put(t.Context(), key, []byte(body), storage.Condition{}))
	}
	text := func(s string) string {
		raw, err := json.Marshal(s)
		fail(nil, err)
		return string(raw)
	}
	worldtest.Send(x.World, worldtest.Add{To: hostile, Amount: 1, Note: secret})
	x.RunUntilIdle(worker.Config{})
	worldtest.Send(x.World, worldtest.Add{To: hostile, Amount: 2, Note: secret})
	e := worldtest.Envelope(hostile, worldtest.Add{To: "ada", Amount: 3, Note: secret})
	e.Subject, e.Tenant, e.LastError, e.Attempts = hostile, hostile, secret+control, 2
	body, err := e.Encode()
	fail(nil, err)
	fail(nil, s.Queue(worldtest.Accounts).Send(t.Context(), []storage.Message{{Body: body}, {Body: []byte(secret + control)}}))
	for i, b := range [][]byte{body, []byte(secret + control)} {
		blob("poison", fmt.Sprintf("%s/%032x", worldtest.Accounts, i+1), `{"reason":`+text(control)+`,"error":`+text(secret+control)+`,"worker":`+text(control)+`,"uncompensated":`+text(secret+control)+`,"attempts":1,"body":`+string(must(json.Marshal(b)))+`}`)
	}
	blob("poison", worldtest.Accounts+"/"+hostile, secret)
	blob("poison", hostile+"/0011", secret)
	blob("accounts", "junk"+hostile, secret)
	blob("programs", hostile+"/v1", `{"program":`+text(control)+`,"version":`+text(control)+`}`)
	blob("gates", "due", `{"opensAt":"2026-01-02T03:04:05Z","by":`+text(control)+`,"why":`+text(control)+`,"since":"2026-01-01T03:04:05Z","epoch":1,"id":"x"}`)
	blob("gates", hostile, secret)
	blob("guards", hostile, secret)
	blob("ids", hostile, secret)
	blob("schedules", hostile, secret)
	blob("locks", "junk"+hostile, secret)
	fail(nil, gate.At(s, hostile+"2").Close(t.Context(), gate.Note{By: "ada", Why: "x"}))
	fail(nil, ids.Raise(t.Context(), s, hostile+"3", 7))
	_, err = lease.Try(t.Context(), s, hostile+"4", lease.Config{Holder: hostile})
	fail(nil, err)
	p, err := pause.New(s, pause.Config{})
	fail(nil, err)
	fail(nil, p.Pause(t.Context(), []string{worldtest.Accounts}, time.Hour, pause.Note{By: hostile, Why: hostile}))
	at := time.Now().UTC().Truncate(time.Millisecond)
	fail(s.Table("pulse").Put(t.Context(), at.Format("15"), at.Format("2006-01-02T15:04:05Z")+" abc.1",
		[]byte(`{"program":`+text(control)+`,"version":`+text(control)+`,"worker":`+text(control)+`,"time":`+text(at.Format(time.RFC3339Nano))+`,"seconds":60,"up_seconds":60,"queues":{"accounts":{"done":5,"kinds":{`+text(control)+`:{"done":5}}}}}`), storage.Condition{}))
	fail(s.Table("spools").Put(t.Context(), "spools", "x", []byte(`{"program":`+text(control)+`,"host":`+text(control)+`,"file":`+text(control)+`,"refused":1,"reason":`+text(secret+control)+`,"fault":`+text(secret+control)+`,"at":"2026-11-29T00:00:00Z"}`), storage.Condition{}))
	putErrors(t, s)
	x.want(t, 200, ask{method: "POST", path: "do/queues/resume", role: act.Operator, form: url.Values{"queues": {"totals"}, "why": {hostile}}})
	if err := catalog.Publish(t.Context(), x.Registry, catalog.Program{Name: hostile, Version: hostile[:20]}); err != nil {
		t.Fatal(err)
	}
}

// putErrors puts the secret into the errors that the framework keeps of programs' code: of settings that they don't
// take, of services that are away, and of keys that are halted.
func putErrors(t *testing.T, s *storage.Store) {
	t.Helper()
	why, now := string(must(json.Marshal(secret+control))), time.Now().UTC().Format(time.RFC3339)
	for key, body := range map[string]string{
		"settings hall/current": `{"epoch":3,"last":2,"stable":1,"values":{},"ended":[{"version":2,"result":"refused","epoch":3,"at":"` + now + `","reasons":[{"node":"a","why":` + why + `}]}]}`,
		"guards mails":          `{"epoch":1,"open":true,"since":"` + now + `","why":"` + secret + `"}`,
	} {
		container, key, _ := strings.Cut(key, " ")
		if _, err := s.Blobs(container).Put(t.Context(), key, []byte(body), storage.Condition{}); err != nil {
			t.Fatal(err)
		}
	}
	node := `{"id":"a","name":"a","poll":30000,"beats":1,"at":"` + now + `","epoch":3,"version":0,"since":"` + now + `","source":"store","verdict":{"version":2,"yes":false,"why":` + why + `},"fault":` + why + `,"health":{"version":2,"ill":` + why + `}}`
	if _, err := s.Table("settings").Put(t.Context(), "hall", "a", []byte(node), storage.Condition{}); err != nil {
		t.Fatal(err)
	}
	turns, err := keylock.New(s, worldtest.Accounts, keylock.Config{})
	if err != nil {
		t.Fatal(err)
	}
	x, err := turns.Take(t.Context(), "halted", nil)
	if err != nil {
		t.Fatal(err)
	}
	state := x.State()
	state.Halt("m1", secret+hostile, 0)
	if err := x.End(t.Context(), state); err != nil {
		t.Fatal(err)
	}
}

func must(raw []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return raw
}

var badLink = regexp.MustCompile(`(?i)(?:href|src|action)="\s*javascript:`)

// checkHarmless reports what an answer has that it mustn't have.
func checkHarmless(t *testing.T, what, body string, isPage bool) {
	t.Helper()
	for _, bad := range []string{secret, "<script>alert", "<img src=q"} {
		if i := strings.Index(body, bad); i >= 0 {
			t.Errorf("%s has %q: …%q…", what, bad, body[max(0, i-200):min(len(body), i+100)])
		}
	}
	if !isPage {
		return
	}
	if m := badLink.FindString(body); m != "" {
		t.Errorf("%s has the link %q", what, m)
	}
	checkSeen(t, what, body)
}

// Law: hostile text in any name, key, body, error or reason is shown as text, and content stays hidden, whatever is
// asked for. It takes nothing else away.
func TestLawHostileTextIsHarmless(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, "")
	x := newSite(t, s)
	putAll(t, x, s)
	in := url.PathEscape(hostile)
	paths := []string{"", "find?q=" + url.QueryEscape(hostile), "find?q=" + url.QueryEscape(control), "find?q=accounts", "queues/accounts", "queues/" + in, "programs/" + in, "programs/shop",
		"values/accounts", "views/totals", "values/accounts/" + in, "values/accounts/" + url.PathEscape("junk"+hostile), "views/totals/" + in, "messages/accounts/" + in, "messages/accounts/" + in + "?key=" + in + "&kind=" + in,
		"poison/" + in, "poison/" + fmt.Sprintf("%032x", 1), "poison/" + fmt.Sprintf("%032x", 2), "gates/" + in, "guards/" + in, "locks/" + in, "schedules/" + in, "ids/" + in, in, in + "/" + in,
		"do/queues/peek?queue=accounts", "poison?queue=accounts", "audit?who=" + url.QueryEscape(hostile), "rates?queue=accounts"}
	for _, a := range acts.All() {
		paths = append(paths, a.Noun)
		with := url.Values{}
		for _, f := range a.Request().Fields {
			with.Set(f.Name, hostile)
			paths = append(paths, a.Noun+"?"+url.Values{f.Name: {control}}.Encode())
		}
		paths = append(paths, "do/"+strings.ReplaceAll(a.Name(), " ", "/")+"?"+with.Encode())
	}
	for _, path := range paths {
		for what, header := range map[string]map[string]string{"page": nil, "answer": program} {
			code, body := x.ask(t, ask{path: path, role: act.Admin, header: header})
			if code == http.StatusInternalServerError {
				t.Errorf("%s %s: status %d\n%s", what, path, code, body)
			}
			checkHarmless(t, what+" "+path, body, header == nil)
		}
	}
	for _, path := range []string{"do/settings/status?of=hall", "do/spool/reports", "do/turns/list?queue=accounts"} {
		x.want(t, 200, ask{path: path, role: act.Viewer, header: program}, "text of ")
	}
	x.want(t, 200, ask{path: "doctor", role: act.Viewer, header: program}, "spool reports --reveal", "settings status --of hall --reveal", "settings history --of hall --reveal", "guards show mails --reveal")
	// Hostile text takes nothing else away.
	x.want(t, 200, ask{path: "", role: act.Admin}, "accounts", "&lt;script&gt;")
	x.want(t, 200, ask{path: "programs", role: act.Admin}, "shop", "&lt;script&gt;")
	x.want(t, 200, ask{path: "queues/accounts", role: act.Admin}, "Waiting messages", "&lt;script&gt;")
	x.want(t, 200, ask{path: "audit", role: act.Admin}, "queues resume", "&lt;script&gt;")
}
