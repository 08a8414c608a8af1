package ops

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/millrace-go/millrace/ops/act"
)

// A choice is what people choose from where a page can't list without a name.
type choice struct {
	Of    string // what to do; "" where nothing is to be chosen
	Links []link
}

// A choosing is what a choice is made from.
type choosing struct {
	noun, root string
	main, show *act.Act // of the noun; nil for none
	desk       func(context.Context) (*act.Desk, error)
}

// choice is the choice that the page of a noun offers. err is why the list of the noun can't be read, or nil.
func (x choosing) choice(r *http.Request, err error) (c choice) {
	var f *act.Field
	var bad *act.UsageError
	switch {
	case x.main == nil: // such as messages, which stand in queues
		if f = needed(x.show, nil); f != nil && f.Name == "queue" {
			return x.words(r, f, "Choose a queue: its page has the messages that wait, and its poison messages", func(name string) string {
				return x.root + "queues/" + url.PathEscape(name)
			})
		}
		return c
	case err == nil:
		f = needed(x.main, r.URL.Query())
	case errors.As(err, &bad) && len(r.URL.Query()) == 0: // one of several, which has no place
		fields := x.main.Request().Fields
		if i := slices.IndexFunc(fields, func(f act.Field) bool { return f.Words != nil }); i >= 0 {
			f = &fields[i]
		}
	}
	if f == nil {
		return c
	}
	of := "Choose one of the " + x.noun
	if f.Place != "" {
		of = "Choose a " + strings.ToLower(f.Place)
	}
	return x.words(r, f, of, func(name string) string { return x.root + x.noun + "?" + url.Values{f.Name: {name}}.Encode() })
}

// words is a choice of the words that a field may be.
func (x choosing) words(r *http.Request, f *act.Field, of string, way func(name string) string) choice {
	c := choice{Of: of}
	desk, err := x.desk(r.Context())
	if err != nil {
		return choice{} // the page itself says so
	}
	for _, name := range f.Words(r.Context(), desk) {
		c.Links = append(c.Links, link{Name: name, Path: way(name)})
	}
	return c
}

// needed is the field that an act must have and that values don't give, if it is known what the field may be.
func needed(a *act.Act, values url.Values) *act.Field {
	if a == nil {
		return nil
	}
	for _, f := range a.Request().Fields {
		if f.Place != "" && !f.Optional && f.Words != nil && values.Get(f.Name) == "" {
			return &f
		}
	}
	return nil
}

// inPlan is the way to the page of an instance whose address has its plan before its ID, as people write the two. It is
// "" for other names.
func (x *reads) inPlan(noun string, names []string, r *http.Request) string {
	if noun != "processes" || len(names) != 2 {
		return ""
	}
	desk, err := x.current(r.Context())
	if err != nil || !slices.Contains(desk.Known.Plans(), names[0]) || isDots(names[1]) {
		return ""
	}
	query := r.URL.Query()
	query.Set("plan", names[0])
	return "../" + url.PathEscape(names[1]) + "?" + query.Encode()
}
