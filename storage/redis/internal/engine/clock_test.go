package engine

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// Law: the store's time, as a process knows it, neither goes back nor is ahead of the store, however long calls take.
// Nothing counts as a jump that is none.
func TestLawTheStoresTimeDoesNotGoBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := &Engine{caller: &caller{}}
		const ahead = 1_000_000_000 // of the server's clock, in microseconds
		server := func() int64 { return time.Now().UnixMicro() + ahead }
		last := int64(0)
		look := func() {
			t.Helper()
			if now := e.Now(); now < last || now > server() {
				t.Errorf("got %d after %d, and the server's time is %d", now, last, server())
			} else {
				last = now
			}
		}
		for _, x := range []struct{ there, back, pause time.Duration }{
			{0, 0, 0}, {time.Second, time.Second, 0}, {0, 0, 0}, {0, time.Second, time.Millisecond}, {time.Second, 0, time.Hour}, {0, 0, 0}, {time.Minute, time.Minute, 0}, {0, 0, 0},
		} {
			asked := time.Now()
			time.Sleep(x.there)
			at := server()
			time.Sleep(x.back)
			e.caller.clock.told(at, asked)
			look()
			if _, most, _ := e.caller.clock.args(); most < strconv.FormatInt(server(), 10) {
				t.Errorf("the server's time %d counts as a jump: the most is %s", server(), most)
			}
			time.Sleep(x.pause)
			look()
		}
	})
}
