package ops

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/internal/login"
)

// ones are the nouns of one thing that don't lose an s alone.
var ones = map[string]string{"processes": "process", "poison": "poison message", "bulk": "bulk act", "ids": "IDs of", "settings": "settings", "spool": "spool", "send": ""}

// one is what a noun says of one thing.
func one(noun string) string {
	if name, ok := ones[noun]; ok {
		return name
	}
	return strings.TrimSuffix(noun, "s")
}

// A named is a value that names a thing, with the word for what it names.
type named struct{ word, value string }

// namesOf are the values of a request that name one thing: the values of the fields with a place, or else the value of
// the field id. The first value names the thing itself. There are none where a place that has to be given is open.
func namesOf(a *act.Act, values url.Values) (all []named) {
	for _, f := range a.Request().Fields {
		value := strings.TrimSpace(values.Get(f.Name))
		isThing := f.Name == "id" || f.Name == "name" || f.Name == a.Noun || f.Name == one(a.Noun)
		switch {
		case f.Kind == act.KindContent, f.Shown != nil:
		case value == "" && f.Place != "" && !f.Optional:
			return nil
		case value == "" || f.Place == "" && (f.Name != "id" || len(all) > 0):
		case len(values[f.Name]) > 1 || strings.Contains(value, "\n"):
			return nil
		case isThing:
			all = append(all, named{one(a.Noun), value})
		case f.Place != "":
			all = append(all, named{f.Name, value})
		}
	}
	return all
}

// thingOf is the last name of the thing that a request is about.
func thingOf(a *act.Act, values url.Values) string {
	all := namesOf(a, values)
	if len(all) == 0 {
		return a.Noun
	}
	return all[len(all)-1].value
}

// titleFor is an act as a heading, and as a button: of one thing where its values name one, as in "Resume queue labels"
// and in "Retry step 01 of process o1".
func titleFor(a *act.Act, values url.Values) string {
	all := namesOf(a, values)
	if len(all) == 0 || a.Verb == "" {
		return titleOf(a)
	}
	var words []string
	for _, x := range slices.Backward(all) {
		words = append(words, strings.TrimSpace(x.word+" "+act.Short(x.value)))
	}
	return title(a.Verb) + " " + strings.Join(words, " of ")
}

// cameFrom is the name under which a form has the page from which a person has come to it.
const cameFrom = "came-from"

// theFirst is the way to the first page, as a form has it.
const theFirst = "."

// from is the page from which a person has come to a form, seen from the first page: what the form has told, or else
// where the link stood. It is "" for none, and for another form.
func (s *server) from(r *http.Request, told string) string {
	way := told
	if told == "" {
		at, err := url.Parse(r.Referer())
		if err != nil || at.Host != r.Host {
			return ""
		}
		_, below, ok := strings.Cut(at.EscapedPath(), s.base+"/") // a proxy may serve the pages under another path
		switch way = below; {
		case !ok:
			return ""
		case way == "":
			return theFirst
		case at.RawQuery != "":
			way += "?" + at.RawQuery
		}
	}
	if way == theFirst {
		return way
	}
	if way = login.LocalWay(way); strings.HasPrefix(way, "do/") {
		return ""
	}
	return way
}

// backs are the ways from an act that is done: to the thing that the act was about, to the page from which its person
// has come, and to the page of the noun.
func (s *server) backs(a *act.Act, values url.Values, root, from string) (all []link) {
	add := func(name, path string) {
		if !slices.ContainsFunc(all, func(l link) bool { return l.Path == path }) {
			all = append(all, link{Name: name, Path: path})
		}
	}
	if names := namesOf(a, values); len(names) > 0 {
		if way := s.thingPath(a, names, values); way != "" {
			add("to "+strings.TrimSpace(names[0].word+" "+act.Short(names[0].value)), root+way)
		}
	}
	switch {
	case from == theFirst:
		add("back to the overview", root)
	case from != "":
		path, _, _ := strings.Cut(from, "?")
		if name, err := url.PathUnescape(path); err == nil {
			add("back to "+name, root+from)
		}
	}
	add("back to "+a.Noun, root+a.Noun)
	return all
}

// thingPath is the page of a thing that an act was about, from the first page; "" if it has none.
func (s *server) thingPath(a *act.Act, names []named, values url.Values) string {
	show := s.table.find(a.Noun, "show")
	if show == nil || needs(show.Request()) > len(names) {
		return ""
	}
	with := map[string]string{}
	for _, f := range show.Request().Fields {
		if f.Place != "" && len(with) < len(names) {
			with[f.Name] = names[len(with)].value
		} else if v := values.Get(f.Name); f.Name == "plan" {
			with[f.Name] = v
		}
	}
	return s.table.href("", &act.Link{Act: show.Name(), With: with})
}
