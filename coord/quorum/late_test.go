package quorum

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/millrace-go/millrace/internal/right"
	"github.com/millrace-go/millrace/storage"
)

// A process stood still for longer than its lock lasts, and renews its grants before its timer runs. The lock has ended
// all the same, because another process may have had it meanwhile.
func TestALateTimerRevivesNoLock(t *testing.T) {
	t.Parallel()
	s, err := Config{}.complete([]*storage.Store{{}, {}, {}}, "name")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		ago  time.Duration // since the last renewal
		want error
	}{{s.TTL / 3, nil}, {s.TTL, ErrLost}} {
		then := time.Now().Add(-c.ago)
		l := &Lock{setting: s, proved: []time.Time{then, then, {}}}
		l.ctx = right.Watched(t.Context(), provedTill(l.proved, s.TTL), l.lose)
		for i := range l.proved {
			l.prove(i, time.Now())
		}
		if got := context.Cause(l.ctx); !errors.Is(got, c.want) {
			t.Errorf("%v after the last renewal the lock's end is %v, want %v", c.ago, got, c.want)
		}
		l.ctx.End(nil)
	}
}
