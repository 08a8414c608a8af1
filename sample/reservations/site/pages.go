package site

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"

	"github.com/millrace-go/millrace/sample/reservations"
	"github.com/millrace-go/millrace/views"
)

//go:embed templates static
var files embed.FS

var (
	assets = loadAssets()
	pages  = loadPages()
)

// An asset is a static file whose name changes with its content, so that browsers may keep it for ever.
type asset struct {
	name    string // includes the digest
	content *views.Content
}

// loadAssets returns the static files by their plain names. The files are compiled in, so loading can't fail at run
// time.
func loadAssets() map[string]*asset {
	all := map[string]*asset{}
	entries, err := fs.ReadDir(files, "static")
	if err != nil {
		panic(err)
	}
	for _, e := range entries {
		content, err := files.ReadFile("static/" + e.Name())
		if err != nil {
			panic(err)
		}
		sum := sha256.Sum256(content)
		digest, ext := hex.EncodeToString(sum[:6]), path.Ext(e.Name())
		all[e.Name()] = &asset{name: strings.TrimSuffix(e.Name(), ext) + "." + digest + ext, content: views.NewContent(content, http.Header{
			"Content-Type":  {cmp.Or(mime.TypeByExtension(ext), "application/octet-stream")},
			"Cache-Control": {"public, max-age=31536000, immutable"},
			"Etag":          {`"` + digest + `"`},
		})}
	}
	return all
}

func (a *answers) static(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	for _, file := range assets {
		if file.name == name {
			file.content.ServeHTTP(w, r)
			return
		}
	}
	a.fail(w, r, &problem{Status: http.StatusNotFound})
}

// loadPages returns each page's template together with the layout.
func loadPages() map[string]*template.Template {
	layout := template.Must(template.New("layout.html").Funcs(template.FuncMap{
		"asset":  func(name string) string { return "/static/" + assets[name].name },
		"day":    reservations.DateInWords,
		"people": people,
	}).ParseFS(files, "templates/layout.html"))
	all := map[string]*template.Template{}
	for _, name := range []string{"calendar", "form", "receipt", "found", "kept", "message"} {
		all[name] = template.Must(template.Must(layout.Clone()).ParseFS(files, "templates/"+name+".html"))
	}
	return all
}

// page answers with a page. The page is rendered whole before the first byte goes out, so that a mistake in a
// template is a real 500.
func (a *answers) page(w http.ResponseWriter, r *http.Request, name string, status int, data any) {
	var body bytes.Buffer
	if err := pages[name].Execute(&body, data); err != nil {
		a.note(r, &problem{Status: http.StatusInternalServerError, Err: fmt.Errorf("page %s: %w", name, err)})
		http.Error(w, details[http.StatusInternalServerError], http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Add("Vary", "Accept")
	w.WriteHeader(status)
	_, _ = body.WriteTo(w) // the client may have gone
}

func people(n int) string {
	if n == 1 {
		return "one person"
	}
	return fmt.Sprintf("%d people", n)
}
