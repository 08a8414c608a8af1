package ops_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/ops"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/acts"
	"github.com/millrace-go/millrace/ops/audit"
	"github.com/millrace-go/millrace/poison"
	"github.com/millrace-go/millrace/storage"
)

// poison puts a message into the poison queue.
func (x *site) poison(t *testing.T, id string) {
	t.Helper()
	e := worldtest.Envelope(id, worldtest.Add{To: "ada", Amount: 1})
	body, err := e.Encode()
	if err != nil {
		t.Fatal(err)
	}
	key := fmt.Sprintf("%032x", id)
	raw, err := json.Marshal(poison.Entry{Key: key, Queue: worldtest.Accounts, Reason: "closed", Error: "no", Last: time.Now(), ID: id, Kind: e.Kind, Body: body})
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
	shown := x.want(t, 200, ask{method: "POST", path: "do/poison/retry", role: act.Operator, form: form}, "Would send back 5 messages.")
	before := regexp.MustCompile(`name="before" value="([^"]+)"`).FindStringSubmatch(shown)
	if before == nil {
		t.Fatalf("got %s; want the time at which it was shown", shown)
	}
	x.poison(t, "after-it-was-shown")
	form.Del("dry-run")
	form.Set("before", strings.ReplaceAll(before[1], "&#43;", "+"))
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
		if a := x.bulk(t, id); !a.Over() {
			return fmt.Errorf("it has not ended: %+v", a)
		}
		return nil
	})
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
