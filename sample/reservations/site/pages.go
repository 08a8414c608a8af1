package site

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"

	"github.com/millrace-go/millrace/files/assets"
	"github.com/millrace-go/millrace/sample/reservations"
)

//go:embed templates static
var files embed.FS

// Assets returns the site's static files. base is the URL of another origin that has them, or empty.
func Assets(base string, log *slog.Logger) (*assets.Set, error) {
	return assets.New(files, assets.Config{Dir: "static", Path: "/static/", Base: base, Logger: log})
}

// loadPages returns each page's template together with the layout. The files are compiled in, so loading can't fail at
// run time.
func loadPages(static *assets.Set) map[string]*template.Template {
	layout := template.Must(template.New("layout.html").Funcs(static.Funcs()).Funcs(template.FuncMap{
		"day":    reservations.DateInWords,
		"people": people,
	}).ParseFS(files, "templates/layout.html"))
	all := map[string]*template.Template{}
	for _, name := range []string{"calendar", "form", "receipt", "found", "kept", "message", "evening"} {
		all[name] = template.Must(template.Must(layout.Clone()).ParseFS(files, "templates/"+name+".html"))
	}
	return all
}

// page answers with a page. The page is rendered whole before the first byte goes out, so that a mistake in a
// template is a real 500.
func (a *answers) page(w http.ResponseWriter, r *http.Request, name string, status int, data any) {
	var body bytes.Buffer
	if err := a.pages[name].Execute(&body, data); err != nil {
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
