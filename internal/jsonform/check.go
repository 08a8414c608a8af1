package jsonform

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Check judges a type and the types within it. lost are the fields whose content doesn't come back. It returns an
// error for a struct without other fields, and for a type that can't be encoded or read back at all. Fields with
// json:"-" are left out on purpose. Types with their own MarshalJSON or MarshalText are not judged.
func Check(t reflect.Type) (lost []string, err error) {
	c := checker{seen: map[reflect.Type]bool{}}
	c.walk(t, t.String())
	return c.lost, errors.Join(c.faults...)
}

type checker struct {
	seen   map[reflect.Type]bool
	lost   []string
	faults []error
}

func (c *checker) fault(format string, args ...any) {
	c.faults = append(c.faults, fmt.Errorf(format, args...))
}

// walk checks a type at a place, such as in a field.
func (c *checker) walk(t reflect.Type, where string) {
	if c.seen[t] {
		return
	}
	c.seen[t] = true
	if t.Kind() == reflect.Interface {
		if t.NumMethod() > 0 {
			c.fault("%s is of interface type %v: JSON doesn't tell what is in it, so it can't be read back; give it a concrete type", where, t)
		}
		return
	}
	if custom(t) || holdsNothing(t) {
		return
	}
	switch t.Kind() {
	case reflect.Func, reflect.Chan, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer:
		c.fault(`%s is of type %v, which JSON can't hold: leave it out by json:"-"`, where, t)
	case reflect.Pointer, reflect.Slice, reflect.Array:
		c.walk(t.Elem(), where)
	case reflect.Map:
		if k := t.Key(); !custom(k) && !plainKey(k) {
			c.fault("%s has keys of type %v, which JSON can't hold: want strings or integers, or a type with MarshalText", where, k)
		}
		c.walk(t.Elem(), where)
	case reflect.Struct:
		c.walkFields(t, where)
	}
}

func (c *checker) walkFields(t reflect.Type, where string) {
	s := structureOf(t)
	for _, field := range s.sealed {
		c.fault("%s embeds a type that is not exported by a pointer, which can't be read back: embed it without the pointer", field)
	}
	if len(s.members) == 0 && len(s.lost) > 0 {
		what := t.String()
		if t.Name() == "" {
			what = where
		}
		advice := "export them, or give the type MarshalJSON and UnmarshalJSON"
		if len(s.shared) > 0 {
			advice = fmt.Sprintf("several have the name %q in JSON: give each field its own", strings.Join(s.shared, ", "))
		}
		c.fault("JSON keeps no field of %s (%s): %s", what, strings.Join(s.lost, ", "), advice)
		return
	}
	for _, field := range s.lost {
		if !slices.Contains(c.lost, field) {
			c.lost = append(c.lost, field)
		}
	}
	for _, m := range s.members {
		c.walk(m.typ, m.field)
	}
}

// plainKey reports that a type can be a map's key in JSON without methods of its own.
func plainKey(t reflect.Type) bool {
	return t.Kind() == reflect.String || t.Kind() >= reflect.Int && t.Kind() <= reflect.Uintptr
}
