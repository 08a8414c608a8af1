package host_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/host"
)

// The log of a running program's store is cut to nothing. Nothing more is acknowledged, readiness says why, and the
// program's end is a failure.
func TestAProgramWhoseStoreIsDamaged(t *testing.T) {
	t.Parallel()
	r := start(t, renting(), "-addr=127.0.0.1:0")
	url := r.url(t)
	if code, body := send(t, http.MethodPost, url, `{"days":3}`); code != http.StatusAccepted {
		t.Fatalf("got %d %s, want 202", code, body)
	}
	if err := os.Truncate(filepath.Join(r.dir, "shop.db-wal"), 0); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if code, body := send(t, http.MethodPost, url, `{"days":3}`); code != http.StatusServiceUnavailable {
			t.Errorf("got %d %s, want 503", code, body)
		}
	}
	for code := 0; code != http.StatusServiceUnavailable; { // an earlier answer is good for a second
		var body string
		if code, body = send(t, http.MethodGet, url+"/readyz", ""); code == http.StatusServiceUnavailable && !strings.Contains(body, "the log (-wal) was cut or overwritten") {
			t.Errorf("got %s, want what is wrong", body)
		}
	}
	if code := r.end(); code != host.ExitError || !strings.Contains(r.String(), "restore it from a backup") || strings.Contains(r.String(), "Nothing is lost") {
		t.Errorf("got exit code %d, want %d and what to do", code, host.ExitError)
	}
}
