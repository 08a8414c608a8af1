package lease_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/coord/lease"
	"github.com/millrace-go/millrace/internal/agreetest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// A wait that ends tells why it was in vain, and the log tells it once.
func TestAWaitTellsWhy(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		held := acquire(t, s)
		link := storagetest.NewLink(s)
		var log bytes.Buffer
		wait := func(want string) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), 10*ttl)
			defer cancel()
			_, err := lease.Acquire(ctx, link.Store, name, lease.Config{TTL: ttl, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, lease.ErrHeld) || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want the end of the context and %q", err, want)
			}
		}
		wait("before that: held by ")
		link.Cut()
		wait(storage.ErrUnavailable.Error())
		if n := strings.Count(log.String(), "trying again"); n != 1 {
			t.Errorf("logged %d times:\n%s", n, &log)
		}
		link.Restore()
		release(t, held)
		time.Sleep(ttl)
	})
}
