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

// NewContent returns content that is served under a header: Content-Type, a strong ETag, and what else never changes.
// It keeps both; don't change them afterwards.
func NewContent(body []byte, header http.Header) *Content {
	shared := make(http.Header, len(header))
	for name, values := range header {
		shared[name] = slices.Clip(values) // who adds one for an answer gets a copy
	}
	return &Content{body: body, header: shared, etag: header.Get("ETag"), length: []string{strconv.Itoa(len(body))}}
}

var acceptRanges = []string{"bytes"}

// ServeHTTP answers GET and HEAD as [http.ServeContent] does, conditions and ranges included. Any other method is
// answered with 405.
func (c *Content) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !reads(w, r) {
		return
	}
	h, known := w.Header(), r.Header.Get("If-None-Match")
	maps.Copy(h, c.header)
	switch {
	case r.Header["Range"] != nil, r.Header["If-Match"] != nil, h["Content-Encoding"] != nil, known != "" && known != c.etag:
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(c.body)) // it knows all there is to know; here are the common cases
	case known != "":
		delete(h, "Content-Type")
		w.WriteHeader(http.StatusNotModified)
	default:
		h["Accept-Ranges"], h["Content-Length"] = acceptRanges, c.length
		w.WriteHeader(http.StatusOK)
		if r.Method == http.MethodGet {
			_, _ = w.Write(c.body) // the client may have gone; nobody is left to tell
		}
	}
}

// reads reports whether a request reads. It answers one that doesn't.
func reads(w http.ResponseWriter, r *http.Request) bool {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return true
	}
	w.Header().Set("Allow", "GET, HEAD")
	http.Error(w, http.StatusText(http.StatusMethodNotAllowed), http.StatusMethodNotAllowed)
	return false
}
