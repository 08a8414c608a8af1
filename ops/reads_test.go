package ops_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
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
	"github.com/millrace-go/millrace/ops/audit"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// counted is a store that counts its calls.
func counted(t *testing.T, calls *atomic.Int64) *storage.Store {
	t.Helper()
	return storagetest.Intercept(worldtest.OpenStore(t, worldtest.Virtual), func(_ context.Context, _ storagetest.Op, do func() error) error {
		calls.Add(1)
		return do()
	})
}

// Law: many viewers ask the store no more than one, and nobody looking asks nothing.
func TestLawManyViewersAskOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		s := counted(t, &calls)
		x := newSite(t, s)
		count := func(viewers int) int64 {
			before := calls.Load()
			var all sync.WaitGroup
			for range viewers {
				all.Go(func() { x.want(t, 200, ask{path: "queues?", role: act.Viewer}) })
			}
			all.Wait()
			return calls.Load() - before
		}
		one := count(1)
		if many := count(20); many > 0 {
			t.Errorf("20 viewers within two seconds made %d calls, after the %d of one", many, one)
		}
		before := calls.Load()
		time.Sleep(24 * time.Hour)
		worldtest.Want(t, "calls while nobody looks", calls.Load()-before, 0)
		x = newSite(t, s)
		if many := count(20); one == 0 || float64(many) > 1.1*float64(one) {
			t.Errorf("20 viewers made %d calls, and one made %d", many, one)
		}
	})
}

// Law: many viewers of any page ask the store no more than one.
func TestLawManyViewersOfAnyPageAskOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		s := counted(t, &calls)
		x := newSite(t, s)
		worldtest.Send(x.World, worldtest.Add{To: "ada", Amount: 2, Key: "order-17"})
		for _, path := range []string{"", "queues/accounts", "messages/accounts/order-17", "find?q=ada", "programs", "values/accounts"} {
			count := func(viewers int) int64 {
				x := again(t, x, s) // nothing was read before
				before := calls.Load()
				var all sync.WaitGroup
				for range viewers {
					all.Go(func() { x.ask(t, ask{path: path, role: act.Viewer}) })
				}
				all.Wait()
				return calls.Load() - before
			}
			one, many := max(count(1), count(1)), count(20) // reads that meet are one, so their number differs by a few
			if one == 0 || float64(many) > 1.1*float64(one) {
				t.Errorf("%q: 20 viewers made %d calls, and one made %d", path, many, one)
			}
			if most := int64(500); one > most {
				t.Errorf("%q asks the store %d times, want %d at most", path, one, most)
			}
		}
	})
}

// Law: what an act doesn't know makes no other request of the same, and a POST of what only reads is shared, too.
func TestLawTheSameIsReadOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		x := newSite(t, counted(t, &calls))
		for _, path := range []string{"queues", "queues/accounts", "do/queues/show?queue=accounts"} {
			x.want(t, 200, ask{path: path, role: act.Viewer})
			before := calls.Load()
			sep := "?"
			if strings.Contains(path, "?") {
				sep = "&"
			}
			for i := range 20 {
				x.ask(t, ask{path: fmt.Sprintf("%s%sx=%d", path, sep, i), role: act.Viewer}) // perhaps it is refused
			}
			worldtest.Want(t, "calls of requests that differ in what nobody knows", calls.Load()-before, 0)
		}
		before := calls.Load()
		for range 20 {
			x.want(t, 200, ask{method: "POST", path: "do/queues/show", role: act.Viewer, form: url.Values{"queue": {"accounts"}}}, "accounts")
		}
		worldtest.Want(t, "calls of POSTs", calls.Load()-before, 0)
	})
}

// Law: however different the requests of viewers are, a few of them read the store at a time, and all get an answer.
func TestLawFewReadTheStoreAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int64
		x := newSite(t, storagetest.Intercept(worldtest.OpenStore(t, worldtest.Virtual), func(_ context.Context, op storagetest.Op, do func() error) error {
			if op.Name == "list blobs" && op.Resource == "container bulk" {
				for n := now.Add(1); ; {
					if was := most.Load(); n <= was || most.CompareAndSwap(was, n) {
						break
					}
				}
				time.Sleep(time.Second) // in a bubble
				now.Add(-1)
			}
			return do()
		}))
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() { x.want(t, 200, ask{path: fmt.Sprint("bulk?limit=", i+1), role: act.Viewer}) })
		}
		all.Wait()
		if n := most.Load(); n == 0 || n > 16 {
			t.Errorf("%d requests read the store at a time, want 16 at most", n)
		}
	})
}

// Law: a request can't ask for more than a page can bear.
func TestLawRequestsAreBounded(t *testing.T) {
	t.Parallel()
	x := newSite(t, worldtest.OpenStore(t, ""))
	for _, path := range []string{"poison?limit=100000", "bulk?limit=1001", "do/poison/groups?limit=5000"} {
		x.want(t, 400, ask{path: path, role: act.Viewer}, "limit: want 1000 at most")
	}
	x.want(t, 400, ask{method: "POST", path: "do/queues/peek", role: act.Viewer, json: `{"queue": "accounts", "limit": 100000}`, header: program}, "limit: want 1000 at most")
	x.want(t, 400, ask{method: "POST", path: "do/processes/cancel", role: act.Operator, form: url.Values{"id": {"x"}, "why": {"x"}, "wait": {"87600h"}}}, "wait: want 30s at most")
	for i := range 1100 {
		x.poison(t, fmt.Sprintf("m%04d", i))
	}
	var got struct{ Results []any }
	if err := json.Unmarshal([]byte(x.want(t, 200, ask{path: "poison", role: act.Viewer, header: program})), &got); err != nil || len(got.Results) != 1000 {
		t.Errorf("got %d results, %v; want 1000", len(got.Results), err)
	}
}

// Law: an open page of poison messages counts them by cause once a minute, and says when.
func TestLawAnOpenPageReadsLittle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var reads atomic.Int64
		x := newSite(t, storagetest.Intercept(worldtest.OpenStore(t, worldtest.Virtual), func(_ context.Context, op storagetest.Op, do func() error) error {
			if op.Name == "get blob" && strings.HasPrefix(op.Resource, "blob poison/") {
				reads.Add(1)
			}
			return do()
		}))
		for i := range 600 {
			x.poison(t, fmt.Sprintf("m%04d", i))
		}
		for range 12 { // a minute
			x.want(t, 200, ask{path: "poison", role: act.Viewer}, "By cause, at 00:0")
			time.Sleep(5 * time.Second)
		}
		const page, groups = 128, 512 // they are read 32 at a time
		if n := reads.Load(); n < groups || n > groups+12*page {
			t.Errorf("%d messages were read in a minute, want %d at most", n, groups+12*page)
		}
	})
}

// Law: a viewer who leaves waits no longer, and those who stay get what is read.
func TestLawAViewerWhoLeavesWaitsNoLonger(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var slow atomic.Bool
		x := newSite(t, storagetest.Intercept(worldtest.OpenStore(t, worldtest.Virtual), func(_ context.Context, op storagetest.Op, do func() error) error {
			if slow.Load() && op.Name == "stats" {
				time.Sleep(2 * time.Second) // in a bubble
			}
			return do()
		}))
		slow.Store(true)
		for _, path := range []string{"queues", ""} {
			x := *x
			x.handler = again(t, &x, x.Store).handler
			began := time.Now()
			var stays sync.WaitGroup
			stays.Go(func() { x.want(t, 200, ask{path: path, role: act.Viewer}) })
			ctx, leave := context.WithTimeout(t.Context(), time.Second)
			r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/ops/"+path, http.NoBody)
			r.Host = "localhost"
			r.Header.Set("Authorization", "Bearer "+x.tokens[act.Viewer])
			x.handler.ServeHTTP(httptest.NewRecorder(), r)
			leave()
			worldtest.Want(t, "time until the viewer had left", time.Since(began), time.Second)
			stays.Wait()
			time.Sleep(time.Minute) // until nothing is read any more
		}
	})
}

// Law: where the reports of workers are read slowly, no viewer of the first page waits for what another viewer
// waits for.
func TestLawSlowReportsKeepNobodyWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := newSite(t, storagetest.Intercept(worldtest.OpenStore(t, worldtest.Virtual), func(_ context.Context, op storagetest.Op, do func() error) error {
			if strings.Contains(op.Resource, " pulse") {
				time.Sleep(500 * time.Millisecond) // in a bubble
			}
			return do()
		}))
		x.want(t, 200, ask{role: act.Viewer})
		for range 6 {
			time.Sleep(12 * time.Second)
			var viewers sync.WaitGroup
			for range 5 {
				viewers.Go(func() {
					began := time.Now()
					x.want(t, 200, ask{role: act.Viewer})
					if took := time.Since(began); took > 2*time.Second { // the page's other parts may wait, too
						t.Errorf("a viewer waited for %v", took)
					}
				})
			}
			viewers.Wait()
		}
		time.Sleep(time.Minute) // until nothing is read any more
	})
}

// Law: whoever looks at an act on many messages has it taken over from a process that has died, and reads that it did.
func TestLawWhoeverLooksHasAnActTakenOver(t *testing.T) {
	t.Parallel()
	for _, look := range []ask{{path: "bulk"}, {path: "bulk/ID"}, {path: "bulk/ID", header: program}, {path: "do/bulk/show?id=ID"}, {path: "do/bulk/show", method: "POST", form: url.Values{"id": {"ID"}}}} {
		synctest.Test(t, func(t *testing.T) {
			s := worldtest.OpenStore(t, worldtest.Virtual)
			x := newSite(t, s)
			ctx, stop := context.WithCancel(t.Context())
			var running sync.WaitGroup
			running.Go(func() { _ = x.handler.(*ops.Pages).Run(ctx) })
			synctest.Wait() // it has looked, and sleeps

			x.poison(t, "m")
			dead, id := again(t, x, s), audit.NewID()
			dead.want(t, 200, ask{method: "POST", path: "do/poison/retry", role: act.Operator, form: url.Values{"act-id": {id}, "all": {"true"}}}, "waits")
			x.claim(t, id, "the dead")
			time.Sleep(2 * time.Minute)
			look := look
			look.role, look.path = act.Viewer, strings.ReplaceAll(look.path, "ID", id)
			if look.form != nil {
				look.form = url.Values{"id": {id}}
			}
			told := "its process has died"
			if look.header != nil {
				told = `"died":true`
			}
			x.want(t, 200, look, told)
			time.Sleep(time.Minute)
			worldtest.Want(t, "sent after "+look.method+" "+look.path, worldtest.Queued(t, s, worldtest.Accounts), 1)
			stop()
			running.Wait()
		})
	}
}

// claim writes into an act that a process drives it, as that process would have done.
func (x *site) claim(t *testing.T, id, driver string) {
	t.Helper()
	blob, err := x.Store.Blobs("bulk").Get(t.Context(), "act/"+id, "")
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(blob.Body, &doc); err != nil {
		t.Fatal(err)
	}
	doc["driver"], doc["right"], doc["ttl"], doc["driven"] = driver, "r", 12*time.Second, time.Now()
	body, err := json.Marshal(doc)
	if err == nil {
		_, err = x.Store.Blobs("bulk").Put(t.Context(), "act/"+id, body, storage.Condition{})
	}
	if err != nil {
		t.Fatal(err)
	}
}
