package millracetest

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/wire"
)

// lines splits a text.
func lines(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(s, "\n"), "\n")
}

// diff compares two texts line by line: "- " stands before the lines of a alone, "+ " before those of b alone. Far from
// any difference it leaves out lines.
func diff(a, b []string) string {
	longest := make([][]int, len(a)+1) // of the common lines of a[i:] and b[j:]
	for i := range longest {
		longest[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				longest[i][j] = longest[i+1][j+1] + 1
			} else {
				longest[i][j] = max(longest[i+1][j], longest[i][j+1])
			}
		}
	}
	var all []string
	for i, j := 0, 0; i < len(a) || j < len(b); {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			all, i, j = append(all, "  "+a[i]), i+1, j+1
		case j == len(b) || i < len(a) && longest[i+1][j] >= longest[i][j+1]:
			all, i = append(all, "- "+a[i]), i+1
		default:
			all, j = append(all, "+ "+b[j]), j+1
		}
	}
	return strings.Join(near(all), "\n")
}

// near leaves out the lines that are far from any difference.
func near(all []string) []string {
	const context = 6
	keep := make([]bool, len(all))
	for i, line := range all {
		if line[0] == ' ' {
			continue
		}
		for j := max(0, i-context); j < min(len(all), i+context+1); j++ {
			keep[j] = true
		}
	}
	var kept []string
	for i, line := range all {
		switch {
		case keep[i]:
			kept = append(kept, line)
		case i == 0 || keep[i-1]:
			kept = append(kept, "  …")
		}
	}
	return kept
}

// diffJSON compares two JSON texts, each member on a line of its own.
func diffJSON(a, b []byte) string { return diff(lines(indented(a)), lines(indented(b))) }

func indented(form []byte) string {
	var b bytes.Buffer
	if err := json.Indent(&b, form, "", "  "); err != nil {
		return string(form)
	}
	return b.String()
}

// diffMessages compares lists of messages.
func diffMessages(a, b []channel.Message) string {
	x, y := list(a), list(b)
	if x == y { // the JSON is the same, but not the Go value
		x, y = fmt.Sprintf("%#v", a), fmt.Sprintf("%#v", b)
	}
	return diff(lines(x), lines(y))
}

// list writes messages down: kind, type, when it is due, and JSON.
func list(ms []channel.Message) string {
	if len(ms) == 0 {
		return "(nothing)"
	}
	var b strings.Builder
	for _, m := range ms {
		inner := wire.Unwrap(m)
		if inner == nil {
			b.WriteString("nil\n")
			continue
		}
		fmt.Fprintf(&b, "%s (%T)", inner.Kind(), inner)
		switch w := wire.Wrap(m); {
		case w.When.String() == "":
		case w.When.At.IsZero():
			fmt.Fprintf(&b, " after %s", w.When)
		default:
			fmt.Fprintf(&b, " at %s", w.When)
		}
		if to := wire.Wrap(m).ReplyTo; to != "" {
			fmt.Fprintf(&b, " reply to %s", to)
		}
		form, err := wire.EncodeBody(inner)
		if err != nil {
			form = []byte(err.Error())
		}
		fmt.Fprintf(&b, " %s\n", indented(form))
	}
	return b.String()
}

// lost names a part of x that isn't in back, which is what JSON gives back of it, or returns "". Nothing empty counts
// as lost, nor does a field that is left out by json:"-".
func lost(x, back reflect.Value, where string) string {
	if is, known := equal(x, back); known {
		if is {
			return ""
		}
		return fmt.Sprintf("%s is %s, and comes back as %s", where, text(x), text(back))
	}
	switch x.Kind() {
	case reflect.Pointer, reflect.Interface:
		return lost(x.Elem(), back.Elem(), where)
	case reflect.Struct:
		for i := range x.NumField() {
			f := x.Type().Field(i)
			if f.Tag.Get("json") == "-" {
				continue
			}
			if s := lost(x.Field(i), back.Field(i), where+"."+f.Name); s != "" {
				return s
			}
		}
	case reflect.Slice, reflect.Array:
		for i := range x.Len() {
			if s := lost(x.Index(i), back.Index(i), fmt.Sprintf("%s[%d]", where, i)); s != "" {
				return s
			}
		}
	case reflect.Map:
		for _, k := range x.MapKeys() {
			if s := lost(x.MapIndex(k), back.MapIndex(k), fmt.Sprintf("%s[%s]", where, text(k))); s != "" {
				return s
			}
		}
	}
	return ""
}

// equal compares two values as far as that needs no look at their parts.
func equal(x, back reflect.Value) (is, known bool) {
	switch {
	case !x.IsValid() || !back.IsValid():
		return x.IsValid() == back.IsValid(), true
	case x.Type() != back.Type():
		return false, true
	}
	if custom(x.Type()) {
		return true, true
	}
	switch x.Kind() {
	case reflect.Slice, reflect.Map:
		return x.Len() == back.Len() && x.Len() == 0, x.Len() != back.Len() || x.Len() == 0
	case reflect.Pointer, reflect.Interface:
		return x.IsNil() && back.IsNil(), x.IsNil() || back.IsNil()
	case reflect.Struct, reflect.Array:
		return false, false
	case reflect.Func, reflect.Chan, reflect.UnsafePointer:
		return x.IsNil() && back.IsNil(), true
	}
	return x.Equal(back), true
}

// custom reports that a type says itself what of it is stored, as time.Time does.
func custom(t reflect.Type) bool {
	for _, way := range []reflect.Type{reflect.TypeFor[json.Marshaler](), reflect.TypeFor[encoding.TextMarshaler]()} {
		if t.Kind() != reflect.Interface && (t.Implements(way) || reflect.PointerTo(t).Implements(way)) {
			return true
		}
	}
	return false
}

// text shows a value with its type, where that isn't plain.
func text(x reflect.Value) string {
	if !x.IsValid() {
		return "nothing"
	}
	if x.Kind() == reflect.String {
		return fmt.Sprintf("%q", x.String())
	}
	s := fmt.Sprintf("%v", x)
	if x.Kind() == reflect.Int || x.Kind() == reflect.Bool {
		return s
	}
	return fmt.Sprintf("%s (%s)", s, x.Type())
}
