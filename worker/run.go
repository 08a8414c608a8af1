package worker

import (
	"context"
	"time"

	"github.com/millrace-go/millrace/internal/handling"
	"github.com/millrace-go/millrace/storage"
)

// runner runs the handlers of messages that are in hand, and gives their outcomes to the settler.
type runner struct {
	setup
	settler *settler
	starts  *starts
	owned   time.Duration // since the last proof: so long no other worker can have a message
}

// runOne runs the handler of a message that has no group.
func (r *runner) runOne(ctx context.Context, m *message) {
	ctx, ok := m.claim.start(ctx, r.owned)
	if !ok {
		r.settler.lose(m)
		return
	}
	began := r.starts.started(m)
	outcomes := handling.Handle(ctx, handling.Group{}, []*handling.Delivery{m.delivery}, committing(r.settler, m))
	r.starts.ended(began, outcomes)
	m.claim.own.End(nil)
	r.settler.conclude(ctx, m, outcomes[0])
}

// runGroup folds messages of a document, or runs messages of a key in turn. It returns the messages that are left when
// the turn has taken long enough.
func (r *runner) runGroup(ctx context.Context, id handling.Group, batch []*message) (left []*message) {
	if id.TakesTurns() {
		return newRound(r.setup, r.settler, r.starts, r.owned).takeTurn(ctx, id, batch)
	}
	r.fold(ctx, id, batch)
	return nil
}

func (r *runner) fold(ctx context.Context, id handling.Group, batch []*message) {
	ms := make([]*message, 0, len(batch))
	ds := make([]*handling.Delivery, 0, len(batch))
	var began time.Time
	for _, m := range batch {
		if !m.claim.ours(r.owned) {
			r.settler.lose(m)
			continue
		}
		began = r.starts.started(m)
		ms, ds = append(ms, m), append(ds, m.delivery)
	}
	if len(ms) == 0 {
		return
	}
	outcomes := handling.Handle(ctx, id, ds, committing(r.settler, ms...))
	r.starts.ended(began, outcomes)
	for i, m := range ms {
		r.settler.conclude(ctx, m, outcomes[i])
	}
}

// committing returns the function that commits the unit of work of messages.
func committing(s *settler, ms ...*message) handling.Commit {
	return func(ctx context.Context, work storage.Work, ends []int) (storage.ETag, []handling.Ended, error) {
		return s.commit(ctx, work, ms, ends)
	}
}
