package assets

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"path"
	"regexp"
	"strings"

	"github.com/millrace-go/millrace/views"
)

// A file is one version of a static file, ready to be served.
type file struct {
	name      string // as it is served: it has the digest
	body      []byte
	kind      string
	packed    []byte // the body by gzip; nil where that is no gain
	integrity string // for pages; see the W3C's "Subresource Integrity"
	local     string // the path at which the program serves it
	elsewhere string // its URL at another origin, if there is one

	plain, small *views.Content
}

// digits is how many hexadecimal digits of a file's SHA-256 are in its name.
const digits = 16

// worth is how many bytes a text has at least that is packed: a smaller one fits into one packet anyway.
const worth = 1400

// newFile makes a file of what a folder has under a name.
func newFile(name string, body []byte) *file {
	sum := sha256.Sum256(body)
	digest := hex.EncodeToString(sum[:])[:digits]
	ext := path.Ext(name)
	f := &file{name: strings.TrimSuffix(name, ext) + "." + digest + ext, body: body, kind: kindOf(name)}
	whole := sha512.Sum384(body)
	f.integrity = "sha384-" + base64.StdEncoding.EncodeToString(whole[:])
	f.plain = views.NewContent(body, f.header(digest))
	if packed := pack(f.kind, body); packed != nil {
		h := f.header(digest + "-gzip")
		h.Set("Content-Encoding", "gzip")
		f.packed, f.small = packed, views.NewContent(packed, h)
	}
	return f
}

// header is what each answer with the file says.
func (f *file) header(etag string) http.Header {
	h := http.Header{}
	h.Set("Content-Type", f.kind)
	h.Set("Cache-Control", forever)
	h.Set("ETag", `"`+etag+`"`)
	h.Set("X-Content-Type-Options", "nosniff")
	if packs(f.kind) {
		h.Set("Vary", "Accept-Encoding")
	}
	return h
}

const forever = "public, max-age=31536000, immutable"

// kinds are the types of files that pages use, by the end of the name. The machine's own table may say anything, or
// nothing at all.
var kinds = map[string]string{
	".avif": "image/avif", ".css": "text/css; charset=utf-8", ".gif": "image/gif", ".html": "text/html; charset=utf-8",
	".ico": "image/vnd.microsoft.icon", ".jpeg": "image/jpeg", ".jpg": "image/jpeg", ".js": "text/javascript; charset=utf-8",
	".json": "application/json", ".map": "application/json", ".mjs": "text/javascript; charset=utf-8", ".mp3": "audio/mpeg",
	".mp4": "video/mp4", ".ogg": "audio/ogg", ".otf": "font/otf", ".pdf": "application/pdf", ".png": "image/png",
	".svg": "image/svg+xml", ".ttf": "font/ttf", ".txt": "text/plain; charset=utf-8", ".wasm": "application/wasm",
	".webm": "video/webm", ".webmanifest": "application/manifest+json", ".webp": "image/webp", ".woff": "font/woff",
	".woff2": "font/woff2", ".xml": "text/xml; charset=utf-8",
}

func kindOf(name string) string {
	if kind, ok := kinds[strings.ToLower(path.Ext(name))]; ok {
		return kind
	}
	return "application/octet-stream"
}

// packs reports whether files of a type become smaller by gzip.
func packs(kind string) bool {
	for _, part := range []string{"text/", "+xml", "json", "wasm", "font/ttf", "font/otf", "icon"} {
		if strings.Contains(kind, part) {
			return true
		}
	}
	return false
}

// pack returns a body by gzip, or nil where that is no gain.
func pack(kind string, body []byte) []byte {
	if !packs(kind) || len(body) < worth {
		return nil
	}
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil // the level is a good one
	}
	_, _ = w.Write(body) // a buffer takes everything
	if err := w.Close(); err != nil || b.Len() >= len(body)*9/10 {
		return nil
	}
	return b.Bytes()
}

var hashed = regexp.MustCompile(`^(.*)\.[0-9a-f]{16}(\.[^./]*)?$`)

// plainName returns a name without its digest. It is not ok for a name that has none.
func plainName(name string) (plain string, ok bool) {
	m := hashed.FindStringSubmatch(name)
	if m == nil {
		return "", false
	}
	return m[1] + m[2], true
}
