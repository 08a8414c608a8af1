package views

import (
	"bytes"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// Content is bytes that HTTP serves from memory. Safe for concurrent use.
type Content struct {
	body   []byte
	header http.Header // shared by all answers, and never changed
	etag   string
	length []string
}

// NewContent returns content that is served under a header: Content-Type, a strong ETag, and other fields that never
// change. It keeps both; don't change them afterwards.
func NewContent(body []byte, header http.Header) *Content {
	shared := make(http.Header, len(header))
	for name, values := range header {
		shared[name] = slices.Clip(values) // a caller that appends for one answer gets a copy
	}
	return &Content{body: body, header: shared, etag: header.Get("ETag"), length: []string{strconv.Itoa(len(body))}}
}

var acceptRanges = []string{"bytes"}

// ServeHTTP answers GET and HEAD as [http.ServeContent] does, with conditions and ranges. It answers any other method
// with 405.
func (c *Content) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !reads(w, r) {
		return
	}
	h, known := w.Header(), r.Header.Get("If-None-Match")
	maps.Copy(h, c.header)
	switch {
	case r.Header["Range"] != nil, r.Header["If-Match"] != nil, h["Content-Encoding"] != nil, known != "" && known != c.etag:
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(c.body)) // all cases; the common ones follow
	case known != "":
		delete(h, "Content-Type")
		w.WriteHeader(http.StatusNotModified)
	default:
		h["Accept-Ranges"], h["Content-Length"] = acceptRanges, c.length
		w.WriteHeader(http.StatusOK)
		if r.Method == http.MethodGet {
			_, _ = w.Write(c.body) // the client may have gone
		}
	}
}

// reads reports whether a request is a GET or HEAD. It answers any other request.
func reads(w http.ResponseWriter, r *http.Request) bool {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return true
	}
	w.Header().Set("Allow", "GET, HEAD")
	http.Error(w, http.StatusText(http.StatusMethodNotAllowed), http.StatusMethodNotAllowed)
	return false
}
