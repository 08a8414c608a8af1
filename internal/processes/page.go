package processes

import (
	"bytes"
	"embed"
	"html/template"
	"time"

	"github.com/millrace-go/millrace/process"
)

//go:embed templates
var files embed.FS

var showPage = template.Must(template.ParseFS(files, "templates/show.html"))

// mostRows bounds the steps of a page.
const mostRows = 1000

// Ways are the ways from a page to others.
type Ways struct {
	Whole func(id string) string             // to the instance that a part belongs to
	Form  func(verb, id, step string) string // to the form of an act; for signal, step is the kind. nil: the person may do none
}

func (w Ways) form(verb, id, step string) string {
	if w.Form == nil {
		return ""
	}
	return w.Form(verb, id, step)
}

// HTML is an instance as two parts of a page: head says which one it is and how it stands, and steps are its steps as a
// tree with a timeline. The styles are those of [Style].
func HTML(s *process.Stream, now time.Time, command string, to Ways) (head, steps template.HTML, err error) {
	about := newDetail(s, now, command, to)
	for name, part := range map[string]*template.HTML{"head": &head, "steps": &steps} {
		var b bytes.Buffer
		if err := showPage.ExecuteTemplate(&b, name, about); err != nil {
			return "", "", err
		}
		*part = template.HTML(b.String()) // a template of this package has made it
	}
	return head, steps, nil
}

// Style is the style sheet of HTML. It uses the colours of the page that it stands in.
func Style() ([]byte, error) { return files.ReadFile("templates/style.css") }

// clock is a moment as the pages show it.
func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// class is the class of a status in the style sheet.
func class(s process.Status) string {
	switch s {
	case process.Completed, "skipped":
		return "good"
	case process.Stuck, process.Aborted:
		return "bad"
	case process.Undoing, process.Undone, process.Canceled:
		return "back"
	}
	return "on"
}
