package valet

import (
	"net/http"
	"time"

	"github.com/millrace-go/millrace/files/valet/internal/key"
)

// A visit is a request with a good key.
type visit struct {
	web *web
	w   http.ResponseWriter
	r   *http.Request
	t   key.Token
	f   File // of an upload or a download
}

// owner is whom the key was given to.
func (v *visit) owner() string {
	if v.t.Verb == key.ToWrite {
		return v.f.Owner
	}
	return v.t.Holder
}

// name is how the log names a key.
func name(t key.Token) string {
	if t.Verb == key.ToWrite || t.Verb == key.ToPut {
		return t.File
	}
	return t.File + keySign + t.ID.String()
}

// used writes a row of a use of the key.
func (v *visit) used(act string) error {
	return v.web.book.note(v.r.Context(), entry{act: act, on: name(v.t), who: "key of " + v.owner(), from: v.web.client(v.r), result: "done"})
}

// usedOften is used for what a client does again and again: a row a minute for each key.
func (v *visit) usedOften(act string) error {
	what := name(v.t) + " " + act
	if !v.web.book.noted.first(what, time.Now()) {
		return nil
	}
	err := v.used(act)
	if err != nil {
		v.web.book.noted.again(what)
	}
	return err
}
