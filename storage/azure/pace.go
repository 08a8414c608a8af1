package azure

import (
	"net/http"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/millrace-go/millrace/internal/rate"
)

const (
	longestSend = 500 * time.Millisecond // that a sender, a user perhaps, waits for its turn
	longestLine = 15 * time.Second       // that anybody else does
)

// paces hold back what this process asks of a queue, a container or a table that has refused requests lately. An account's
// limit shows at all of them.
type paces struct{ m sync.Map } // of *rate.Pace by target

// A target has a pace of its own. Sends have another than the rest: in a burst they come first, and those who handle give way,
// but not to a standstill.
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

// Do makes a call wait for its turn, above the policy that repeats requests: those wait by themselves.
func (p *paces) Do(req *policy.Request) (*http.Response, error) {
	ctx := req.Raw().Context()
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		most := longestLine
		switch {
		case c.op == "send":
			most = longestSend
		case c.kind == "queue" && (c.op == "extend" || c.op == "delete" || c.op == "rewrite"):
			most = 0 // a message whose end comes too late is handled twice
		}
		if err := p.of(c).Wait(ctx, most); err != nil {
			return nil, err
		}
	}
	return req.Next()
}
