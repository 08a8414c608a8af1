package storecall

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/sqlite"
)

func TestSleep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		if err := Sleep(t.Context(), time.Minute); err != nil || time.Since(begin) != time.Minute {
			t.Errorf("%v after %v, want nil after 1m", err, time.Since(begin))
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(io.EOF) })
		begin = time.Now()
		if err := Sleep(ctx, time.Minute); err != io.EOF || time.Since(begin) != time.Second {
			t.Errorf("%v after %v, want the cause after 1s", err, time.Since(begin))
		}
	})
}

func TestLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		ctx, cancel := Limit(t.Context(), time.Minute)
		defer cancel()
		<-ctx.Done()
		if err := context.Cause(ctx); !errors.Is(err, storage.ErrUnavailable) || time.Since(begin) != time.Minute {
			t.Errorf("%v after %v, want ErrUnavailable after 1m", err, time.Since(begin))
		}
	})
}

func TestPermanent(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]bool{
		nil: false, io.EOF: false, storage.ErrUnavailable: false, storage.ErrPrecondition: false, storage.ErrNotFound: false,
		storage.ErrInvalid: true, storage.ErrUnsupported: true, storage.ErrTooLarge: true,
		fmt.Errorf("a call: %w", storage.ErrInvalid): true,
	} {
		if got := Permanent(err); got != want {
			t.Errorf("%v: %v, want %v", err, got, want)
		}
	}
}

func TestCheckStore(t *testing.T) {
	t.Parallel()
	if err := CheckStore(nil); !errors.Is(err, storage.ErrInvalid) {
		t.Errorf("no store: %v", err)
	}
	s, err := sqlite.Open(t.Context(), t.TempDir()+"/s")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(CheckStore(s), s.Close()); err != nil {
		t.Error(err)
	}
}

func TestCheckText(t *testing.T) {
	t.Parallel()
	for text, good := range map[string]bool{
		"": true, "Zoë, on call": true, strings.Repeat("a", 20): true, strings.Repeat("a", 21): false,
		"\xff": false, "a\nb": false, "a\x7f": false, "\u0085": false, "\u00a0": true,
	} {
		if err := CheckText("By", text, 20); (err == nil) != good || err != nil && !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("%q: %v, want good: %v", text, err, good)
		}
	}
}

func TestProcessName(t *testing.T) {
	t.Parallel()
	if err := CheckText("name", ProcessName(), 100); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		host string
		err  error
		want string
	}{
		{"web1", nil, "web1-7"},
		{strings.Repeat("a", maxHost), nil, strings.Repeat("a", maxHost) + "-7"},
		{strings.Repeat("a", maxHost+1), nil, "process-7"},
		{"a\nb", nil, "process-7"},
		{"", nil, "process-7"},
		{"", io.EOF, "process-7"},
	} {
		if got := processName(c.host, c.err, 7); got != c.want {
			t.Errorf("%q: %s, want %s", c.host, got, c.want)
		}
	}
}

func TestEnded(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	cause, last := errors.New("closing time"), fmt.Errorf("%w: cut off", storage.ErrUnavailable)
	cancel(cause)
	for _, c := range []struct {
		last error
		want string
	}{{nil, "closing time"}, {cause, "closing time"}, {last, "closing time; before that: " + last.Error()}} {
		err := Ended(ctx, c.last)
		if err.Error() != c.want || !errors.Is(err, cause) || errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
}
