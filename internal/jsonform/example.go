package jsonform

import (
	"reflect"
	"slices"
	"time"
)

// mostFilled bounds the values in an example.
const mostFilled = 500

// Example returns a value of a type in which a reader of its JSON form finds every member: each text, number and time
// is something, each list and map has one element, each pointer points to something. A type with methods of its own,
// and what is in an interface, stay as they are in the zero value. It calls no method of the type.
func Example(t reflect.Type) any {
	v := reflect.New(t).Elem()
	(&filler{left: mostFilled}).fill(v, nil)
	return v.Interface()
}

type filler struct{ left int }

func (f *filler) fill(v reflect.Value, within []reflect.Type) {
	t := v.Type()
	if f.left--; f.left < 0 || !v.CanSet() && t.Kind() != reflect.Struct { // an embedded struct need not be exported
		return
	}
	if t == reflect.TypeFor[time.Time]() && v.CanSet() {
		v.Set(reflect.ValueOf(time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)))
		return
	}
	if slices.Contains(within, t) || t.Kind() != reflect.Interface && custom(t) || t.PkgPath() == "encoding/json" || holdsNothing(t) {
		return
	}
	within = append(slices.Clone(within), t)
	switch k := t.Kind(); {
	case k == reflect.Bool:
		v.SetBool(true)
	case k == reflect.String:
		v.SetString("text")
	case k >= reflect.Int && k <= reflect.Int64:
		v.SetInt(1)
	case k >= reflect.Uint && k <= reflect.Uintptr:
		v.SetUint(1)
	case k == reflect.Float32 || k == reflect.Float64:
		v.SetFloat(1.5)
	case k == reflect.Pointer:
		if !slices.Contains(within, t.Elem()) {
			v.Set(reflect.New(t.Elem()))
			f.fill(v.Elem(), within)
		}
	case k == reflect.Slice:
		if !slices.Contains(within, t.Elem()) {
			v.Set(reflect.MakeSlice(t, 1, 1))
			f.fill(v.Index(0), within)
		}
	case k == reflect.Array:
		f.fill(v.Index(0), within)
	case k == reflect.Map:
		f.fillMap(v, within)
	case k == reflect.Struct:
		for i := range t.NumField() {
			if field := t.Field(i); field.Tag.Get("json") != "-" {
				f.fill(v.Field(i), within)
			}
		}
	}
}

func (f *filler) fillMap(v reflect.Value, within []reflect.Type) {
	t := v.Type()
	v.Set(reflect.MakeMap(t))
	if slices.Contains(within, t.Elem()) || custom(t.Key()) || !plainKey(t.Key()) {
		return
	}
	key, value := reflect.New(t.Key()).Elem(), reflect.New(t.Elem()).Elem()
	f.fill(key, within)
	f.fill(value, within)
	v.SetMapIndex(key, value)
}

// Zero returns the zero value of a type; of a pointer's type, a pointer to one.
func Zero(t reflect.Type) any {
	if t.Kind() == reflect.Pointer {
		return reflect.New(t.Elem()).Interface()
	}
	return reflect.Zero(t).Interface()
}
