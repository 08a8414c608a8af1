package azure

import (
	"net/http"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/millrace-go/millrace/internal/rate"
)

const (
	longestSend = 500 * time.Millisecond // a sender's longest wait for its turn; a user may wait for it
	longestLine = 15 * time.Second       // the longest wait of any other call
)

// paces slow down this process's calls for a queue, container or table that has recently refused requests. When the
// account's limit is reached, all of them refuse.
type paces struct{ m sync.Map } // of *rate.Pace by target

// A target has a pace of its own. Sends have a separate one: in a burst, sends come first, and the consumers slow
// down but don't stop.
type target struct {
	kind, name string
	send       bool
}

func (p *paces) of(c *call) *rate.Pace {
	t := target{c.kind, c.target, c.op == "send"}
	pace, ok := p.m.Load(t)
	if !ok {
		pace, _ = p.m.LoadOrStore(t, new(rate.Pace))
	}
	return pace.(*rate.Pace)
}

// Do makes a call wait for its turn. It runs above the policy that repeats requests, because repeats have waits of
// their own.
func (p *paces) Do(req *policy.Request) (*http.Response, error) {
	ctx := req.Raw().Context()
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		most := longestLine
		switch {
		case c.op == "send":
			most = longestSend
		case c.kind == "queue" && (c.op == "extend" || c.op == "delete" || c.op == "rewrite"):
			most = 0 // a message whose deletion comes too late is handled twice
		}
		if err := p.of(c).Wait(ctx, most); err != nil {
			return nil, err
		}
	}
	return req.Next()
}
