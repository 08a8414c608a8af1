package values

import (
	"bytes"
	"fmt"
	"reflect"
	"runtime"

	"github.com/go-json-experiment/json"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"github.com/millrace-go/millrace/internal/contain"
	"github.com/millrace-go/millrace/storage"
)

// SameAs returns nil if another collection keeps the same documents in the same way. Otherwise the error says what
// differs: the name, the type of the values, the channels or the Config. Functions can't be compared. So it compares
// where they are declared, and what Initial returns for some keys. Two closures of one function, for 10 seats and for
// 20, say, differ in the latter.
func (c *Collection[V]) SameAs(other any) error {
	o, ok := other.(*Collection[V])
	differs := func(what string, ours, theirs any) error {
		return fmt.Errorf("values: two collections are called %s, and their %s differ: %v and %v", storage.Quote(c.name), what, theirs, ours)
	}
	switch {
	case !ok:
		return differs("types", reflect.TypeFor[*Collection[V]](), reflect.TypeOf(other))
	case o == c:
		return nil
	case o.name != c.name:
		return fmt.Errorf("values: %s and %s are two names", storage.Quote(o.name), storage.Quote(c.name))
	case o.channels != c.channels:
		return fmt.Errorf("values: two collections are called %s, and they have different channels", storage.Quote(c.name))
	}
	ours, theirs := reflect.ValueOf(c.cfg), reflect.ValueOf(o.cfg)
	for i := range ours.NumField() {
		name, a, b := ours.Type().Field(i).Name, ours.Field(i), theirs.Field(i)
		if a.Kind() != reflect.Func && a.Interface() != b.Interface() {
			return differs("Config."+name, a, b)
		}
	}
	if !sameInitial(c.cfg.Initial, o.cfg.Initial) {
		return fmt.Errorf("values: two collections are called %s, and their Config.Initial differ", storage.Quote(c.name))
	}
	if declared(c.cfg.Idempotent) != declared(o.cfg.Idempotent) {
		return fmt.Errorf("values: two collections are called %s, and their Config.Idempotent differ", storage.Quote(c.name))
	}
	return nil
}

func sameInitial[V any](a, b func(string) V) bool {
	if declared(a) != declared(b) {
		return false
	}
	for _, key := range []string{"a", "1", "2006-01-02", "2006-01"} {
		x, errA := initialJSON(a, key)
		y, errB := initialJSON(b, key)
		if (errA == nil) != (errB == nil) || !bytes.Equal(x, y) {
			return false
		}
	}
	return true
}

// declared is where a function's code begins in the source. Its address won't do: a function literal has several
// addresses where the compiler has inlined the function around it.
func declared(f any) string {
	pc := reflect.ValueOf(f).Pointer()
	file, line := runtime.FuncForPC(pc).FileLine(pc)
	return fmt.Sprint(file, ":", line)
}

// initialJSON is the stored form of a new document. An Initial that expects other keys may panic.
func initialJSON[V any](initial func(string) V, key string) (b []byte, err error) {
	err = contain.Call(func() (err error) {
		b, err = json.Marshal(initial(key), jsonv1.DefaultOptionsV1(), json.Deterministic(true))
		return err
	})
	return b, err
}
