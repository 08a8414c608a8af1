package worker_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/views"
)

// The domain is the one of worldtest.

type (
	Add     = worldtest.Add
	Added   = worldtest.Added
	Account = worldtest.Account
	Total   = worldtest.Total
)

// world is the tests' world. One of newWorld has all handlers, and they may be replaced.
type world struct {
	*worldtest.World
	reacted atomic.Int64
	folded  atomic.Int64 // folded into totals; more when a fold is repeated
	decide  func(Account, Add) (Account, []channel.Message, error)
	react   func(context.Context, Added) error
}

// newBare makes a world with these routes and no handler.
func newBare(t testing.TB, s *storage.Store, routes ...channel.Route) *world {
	t.Helper()
	return &world{World: worldtest.NewBare(t, s, handlers.Config{}, routes...)}
}

// newWorld makes a world. Its events go to the groups given, or to totals and audits.
func newWorld(t testing.TB, store *storage.Store, groups ...string) *world {
	t.Helper()
	w := &world{World: worldtest.New(t, store, worldtest.Config{Groups: groups}), decide: Account.Add}
	w.react = func(context.Context, Added) error { w.reacted.Add(1); return nil }
	handlers.Decide(w.Registry, w.Accounts, Add.Subject,
		func(a Account, c Add) (Account, []channel.Message, error) { return w.decide(a, c) }, Added{})
	views.Project(w.Registry, w.Totals, Added.Subject, func(v Total, e Added) Total {
		w.folded.Add(1)
		return v.Add(e)
	})
	if len(groups) == 0 {
		handlers.React(w.Registry, worldtest.Audits, func(ctx context.Context, e Added) error { return w.react(ctx, e) })
	}
	return w
}
