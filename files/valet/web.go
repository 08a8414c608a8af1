package valet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/millrace-go/millrace/files/valet/internal/key"
	"github.com/millrace-go/millrace/internal/seldom"
	"github.com/millrace-go/millrace/storage"
)

// statusFor is how long after its end a key of an upload still tells what became of it.
const statusFor = 24 * time.Hour

// noteFor is how long the row of a refusal may take.
const noteFor = 10 * time.Second

// A web is the part that answers clients.
type web struct {
	cfg          Config
	path         string // of cfg.URL
	proxies      []netip.Prefix
	book         *book
	issuer       *issuer
	inbox, store *storage.Files
	uses         *storage.Table
	lines        seldom.Lines
}

// serve answers clients that have keys.
func (v *web) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	rest, ok := strings.CutPrefix(r.URL.Path, v.path)
	if ok && rest == scriptName {
		serveScript(w, r)
		return
	}
	text, op, _ := strings.Cut(rest, "/")
	t, err := v.known(r, text)
	if !ok {
		err = errUnknown
	}
	if err == nil {
		err = v.allow(&visit{web: v, w: w, r: r, t: t}, op)
	}
	if err != nil {
		v.fail(w, r, t, err)
	}
}

// known returns what a text allows.
func (v *web) known(r *http.Request, text string) (key.Token, error) {
	t, err := v.issuer.ring.Read(r.Context(), text)
	switch {
	case errors.Is(err, key.ErrForged):
		err = errUnknown
	case err == nil && !v.private(r):
		err = errPlain // a row says so: somebody may have read the key
	}
	return t, err
}

// allow does what a key allows, once all that could have ended the key was asked.
func (v *web) allow(x *visit, op string) error {
	t, ctx := x.t, x.r.Context()
	grace := time.Duration(0)
	if t.Verb == key.ToWrite && op == "" && x.r.Method == http.MethodGet {
		grace = statusFor
	}
	if time.Now().After(t.Until.Add(grace)) {
		return errOver
	}
	if t.Verb == key.ToPut {
		return x.putPart(op)
	}
	if v.cfg.Owner != nil && key.DigestOf(v.cfg.Owner(x.r)) != t.Owner {
		return errOther
	}
	if reason, err := v.book.ended(ctx, ownerKey(t.Owner), t.Made()); err != nil || reason != "" {
		return either(err, errRevoked)
	}
	if t.Verb == key.ToFolder {
		return x.folder(op)
	}
	var err error
	if x.f, err = v.book.file(ctx, t.File); err != nil {
		if errors.Is(err, storage.ErrNotFound) {
			return errOver
		}
		return err
	}
	if t.Verb == key.ToRead {
		return x.download(op)
	}
	return x.upload(op)
}

// fail answers that a request has not got what it asked for. A refusal of a good key is noted first.
func (v *web) fail(w http.ResponseWriter, r *http.Request, t key.Token, err error) {
	no := refusalOf(err)
	if what := fmt.Sprint(name(t), no.code); no.code != 0 && t.Verb != 0 && v.book.noted.first(what, time.Now()) {
		ctx, end := context.WithTimeout(context.WithoutCancel(r.Context()), noteFor) // the client may have gone
		defer end()
		if e := v.book.note(ctx, entry{act: "refuse", on: name(t), who: "a key's holder", from: v.client(r), result: no.text, refused: true}); e != nil {
			v.book.noted.again(what)
			no, err = refusal{}, e
		}
	}
	if no.code == 0 {
		v.lines.Log(r, v.cfg.Logger, slog.LevelError, "a file's request has failed", "", slog.String("file", name(t)), slog.Any("error", err))
		w.Header().Set("Retry-After", "1")
		no = refusal{http.StatusServiceUnavailable, "the program can't do that now; try again"}
	}
	_ = answer(w, no.code, map[string]string{"error": no.text}, nil) // a text can always be written
}
