package contain

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
)

// A Copied is a copy of an error. Its methods call none of the error's own: errors.Is compares, and errors.As looks for
// a type, among what the error was and wrapped when it was copied.
type Copied struct {
	text string
	tree []error
}

// Copy calls the methods of an error, which may panic. A copy is returned as it is, and so is nil.
func Copy(err error) error {
	switch copied := err.(type) {
	case nil:
		return nil
	case *Copied:
		if copied != nil {
			return err
		}
	}
	return CopyOf(err)
}

// CopyOf is [Copy] for a caller who adds to the copy.
func CopyOf(err error) *Copied { return &Copied{text: Text(err), tree: treeOf(err, nil)} }

func (e *Copied) Error() string { return e.text }

// Endless reports that the error wraps more than can be looked at, or itself.
func (e *Copied) Endless() bool { return len(e.tree) >= maxTree }

// Is reports that the error was the target, or wrapped it.
func (e *Copied) Is(target error) (is bool) {
	defer func() { _ = recover() }() // a comparison may panic
	for _, err := range e.tree {
		if err == target {
			return true
		}
	}
	return false
}

// As looks for an error of the target's type. A pointer that is nil is none: whoever gets one calls its methods.
func (e *Copied) As(target any) bool {
	to := reflect.ValueOf(target).Elem()
	for _, err := range e.tree {
		if v := reflect.ValueOf(err); v.Type().AssignableTo(to.Type()) && !(v.Kind() == reflect.Pointer && v.IsNil()) {
			to.Set(v)
			return true
		}
	}
	return false
}

// Type names the type of the error, or of the one that fmt has wrapped.
func (e *Copied) Type() string {
	for _, err := range e.tree {
		if t := reflect.TypeOf(err).String(); t != "*fmt.wrapError" {
			return t
		}
	}
	return "error"
}

// maxTree bounds how many errors are copied of one that wraps many, or itself.
const maxTree = 64

// treeOf appends an error and the errors that it wraps, until a method of one of them panics.
func treeOf(err error, tree []error) (all []error) {
	if err == nil || len(tree) >= maxTree {
		return tree
	}
	all = append(tree, err)
	defer func() { _ = recover() }() // what was found until then is all
	switch err := err.(type) {
	case interface{ Unwrap() error }:
		return treeOf(err.Unwrap(), all)
	case interface{ Unwrap() []error }:
		for _, err := range err.Unwrap() {
			all = treeOf(err, all)
		}
	}
	return all
}

// Text is the text of an error, or of the value of a panic.
func Text(v any) (text string) {
	returned := false
	defer func() {
		if returned {
			return
		}
		_ = recover()
		text = fmt.Sprintf("a %T whose text can't be had: its method panics", v)
		if r := reflect.ValueOf(v); r.Kind() == reflect.Pointer && r.IsNil() {
			text = fmt.Sprintf("a nil %T, returned as an error that is not nil", v)
		}
	}()
	switch v := v.(type) {
	case nil:
		text = "nil"
	case error:
		text = v.Error()
	case fmt.Stringer:
		text = v.String()
	default:
		text = fmt.Sprint(v)
	}
	returned = true
	return text
}

// Sound returns an error as it is, or a [Copy] of it where one of its methods panics, or it wraps itself. It calls them
// as those do who look at the error or log it.
func Sound(err error) error {
	if err == nil {
		return nil
	}
	copied := CopyOf(err)
	if copied.Endless() || Do(func() { lookAt(err) }) != nil {
		return copied
	}
	return err
}

func lookAt(err error) {
	_, _ = errors.Is(err, errNobodys), errors.As(err, new(*Copied))
	_, _ = err.Error(), fmt.Sprint(err)
	if x, ok := err.(slog.LogValuer); ok {
		x.LogValue()
	}
	if x, ok := err.(json.Marshaler); ok {
		_, _ = x.MarshalJSON()
	}
}

var errNobodys = errors.New("nobody's")
