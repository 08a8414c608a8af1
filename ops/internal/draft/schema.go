package draft

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/millrace-go/millrace/storage"
)

// Check holds a body against the schema of its kind. It also refuses what a schema doesn't see: text that is not
// UTF-8, a member that occurs twice, and text after the object. Its error names all faults, a line each, with their
// places.
func Check(body []byte, schema json.RawMessage) error {
	if !utf8.Valid(body) { // a decoder would replace it by U+FFFD
		return errors.New("want UTF-8")
	}
	if err := CheckObject(body); err != nil || len(schema) == 0 {
		return err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return fmt.Errorf("the schema of the kind is not JSON: %w", err)
	}
	const name = "millrace:schema"
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	c.AssertFormat()
	var compiled *jsonschema.Schema
	if err = c.AddResource(name, doc); err == nil {
		compiled, err = c.Compile(name)
	}
	if err != nil {
		return fmt.Errorf("the schema of the kind can't be used: %w", err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return err
	}
	var wrong *jsonschema.ValidationError
	if err := compiled.Validate(value); !errors.As(err, &wrong) {
		return err
	}
	all := faults{body: value}
	all.collect(wrong)
	return errors.New(all.text())
}

// noLoader loads nothing: a schema comes from the store, and may not name files of this machine.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("it refers to %s", storage.Quote(url))
}

// A fault is what is wrong at a place.
type fault struct {
	at   []string
	line string
}

// faults are those of a body.
type faults struct {
	body any
	all  []fault
}

// text has a line for each fault, in the order of their places: the validator's order is that of a map.
func (f *faults) text() string {
	slices.SortFunc(f.all, func(a, b fault) int {
		return cmp.Or(slices.CompareFunc(a.at, b.at, func(x, y string) int {
			if n, err := strconv.Atoi(x); err == nil {
				if m, err := strconv.Atoi(y); err == nil {
					return cmp.Compare(n, m)
				}
			}
			return cmp.Compare(x, y)
		}), cmp.Compare(a.line, b.line))
	})
	var lines []string
	for _, x := range f.all {
		lines = append(lines, x.line)
	}
	return strings.Join(slices.Compact(lines), "\n  ")
}

// collect adds each fault: the place, and what is wrong there.
func (f *faults) collect(e *jsonschema.ValidationError) {
	at := e.InstanceLocation
	say := func(format string, args ...any) {
		line := fmt.Sprintf(format, args...)
		if place := place(at); place != "" {
			line = place + ": " + line
		}
		f.all = append(f.all, fault{at, line})
	}
	switch k := e.ErrorKind.(type) {
	case *kind.Required:
		for _, name := range k.Missing {
			say("member %q is missing", name)
		}
		return
	case *kind.AdditionalProperties:
		slices.Sort(k.Properties)
		for _, name := range k.Properties {
			say("unknown member %s", storage.Quote(name))
		}
		return
	case *kind.Type:
		slices.Sort(k.Want)
		say("want %s, got %s", strings.Join(k.Want, " or "), k.Got)
		return
	case *kind.PropertyNames:
		// The validator has overwritten the location, but not its length. If several places are possible none is said.
		var places [][]string
		if objectsWith(k.Property, f.body, nil, len(at), &places); len(places) == 1 {
			at = places[0]
		} else {
			at = nil
		}
		say("member %s can't have that name", storage.Quote(k.Property))
		return
	case *kind.AnyOf: // a pointer: what is wrong with its value counts, unless it must be null or an object
		for _, cause := range e.Causes {
			if t, ok := cause.ErrorKind.(*kind.Type); ok && slices.Equal(t.Want, []string{"null"}) && len(e.Causes) > 1 {
				continue
			}
			f.collect(cause)
		}
		return
	}
	if len(e.Causes) == 0 {
		say("%s", e.ErrorKind.LocalizedString(message.NewPrinter(language.English)))
	}
	for _, cause := range e.Causes {
		f.collect(cause)
	}
}

// objectsWith adds the places of the objects with a member that are some levels below a value.
func objectsWith(member string, v any, at []string, levels int, places *[][]string) {
	switch v := v.(type) {
	case map[string]any:
		if _, has := v[member]; has && levels == 0 {
			*places = append(*places, at)
		}
		for name, x := range v {
			if levels > 0 {
				objectsWith(member, x, append(slices.Clone(at), name), levels-1, places)
			}
		}
	case []any:
		for i, x := range v {
			if levels > 0 {
				objectsWith(member, x, append(slices.Clone(at), strconv.Itoa(i)), levels-1, places)
			}
		}
	}
}

// place is the path of a value: lines[0].article. The whole body has none.
func place(path []string) string {
	var b strings.Builder
	for _, name := range path {
		switch {
		case name != "" && strings.Trim(name, "0123456789") == "":
			b.WriteString("[" + name + "]")
		case strings.ContainsAny(name, ".[]\" "), name == "":
			b.WriteString("[" + storage.Quote(name) + "]")
		case b.Len() > 0:
			b.WriteString("." + name)
		default:
			b.WriteString(name)
		}
	}
	return b.String()
}
