package azure

import (
	"net/http"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/millrace-go/millrace/storage"
)

const (
	longestSend = 500 * time.Millisecond // that a sender, a user perhaps, waits for its turn
	longestLine = 15 * time.Second       // that anybody else does
)

// paces hold back what this process asks of a queue, a container or a table that has refused requests lately. An account's
// limit shows at all of them.
type paces struct{ m sync.Map } // of *storage.Pace by target

type target struct{ kind, name string }

func (p *paces) of(c *call) *storage.Pace {
	t := target{c.kind, c.target}
	pace, ok := p.m.Load(t)
	if !ok {
		pace, _ = p.m.LoadOrStore(t, new(storage.Pace))
	}
	return pace.(*storage.Pace)
}

// Do makes a call wait for its turn, above the policy that repeats requests: those wait by themselves. A send whose turn is
// far off goes out all the same, and the service decides: in a burst senders come first, and those who handle give way. An extension
// doesn't wait, because a message that is lost meanwhile is handled twice.
func (p *paces) Do(req *policy.Request) (*http.Response, error) {
	ctx := req.Raw().Context()
	if c, ok := ctx.Value(callKey{}).(*call); ok && c.op != "extend" {
		most := longestLine
		if c.op == "send" {
			most = longestSend
		}
		if err := p.of(c).Wait(ctx, most); err != nil && (c.op != "send" || ctx.Err() != nil) {
			return nil, err
		}
	}
	return req.Next()
}
