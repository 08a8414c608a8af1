package seldom_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/internal/seldom"
)

// A thing that happens to each of many requests is one line a second for each route and kind, with the number of those
// between. A client that has gone is none.
func TestLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == slog.LevelKey {
				return slog.Attr{}
			}
			return a
		}}))
		var lines seldom.Lines
		happen := func(ctx context.Context, route, kind string) {
			r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/secret", nil)
			r.Pattern = route
			lines.Log(r, log, slog.LevelWarn, "refused", kind)
		}
		gone, goes := context.WithCancel(t.Context())
		goes()
		happen(gone, "POST /a", "one")
		for range 100 {
			happen(t.Context(), "POST /a", "one")
			happen(t.Context(), "POST /a", "two")
			happen(t.Context(), "POST /b", "one")
			time.Sleep(25 * time.Millisecond) // virtual
		}
		happen(t.Context(), "POST /a", "")
		var want []string
		for _, silent := range []string{"0", "39", "39"} {
			for _, of := range []string{`"POST /a" kind=one`, `"POST /a" kind=two`, `"POST /b" kind=one`} {
				want = append(want, "msg=refused route="+of+" not_logged="+silent)
			}
		}
		want = append(want, `msg=refused route="POST /a" not_logged=0`)
		if got := strings.TrimSpace(out.String()); got != strings.Join(want, "\n") {
			t.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
		}
	})
}
