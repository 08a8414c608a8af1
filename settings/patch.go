package settings

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/millrace-go/millrace/storage"
)

// maxValues is the largest document of values, in bytes: it is in the current document twice while a change is checked,
// and in each node's row.
const maxValues = 16 << 10

// A tree is a JSON object. Its numbers are json.Number.
type tree = map[string]any

// parseTree reads one JSON object and nothing else.
func parseTree(data []byte) (tree, error) {
	v, err := parseValue(data)
	if err != nil {
		return nil, err
	}
	t, ok := v.(tree)
	if !ok || len(data) > maxValues {
		return nil, fmt.Errorf("%w: want a JSON object of at most %d bytes", storage.ErrInvalid, maxValues)
	}
	return t, nil
}

// parseValue reads one JSON value and nothing else.
func parseValue(data []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err = d.Decode(&v); err == nil {
		if _, err = d.Token(); errors.Is(err, io.EOF) {
			return v, nil
		}
	}
	return nil, fmt.Errorf("%w: this is not one JSON value", storage.ErrInvalid)
}

// encodeTree writes a tree as compact JSON, its members in order.
func encodeTree(t tree) (json.RawMessage, error) {
	if t == nil {
		t = tree{}
	}
	data, err := json.Marshal(t)
	if err == nil && len(data) > maxValues {
		err = fmt.Errorf("%w: settings of %d bytes; want at most %d", storage.ErrTooLarge, len(data), maxValues)
	}
	return data, err
}

// overlay applies a JSON merge patch (RFC 7396). It changes neither.
func overlay(base, patch any) any {
	p, ok := patch.(tree)
	if !ok {
		return patch
	}
	result := tree{}
	if b, ok := base.(tree); ok {
		result = maps.Clone(b)
	}
	for name, v := range p {
		if v == nil {
			delete(result, name)
		} else {
			result[name] = overlay(result[name], v)
		}
	}
	return result
}

// compose returns a patch that does what first does, and then what second does.
func compose(first, second tree) tree {
	result := maps.Clone(first)
	if result == nil {
		result = tree{}
	}
	for name, v := range second {
		before, was := result[name].(tree)
		if after, is := v.(tree); is && (was || result[name] == nil) {
			result[name] = compose(before, after)
		} else {
			result[name] = v
		}
	}
	return result
}

// difference returns the merge patch that makes to of from.
func difference(from, to tree) tree {
	patch := tree{}
	for name := range from {
		if _, ok := to[name]; !ok {
			patch[name] = nil
		}
	}
	for name, v := range to {
		before, was := from[name]
		if was && reflect.DeepEqual(before, v) {
			continue
		}
		b, wasTree := before.(tree)
		if t, is := v.(tree); is && wasTree {
			v = difference(b, t)
		}
		patch[name] = v
	}
	return patch
}

// A Change is one value that a version sets otherwise than the version before.
type Change struct {
	Path string          `json:"path"`           // the names of the members, as NamesOf takes them
	From json.RawMessage `json:"from,omitempty"` // none: it was not set, so the program's default held
	To   json.RawMessage `json:"to,omitempty"`   // none: it is not set any more
}

// changes lists what is different in two trees, by path.
func changes(from, to tree) []Change {
	all := appendChanges(nil, "", from, to)
	slices.SortFunc(all, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	return all
}

func appendChanges(all []Change, prefix string, from, to tree) []Change {
	names := maps.Clone(from)
	if names == nil {
		names = tree{}
	}
	maps.Copy(names, to)
	for name := range names {
		before, was := from[name]
		after, is := to[name]
		b, wasTree := before.(tree)
		a, isTree := after.(tree)
		switch {
		case was == is && reflect.DeepEqual(before, after):
		case (wasTree || !was) && (isTree || !is) && len(a)+len(b) > 0:
			all = appendChanges(all, below(prefix, name), b, a)
		default:
			c := Change{Path: below(prefix, name)}
			if was {
				c.From, _ = json.Marshal(before) // it was parsed from JSON
			}
			if is {
				c.To, _ = json.Marshal(after) // it was parsed from JSON
			}
			all = append(all, c)
		}
	}
	return all
}

// assign sets the value at a path, and makes the objects above it.
func assign(t tree, path string, v any) error {
	names, err := NamesOf(path)
	if err != nil {
		return err
	}
	for _, name := range names[:len(names)-1] {
		below, ok := t[name].(tree)
		if !ok {
			below = tree{}
			t[name] = below
		}
		t = below
	}
	t[names[len(names)-1]] = v
	return nil
}

// unset removes the value at a path, and the objects above it that are empty then.
func unset(t tree, path string) error {
	names, err := NamesOf(path)
	if err == nil {
		remove(t, names)
	}
	return err
}

func remove(t tree, names []string) {
	if len(names) > 1 {
		below, ok := t[names[0]].(tree)
		if !ok {
			return
		}
		if remove(below, names[1:]); len(below) > 0 {
			return
		}
	}
	delete(t, names[0])
}

// NamesOf returns the names of the members in a path: they are joined by dots. A name with a dot in it is in quotes, as
// a text of JSON: guards."api.example.com".rate.
func NamesOf(path string) (names []string, err error) {
	for rest, more := path, true; more; {
		var name string
		if strings.HasPrefix(rest, `"`) {
			quoted, prefixErr := strconv.QuotedPrefix(rest)
			if prefixErr == nil {
				prefixErr = json.Unmarshal([]byte(quoted), &name)
			}
			if rest = strings.TrimPrefix(rest, quoted); prefixErr != nil || rest != "" && rest[0] != '.' {
				name = ""
			}
			rest, more = strings.CutPrefix(rest, ".")
		} else {
			name, rest, more = strings.Cut(rest, ".")
		}
		if name == "" {
			return nil, fmt.Errorf(`%w: the path %s: want names of members, joined by dots; a name with a dot is in quotes, as in guards."api.example.com".rate`,
				storage.ErrInvalid, storage.Quote(path))
		}
		names = append(names, name)
	}
	return names, nil
}

// below returns the path of a member.
func below(path, name string) string {
	if strings.ContainsAny(name, `."`) {
		quoted, err := json.Marshal(name)
		if err == nil {
			name = string(quoted)
		}
	}
	if path == "" {
		return name
	}
	return path + "." + name
}
