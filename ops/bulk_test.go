package ops_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/ops"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/acts"
	"github.com/millrace-go/millrace/ops/audit"
	"github.com/millrace-go/millrace/poison"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// poison puts a message into the poison queue.
func (x *site) poison(t *testing.T, id string) {
	t.Helper()
	x.poisonAt(t, id, time.Now())
}

// poisonAt is poison by a worker whose clock shows a time.
func (x *site) poisonAt(t *testing.T, id string, at time.Time) {
	t.Helper()
	e := worldtest.Envelope(id, worldtest.Add{To: "ada", Amount: 1})
	body, err := e.Encode()
	if err != nil {
		t.Fatal(err)
	}
	key := fmt.Sprintf("%032x", id)
	raw, err := json.Marshal(poison.Entry{Key: key, Queue: worldtest.Accounts, Reason: "closed", Error: "no", Last: at, ID: id, Kind: e.Kind, Body: body})
	if err == nil {
		_, err = x.Store.Blobs("poison").Put(t.Context(), worldtest.Accounts+"/"+key, raw, storage.Condition{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// bulk reads an act on many messages.
func (x *site) bulk(t *testing.T, id string) acts.Bulk {
	t.Helper()
	var answer struct {
		Results []acts.Bulk `json:"results"`
	}
	body := x.want(t, 200, ask{path: "do/bulk/show?id=" + id, role: act.Viewer, header: map[string]string{"Accept": "application/json"}})
	if err := json.Unmarshal([]byte(body), &answer); err != nil || len(answer.Results) != 1 {
		t.Fatalf("got %s, %v", body, err)
	}
	return answer.Results[0]
}

// The messages that match go back in the background: the form answers at once, with the way to the act. Messages that
// come after the act was shown aren't included. A form that is sent again under its ID has one effect.
func TestLawAllThatMatchGoBackInTheBackground(t *testing.T) {
	t.Parallel()
	x := newSite(t, worldtest.OpenStore(t, ""))
	for i := range 5 {
		x.poison(t, fmt.Sprint("m", i))
	}
	id := audit.NewID()
	form := url.Values{"act-id": {id}, "reason": {"closed"}, "dry-run": {"true"}}
	x.want(t, 200, ask{method: "POST", path: "do/poison/retry", role: act.Operator, form: form}, "Would send back 5 messages.", `name="act-id" value="`+id+`"`)
	x.poisonAt(t, "after-it-was-shown", time.Now().Add(-time.Hour)) // by a clock that is slow
	form.Del("dry-run")
	x.want(t, 403, ask{method: "POST", path: "do/poison/retry", role: act.Viewer, form: form})
	x.want(t, 200, ask{method: "POST", path: "do/poison/retry", role: act.Operator, form: form}, `href="./../../bulk/`+id+`"`, "waits", "background")
	worldtest.Want(t, "sent before anybody does it", worldtest.Queued(t, x.Store, worldtest.Accounts), 0)
	x.want(t, 200, ask{method: "POST", path: "do/bulk/pause", role: act.Operator, form: url.Values{"id": {id}, "why": {"not yet"}}}, "paused")

	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := x.handler.(*ops.Pages).Run(ctx); err != nil {
			t.Error(err)
		}
	})
	x.want(t, 200, ask{path: "bulk", role: act.Viewer}, id, "paused", "Sent back 0 of 0 messages")
	x.want(t, 403, ask{method: "POST", path: "do/bulk/resume", role: act.Viewer, form: url.Values{"id": {id}}})
	x.want(t, 200, ask{method: "POST", path: "do/bulk/resume", role: act.Operator, form: url.Values{"id": {id}}})
	worldtest.Eventually(t, func() error {
		if a := x.bulk(t, id); a.Ended == nil {
			return fmt.Errorf("it has not ended: %+v", a)
		}
		return nil
	})
	_, raw := x.ask(t, ask{path: "do/bulk/show?id=" + id, role: act.Viewer, header: program})
	for _, part := range []string{`"act":"poison retry"`, `"messages":5`, `"settled":5`, `"gone":0`, `"state":"done"`, `"state_by":"operator"`, `"faults":[]`, `"why":""`, `"died":false`, `"result":"Sent back 5 of 5 messages."`} {
		if !strings.Contains(raw, part) || strings.Contains(raw, "0001-01-01") || strings.Contains(raw, "cursor") {
			t.Errorf("a program reads %s, want %s", raw, part)
		}
	}
	x.poison(t, "after-it-was-done")
	x.want(t, 200, ask{method: "POST", path: "do/poison/retry", role: act.Operator, form: form}, "This was done before", "Sent back 5 of 5 messages")
	x.want(t, 200, ask{path: "bulk/" + id, role: act.Operator}, "done", "Sent back 5 of 5 messages", "poison retry --reason closed", "do/bulk/cancel?id="+id)
	x.want(t, 409, ask{method: "POST", path: "do/bulk/cancel", role: act.Operator, form: url.Values{"id": {id}}}, "has ended")
	x.want(t, 404, ask{path: "bulk/" + audit.NewID(), role: act.Viewer}, "no bulk act")
	worldtest.Want(t, "sent", worldtest.Queued(t, x.Store, worldtest.Accounts), 5)
	worldtest.Want(t, "left", len(x.Poisoned(worldtest.Accounts)), 2)
	e, err := audit.Of(x.Store).Get(t.Context(), id)
	if err != nil || !e.Done() || e.Failed || e.Who != "operator" || e.Result != "Sent back 5 of 5 messages." {
		t.Errorf("the audit log has %+v, %v", e, err)
	}
	stop()
	running.Wait()
}

// Law: what is confirmed is what was shown, also where it is shown again with another filter, and whatever comes
// meanwhile. A purge deletes no more messages than were shown.
func TestLawWhatIsConfirmedIsWhatWasShown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := worldtest.OpenStore(t, worldtest.Virtual)
		x := newSite(t, s)
		x.poison(t, "m1")
		id := audit.NewID()
		post := func(form url.Values, parts ...string) string {
			t.Helper()
			form.Set("act-id", id)
			return x.want(t, 200, ask{method: "POST", path: "do/poison/discard", role: act.Admin, form: form}, parts...)
		}
		post(url.Values{"all": {"true"}, "dry-run": {"true"}}, "Would discard 1 message.")
		x.poisonAt(t, "m2", time.Now().Add(-time.Hour))
		post(url.Values{"reason": {"closed"}, "dry-run": {"true"}}, "Would discard 2 messages.")
		post(url.Values{"all": {"true"}, "yes": {"true"}, "why": {"a test"}}, "waits")
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = x.handler.(*ops.Pages).Run(ctx) })
		time.Sleep(time.Minute)
		stop()
		running.Wait()
		worldtest.Want(t, "left", len(x.Poisoned(worldtest.Accounts)), 1)

		worldtest.Send(x.World, worldtest.Add{To: "ada", Amount: 1})
		form := url.Values{"queue": {"accounts"}, "why": {"a test"}, "dry-run": {"true"}}
		x.want(t, 200, ask{method: "POST", path: "do/queues/purge", role: act.Admin, form: form}, "Would delete 1 message", `<input type="hidden" name="most" value="1">`)
		worldtest.Send(x.World, worldtest.Add{To: "ada", Amount: 1})
		worldtest.Send(x.World, worldtest.Add{To: "ada", Amount: 1})
		form = url.Values{"queue": {"accounts"}, "why": {"a test"}, "yes": {"true"}, "most": {"1"}}
		x.want(t, 200, ask{method: "POST", path: "do/queues/purge", role: act.Admin, form: form}, "Deleted 1 message")
		worldtest.Want(t, "messages that came after it was shown", worldtest.Queued(t, s, "accounts"), 2)
	})
}

// Law: what an act on very many messages would do is shown within a bound.
func TestLawAPreviewIsBounded(t *testing.T) {
	t.Parallel()
	var reads atomic.Int64
	x := newSite(t, storagetest.Intercept(worldtest.OpenStore(t, ""), func(_ context.Context, op storagetest.Op, do func() error) error {
		if op.Name == "get blob" && strings.HasPrefix(op.Resource, "blob poison/") {
			reads.Add(1)
		}
		return do()
	}))
	for i := range 1300 {
		x.poison(t, fmt.Sprintf("m%04d", i))
	}
	form := url.Values{"all": {"true"}, "dry-run": {"true"}}
	x.want(t, 200, ask{method: "POST", path: "do/poison/discard", role: act.Admin, form: form}, "Would discard at least 1000 messages.", "only the first 1000 messages were looked at")
	if n := reads.Load(); n < 1000 || n > 1200 {
		t.Errorf("%d messages were read, want 1200 at most", n)
	}
}

// Law: an act on many messages that has left some of them fails when it is sent again under its ID, as in the audit
// log. Programs are told how it ended.
func TestLawABulkActThatFailedFailsAgain(t *testing.T) {
	t.Parallel()
	x := newSite(t, worldtest.OpenStore(t, ""))
	x.poison(t, "whole")
	if _, err := x.Store.Blobs("poison").Put(t.Context(), worldtest.Accounts+"/broken", []byte("junk"), storage.Condition{}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := x.handler.(*ops.Pages).Run(ctx); err != nil {
			t.Error(err)
		}
	})
	id := audit.NewID()
	all := ask{method: "POST", path: "do/poison/retry", role: act.Operator, json: `{"all": true}`, header: keyed(id)}
	x.want(t, 200, all)
	worldtest.Eventually(t, func() error {
		e, err := audit.Of(x.Store).Get(t.Context(), id)
		if err == nil && !e.Done() {
			err = errors.New("it has not ended")
		}
		return err
	})
	if body := x.want(t, 409, all, "this was done before", "and failed: Sent back 1 of 2 messages; 1 are still in the poison queue.", `"failed":1`); strings.Contains(body, "This was done before") {
		t.Errorf("a failure is told as done: %s", body)
	}
	stop()
	running.Wait()
}
