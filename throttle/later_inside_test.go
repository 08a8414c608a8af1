package throttle

import (
	"testing"
	"time"
)

// Whatever the rate was, the rate limiter lets requests through again once what it deferred is over.
func TestLawADoorIsNotShutForEver(t *testing.T) {
	t.Parallel()
	var l later
	now := int64(time.Hour)
	if ahead := l.reserve(now, int64(time.Second), forever/2, now+int64(time.Minute)); ahead > int64(time.Minute) {
		t.Errorf("put off by %v", time.Duration(ahead))
	}
	if _, clear := l.state(); clear > now+int64(time.Minute) {
		t.Errorf("clear after %v", time.Duration(clear-now))
	}
}
