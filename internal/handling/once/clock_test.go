package once_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// A process stood still, so its effects look at their contexts before the timers have ended them.
func TestOnceLooksAtTheClockBeforeItsTimer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const proved, effects = 25 * time.Second, 50
		s := storagetest.Intercept(worldtest.OpenStore(t, worldtest.Virtual), func(_ context.Context, op storagetest.Op, do func() error) error {
			if op.Seq > effects {
				return op.Fail(storage.ErrUnavailable)
			}
			return do()
		})
		began := make(chan context.Context)
		for i := range effects {
			go runOnce(t.Context(), s, "mails", fmt.Sprint(i), func(ctx context.Context) error {
				began <- ctx
				<-ctx.Done()
				return ctx.Err()
			})
		}
		var all []context.Context
		for range effects {
			all = append(all, <-began)
		}
		time.Sleep(proved)
		alive := 0
		for _, ctx := range all {
			if ctx.Err() == nil {
				alive++
			}
		}
		worldtest.Want(t, "contexts that look alive when their notes are proved no more", alive, 0)
		synctest.Wait()
	})
}
