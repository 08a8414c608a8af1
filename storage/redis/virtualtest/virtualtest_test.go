package virtualtest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/redis/redistest"
	"github.com/millrace-go/millrace/storage/redis/virtualtest"
)

// An hour of the store is an hour of the bubble: a message that is due in an hour comes then, and not before, and calls
// take no time.
func TestTimeIsTheBubbles(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Config{})
	outside := virtualtest.New(t, server.URL(redistest.Fresh()))
	synctest.Test(t, func(t *testing.T) {
		a, b := outside.Open(t), outside.Open(t)
		began := time.Now()
		if err := a.Queue("mails").Send(t.Context(), []storage.Message{{Body: []byte("m"), Delay: time.Hour}}); err != nil {
			t.Fatal(err)
		}
		for _, wait := range []time.Duration{0, time.Hour - time.Millisecond, time.Millisecond} {
			<-time.After(wait)
			got, err := b.Queue("mails").Receive(t.Context(), 1, time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			passed := time.Since(began)
			if want := passed >= time.Hour; (len(got) > 0) != want {
				t.Errorf("after %v: got %d messages, want one: %v", passed, len(got), want)
			}
		}
		if passed := time.Since(began); passed != time.Hour {
			t.Errorf("the calls took %v", passed-time.Hour)
		}
	})
}
