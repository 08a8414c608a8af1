package ops

import (
	"net/http"

	"github.com/millrace-go/millrace/ops/acts"
)

// search shows what a word names. If that is one thing, it leads to the thing's page.
func (s *server) search(w http.ResponseWriter, r *http.Request) {
	word := r.URL.Query().Get("q")
	p := listPage{view: s.view(r, "Find", "find")}
	a := s.table.find("find", "")
	if p.Sought = word; word == "" && !wantsJSON(r) && fill(a.Request(), r.URL.Query()) == nil {
		p.Error = "Type an ID, a key or a name."
		s.write(w, r, http.StatusOK, "list.html", p)
		return
	}
	t, err := s.read(r.Context(), a.Request(), r.URL.Query())
	if wantsJSON(r) {
		s.answer(w, t, err)
		return
	}
	if way := t.onlyOne(s, p.Root); way != "" && err == nil {
		w.Header().Set("Location", way) // relative: a proxy may serve the pages under any path
		w.WriteHeader(http.StatusSeeOther)
		return
	}
	p.show(t, err)
	s.write(w, r, statusOf(err), "list.html", p)
}

// onlyOne is the way to the only thing that was found; "" if there are several, or if not everything was looked
// through.
func (t *told) onlyOne(s *server, root string) string {
	if t == nil || len(t.Objects) != 1 || len(t.Notes) > 0 || t.More != nil {
		return ""
	}
	if _, ok := t.Objects[0].(acts.Found); !ok || len(t.Blocks) != 1 || len(t.Blocks[0].Rows) != 1 {
		return ""
	}
	for _, c := range t.Blocks[0].Rows[0] {
		if c.Link != nil {
			return s.table.href(root, c.Link)
		}
	}
	return ""
}
