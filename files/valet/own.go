package valet

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/millrace-go/millrace/storage"
)

// stall is how long bytes may stand still.
const stall = time.Minute

// putPart takes the bytes of one part.
func (v *visit) putPart(op string) error {
	if op != "" || v.r.Method != http.MethodPut {
		return errVerb
	}
	v.patience() // also of the server, which takes the rest of a body that was refused
	size := int64(v.t.Size)
	wrong := refusal{http.StatusBadRequest, fmt.Sprintf("part %d has %d bytes", v.t.Part, size)}
	switch {
	case v.r.ContentLength > size:
		wrong.code = http.StatusRequestEntityTooLarge
		return wrong
	case v.r.ContentLength >= 0 && v.r.ContentLength < size:
		return wrong
	}
	body := &inflow{r: v.r.Body, left: size, end: v.t.Until.Add(slack / 2), control: http.NewResponseController(v.w)}
	err := v.web.inbox.PutPart(v.r.Context(), v.t.File, int(v.t.Part), size, body)
	switch {
	case errors.Is(err, errLong):
		wrong.code = http.StatusRequestEntityTooLarge
		return wrong
	case errors.Is(err, io.ErrUnexpectedEOF), body.failed:
		return wrong
	case err != nil:
		return err
	}
	v.w.WriteHeader(http.StatusCreated)
	return nil
}

// patience bounds how long a body may stand still, here until somebody reads it. A server without deadlines has none to
// move.
func (v *visit) patience() {
	_ = http.NewResponseController(v.w).SetReadDeadline(time.Now().Add(stall))
}

// errLong is the error of a body that goes on behind its part.
var errLong = fmt.Errorf("%w: the body is longer than the part", storage.ErrTooLarge)

// An inflow is the body of a request as long as bytes come. It ends with its part, and fails if the body goes on.
type inflow struct {
	r       io.Reader
	left    int64
	end     time.Time // bytes that come later would come after the last cleaning
	control *http.ResponseController
	failed  bool // the client has broken off
}

// Read implements io.Reader. Before it gives the last byte, it looks whether one more comes.
func (b *inflow) Read(p []byte) (int, error) {
	now := time.Now()
	if b.left == 0 {
		return 0, io.EOF
	}
	if now.After(b.end) {
		return 0, errOver
	}
	_ = b.control.SetReadDeadline(earlier(now.Add(stall), b.end)) // a server without deadlines has none to move
	n, err := b.r.Read(p[:min(int64(len(p)), b.left)])
	if b.left -= int64(n); b.left == 0 && err == nil {
		var one [1]byte
		if n, _ := io.ReadFull(b.r, one[:]); n > 0 {
			return 0, errLong
		}
	}
	b.failed = err != nil && err != io.EOF
	return n, err
}
