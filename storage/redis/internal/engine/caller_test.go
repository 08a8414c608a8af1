package engine

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/storage/redis/internal/client"
)

// Failures are repeated as long as they may pass, and no longer: a call that was on its way for long is judged again
// also after that, a cut is repeated once, and only where a repeat does no harm.
func TestRepeats(t *testing.T) {
	t.Parallel()
	jump, loading := &client.Refused{Code: codeJump}, &client.Refused{Code: client.CodeLoading}
	for name, x := range map[string]struct {
		answers  []error // of the first calls; the last one's is that of all that follow
		takes    time.Duration
		harmless bool
		calls    int
		want     error
	}{
		"at once":                        {[]error{nil}, 0, false, 1, nil},
		"a call that was on its way":     {[]error{jump, nil}, 9 * time.Second, false, 2, nil},
		"a jump, and one that is judged": {[]error{jump, jump, nil}, 0, false, 3, nil},
		"jumps without an end":           {[]error{jump}, 0, false, mostJumps + 1, jump},
		"a cut":                          {[]error{io.EOF, nil}, 0, true, 2, nil},
		"two cuts":                       {[]error{io.EOF, io.EOF, nil}, 0, true, 2, io.EOF},
		"a cut that might do harm":       {[]error{io.EOF, nil}, 0, false, 1, io.EOF},
		"loading":                        {[]error{loading, loading, nil}, 0, false, 3, nil},
		"loading for long":               {[]error{loading, nil}, patience, false, 1, loading},
	} {
		synctest.Test(t, func(t *testing.T) {
			calls := 0
			err := repeat(t.Context(), x.harmless, func() error {
				calls++
				time.Sleep(x.takes)
				return x.answers[min(calls, len(x.answers))-1]
			})
			if !errors.Is(err, x.want) || calls != x.calls {
				t.Errorf("%s: got %v after %d calls, want %v after %d", name, err, calls, x.want, x.calls)
			}
		})
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := repeat(ended, true, func() error { return jump }); !errors.Is(err, jump) {
		t.Errorf("after the end of the context: got %v", err)
	}
}
