package driver

import (
	"context"
	"net/http"
)

// PublicFiles are files that anybody may read over HTTP, from the engine and not from the program.
type PublicFiles interface {
	// PutPublic puts a file under a name in a container of such files, and returns the URL under which browsers find it.
	// header has the fields with which the engine serves it: Content-Type, Cache-Control and Content-Encoding. A file
	// that is there already stays as it is, and that is [ErrExists], with the URL. A container that isn't there is made,
	// for anybody to read what it has. Where the engine may not do that, the error matches [ErrUnsupported].
	PutPublic(ctx context.Context, container, name string, body []byte, header http.Header) (url string, err error)
}
