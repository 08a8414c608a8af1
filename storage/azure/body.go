package azure

import (
	"bytes"
	"io"
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

// ownBodies gives each try a body of its own. The SDK has one reader for all tries of a call and rewinds it for the
// next.
// But net/http may still read from it for an earlier try: an answer may come before the body is sent, or a try may be
// abandoned. That may happen even after the call has returned and the bytes are the caller's again. So the bytes are
// copied, not only the reader. The copy takes no time beside a request, but a large blob is in memory twice while it is
// written.
type ownBodies struct{ next policy.Transporter }

func (o ownBodies) Do(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		body := make([]byte, req.ContentLength)
		if _, err := io.ReadFull(req.Body, body); err != nil {
			return nil, err
		}
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		req.Body, _ = req.GetBody()
	}
	return o.next.Do(req)
}

// keepBody makes an extension leave the message's body alone. Given a body, even an empty one, the service writes
// it; without one it keeps the old one. The SDK has no call for that.
type keepBody struct{}

func (keepBody) Do(req *policy.Request) (*http.Response, error) {
	if c, ok := req.Raw().Context().Value(callKey{}).(*call); ok && c.op == "extend" {
		if err := req.SetBody(nil, ""); err != nil {
			return nil, err
		}
	}
	return req.Next()
}
