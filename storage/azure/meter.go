package azure

import (
	"net/http"
	"strconv"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/millrace-go/millrace/storage/driver"
)

var _ policy.Policy = (*meter)(nil)

// Requests implements driver.Store.
func (s *store) Requests() []driver.Requests { return s.meter.Requests() }

// meter counts each request as it goes out, below the policy that repeats requests.
type meter struct {
	driver.Tally
	paces paces // each refusal is reported to its pace
}

func newMeter() *meter { return &meter{} }

func (m *meter) Do(req *policy.Request) (*http.Response, error) {
	c, ok := req.Raw().Context().Value(callKey{}).(*call)
	if !ok {
		return req.Next()
	}
	resp, err := req.Next()
	if err == nil && (c.op == "put batch" || c.op == "delete batch") {
		reveal(resp)
	}
	c.meet(resp, err)
	c.doubtful = c.doubtful || mayHaveActed(resp, err)
	if err != nil && surelyUndone(nil, err) {
		return resp, err // no request went out
	}
	if resp != nil {
		bound(resp.Header)
	}
	refused := resp != nil && throttled(resp.StatusCode, resp.Header.Get("x-ms-error-code"))
	if refused {
		m.paces.of(c).Refused()
	}
	m.Add(driver.Request{Op: c.op, Kind: c.kind, Target: c.target, Class: class(c.kind, c.op)}, refused)
	return resp, err
}

// bound shortens a wait that the service asks for to the longest one allowed. Otherwise the SDK would give up at
// once, and the caller would ask again sooner.
func bound(h http.Header) {
	for name, unit := range map[string]time.Duration{"Retry-After": time.Second, "retry-after-ms": time.Millisecond, "x-ms-retry-after-ms": time.Millisecond} {
		n, err := strconv.Atoi(h.Get(name))
		date, dateErr := time.Parse(time.RFC1123, h.Get(name))
		if err == nil && n > int(longestWait/unit) || dateErr == nil && time.Until(date) > longestWait {
			h.Set(name, strconv.Itoa(int(longestWait/unit)))
		}
	}
}

// mayHaveActed reports that a request failed but may have taken effect.
func mayHaveActed(resp *http.Response, err error) bool {
	if err != nil {
		return !surelyUndone(nil, err)
	}
	return resp.StatusCode == http.StatusRequestTimeout || resp.StatusCode >= 500 && !surelyUndone(resp, nil)
}

// class is the billing class of a request. Every request is billed, even a failed one, except one that fails to
// authenticate.
// https://learn.microsoft.com/azure/storage/blobs/map-rest-apis-transaction-categories
func class(kind, op string) string {
	if kind == "file" { // billed as the blob that it is
		kind = "blob"
	}
	switch op {
	case "get", "peek", "stats", "stat", "open", "list parts", "key", "origins":
		return kind + " read"
	case "list", "query":
		if kind != "queue" {
			return kind + " list"
		}
	case "create":
		if kind == "blob" { // billed as a listing
			return kind + " list"
		}
	case "delete":
		if kind != "queue" {
			return kind + " delete" // free for blobs
		}
	case "put batch", "delete batch":
		return kind + " batch"
	}
	return kind + " write"
}
