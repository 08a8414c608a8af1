package azure

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/millrace-go/millrace/storage/driver"
)

// Queues implements driver.Lister, with a request for each 5,000 queues. A place without a prefix lists nothing: the
// queues of other programs on the account can't be told from its own.
func (s *store) Queues(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if s.prefix == "" {
			yield("", fmt.Errorf("%w: without a prefix, the queues of other programs on the account can't be told from those of this place", driver.ErrUnsupported))
			return
		}
		begin := strings.TrimSuffix(plainName(s.prefix, "x"), "x")
		pages := s.queues.NewListQueuesPager(&azqueue.ListQueuesOptions{Prefix: to.Ptr(begin)})
		p := part{s: s, kind: "queue"}
		for pages.More() {
			var page azqueue.ListQueuesResponse
			err := p.do(ctx, p.call("list", always), func(ctx context.Context) (err error) {
				page, err = pages.NextPage(ctx)
				return err
			})
			if err != nil {
				yield("", err)
				return
			}
			for _, q := range page.Queues {
				if q.Name == nil {
					continue
				}
				if name, ok := strings.CutPrefix(*q.Name, begin); ok && !yield(name, nil) {
					return
				}
			}
		}
	}
}
