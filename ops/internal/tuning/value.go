package tuning

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/settings"
)

// Assign reads PATH=VALUE into the values by their paths.
func Assign(values map[string]json.RawMessage, text string) error {
	path, value, ok := strings.Cut(text, "=")
	switch {
	case !ok || path == "":
		return errors.New("want PATH=VALUE, such as seats=60")
	case values[path] != nil:
		return fmt.Errorf("%s is set twice", act.Word(path))
	case value == "": // it may come from an unset variable of the shell
		return fmt.Errorf("%s has no value; for an empty text write PATH='\"\"', for the program's default --default PATH", act.Word(path))
	case json.Valid([]byte(value)):
		values[path] = json.RawMessage(value)
		return nil
	case likeReference(value) && new(settings.Secret).UnmarshalText([]byte(value)) != nil:
		return fmt.Errorf("%s: a text of the form NAME:… is taken for the reference of a secret, and that is env:NAME or file:PATH. A text that is no reference is written as JSON: PATH='\"…\"'", act.Word(path))
	}
	data, err := json.Marshal(value)
	values[path] = data
	return err
}

// likeReference reports that a text is taken for the reference of a secret, misspelt or not: evn:SMTP_URL. Addresses of
// hosts and of the web aren't. It may be that no program runs that knows which settings are secrets, so this looks at
// the form alone.
func likeReference(text string) bool {
	scheme, rest, found := strings.Cut(text, ":")
	if !found || len(scheme) < 2 || strings.Trim(strings.ToLower(scheme), "abcdefghijklmnopqrstuvwxyz") != "" {
		return false
	}
	return rest == "" || !strings.ContainsRune(" 0123456789", rune(rest[0])) && (!strings.HasPrefix(rest, "//") || strings.HasPrefix(rest, "///"))
}

// HasPath reports that an object of JSON has a member at a path.
func HasPath(object json.RawMessage, path string) bool {
	names, err := settings.NamesOf(path)
	for _, name := range names {
		var members map[string]json.RawMessage
		if json.Unmarshal(object, &members) != nil || members[name] == nil {
			return false
		}
		object = members[name]
	}
	return err == nil
}
