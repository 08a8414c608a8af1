package ops_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/coord/pause"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/ops"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/catalog"
	"github.com/millrace-go/millrace/poison"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/worker"
)

// The first page has the act that mends a finding, filled in, for a person who may do it. Another person gets the page
// that shows more.
func TestFindingsLeadToActs(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, "")
	x := newSite(t, s)
	worldtest.Send(x.World, worldtest.Add{To: "ada", Amount: 1})
	p, err := pause.New(s, pause.Config{})
	if err == nil {
		err = p.Pause(t.Context(), []string{worldtest.Accounts}, time.Hour, pause.Note{By: "ada", Why: "stock-taking"})
	}
	if err != nil {
		t.Fatal(err)
	}
	const resume = `href="./do/queues/resume?queues=accounts"`
	x.want(t, 200, ask{role: act.Operator}, "Queue accounts is paused by ada", "When the reason is gone: <strong>Resume</strong></p>", resume, "What the store costs")
	x.want(t, 200, ask{path: "do/queues/resume?queues=accounts", role: act.Operator}, ">accounts</textarea>")
	if body := x.want(t, 200, ask{role: act.Viewer}, "is paused by ada", "When the reason is gone: <code>millrace queues resume accounts</code></p>", `href="./queues/accounts" title="On the page of queues">Show more`); strings.Contains(body, resume) {
		t.Error("a viewer is offered an act")
	}
	x.want(t, 200, ask{role: act.Viewer, header: program}, `"acts":[{"act":"queues resume","args":["accounts"]}]`)
}

// The page of doctor has each finding as the first page has it, and what doctor says of all of them. The way of a
// finding leads to its act, and from there back to the findings.
func TestThePageOfDoctorLeadsToActs(t *testing.T) {
	t.Parallel()
	x := newSite(t, worldtest.OpenStore(t, ""))
	worldtest.Send(x.World, worldtest.Add{To: "ada", Amount: 1})
	x.act(t, "queues/pause", map[string]any{"queues": []string{worldtest.Accounts}, "for": "1h", "why": "stock-taking"})
	const resume = `do/queues/resume?queues=accounts" title="`
	for path, root := range map[string]string{"doctor": "./", "do/doctor": "./../"} {
		x.want(t, 200, ask{path: path, role: act.Operator}, `<section class="finding">`, `<section class="finding wrong">`, "Queue accounts is paused by admin",
			"<p>When the reason is gone: <strong>Resume</strong></p>", `href="`+root+resume, "1 thing is wrong.</p>")
		if body := x.want(t, 200, ask{path: path, role: act.Viewer}, "<code>millrace queues resume accounts</code></p>", `href="`+root+`queues/accounts" title=`); strings.Contains(body, resume) {
			t.Errorf("%s: a viewer is offered an act", path)
		}
	}
	x.want(t, 200, ask{path: "do/queues/resume?queues=accounts", role: act.Operator, header: map[string]string{"Referer": "http://localhost/ops/doctor"}}, `name="came-from" value="doctor"`)
	form := url.Values{"queues": {worldtest.Accounts}, "came-from": {"doctor"}}
	x.want(t, 200, ask{method: "POST", path: "do/queues/resume", role: act.Operator, form: form}, ">Done. The", `href="./../../doctor">Back to doctor</a>`)
	if body := x.want(t, 200, ask{path: "doctor", role: act.Operator}, `<section class="finding wrong">`); strings.Contains(body, "is paused") {
		t.Errorf("the queue is still paused:\n%s", body)
	}
}

// A queue whose service is away says so in its row, and leads to the guard. No finding says that its messages wait.
func TestAnOutageIsToldAtItsQueue(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, "")
	x := newSite(t, s)
	x.Registry.Inside().Guards[worldtest.Accounts] = "bank"
	if err := catalog.Publish(t.Context(), x.Registry, catalog.Program{Name: "town", Version: "v1"}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Blobs("guards").Put(t.Context(), "bank", []byte(`{"epoch":1,"open":true}`), storage.Condition{}); err != nil {
		t.Fatal(err)
	}
	worldtest.Send(x.World, worldtest.Add{To: "ada", Amount: 1})
	x.want(t, 200, ask{role: act.Viewer}, "The service of guard bank is away", "Therefore 1 message waits in queue accounts", ">waits for guard bank</span>", "The queue waits for guard bank.")
	x.want(t, 200, ask{path: "queues/accounts", role: act.Viewer}, `<dt>Guard</dt>`, `/guards/bank">bank</a>`)
	x.want(t, 200, ask{path: "guards/bank", role: act.Viewer}, "<dt>Breaker</dt><dd>open</dd>", "Calls go on by themselves once it answers", `queues/accounts">accounts: 1 message ready</a>`)
	x.want(t, 404, ask{path: "guards/bamk", role: act.Viewer}, "no breaker of a guard")
}

// The finding of an outage says first whom to ask, has the framework's own words of the service's answer, and has the
// page of the guard before the act that closes it.
func TestAnOutageSaysWhatToDo(t *testing.T) {
	t.Parallel()
	for why, want := range map[string]string{"POST was answered 503 Service Unavailable": "answer: POST was answered 503 Service Unavailable.", "no card of Ada": "<strong>Show</strong> tells what waits."} {
		s := worldtest.OpenStore(t, "")
		x := newSite(t, s)
		if _, err := s.Blobs("guards").Put(t.Context(), "bank", []byte(`{"epoch":1,"open":true,"why":"`+why+`"}`), storage.Condition{}); err != nil {
			t.Fatal(err)
		}
		page := x.want(t, 200, ask{role: act.Operator}, "<p>Ask those who run the service; calls go on by themselves once it answers.", want, "<strong>Close</strong> lets calls go on at once")
		show, shut := strings.Index(page, `href="./guards/bank"`), strings.Index(page, `href="./do/guards/close?name=bank"`)
		if strings.Contains(page, "Ada") || show < 0 || shut < show {
			t.Errorf("%s: the way to the guard is at %d, and that to its end at %d:\n%s", why, show, shut, page)
		}
	}
}

// The page of a queue says first what keeps its messages waiting, and offers to resume a paused queue alone. The
// list of queues and the first page have the same words, and the first page has such queues first.
func TestAQueueSaysWhyItWaits(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, "")
	x := newSite(t, s)
	x.Registry.Inside().Guards[worldtest.Totals] = "bank"
	if err := catalog.Publish(t.Context(), x.Registry, catalog.Program{Name: "town", Version: "v1"}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Blobs("guards").Put(t.Context(), "bank", []byte(`{"epoch":1,"open":true}`), storage.Condition{}); err != nil {
		t.Fatal(err)
	}
	worldtest.Send(x.World, worldtest.Add{To: "ada", Amount: 1})
	first := x.want(t, 200, ask{role: act.Operator}, ">waits for guard bank</span>")
	if i, j := strings.Index(first, `./queues/`+worldtest.Totals+`"`), strings.Index(first, `./queues/accounts"`); i < 0 || j < i {
		t.Error("the queue that waits doesn't stand first")
	}
	x.want(t, 200, ask{path: "queues", role: act.Operator}, `>State</th>`, ">waits for guard bank</span>")
	page := x.want(t, 200, ask{path: "queues/" + worldtest.Totals, role: act.Operator}, `<dl><div><dt>State</dt><dd><a href="./../guards/bank">waits: the service of guard bank is away</a></dd>`)
	worldtest.Want(t, "acts on a queue that isn't paused", fmt.Sprint(offered(page)), "[pause]")
	x.act(t, "queues/pause", map[string]any{"queues": []string{"accounts"}, "for": "2h", "why": "stock-taking"})
	page = x.want(t, 200, ask{path: "queues/accounts", role: act.Operator}, `<dl><div><dt>State</dt><dd>paused by admin since 2`, ": stock-taking</dd>")
	worldtest.Want(t, "acts on a queue that is paused", fmt.Sprint(offered(page)), "[pause resume]")
}

// A kind that only poison messages have is found there.
func TestAKindOfPoisonMessagesIsFound(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, "")
	x := newSite(t, s)
	worldtest.Send(x.World, worldtest.Add{To: "ada", Amount: 1}) // whose place the other message takes
	got, err := s.Queue("accounts").Receive(t.Context(), 1, time.Minute)
	if err != nil || len(got) != 1 {
		t.Fatalf("got %d messages, %v", len(got), err)
	}
	e := channel.Envelope{ID: "g1", Kind: "shop.gift.v1", Source: "/shop", Time: time.Now().UTC()}
	if err := poison.Put(t.Context(), s, &e, poison.Entry{Queue: "accounts", ID: e.ID, Kind: e.Kind, Reason: "unknown-kind", Body: []byte("{}"), Last: time.Now()},
		func(context.Context) (storage.Claim, error) {
			return storage.Claim{Queue: "accounts", Receipt: got[0].Receipt}, nil
		}); err != nil {
		t.Fatal(err)
	}
	status, _, header := x.askAll(t, ask{path: "find?q=shop.gift.v1", role: act.Viewer})
	worldtest.Want(t, "status", status, 303)
	worldtest.Want(t, "way", header.Get("Location"), "./poison?kind=shop.gift.v1&queue=accounts")
	x.want(t, 404, ask{path: "find?q=shop.gift.v2", role: act.Viewer}, "kinds in poison queues (accounts)")
}

// A store of which no program has told says what to do next.
func TestAnEmptyStoreSaysWhatToDo(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, "")
	x := newSite(t, worldtest.OpenStore(t, ""))
	desk, err := act.At(s, act.Program{})
	if err == nil {
		x.handler, err = ops.New(ops.Config{Desk: desk, Login: ops.Login{Tokens: x.file}})
	}
	if err != nil {
		t.Fatal(err)
	}
	x.want(t, 200, ask{role: act.Viewer}, "No program has published what it does in this store", "Start a worker", "What the store costs")
}

// Law: what can't be read is said, and takes nothing else away.
func TestLawAPartThatFailsTakesNothingElse(t *testing.T) {
	t.Parallel()
	var broken atomic.Value
	broken.Store("none")
	s := storagetest.Intercept(worldtest.OpenStore(t, ""), func(_ context.Context, op storagetest.Op, do func() error) error {
		if strings.Contains(op.Resource, " "+broken.Load().(string)) {
			return errors.New("the disk is full")
		}
		return do()
	})
	for name, want := range map[string][]string{
		"pulse":  {"Not all could be examined", "Queue audits is consumed by nobody", "The last 24 hours", "the disk is full", "What the store costs"},
		"guards": {"Not all could be examined", `<a href="./queues/accounts">accounts</a>`, "The last 24 hours"},
		"gates":  {"Not all could be examined", `<a href="./queues/accounts">accounts</a>`},
	} {
		x := newSite(t, s)
		broken.Store(name)
		x.want(t, 200, ask{role: act.Viewer}, want...)
		broken.Store("none")
	}
}

// Law: where the store is away, a page says so once. A search that couldn't look has not found that nothing is there.
func TestLawALostStoreIsNoAnswer(t *testing.T) {
	t.Parallel()
	var away atomic.Bool
	s := storagetest.Intercept(worldtest.OpenStore(t, ""), func(_ context.Context, op storagetest.Op, do func() error) error {
		if away.Load() {
			return op.Fail(storage.ErrUnavailable)
		}
		return do()
	})
	x := newSite(t, s)
	x.want(t, 200, ask{role: act.Viewer}, "Queue audits is consumed by nobody") // the pages know the programs
	away.Store(true)
	x = &site{World: x.World, handler: x.handler, tokens: x.tokens, file: x.file}
	for _, path := range []string{"find?q=accounts-17", "find?q=nope"} {
		for _, header := range []map[string]string{nil, program} {
			x.want(t, 503, ask{path: path, role: act.Viewer, header: header}, "store unavailable")
		}
	}
	x.want(t, 200, ask{path: "find?q=accounts", role: act.Viewer}, "Not looked through, because the store didn&#39;t answer: ")
	x.want(t, 503, ask{path: "?lag=1m", role: act.Viewer, header: program}, "store unavailable")
	if body := x.want(t, 200, ask{path: "?lag=1m", role: act.Viewer}, "Not all could be examined", "What the store costs"); strings.Count(body, "made up by a test") != 1 {
		t.Errorf("got the error %d times, want once:\n%s", strings.Count(body, "made up by a test"), body)
	}
}

// Law: the first page and a search refuse a name that they don't know, as all pages do.
func TestLawEachPageRefusesWhatItDoesntKnow(t *testing.T) {
	t.Parallel()
	x := newSite(t, worldtest.OpenStore(t, ""))
	for _, path := range []string{"?lagg=1m", "?lag=soon", "find?x=1", "find?q=accounts&x=1", "queues?x=1", "processes/o1?x=1", "do/queues/pause?x=1"} {
		for _, header := range []map[string]string{nil, program} {
			x.want(t, 400, ask{path: path, role: act.Operator, header: header})
		}
	}
	x.want(t, 200, ask{path: "?lag=1h", role: act.Viewer}, "Queue audits is consumed by nobody")
}

// One thing that a word names is shown at once, and several are listed. Where none is, the answer says what was looked
// through. A search asks the store a bounded number of requests.
func TestFind(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, "")
	x := newSite(t, s)
	worldtest.Send(x.World, worldtest.Add{To: "ada", Amount: 1})
	x.RunUntilIdle(worker.Config{})
	worldtest.Send(x.World, worldtest.Add{To: "ada", Amount: 2, Key: "order-17"})
	x.want(t, 200, ask{path: "", role: act.Viewer}, `<form class="find" method="get" action="./find" role="search"`)
	for word, way := range map[string]string{"accounts": "", "order-17": "./messages/accounts/order-17", "shop": "./programs/shop", "test.add.v1": "./queues/accounts"} {
		code, body, header := x.askAll(t, ask{path: "find?q=" + word, role: act.Viewer})
		if want := map[bool]int{true: 303, false: 200}[way != ""]; code != want || header.Get("Location") != way {
			t.Errorf("%s: got status %d and %q, want %d and %q\n%s", word, code, header.Get("Location"), want, way, body)
		}
	}
	x.want(t, 200, ask{path: "find?q=ada", role: act.Viewer}, `href="./values/accounts/ada"`, `href="./views/totals/ada"`)
	x.want(t, 200, ask{path: "find?q=ada", role: act.Viewer, header: program}, `"what":"document"`, `"in":"accounts"`, `"show":{"act":"values show","with":{"key":"ada","kind":"accounts"}}`)
	x.want(t, 404, ask{path: "find?q=nope", role: act.Viewer}, "nothing is called &#34;nope&#34;", "Looked through: ", "queues (accounts, ", "gates")
	x.want(t, 200, ask{path: "find", role: act.Viewer}, "Type an ID, a key or a name.")
	x.want(t, 400, ask{path: "find", role: act.Viewer, header: program})
}

// A message's page tells whether it was applied, and what came of it.
func TestMessagesHaveTheirFlow(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, "")
	x := newSite(t, s)
	worldtest.Send(x.World, worldtest.Add{To: "ada", Amount: 5, Key: "order-17", Note: "xyzzy"})
	page := ask{path: "messages/accounts/order-17", role: act.Operator}
	body := x.want(t, 200, page, "<dt>State</dt><dd>waiting</dd>", "<dt>Applied</dt><dd>no</dd>", "&#34;note&#34;: &#34;text of 5&#34;", `href="./../../do/messages/cancel?id=order-17&amp;queue=accounts"`)
	if strings.Contains(body, "xyzzy") {
		t.Error("the page shows content")
	}
	x.RunUntilIdle(worker.Config{})
	page.path += "?kind=test.add.v1&key=ada"
	x = again(t, x, s)
	x.want(t, 200, page, "<dt>State</dt><dd>gone</dd>", "<dt>Applied</dt><dd>yes: document", `href="./../../values/accounts/ada"`, `href="./../../views/totals/ada"`, "handled")
	var got struct {
		Results []struct {
			Applied *bool
			Flow    []struct{ Step, State string }
		}
	}
	page.header = program
	if err := json.Unmarshal([]byte(x.want(t, 200, page)), &got); err != nil || len(got.Results) != 1 || got.Results[0].Applied == nil || !*got.Results[0].Applied {
		t.Fatalf("got %+v, %v", got, err)
	}
	var steps []string
	for _, f := range got.Results[0].Flow {
		steps = append(steps, f.Step+" "+f.State)
	}
	if all := strings.Join(steps, ", "); all != "message gone, decision applied, event handled, view applied" {
		t.Errorf("got %s", all)
	}
	x.want(t, 404, ask{path: "messages/nope/order-17", role: act.Viewer}, "unknown queue")
}

// again serves the pages of the same store, without what was read before.
func again(t *testing.T, x *site, s *storage.Store) *site {
	t.Helper()
	desk, err := act.At(s, act.Program{})
	if err != nil {
		t.Fatal(err)
	}
	fresh := *x
	if fresh.handler, err = ops.New(ops.Config{Desk: desk, Login: ops.Login{Tokens: x.file}}); err != nil {
		t.Fatal(err)
	}
	return &fresh
}

// A poison message is found by its ID from every queue's page, and its page leads to the entry.
func TestPoisonedMessagesAreShown(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, "")
	x := newSite(t, s)
	worldtest.Send(x.World, worldtest.Add{To: "bob", Amount: 1, Key: "order-18"})
	w := worldtest.NewBare(t, s, handlers.Config{}, channel.Command[worldtest.Add](worldtest.Accounts))
	handlers.React(w.Registry, worldtest.Accounts, func(context.Context, worldtest.Add) error { return handlers.Poison("closed", errors.New("xyzzy")) })
	w.RunUntilIdle(worker.Config{})
	x.want(t, 200, ask{path: "messages/accounts/order-18", role: act.Viewer}, `href="./../../poison/order-18?queue=accounts">poison</a>`, "<dt>Reason</dt><dd>closed</dd>")
	code, _, header := x.askAll(t, ask{path: "find?q=order-18", role: act.Viewer})
	if code != 303 || header.Get("Location") != "./poison/order-18?queue=accounts" {
		t.Errorf("got %d, %v", code, header)
	}
}

// A document stands beside its record and its views. A view's document is deleted after it was shown, once.
func TestViewsStandBesideTheirValues(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, "")
	x := newSite(t, s)
	worldtest.Send(x.World, worldtest.Add{To: "ada", Amount: 5})
	x.RunUntilIdle(worker.Config{})
	x.want(t, 200, ask{path: "values/accounts", role: act.Viewer}, `href="./../values/accounts/ada"`)
	x.want(t, 200, ask{path: "values/accounts/ada", role: act.Viewer}, "<dt>Messages applied</dt><dd>1</dd>", `href="./../../views/totals/ada"`)
	x.want(t, 200, ask{path: "views/totals/ada", role: act.Admin}, "<dt>Messages applied</dt><dd>1</dd>", "doesn&#39;t name its sources", `href="./../../do/views/delete?key=ada&amp;view=totals"`)
	form := url.Values{"view": {"totals"}, "key": {"ada"}, "why": {"folded wrongly"}, "dry-run": {"true"}}
	shown := x.want(t, 200, ask{method: "POST", path: "do/views/delete", role: act.Admin, form: form}, "Would delete document", "nothing sends them again", "Nothing is done yet")
	form.Del("dry-run")
	form.Set("yes", "true")
	form.Set("etag", shownETag(t, shown))
	worldtest.Send(x.World, worldtest.Add{To: "ada", Amount: 0})
	x.RunUntilIdle(worker.Config{})
	x.want(t, 409, ask{method: "POST", path: "do/views/delete", role: act.Admin, form: form}, "has changed since it was shown")
	form.Del("yes")
	form.Set("dry-run", "true")
	shown = x.want(t, 200, ask{method: "POST", path: "do/views/delete", role: act.Admin, form: form}, "Would delete document")
	form.Del("dry-run")
	form.Set("yes", "true")
	form.Set("etag", shownETag(t, shown))
	x.want(t, 200, ask{method: "POST", path: "do/views/delete", role: act.Admin, form: form}, "is deleted", "Done.")
	x.want(t, 404, ask{path: "views/totals/ada", role: act.Admin}, "no document &#34;ada&#34; in totals")
	form = url.Values{"view": {"accounts"}, "key": {"ada"}, "why": {"x"}, "yes": {"true"}}
	x.want(t, 400, ask{method: "POST", path: "do/views/delete", role: act.Admin, form: form})
	worldtest.Want(t, "the value's balance", x.Balance("ada"), 5)
}

// shownETag is the ETag that a page has shown, and that its second click confirms.
func shownETag(t *testing.T, page string) string {
	t.Helper()
	m := regexp.MustCompile(`<input type="hidden" name="etag" value="([^"]+)">`).FindStringSubmatch(page)
	if m == nil {
		t.Fatalf("the page confirms no ETag:\n%s", page)
	}
	return html.UnescapeString(m[1])
}

// A thing whose name has a meaning of its own in paths is reached all the same: its links have the name in their query.
func TestNamesOfDotsAreReached(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, "")
	x := newSite(t, s)
	for _, name := range []string{".", ".."} {
		worldtest.Send(x.World, worldtest.Add{To: name, Amount: 5})
	}
	x.RunUntilIdle(worker.Config{})
	for _, name := range []string{".", ".."} {
		x.want(t, 200, ask{path: "values/accounts", role: act.Viewer}, `href="./../do/values/show?key=`+name+`&amp;kind=accounts">`+name+`<`)
		x.want(t, 200, ask{path: "do/values/show?key=" + name + "&kind=accounts", role: act.Viewer, header: program}, `"key":"`+name+`"`)
	}
}

// Findings of one kind are many where a store has many queues. The first page shows some, says how many more there are,
// and leads to all of them.
func TestAlikeFindingsAreFew(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, "")
	crowd(t, s, 12, 1)
	x := newSite(t, s)
	body := x.want(t, 200, ask{role: act.Viewer}, "7 more findings of this kind", `<a href="./doctor">All findings</a>`)
	if n := strings.Count(body, "The poison queue of queue-"); n != 5 {
		t.Errorf("the first page has %d findings of poison", n)
	}
	body = x.want(t, 200, ask{path: "doctor", role: act.Viewer})
	for i := range 12 {
		if want := fmt.Sprintf("queue-%04d", i); !strings.Contains(body, want) {
			t.Errorf("the page of all findings lacks those of %s", want)
		}
	}
}
