package boot_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/host/internal/boot"
	"github.com/millrace-go/millrace/internal/boottest"
	"github.com/millrace-go/millrace/storage"
)

// A program whose store nobody can write to is ready, and /readyz names the process that is in the way.
func TestReadyNamesAProcessThatStandsStill(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "r.db")
	synctest.Test(t, func(t *testing.T) {
		healthy := error(nil)
		h := boot.Ops(storage.New(&store{err: storage.ErrNotFound}), boot.NewMetrics(), nil, quiet(), func() error { return healthy }, nil, boot.Standstill(file))
		want := func(when string, code int, text string) {
			t.Helper()
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
			if w.Code != code || !regexp.MustCompile("^"+text+"\n$").MatchString(w.Body.String()) {
				t.Errorf("%s: got %d %q, want %d %q", when, w.Code, w.Body, code, text)
			}
		}
		want("without a file", 200, "ready")
		release := boottest.HoldWrites(t, file)
		for range 9 {
			time.Sleep(time.Second)
			want("too early", 200, "ready")
		}
		time.Sleep(2 * time.Second)
		const who = `; nothing can be written: process [0-9]+ "[^"]+" has been in a transaction for 10s`
		want("after that", 200, "ready"+who)
		healthy = errors.New("handlers hang")
		want("while handlers hang", 503, "not ready: handlers hang"+who)
		healthy = nil
		release()
		time.Sleep(time.Second)
		want("when it is over", 200, "ready")
		if got := boot.Standstill("")(); got != "" {
			t.Errorf("of a store in the cloud: got %q", got)
		}
	})
}
