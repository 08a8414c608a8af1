package valet

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millrace-go/millrace/storage"
)

// inlineTypes are the types that a browser may show: none of them can have a script that runs as the program's.
var inlineTypes = []string{"image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/bmp", "audio/mpeg", "audio/ogg", "audio/wav", "video/mp4", "video/webm", "text/plain"}

// download serves the key of a download.
func (v *visit) download(op string) error {
	switch {
	case op != "" || v.r.Method != http.MethodGet && v.r.Method != http.MethodHead:
		return errVerb
	case v.f.revokes(v.t.ID.String(), v.t.Made()):
		return errRevoked
	case v.f.State.Ended():
		return errOver
	case v.f.State != StateClean:
		return refusal{http.StatusNotFound, "the file isn't there yet: it is " + string(v.f.State)}
	}
	if v.t.Mark == listedMark {
		folder := path.Dir(v.f.ID) + keySign + v.t.ID.String()
		if reason, err := v.web.book.ended(v.r.Context(), folderKey(folder), v.t.Made()); err != nil || reason != "" {
			return either(err, errRevoked)
		}
	}
	how := storage.FileKey{For: readFor, Type: v.f.mediaType(), Disposition: disposition(v.f, v.t.Mark == inlineMark)}
	if v.r.Method == http.MethodHead { // no use, so it leads to no key of the store
		return v.serveFile(how)
	}
	url, err := v.web.store.Key(v.r.Context(), v.f.ID, how) // before the use is counted: it may fail
	own := errors.Is(err, storage.ErrUnsupported)
	if err != nil && !own {
		return err
	}
	if err := v.count(); err != nil {
		return err
	}
	if err := v.used("use"); err != nil {
		return err
	}
	if own {
		return v.serveFile(how)
	}
	v.w.Header().Set("Location", url)
	v.w.WriteHeader(http.StatusTemporaryRedirect)
	return nil
}

// disposition says what a browser does with a file.
func disposition(f File, inline bool) string {
	kind := "attachment"
	if inline && slices.Contains(inlineTypes, f.Type) {
		kind = "inline"
	}
	plain := strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '_'
		}
		return r
	}, f.Name)
	text := mime.FormatMediaType(kind, map[string]string{"filename": plain})
	if plain != f.Name { // RFC 6266, appendix D: the plain name for clients that don't know the other form
		text += "; filename*=UTF-8''" + strings.ReplaceAll(url.QueryEscape(f.Name), "+", "%20")
	}
	return text
}

// serveFile answers with the bytes.
func (v *visit) serveFile(how storage.FileKey) error {
	info, err := v.web.store.Stat(v.r.Context(), v.f.ID)
	if err != nil {
		return err
	}
	content := &outflow{ctx: v.r.Context(), files: v.web.store, key: v.f.ID, info: info, control: http.NewResponseController(v.w)}
	defer content.close()
	h := v.w.Header()
	h.Set("Content-Type", how.Type)
	h.Set("Content-Disposition", how.Disposition)
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	h.Set("ETag", `"`+v.f.SHA256+`"`)
	http.ServeContent(v.w, v.r, "", time.Time{}, content)
	return nil
}

// An outflow reads a file as long as the client takes bytes. It opens the file where it is read.
type outflow struct {
	ctx     context.Context
	files   *storage.Files
	key     string
	info    storage.FileInfo
	at      int64
	r       io.ReadCloser // at at; nil: not open
	control *http.ResponseController
}

// Read implements io.Reader.
func (o *outflow) Read(p []byte) (n int, err error) {
	_ = o.control.SetWriteDeadline(time.Now().Add(stall)) // a server without deadlines has none to move
	if o.at >= o.info.Size {
		return 0, io.EOF
	}
	if o.r == nil {
		if o.r, err = o.files.Open(o.ctx, o.key, o.info.ETag, o.at, o.info.Size-o.at); err != nil {
			return 0, err
		}
	}
	n, err = o.r.Read(p)
	o.at += int64(n)
	return n, err
}

// Seek implements io.Seeker.
func (o *outflow) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += o.at
	case io.SeekEnd:
		offset += o.info.Size
	}
	if offset < 0 {
		return 0, errors.New("valet: a seek before the file")
	}
	if offset != o.at {
		o.close()
		o.at = offset
	}
	return offset, nil
}

func (o *outflow) close() {
	if o.r != nil {
		_ = o.r.Close() // it was read
		o.r = nil
	}
}

// count takes one of the uses of a key.
func (v *visit) count() error {
	if v.t.Uses == 0 {
		return nil
	}
	for range 20 {
		cond, used := storage.Condition{IfAbsent: true}, 0
		row, err := v.web.uses.Get(v.r.Context(), v.t.File, v.t.ID.String())
		switch {
		case err == nil:
			if used, err = strconv.Atoi(string(row.Data)); err != nil {
				return err
			}
			cond = storage.Condition{IfMatch: row.ETag}
		case !errors.Is(err, storage.ErrNotFound):
			return err
		}
		if used >= int(v.t.Uses) {
			return errUsedUp
		}
		_, err = v.web.uses.Put(v.r.Context(), v.t.File, v.t.ID.String(), []byte(strconv.Itoa(used+1)), cond)
		if !storage.LostRace(err) {
			return err
		}
	}
	return errors.New("valet: a key is used by too many at once")
}
