package azure

import (
	"context"
	"iter"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
)

// Queues implements driver.Lister, with a request for each 5,000 queues. A place without a prefix has all queues of the
// account.
func (s *store) Queues(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
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
