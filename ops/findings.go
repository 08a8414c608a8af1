package ops

import (
	"html/template"
	"net/url"
	"strings"

	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/doctor"
)

// A mended finding has the ways to what mends it, or to what shows more of it.
type mended struct {
	doctor.Finding
	Links []link
	Mend  template.HTML // the fix in the words of the page

	Explained bool // the ways say what they mean
	More      int  // findings like it that the first page leaves out. The last one that is shown has the number
}

// mends finds the ways from a page to the acts that mend a finding, as far as the person may do them. Without one the
// way leads to the page that shows more.
func (t table) mends(from view, command string, f doctor.Finding) mended {
	m := mended{Finding: f}
	words := prose{table: t, command: command, root: from.Root, buttons: map[string]string{}}
	for _, h := range f.Acts {
		noun, verb, _ := strings.Cut(h.Act, " ")
		a := t.find(noun, verb)
		if a == nil || !from.Who.May(a.Role) {
			words.buttons[h.Line(command)] = ""
			continue
		}
		with := url.Values(h.With(a))
		l := linkTo(a, from.Root, with.Encode())
		if a.Role == act.Viewer {
			l.Path = t.readPath(from.Root, a, with)
		}
		if h.Means != "" {
			l.About, m.Explained = h.Means, true
		}
		words.buttons[h.Line(command)] = title(l.Name)
		m.Links = append(m.Links, l)
	}
	if page := pageOf(f); len(m.Links) == 0 && page != "" {
		m.Links = append(m.Links, link{Name: "show more", About: "on the page of " + strings.SplitN(page, "/", 2)[0], Path: from.Root + page})
	}
	m.Mend = words.html(f.Fix)
	return m
}

// pageOf is the page that shows more of a finding; "" for none.
func pageOf(f doctor.Finding) string {
	if f.Queue != "" {
		return "queues/" + url.PathEscape(f.Queue)
	}
	switch f.Check {
	case "catalog", "versions", "clocks", "kinds", "consumers", "listeners":
		return "programs"
	case "collections":
		return "values"
	case "settings", "schedules", "files", "processes", "gates", "locks", "guards", "bulk":
		return f.Check
	case "counters":
		return "ids"
	case "spools":
		return "spool"
	}
	return ""
}
