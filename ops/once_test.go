package ops_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/coord/signal"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/audit"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/worker"
)

// keyed are the headers of a program that does an act under an ID.
func keyed(id string) map[string]string {
	return map[string]string{"Accept": "application/json", "Idempotency-Key": id}
}

// Law: what an act doesn't know is refused, and so is what is empty in a program's request. Neither means "any".
func TestLawUnknownNamesAreRefused(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, "")
	x := newSite(t, s)
	worldtest.Send(x.World, worldtest.Add{To: "ada", Amount: 1})
	const discard, purge = "do/poison/discard", "do/queues/purge"
	for _, body := range []string{
		`{"qeue": "accounts", "all": true, "yes": true}`, `{"queue": "", "all": true, "yes": true}`, `{"queue": null, "all": true, "yes": true}`,
		`{"id": [], "all": true, "yes": true}`, `{"id": [""], "all": true, "yes": true}`, `{"id": [" "], "kind": "x", "yes": true}`, `{"queue": "  ", "all": true, "yes": true}`,
		`{"all": true, "yes": true} {"queue": "accounts"}`, `null`, `{"queue": "accounts", "queues": "accounts", "all": true, "yes": true}`,
	} {
		x.want(t, 400, ask{method: "POST", path: discard, role: act.Admin, json: body, header: program}, `"detail":"`)
	}
	x.want(t, 400, ask{method: "POST", path: purge, role: act.Admin, json: `{"queue": "accounts", "dryrun": true, "yes": true, "why": "x"}`, header: program}, "dryrun")
	x.want(t, 400, ask{method: "POST", path: purge, role: act.Admin, form: url.Values{"queue": {"accounts"}, "dryrun": {"true"}, "yes": {"true"}, "why": {"x"}}}, "dryrun")
	x.want(t, 400, ask{method: "POST", path: discard + "?queue=accounts", role: act.Admin, json: `{"all": true, "yes": true}`, header: program}, "no query")
	x.want(t, 415, ask{method: "POST", path: purge, role: act.Admin, form: url.Values{"queue": {"accounts"}, "yes": {"true"}, "why": {"x"}}, header: map[string]string{"Content-Type": "multipart/form-data; boundary=x"}}, "or a form")
	for _, path := range []string{"queues?prefx=a", "queues/accounts?x=1", "poison?qeue=mails", "do/poison/discard?qeue=mails", "do/queues/peek?queue=accounts&limt=1", "find?q=accounts&kind=x"} {
		x.want(t, 400, ask{path: path, role: act.Admin, header: program}, "isn't known to")
		x.want(t, 400, ask{path: path, role: act.Admin}, "isn&#39;t known to")
	}
	worldtest.Want(t, "messages after all these", worldtest.Queued(t, s, "accounts"), 1)
	if log := x.want(t, 200, ask{path: "audit", role: act.Viewer, header: program}); strings.Contains(log, `"act"`) {
		t.Errorf("an act was begun: %s", log)
	}
}

// Each link of a page leads to a page that knows all that the link names.
func TestLinksNameWhatIsKnown(t *testing.T) {
	t.Parallel()
	x := newTown(t)
	seen, next := map[string]bool{"": true}, []string{""}
	at, err := url.Parse("https://proxy.example/ops/")
	if err != nil {
		t.Fatal(err)
	}
	for len(next) > 0 && len(seen) < 400 {
		path := next[0]
		next = next[1:]
		code, body := x.ask(t, ask{path: path, role: act.Admin})
		if code == http.StatusBadRequest && strings.Contains(body, "isn&#39;t known to") {
			t.Errorf("%s is linked, and refused:\n%s", path, body)
		}
		for _, m := range regexp.MustCompile(`href="([^"]*)"`).FindAllStringSubmatch(body, -1) {
			here, err := at.Parse(path)
			if err != nil {
				t.Fatal(err)
			}
			to, err := here.Parse(strings.ReplaceAll(m[1], "&amp;", "&"))
			if err != nil {
				t.Fatal(err)
			}
			to.Fragment = ""
			if p := strings.TrimPrefix(to.String(), at.String()); !seen[p] && !strings.Contains(p, "log") {
				seen[p], next = true, append(next, p)
			}
		}
	}
	if len(seen) < 50 {
		t.Errorf("only %d links were found", len(seen))
	}
}

// Law: an act that failed for want of the store is done when it is sent again under its ID. An act that failed for good
// fails again, with the same status.
func TestLawAFailureIsAFailureAgain(t *testing.T) {
	t.Parallel()
	var away atomic.Bool
	s := storagetest.Intercept(worldtest.OpenStore(t, ""), func(_ context.Context, op storagetest.Op, do func() error) error {
		if away.Load() && op.Name != "put row" { // the audit log is there
			return op.Fail(storage.ErrUnavailable)
		}
		return do()
	})
	x := newSite(t, s)
	x.want(t, 200, ask{path: "queues", role: act.Viewer}) // which looks
	pause := ask{method: "POST", path: "do/queues/pause", role: act.Operator, json: `{"queues": ["accounts"], "why": "x"}`, header: keyed(audit.NewID())}
	away.Store(true)
	x.want(t, 503, pause)
	away.Store(false)
	x.want(t, 200, pause, `"result":"paused"`)

	none := ask{method: "POST", path: "do/bulk/cancel", role: act.Admin, json: `{"id": "` + audit.NewID() + `", "why": "x"}`, header: keyed(audit.NewID())}
	x.want(t, 404, none, "no bulk act")
	x.want(t, 404, none, "was done before", "no bulk act")
	none.header = map[string]string{"Idempotency-Key": none.header["Idempotency-Key"]}
	if body := x.want(t, 404, none, "was done before"); strings.Contains(body, "Done.") {
		t.Errorf("a failure is shown as done:\n%s", body)
	}
}

// Law: an ID belongs to one content, though the log doesn't show it.
func TestLawAnotherContentIsAnotherAct(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, "")
	x := newSite(t, s)
	send := ask{method: "POST", path: "do/send", role: act.Operator, json: `{"kind": "test.add.v1", "body": {"to": "ada", "amount": 471147114711}}`, header: keyed(audit.NewID())}
	x.want(t, 200, send)
	send.json = `{"kind": "test.add.v1", "body": {"to": "ada", "amount": 2}}`
	x.want(t, 409, send, "another content")
	worldtest.Want(t, "messages", worldtest.Queued(t, s, "accounts"), 1)
	if log := x.want(t, 200, ask{path: "audit", role: act.Viewer, header: program}, `"act":"send"`); strings.Contains(log, "471147114711") || strings.Contains(log, "digest") {
		t.Errorf("got %s", log)
	}
}

// Law: somebody who doesn't wait for the answer doesn't stop the act, and finds its result under its ID.
func TestLawAClientThatGoesStopsNothing(t *testing.T) {
	t.Parallel()
	ctx, hangUp := context.WithCancel(t.Context())
	s := storagetest.Intercept(worldtest.OpenStore(t, ""), func(_ context.Context, op storagetest.Op, do func() error) error {
		if op.Name == "put row" {
			hangUp()
		}
		return do()
	})
	x := newSite(t, s)
	id := audit.NewID()
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/ops/do/queues/pause", strings.NewReader(`{"queues": ["accounts"], "why": "x"}`))
	r.Host = "localhost"
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+x.tokens[act.Operator])
	r.Header.Set("Idempotency-Key", id)
	x.handler.ServeHTTP(httptest.NewRecorder(), r)
	if ctx.Err() == nil {
		t.Fatal("the client has not gone")
	}
	x.want(t, 200, ask{path: "audit/" + id, role: act.Viewer, header: program}, `is paused`)
}

// Law: of two calls under one ID that come at once, one does the act. The other learns that it is under way.
func TestLawAtOnceIsOnce(t *testing.T) {
	t.Parallel()
	begun, goOn := make(chan bool, 10), make(chan bool)
	var hold atomic.Bool
	s := storagetest.Intercept(worldtest.OpenStore(t, ""), func(_ context.Context, op storagetest.Op, do func() error) error {
		if hold.Load() && op.Name == "put row" {
			begun <- true
			<-goOn
		}
		return do()
	})
	x := newSite(t, s)
	send := ask{method: "POST", path: "do/send", role: act.Operator, json: `{"kind": "test.add.v1", "body": {"to": "ada", "amount": 1}}`, header: keyed(audit.NewID())}
	hold.Store(true)
	var first sync.WaitGroup
	first.Go(func() { x.want(t, 200, send, `"id":"`) })
	<-begun
	x.want(t, 409, send, "under way")
	hold.Store(false)
	close(goOn)
	first.Wait()
	x.want(t, 200, send, "This was done before")
	worldtest.Want(t, "messages", worldtest.Queued(t, s, "accounts"), 1)
}

// Law: programs that send an act again under its ID are told what they were told first: a result, the results before an
// error, and how an act stands that goes on after its answer.
func TestLawARepeatHasTheSameAnswer(t *testing.T) {
	t.Parallel()
	x := newTown(t)
	list := x.want(t, 200, ask{path: "poison?queue=mails", role: act.Viewer, header: program})
	ids := regexp.MustCompile(`"id":"([^"]+)"`).FindAllStringSubmatch(list, -1)
	results := func(status int, a ask) (all []map[string]any) {
		t.Helper()
		var answer struct{ Results []map[string]any }
		if err := json.Unmarshal([]byte(x.want(t, status, a)), &answer); err != nil {
			t.Fatal(err)
		}
		return answer.Results
	}
	for _, c := range []struct {
		path, body string
		status     int
	}{
		{"queues/pause", `{"queues": ["accounts", "mails"], "why": "x"}`, 200},
		{"queues/resume", `{"queues": ["accounts", "mails"]}`, 200},
		{"send", `{"kind": "shop.remind.v1", "body": {}}`, 200},
		{"schedules/pause", `{"name": "reminders"}`, 200},
		{"poison/retry", `{"id": ["` + ids[0][1] + `", "nope"]}`, 404},
		{"poison/retry", `{"id": ["` + ids[1][1] + `"]}`, 200},
		{"processes/nudge", `{"id": "order-1041"}`, 200},
	} {
		a := ask{method: "POST", path: "do/" + c.path, role: act.Admin, json: c.body, header: keyed(audit.NewID())}
		first := results(c.status, a)
		if again := results(c.status, a); len(first) == 0 || !reflect.DeepEqual(again, first) {
			t.Errorf("%s %s: got first %v, then %v", c.path, c.body, first, again)
		}
	}
	all := ask{method: "POST", path: "do/poison/retry", role: act.Admin, json: `{"all": true, "queue": "mails"}`, header: keyed(audit.NewID())}
	first := results(200, all)
	worldtest.Eventually(t, func() error {
		if again := results(200, all); again[0]["state"] != "done" {
			return fmt.Errorf("got %v", again)
		}
		return nil
	})
	if again := results(200, all); !slices.Equal(slices.Sorted(maps.Keys(again[0])), slices.Sorted(maps.Keys(first[0]))) || again[0]["id"] != first[0]["id"] {
		t.Errorf("got first %v, then %v", first, again)
	}
	x.want(t, 200, all, "This was done before: Sent back 3 of 3 messages.")
	worldtest.Want(t, "poison mails", len(x.Poisoned("mails")), 0)
}

// The audit log lists acts in the order in which they were begun, also where a form had its ID long before.
func TestActsStandInTheOrderOfTheirBeginning(t *testing.T) {
	t.Parallel()
	x := newSite(t, worldtest.OpenStore(t, ""))
	early := audit.NewID()
	late := early
	for late[:13] == early[:13] { // the millisecond
		late = audit.NewID()
	}
	for _, c := range []struct{ id, verb string }{{late, "pause"}, {early, "resume"}} {
		x.want(t, 200, ask{method: "POST", path: "do/queues/" + c.verb, role: act.Operator, json: `{"queues": ["accounts"], "why": "x"}`, header: keyed(c.id)})
	}
	if log := x.want(t, 200, ask{path: "audit", role: act.Viewer, header: program}); strings.Index(log, "queues resume") > strings.Index(log, "queues pause") {
		t.Errorf("got %s", log)
	}
}

// withoutEnd is a store that loses the end of the next act, once lose is set: the second row that the act writes.
func withoutEnd(s *storage.Store) (_ *storage.Store, lose *atomic.Int32) {
	lose = new(atomic.Int32)
	return storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
		if op.Name == "put row" && lose.Load() > 0 && lose.Add(-1) == 0 {
			return op.Fail(storage.ErrUnavailable)
		}
		return do()
	}), lose
}

// Law: an act that sends, and whose process dies before its end is noted, sends the same message when it is sent again
// under its ID. So it has one effect.
func TestLawALostEndIsNoSecondEffect(t *testing.T) {
	t.Parallel()
	x := newTown(t)
	s, lose := withoutEnd(x.Store)
	town := &site{World: x.World, tokens: map[act.Role]string{}}
	town.serve(t, s)
	stop := x.Start(worker.Config{}) // its plans and schedules answer
	twice := func(path, body string) {
		t.Helper()
		a := ask{method: "POST", path: "do/" + path, role: act.Admin, json: body, header: keyed(audit.NewID())}
		lose.Store(2)
		town.want(t, 503, a, "the audit log doesn't say so")
		if code, body := town.ask(t, a); code == 503 {
			t.Errorf("%s again: got %s", path, body)
		}
	}
	twice("send", `{"kind": "shop.remind.v1", "body": {}}`)
	twice("schedules/run", `{"name": "reminders", "why": "a test"}`)
	twice("processes/nudge", `{"id": "order-1041", "why": "a nudge", "wait": "30s"}`)
	shown := town.want(t, 200, ask{path: "schedules/reminders", role: act.Viewer, header: program})
	if n := strings.Count(shown, `"what":"run"`); n != 1 {
		t.Errorf("the schedule was told to run %d times:\n%s", n, shown)
	}
	shown = town.want(t, 200, ask{path: "processes/order-1041", role: act.Viewer, header: program})
	if n := strings.Count(shown, "a nudge"); n != 1 {
		t.Errorf("the instance was nudged %d times:\n%s", n, shown)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

// Law: a signal is heard once at most. So one that may have been sent isn't sent again under its ID.
func TestLawASignalIsNotRepeated(t *testing.T) {
	t.Parallel()
	s, lose := withoutEnd(worldtest.OpenStore(t, ""))
	x := newSite(t, s)
	l, err := signal.Listen(t.Context(), s, "lunch")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	send := ask{method: "POST", path: "do/signals/send", role: act.Operator, json: `{"name": "lunch"}`, header: keyed(audit.NewID())}
	lose.Store(2)
	x.want(t, 503, send)
	x.want(t, 409, send, "nobody knows whether it was done")
	if _, err := l.Any(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, again, err := l.Try(); again || err != nil {
		t.Errorf("it was heard twice (%v)", err)
	}
}

// A message that is sent has an ID that follows from the ID of the act.
func TestASendFollowsFromItsAct(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, "")
	x := newSite(t, s)
	id := audit.NewID()
	send := ask{method: "POST", path: "do/send", role: act.Operator, json: `{"kind": "test.add.v1", "body": {"to": "ada", "amount": 1}, "delay": "1h"}`, header: keyed(id)}
	x.want(t, 200, send, `"id":"`+channel.DerivedID(id, "sent")+`"`)
}

// A program that has an error learns what was done before, and what doctor has found.
func TestAProblemHasItsResults(t *testing.T) {
	t.Parallel()
	x := newTown(t)
	list := x.want(t, 200, ask{path: "poison?queue=mails", role: act.Viewer, header: program})
	id := regexp.MustCompile(`"id":"([^"]+)"`).FindStringSubmatch(list)[1]
	x.want(t, 404, ask{method: "POST", path: "do/poison/retry", role: act.Operator, json: `{"id": ["` + id + `", "nope"]}`, header: program},
		`"detail":`, `nope`, `"results":[`, `"result":"sent back"`)
	x.want(t, 200, ask{method: "POST", path: "do/doctor", role: act.Viewer, form: url.Values{}, header: program}, `"results":[{"severity":`)
}

// Law: the audit log says that somebody has looked for content, and neither what they looked for nor what they found.
func TestLawTheLogTellsNoSearch(t *testing.T) {
	t.Parallel()
	x := newTown(t)
	for _, verb := range []string{"list", "groups"} {
		x.want(t, 200, ask{method: "POST", path: "do/poison/" + verb, role: act.Operator, header: program,
			json: `{"text": "nothing to say", "data": "to=ada@example.org", "reveal": true, "why": "lost"}`})
	}
	log := x.want(t, 200, ask{path: "audit", role: act.Viewer, header: program}, `"act":"poison list"`, `"act":"poison groups"`, `--reveal`, `"result":"revealed"`)
	for _, secret := range []string{"nothing to say", "ada@example.org", "told;"} {
		if strings.Contains(log, secret) {
			t.Errorf("the log has %q:\n%s", secret, log)
		}
	}
}
