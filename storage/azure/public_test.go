package azure

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/storage"
)

// A public file is read by anybody, with its header, and nothing else of the account is.
func TestPublicFiles(t *testing.T) {
	t.Parallel()
	s := openStore(t, testURL(t))
	header := http.Header{"Content-Type": {"text/css; charset=utf-8"}, "Cache-Control": {"public, max-age=31536000, immutable"}}
	url, err := s.PutPublic(t.Context(), "web", "css/site.0123456789abcdef.css", []byte("a{}"), header)
	noError(t, err)
	if !strings.HasSuffix(url, "/css/site.0123456789abcdef.css") || strings.Contains(url, "?") {
		t.Errorf("got URL %s", url)
	}
	again, err := s.PutPublic(t.Context(), "web", "css/site.0123456789abcdef.css", []byte("evil"), header)
	if !errors.Is(err, storage.ErrExists) {
		t.Errorf("got %v, want %v", err, storage.ErrExists)
	}
	if again != url {
		t.Errorf("got URL %s for a file that is there, want %s", again, url)
	}
	status, body, got := fetch(t, url)
	if status != http.StatusOK || body != "a{}" || got.Get("Content-Type") != header.Get("Content-Type") || got.Get("Cache-Control") != header.Get("Cache-Control") {
		t.Errorf("anybody gets %d, %q, %v", status, body, got)
	}
	_, err = s.Blobs("secrets").Put(t.Context(), "a", []byte("secret"), storage.Condition{})
	noError(t, err)
	private := strings.Replace(url, "web/css/site.0123456789abcdef.css", "secrets/a", 1)
	if status, body, _ := fetch(t, private); status == http.StatusOK {
		t.Errorf("%s: anybody reads %q", private, body)
	}
	if status, body, _ := fetch(t, url[:strings.Index(url, "web/")+3]+"?restype=container&comp=list"); status == http.StatusOK {
		t.Errorf("anybody lists the container: %s", body)
	}
	_, err = s.PutPublic(t.Context(), "Web", "a", nil, nil)
	if !errors.Is(err, storage.ErrInvalid) {
		t.Errorf("got %v, want %v", err, storage.ErrInvalid)
	}
	_, err = s.PutPublic(t.Context(), "web", "", nil, nil)
	if !errors.Is(err, storage.ErrInvalid) {
		t.Errorf("got %v, want %v", err, storage.ErrInvalid)
	}
	_, err = s.PutPublic(t.Context(), "web", "big", bytes.Repeat([]byte("x"), maxBlob+1), nil)
	if !errors.Is(err, storage.ErrTooLarge) {
		t.Errorf("got %v, want %v", err, storage.ErrTooLarge)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	_, err = s.PutPublic(ended, "web", "a", nil, nil)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}

func fetch(t *testing.T, url string) (status int, body string, header http.Header) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	noError(t, err)
	resp, err := http.DefaultClient.Do(req)
	noError(t, err)
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	noError(t, err)
	return resp.StatusCode, string(b), resp.Header
}
