package handlers_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/handling"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/values"
)

// exits ends the goroutine that encodes it.
type exits struct{}

func (exits) MarshalJSON() ([]byte, error) { runtime.Goexit(); return nil, nil }

// However a fold is taken apart, each message that succeeds is deleted, and no other.
func TestAFoldInPartsEndsTheRightDeliveries(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(v map[string]any) error{
		"panic":               func(map[string]any) error { panic("broken") },
		"goexit":              func(map[string]any) error { runtime.Goexit(); return nil },
		"goexit in a value":   func(v map[string]any) error { v["bad"] = exits{}; return nil },
		"goexit, then poison": nil,
	} {
		for bad := range 4 {
			t.Run(fmt.Sprint(name, bad), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, handlers.Config{})
				things := values.New(w.Channels, "things", values.Config[map[string]any]{Initial: func(string) map[string]any { return map[string]any{} }})
				handling.Fold(w.Registry.Inside(), handling.As{}, "fold things", "accounts", things, anyKey(Add.Subject), func(v map[string]any, _ *channel.Envelope, m Add) (map[string]any, []channel.Message, error) {
					v[fmt.Sprint(m.Amount)] = true
					switch {
					case fail == nil && m.Amount == (bad+1)%4:
						return v, nil, handlers.Poison("as well", nil)
					case fail == nil && m.Amount == bad:
						runtime.Goexit()
					case m.Amount == bad:
						return v, nil, fail(v)
					}
					return v, nil, nil
				})
				if err := w.Registry.Err(); err != nil {
					t.Fatal(err)
				}
				for i := range 4 {
					worldtest.Send(w.World, Add{To: "k", Amount: i})
				}
				failing := map[int]bool{bad: true}
				if fail == nil {
					failing[(bad+1)%4] = true
				}
				ds := w.receive("accounts")
				g, _ := ds[0].Group()
				for i, o := range handling.Handle(t.Context(), g, ds, w.commit(ds)) {
					amount := ds[i].Message.(Add).Amount
					if failed := o.Err != nil; failed != failing[amount] || (o.Ended == handling.Deleted) == failed {
						t.Errorf("message %d: got outcome %+v; want failed %v", amount, o, failing[amount])
					}
					if err := w.Store.Queue("accounts").Delete(t.Context(), []storage.Receipt{w.claims[ds[i]].Receipt}); (err == nil) != failing[amount] {
						t.Errorf("message %d: deleted again, with error %v; want it to be there still: %v", amount, err, failing[amount])
					}
				}
				d, err := things.Get(t.Context(), "k", "")
				if err != nil || len(d.Value) != 4-len(failing) || d.Value[fmt.Sprint(bad)] != nil {
					t.Errorf("got %v, error %v; want what the others have put there", d.Value, err)
				}
			})
		}
	}
}

// A document that becomes too large by several messages is written one message at a time. Messages that were written so
// keep their outcome when the code of a later message ends its goroutine or hangs.
func TestPartsOfAFoldKeepTheirOutcomes(t *testing.T) {
	t.Parallel()
	for name, last := range map[string]func(release chan struct{}){
		"goexit": func(chan struct{}) { runtime.Goexit() },
		"hangs":  func(release chan struct{}) { <-release },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				release, runs := make(chan struct{}), 0
				defer close(release)
				w := newWorld(t, handlers.Config{Timeout: time.Minute})
				handlers.Decide(w.Registry, w.Accounts, Add.Subject, func(a Account, m Add) (Account, []channel.Message, error) {
					if m.Amount == 4 {
						if runs++; runs > 1 { // the first time it is folded with the others
							last(release)
						}
					}
					a.Balance += m.Amount
					return a, nil, nil
				})
				for i := range 5 {
					worldtest.Send(w.World, Add{To: "k", Amount: i})
				}
				ds := w.receive("accounts")
				slices.SortFunc(ds, func(a, b *handlers.Delivery) int { return a.Message.(Add).Amount - b.Message.(Add).Amount })
				g, _ := ds[0].Group()
				commit := w.commit(ds)
				outs := handling.Handle(t.Context(), g, ds, func(ctx context.Context, work storage.Work, ends []int) (storage.ETag, []handling.Ended, error) {
					if len(ends) > 1 {
						return "", nil, storage.ErrTooLarge
					}
					return commit(ctx, work, ends)
				})
				for i, o := range outs {
					if want := (handling.Outcome{Ended: handling.Deleted}); i < 4 && o != want || i == 4 && o.Err == nil {
						t.Errorf("message %d: got outcome %+v, want that all but the last are deleted", i, o)
					}
				}
				if got := w.Balance("k"); got != 6 {
					t.Errorf("got balance %d, want 6", got)
				}
			})
		})
	}
}
