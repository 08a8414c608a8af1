package login

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"html/template"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/millrace-go/millrace/ops/act"
)

// A link lets one person in, once.
type links struct {
	mu   sync.Mutex
	code string
	made time.Time
}

const (
	linkFor   = 30 * time.Minute
	linkAgain = 10 * time.Second // between two links
)

// newLink shows a new link that leads to a page, unless the last one was made just now.
func (d *Door) newLink(next string, now time.Time) bool {
	d.links.mu.Lock()
	defer d.links.mu.Unlock()
	if since := now.Sub(d.links.made); d.links.code != "" && since >= 0 && since < linkAgain {
		return false
	}
	raw := make([]byte, 32)
	_, _ = rand.Read(raw) // it never fails
	d.links.code, d.links.made = base64.RawURLEncoding.EncodeToString(raw), now
	way := "/login?once=" + d.links.code
	if next != "" {
		way += "&" + url.Values{nextIn: {next}}.Encode()
	}
	d.cfg.Link(way)
	return true
}

// use reports that a code is that of the link, and ends the link.
func (l *links) use(code string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.code == "" || now.Sub(l.made) > linkFor || subtle.ConstantTimeCompare([]byte(code), []byte(l.code)) != 1 {
		return false
	}
	l.code = ""
	return true
}

// enter takes a token or a link. A link is shown as a button first: what looks at links before people do opens it with
// GET, and must not use it up.
func (d *Door) enter(w http.ResponseWriter, r *http.Request, base string) {
	if r.Method == http.MethodGet {
		d.ask(w, r, base, http.StatusOK, r.URL.Query().Get("once"))
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, 10_000)
	if err := r.ParseForm(); err != nil {
		d.page(w, r, base, http.StatusBadRequest, "This form can't be read.")
		return
	}
	now, next := time.Now(), LocalWay(r.PostForm.Get(nextIn))
	if r.PostForm.Has("another") && d.cfg.Link != nil && d.tokens == nil {
		text := "A new link is where the program logs."
		if !d.newLink(next, now) {
			text = "A link was made just now. Look where the program logs."
		}
		d.page(w, r, base, http.StatusOK, text)
		return
	}
	t, ok, err := d.admit(r, now)
	switch {
	case err != nil:
		d.broken(w, r, base, err)
		return
	case !ok && !d.failed(r):
		d.wait(w, r, base)
		return
	case !ok:
		d.ask(w, r, base, http.StatusForbidden, "")
		return
	}
	value, err := d.signer.value(t)
	if err != nil {
		d.page(w, r, base, http.StatusInternalServerError, "You can't be logged in.")
		return
	}
	http.SetCookie(w, cookie(r, value))
	redirect(w, "./"+next, http.StatusSeeOther)
}

// admit is the ticket of who has sent a token or a link that lets in. ok is false for another one.
func (d *Door) admit(r *http.Request, now time.Time) (t ticket, ok bool, err error) {
	t = newTicket(now)
	if once := r.PostForm.Get("once"); once != "" && d.tokens == nil {
		t.Name, t.Role = d.cfg.Operator, act.Admin
		return t, d.links.use(once, now), nil
	}
	if d.tokens == nil {
		return t, false, nil
	}
	person, known, err := d.tokens.who(strings.TrimSpace(r.PostForm.Get("token")))
	if known {
		t.Name, t.Role, t.Token = person.Name, person.Role, person.token[:partOfDigest]
	}
	return t, known, err
}

// leave ends the cookie of a request, for whoever has a copy of it, too. A token and a proxy let in again.
func (d *Door) leave(w http.ResponseWriter, r *http.Request, base string) {
	if t, ok := d.ticket(r); ok {
		d.signer.end(t, time.Now())
	}
	http.SetCookie(w, cookie(r, ""))
	text := "You are logged out in this browser."
	if d.cfg.Header != "" && d.fromProxy(r) && r.Header.Get(d.cfg.Header) != "" {
		text = "Your proxy knows you and lets you in again: log out there."
	}
	d.page(w, r, base, http.StatusOK, text)
}

// page is an answer without a person.
type page struct {
	Text              string
	Token, Link, Once bool
	Code              string
	Failed            bool
	Next              string // the page that was asked for, seen from the base; "" for the first one
	Root              string // the way to the base, relative
	Style, Icon       string
}

var enterPage = template.Must(template.New("enter").Parse(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Log in · Millrace</title>
{{with .Icon}}<link rel="icon" href="{{$.Root}}{{.}}">{{end}}
{{with .Style}}<link rel="stylesheet" href="{{$.Root}}{{.}}">{{end}}
</head>
<body class="door">
<main>
<h1>Millrace</h1>
{{with .Text}}<p>{{.}}</p>{{end}}
{{if .Failed}}<p class="error" role="alert">This doesn't let you in.</p>{{end}}
{{if .Token}}<form method="post" action="{{.Root}}login">{{template "next" .}}<input type="text" name="name" value="Millrace" autocomplete="username" hidden><p class="field"><label for="token">Your token</label>
<input type="password" id="token" name="token" autocomplete="current-password" required autofocus aria-describedby="about"><small id="about">The command <code>ops token</code> makes one.</small></p>
<p class="buttons"><button>Log in</button></p></form>{{end}}
{{if .Once}}<p>The link lets you in once, in this browser.</p><form method="post" action="{{.Root}}login">{{template "next" .}}<input type="hidden" name="once" value="{{.Code}}"><p class="buttons"><button autofocus>Come in</button></p></form>{{end}}
{{if .Link}}<p>Open the link that the program has logged, or let it log a new one. A link works once.</p><form method="post" action="{{.Root}}login">{{template "next" .}}<p class="buttons"><button class="quiet" name="another" value="yes">Log a new link</button></p></form>{{end}}
{{if not (or .Token .Once .Link)}}<p><a href="{{.Root}}">To the pages</a></p>{{end}}
</main>
</body>
</html>
{{define "next"}}{{with .Next}}<input type="hidden" name="next" value="{{.}}">{{end}}{{end}}`))

// broken answers while the file of tokens can't be read.
func (d *Door) broken(w http.ResponseWriter, r *http.Request, base string, err error) {
	d.cfg.Logger.LogAttrs(r.Context(), slog.LevelError, "nobody can log in to the pages of operators", slog.Any("error", err))
	d.page(w, r, base, http.StatusServiceUnavailable, "Nobody can log in now; the log says why.")
}

// redirect leads to a relative address. http.Redirect would name the path that this process sees, and not the proxy's.
func redirect(w http.ResponseWriter, way string, status int) {
	w.Header().Set("Location", way)
	w.WriteHeader(status)
}

// ask shows the ways in. code is that of a link.
func (d *Door) ask(w http.ResponseWriter, r *http.Request, base string, status int, code string) {
	if IsProgram(r) && status != http.StatusOK {
		d.page(w, r, base, status, map[bool]string{true: "This doesn't let you in.", false: "Nobody is logged in: send a token, or come in through the proxy that knows you."}[status == http.StatusForbidden])
		return
	}
	d.write(w, status, page{
		Token: d.tokens != nil, Once: code != "" && d.tokens == nil, Link: code == "" && d.tokens == nil && d.cfg.Link != nil && d.cfg.Header == "",
		Code: code, Failed: status == http.StatusForbidden, Root: root(r, base), Next: wanted(r, base),
		Text: map[bool]string{true: "Come in through the proxy that knows you."}[d.cfg.Header != "" && d.tokens == nil],
	})
}

// root is the way to the base, seen from the page that was asked for: the proxy before may serve all under another
// path.
func root(r *http.Request, base string) string {
	below := strings.TrimPrefix(r.URL.EscapedPath(), base+"/")
	return "./" + strings.Repeat("../", strings.Count(below, "/"))
}

// page answers with a text: a person by a page, and a program by a problem document.
func (d *Door) page(w http.ResponseWriter, r *http.Request, base string, status int, text string) {
	if IsProgram(r) && status != http.StatusOK {
		challenge(w, status)
		Problem(w, status, text)
		return
	}
	d.write(w, status, page{Text: text, Root: root(r, base)})
}

func (d *Door) write(w http.ResponseWriter, status int, p page) {
	p.Style, p.Icon = d.style, d.icon
	challenge(w, status)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_ = enterPage.Execute(w, p) // the client may have gone
}

// challenge says how a program comes in, where an answer has said that it must.
func challenge(w http.ResponseWriter, status int) {
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
}

// IsProgram reports that a program asks, and no browser: it wants JSON, or sends some and wants no page.
func IsProgram(r *http.Request) bool {
	accept, sent := r.Header.Get("Accept"), r.Header.Get("Content-Type")
	return !strings.Contains(accept, "text/html") && (strings.Contains(accept, "application/json") || strings.HasPrefix(sent, "application/json"))
}

// Problem answers a program that something isn't shown or done.
func Problem(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"title": http.StatusText(status), "status": status, "detail": text}) // the client may have gone
}

// byWay redirects to a page below the base without the slash at the end of an address, and answers what can't be sent
// there again. It reports that it has answered.
func (d *Door) byWay(w http.ResponseWriter, r *http.Request, base string) bool {
	at := r.URL.EscapedPath()
	if !strings.HasSuffix(at, "/") || at == base+"/" || !strings.HasPrefix(at, base+"/") {
		return false
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		d.page(w, r, base, http.StatusNotFound, "This address ends with a slash. Nothing was done: leave the slash out, and send the request again.")
		return true
	}
	to := "../" + path.Base(at)
	if r.URL.RawQuery != "" {
		to += "?" + r.URL.RawQuery
	}
	redirect(w, to, http.StatusMovedPermanently)
	return true
}
