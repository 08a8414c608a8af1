package settings

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/millrace-go/millrace/internal/jsonform"
	"github.com/millrace-go/millrace/storage"
)

// A checker is a T that can say what is wrong with it.
type checker interface{ Check() error }

// A shape is what a program's type makes of stored values.
type shape[T any] struct {
	defaults tree
	restart  [][]int  // index paths of the fields that wait for a restart
	names    []string // theirs, in JSON
	secrets  []string // paths at which there can be secrets
}

// A ready is a version as this node can run it. It never changes.
type ready[T any] struct {
	version int64
	wanted  *T              // the whole version
	runs    *T              // the same, but settings that wait for a restart are those that the process began with
	from    *T              // what the node ran when this was made
	waiting []string        // the settings in which they differ
	form    json.RawMessage // of runs
	secrets []string
}

func newShape[T any](defaults T) (*shape[T], error) {
	t := reflect.TypeFor[T]()
	if t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("%w: settings of type %v; want a struct", storage.ErrInvalid, t)
	}
	lost, err := jsonform.Check(t)
	if err == nil && len(lost) > 0 {
		err = fmt.Errorf("JSON loses %s", strings.Join(lost, ", "))
	}
	if err != nil {
		return nil, fmt.Errorf("%w: settings of type %v: %w", storage.ErrInvalid, t, err)
	}
	s := &shape[T]{secrets: secretPaths(t, "", nil)}
	if err := s.findRestart(t, nil, ""); err != nil {
		return nil, err
	}
	form, err := jsonform.Encode(defaults)
	if err == nil {
		s.defaults, err = parseTree(form)
	}
	if err != nil {
		return nil, fmt.Errorf("the defaults: %w", err)
	}
	return s, nil
}

// findRestart finds the fields with the tag settings:"restart", in structs within structs.
func (s *shape[T]) findRestart(t reflect.Type, index []int, path string) error {
	for i := range t.NumField() {
		f := t.Field(i)
		at, name := append(append([]int(nil), index...), i), path+memberName(f)
		switch tag, tagged := f.Tag.Lookup("settings"); {
		case tagged && (tag != "restart" || !f.IsExported()):
			return fmt.Errorf("%w: field %s of %v has the tag settings:%q; want settings:\"restart\", on an exported field", storage.ErrInvalid, f.Name, t, tag)
		case tagged:
			s.restart, s.names = append(s.restart, at), append(s.names, strings.TrimPrefix(name, "."))
		case f.Type.Kind() == reflect.Struct && (f.IsExported() || f.Anonymous):
			if err := s.findRestart(f.Type, at, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// tree returns all values, defaults included.
func (s *shape[T]) tree(values []byte) (tree, error) {
	patch, err := parseTree(values)
	if err != nil {
		return nil, err
	}
	t, ok := overlay(s.defaults, patch).(tree)
	if !ok {
		return nil, storage.ErrInvalid
	}
	return t, nil
}

// decode returns stored values as a T, or says why this program can't have them.
func (s *shape[T]) decode(values []byte) (*T, error) {
	all, err := s.tree(values)
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(all)
	if err != nil {
		return nil, err
	}
	v, err := jsonform.DecodeStrictly[T](data)
	if err != nil {
		return nil, inFull(err)
	}
	return &v, nil
}

// inFull says where values don't fit the program's type, and what it wants there.
func inFull(err error) error {
	var (
		unfit   *jsonform.TypeError
		unknown *jsonform.UnknownError
	)
	switch {
	case errors.As(err, &unknown):
		return fmt.Errorf("%w: %s; this program is older or newer than the change, or the name is misspelt", storage.ErrInvalid, unknown.InFull())
	case errors.As(err, &unfit) && strings.HasSuffix(unfit.InFull(), ": want a text"):
		return fmt.Errorf(`%w: %s; a time has its unit, such as 5s, and a number that is a text has quotes, as in "5"`, storage.ErrInvalid, unfit.InFull())
	case errors.As(err, &unfit):
		return fmt.Errorf("%w: %s", storage.ErrInvalid, unfit.InFull())
	}
	return fmt.Errorf("%w: %w", storage.ErrInvalid, err)
}

// prepare makes a version ready for a node that runs from, which is nil at its start: it decodes the version, resolves
// its secrets and checks it, both whole and as the node would run it until its restart.
func (s *shape[T]) prepare(version int64, values []byte, from *T) (*ready[T], error) {
	r := &ready[T]{version: version, from: from, secrets: slices.Clone(s.secrets)}
	var err error
	if r.wanted, err = s.complete(values, &r.secrets); err != nil {
		return nil, err
	}
	r.runs = r.wanted
	if from != nil && len(s.restart) > 0 {
		if r.runs, err = s.complete(values, nil); err != nil {
			return nil, err
		}
		r.waiting = s.keep(r.runs, from)
		if len(r.waiting) == 0 {
			r.runs = r.wanted
		}
	}
	if err := check(r.wanted); err != nil {
		return nil, err
	}
	if r.runs != r.wanted {
		if err := check(r.runs); err != nil {
			return nil, fmt.Errorf("until its restart, because %s can't change before: %w", strings.Join(r.waiting, ", "), err)
		}
	}
	form, err := jsonform.Encode(*r.runs)
	if err == nil && len(form) <= maxValues {
		r.form = form
	}
	return r, err
}

// complete decodes values and resolves their secrets.
func (s *shape[T]) complete(values []byte, paths *[]string) (*T, error) {
	v, err := s.decode(values)
	if err != nil {
		return nil, err
	}
	var faults []error
	secretsOf(reflect.ValueOf(v), "", func(path string, x Secret) {
		if paths != nil && !slices.Contains(*paths, path) {
			*paths = append(*paths, path)
		}
		if err := x.resolve(); err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", path, err))
		}
	})
	return v, errors.Join(faults...)
}

// keep gives v the settings of from that wait for a restart, and returns the names of those that differ.
func (s *shape[T]) keep(v, from *T) (waiting []string) {
	to, old := reflect.ValueOf(v).Elem(), reflect.ValueOf(from).Elem()
	for i, index := range s.restart {
		if same(to.FieldByIndex(index), old.FieldByIndex(index)) {
			continue
		}
		waiting = append(waiting, s.names[i])
		to.FieldByIndex(index).Set(old.FieldByIndex(index))
	}
	return waiting
}

// same compares two settings by their JSON.
func same(a, b reflect.Value) bool {
	x, errX := jsonform.Encode(a.Interface())
	y, errY := jsonform.Encode(b.Interface())
	return errX == nil && errY == nil && string(x) == string(y)
}

// check asks a T what is wrong with it.
func check[T any](v *T) error {
	if c, ok := any(v).(checker); ok {
		return c.Check()
	}
	return nil
}

// patch returns the values in which change has changed a T, as stored.
func (s *shape[T]) patch(ctx context.Context, values []byte, change func(*T)) (tree, error) {
	before, err := s.decode(values)
	if err != nil {
		return nil, err
	}
	after, err := s.decode(values)
	if err != nil {
		return nil, err
	}
	from, err := formOf(before)
	if err != nil {
		return nil, err
	}
	to, err := within(ctx, maxPatience, "the change", func(context.Context) (tree, error) {
		change(after)
		return formOf(after)
	})
	if err != nil {
		return nil, err
	}
	stored, err := parseTree(values)
	if err != nil {
		return nil, err
	}
	return compose(stored, difference(from, to)), nil
}

func formOf[T any](v *T) (tree, error) {
	data, err := jsonform.Encode(*v)
	if err != nil {
		return nil, err
	}
	return parseTree(data)
}
