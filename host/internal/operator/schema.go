package operator

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

// checkBody holds a body against the schema of its kind. It also refuses what a schema doesn't see: text that is not
// UTF-8, a member that occurs twice, and text after the object. Its error names all faults, a line each, with their
// places.
func checkBody(body []byte, schema json.RawMessage) error {
	if !utf8.Valid(body) { // a decoder would replace it by U+FFFD
		return errors.New("want UTF-8")
	}
	if err := checkObject(body); err != nil || len(schema) == 0 {
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
	var faults []string
	collectFaults(wrong, &faults)
	return errors.New(strings.Join(faults, "\n  "))
}

// noLoader loads nothing: a schema comes from the store, and may not name files of this machine.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("it refers to %s", storage.Quote(url))
}

// collectFaults adds a line for each fault: the place, and what is wrong there.
func collectFaults(e *jsonschema.ValidationError, faults *[]string) {
	say := func(format string, args ...any) {
		line := fmt.Sprintf(format, args...)
		if place := place(e.InstanceLocation); place != "" {
			line = place + ": " + line
		}
		if !slices.Contains(*faults, line) {
			*faults = append(*faults, line)
		}
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
		say("member %s can't have that name", storage.Quote(k.Property))
		return
	case *kind.AnyOf: // a pointer: what is wrong with its value counts, unless it must be null or an object
		for _, cause := range e.Causes {
			if t, ok := cause.ErrorKind.(*kind.Type); ok && slices.Equal(t.Want, []string{"null"}) && len(e.Causes) > 1 {
				continue
			}
			collectFaults(cause, faults)
		}
		return
	}
	if len(e.Causes) == 0 {
		say("%s", e.ErrorKind.LocalizedString(message.NewPrinter(language.English)))
	}
	for _, cause := range e.Causes {
		collectFaults(cause, faults)
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

// checkObject refuses a text that is not one JSON object, and members that occur twice.
func checkObject(body []byte) error {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return errors.New("want a JSON object")
	}
	if err := checkMembers(dec, nil); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = errors.New("the JSON object is not closed")
		}
		return err
	}
	if _, err := dec.Token(); err != io.EOF {
		return errors.New("unexpected text after the JSON object")
	}
	return nil
}

// mostNested bounds the levels of a body, as encoding/json does.
const mostNested = 10_000

// checkMembers reads an object up to its end.
func checkMembers(dec *json.Decoder, at []string) error {
	names := map[string]bool{}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return err
		}
		name, _ := t.(string)     // the decoder accepts nothing else
		where := append(at, name) // nobody keeps it
		if names[name] {
			return fmt.Errorf("member %q occurs twice", place(where))
		}
		names[name] = true
		if err := checkValue(dec, where); err != nil {
			return err
		}
	}
	_, err := dec.Token()
	return err
}

func checkValue(dec *json.Decoder, at []string) error {
	t, err := dec.Token()
	switch {
	case err != nil:
		return err
	case len(at) > mostNested:
		return errors.New("the JSON is nested too deeply")
	case t == json.Delim('{'):
		return checkMembers(dec, at)
	case t != json.Delim('['):
		return nil
	}
	for i := 0; dec.More(); i++ {
		if err := checkValue(dec, append(at, strconv.Itoa(i))); err != nil {
			return err
		}
	}
	_, err = dec.Token()
	return err
}
