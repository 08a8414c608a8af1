package millracetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/files/valet"
)

// Upload puts a content with the key of an upload and completes it, as a browser does with the script of package valet.
// It calls v itself, without a network, so it also works in virtual time. It returns what v has answered at the end.
// After [App.Drain] the file has a verdict:
//
//	key, err := v.Upload(ctx, valet.Upload{…})
//	millracetest.Upload(t, v, key, content)
//	app.Drain()
//	f, err := v.File(ctx, key.ID)
//
// v may be a handler around the Valet, such as one that adds the cookie for valet.Config.Owner.
func Upload(t testing.TB, v http.Handler, key valet.Key, content []byte) valet.Status {
	t.Helper()
	var keys valet.PartKeys
	all := int64(len(content))
	for n := 1; n <= key.Parts; n++ {
		tell(t, v, http.MethodPost, fmt.Sprintf("%s/parts?n=%d", key.URL, n), nil, http.StatusOK, &keys)
		from := int64(n-1) * key.PartSize
		if size := from + keys.Parts[0].Size; size > all || n == key.Parts && size < all {
			t.Fatalf("millracetest: Upload: the content has %d bytes, and that isn't the Size that the key was made for", all)
		}
		tell(t, v, http.MethodPut, keys.Parts[0].URL, content[from:from+keys.Parts[0].Size], http.StatusCreated, nil)
	}
	var s valet.Status
	tell(t, v, http.MethodPost, key.URL+"/complete", nil, http.StatusAccepted, &s)
	return s
}

// tell sends a request to a handler, and reads its answer.
func tell(t testing.TB, v http.Handler, method, url string, body []byte, want int, to any) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(body))
	r.RemoteAddr = "127.0.0.1:1"
	w := httptest.NewRecorder()
	v.ServeHTTP(w, r)
	answer, err := io.ReadAll(w.Result().Body)
	if err == nil && w.Code != want {
		err = fmt.Errorf("the answer is %d %s; want %d", w.Code, strings.TrimSpace(string(answer)), want)
	}
	if err == nil && to != nil {
		err = json.Unmarshal(answer, to)
	}
	if err != nil {
		path, _, _ := strings.Cut(url, "v1.") // the rest is a key
		t.Fatalf("millracetest: %s %s…: %v", method, path, err)
	}
}
