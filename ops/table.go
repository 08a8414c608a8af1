package ops

import (
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/millrace-go/millrace/ops/act"
)

// thingIn is the name under which a link of a list has the thing of its row.
const thingIn = "thing"

// A table has the acts that pages can do, and knows which page shows what.
type table []*act.Act

// find returns an act by its noun and verb; nil if there is none.
func (t table) find(noun, verb string) *act.Act {
	i := slices.IndexFunc(t, func(a *act.Act) bool { return a.Noun == noun && a.Verb == verb })
	if i < 0 {
		return nil
	}
	return t[i]
}

// of returns the acts of a noun, in the order of the table.
func (t table) of(noun string) (all []*act.Act) {
	for _, a := range t {
		if a.Noun == noun {
			all = append(all, a)
		}
	}
	return all
}

// nouns are the nouns that have a page, in the order of the table.
func (t table) nouns() (all []string) {
	for _, a := range t {
		if t.mainOf(a.Noun) != nil && a.Noun != "doctor" && !slices.Contains(all, a.Noun) {
			all = append(all, a.Noun)
		}
	}
	return all
}

// mainOf returns the act that a noun's page shows: its list, or else the first one that only reads and needs nothing.
func (t table) mainOf(noun string) *act.Act {
	if a := t.find(noun, "list"); a != nil {
		return a
	}
	for _, a := range t.of(noun) {
		if a.Role == act.Viewer && needs(a.Request()) == 0 {
			return a
		}
	}
	return nil
}

// href is the way from a page to what a link names.
func (t table) href(root string, l *act.Link) string {
	noun, verb, _ := strings.Cut(l.Act, " ")
	a := t.find(noun, verb)
	if a == nil {
		return ""
	}
	path, query := root+noun, url.Values{}
	below := func(name string) { // moves a name from the query to the path
		if query.Has(name) {
			path += "/" + url.PathEscape(query.Get(name))
			query.Del(name)
		}
	}
	for name, text := range l.With {
		if text != "" {
			query.Set(name, text)
		}
	}
	switch {
	case noun == "find":
	case slices.ContainsFunc(slices.Collect(maps.Values(l.With)), isDots): // the act's own page takes names in its query
		if thing := query.Get(thingIn); thing != "" {
			query.Del(thingIn)
			if show := t.find(noun, "show"); show != nil {
				a = show
			}
			if place(a.Request(), []string{thing}, query) != nil {
				return ""
			}
		}
		path = root + "do/" + strings.ReplaceAll(a.Name(), " ", "/")
	case query.Has(thingIn):
		below(thingIn)
	case verb == "show", verb == "list" && query.Has("prefix") && t.find(noun, "show") == nil:
		for _, f := range a.Request().Fields {
			if f.Place != "" {
				below(f.Name)
			}
		}
		if verb == "list" {
			below("prefix")
		}
	case a == t.mainOf(noun) || verb == "list":
	default:
		path = strings.TrimSuffix(root+"do/"+noun+"/"+verb, "/")
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return path
}

// readPath is the way to what an act shows that only reads.
func (t table) readPath(root string, a *act.Act, with url.Values) string {
	switch {
	case a.Noun == "queues" && a.Verb == "peek":
		return root + "queues/" + url.PathEscape(with.Get("queue"))
	case a.Verb == "show" && a != t.mainOf(a.Noun):
		one := map[string]string{}
		for name, texts := range with {
			one[name] = texts[0]
		}
		return t.href(root, &act.Link{Act: a.Name(), With: one})
	case a == t.mainOf(a.Noun) || a.Verb == "list":
		return root + a.Noun + strings.TrimSuffix("?"+with.Encode(), "?")
	}
	return linkTo(a, root, with.Encode()).Path
}

// needs counts the fields with a place that a request must have.
func needs(r *act.Request) (n int) {
	for _, f := range r.Fields {
		if f.Place != "" && !f.Optional {
			n++
		}
	}
	return n
}

// places counts the fields of a request that have a place.
func places(r *act.Request) (n int) {
	for _, f := range r.Fields {
		if f.Place != "" {
			n++
		}
	}
	return n
}

// place names a thing in the fields of a request that have a place. An act whose list has no place gets the name as its
// prefix.
func place(q *act.Request, names []string, values url.Values) error {
	n := 0
	for _, f := range q.Fields {
		if f.Place != "" && n < len(names) {
			values.Set(f.Name, names[n])
			n++
		}
	}
	switch {
	case n == len(names):
		return nil
	case n == 0 && len(names) == 1 && q.Field("id") != nil:
		values.Set("id", names[0])
		return nil
	case n == len(names)-1 && q.Field("prefix") != nil && q.Act.Role == act.Viewer:
		values.Set("prefix", names[n])
		return nil
	case n == 0 && q.Act.Role == act.Viewer: // a list without filters
		return nil
	}
	return act.Usage("%s takes no such name", q.Act.Name())
}

// isDots reports that a name has a meaning of its own as a part of a path, also where it is escaped: browsers and
// servers take it away.
func isDots(name string) bool { return name == "." || name == ".." }
