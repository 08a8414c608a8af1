package settings

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/millrace-go/millrace/storage"
)

const (
	maxSecret    = 64 << 10 // bytes
	maxReference = 1000     // bytes
)

// A Secret is a setting whose value is stored elsewhere: its reference is "env:NAME", an environment variable of the
// node, or "file:PATH", a file there. Each node resolves it when it is asked about a version, and again when it starts.
// Only [Secret.Value] tells the value. All ways to print or encode a Secret give the reference. The zero Secret refers
// to nothing.
type Secret struct {
	ref  string
	held *holder
}

// A holder keeps a value where printing with %+v and the like doesn't reach.
type holder struct{ get func() string }

// SecretAt returns the secret of a reference, for defaults: Open reports one that is wrong. Value is empty until then.
func SecretAt(ref string) Secret { return Secret{ref: ref} }

// Value is the secret itself. It is empty for the zero Secret.
func (s Secret) Value() string {
	if s.held == nil || s.held.get == nil {
		return ""
	}
	return s.held.get()
}

// String is the reference.
func (s Secret) String() string { return s.ref }

// GoString is the reference.
func (s Secret) GoString() string { return fmt.Sprintf("settings.SecretAt(%q)", s.ref) }

// LogValue is the reference.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.ref) }

// MarshalText gives the reference.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.ref), nil }

// UnmarshalText takes a reference. Its error doesn't repeat the text, because that may be a secret by mistake.
func (s *Secret) UnmarshalText(text []byte) error {
	if err := checkReference(string(text)); err != nil {
		return err
	}
	*s = Secret{ref: string(text), held: &holder{}}
	return nil
}

func checkReference(ref string) error {
	scheme, name, _ := strings.Cut(ref, ":")
	known := scheme == "file" || scheme == "env" && !strings.Contains(name, "=") // env:NAME=VALUE has the secret itself
	if ref == "" || known && name != "" && checkText("reference", ref, maxReference) == nil {
		return nil
	}
	return errNoReference
}

// errNoReference doesn't repeat the text: it may be a secret.
var errNoReference = fmt.Errorf("%w: a secret is set by a reference, \"env:NAME\" or \"file:PATH\"; the text (not shown here) is none", storage.ErrInvalid)

// resolve reads the value. Its error has the reference, never the value.
func (s Secret) resolve() error {
	if err := checkReference(s.ref); err != nil || s.ref == "" {
		return err
	}
	value, err := lookUp(s.ref)
	if err == nil && value == "" {
		err = fmt.Errorf("%w: it is empty", storage.ErrInvalid)
	}
	if err != nil {
		return fmt.Errorf("secret %s: %w", s.ref, err)
	}
	s.held.get = func() string { return value }
	return nil
}

func lookUp(ref string) (string, error) {
	if name, ok := strings.CutPrefix(ref, "env:"); ok {
		value, found := os.LookupEnv(name)
		if !found {
			return "", fmt.Errorf("%w: this node has no such environment variable", storage.ErrInvalid)
		}
		return bareSecret(value), nil
	}
	f, err := os.Open(strings.TrimPrefix(ref, "file:"))
	if err != nil {
		return "", err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return "", err
	}
	if len(data) > maxSecret {
		return "", fmt.Errorf("%w: it has more than %d bytes", storage.ErrTooLarge, maxSecret)
	}
	return bareSecret(string(data)), nil
}

// bareSecret is a secret without the line break that echo and editors put behind it.
func bareSecret(text string) string { return strings.TrimRight(text, "\r\n") }

// secretsOf calls f for each secret in a value, with its path.
func secretsOf(v reflect.Value, path string, f func(path string, s Secret)) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			secretsOf(v.Elem(), path, f)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			secretsOf(v.Index(i), fmt.Sprintf("%s.%d", path, i), f)
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			secretsOf(it.Value(), "."+below(strings.TrimPrefix(path, "."), fmt.Sprint(it.Key())), f)
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[Secret]() {
			f(strings.TrimPrefix(path, "."), v.Interface().(Secret)) // the type says so
			return
		}
		for i := range v.NumField() {
			if field := v.Type().Field(i); field.IsExported() || field.Anonymous {
				secretsOf(v.Field(i), path+memberName(field), f)
			}
		}
	}
}

// secretPaths returns the paths at which a type can have secrets. A * stands for each member of a map or list. A type
// within itself is left out: the paths of its values tell more.
func secretPaths(t reflect.Type, path string, within []reflect.Type) (all []string) {
	switch {
	case t == reflect.TypeFor[Secret]():
		return []string{strings.TrimPrefix(path, ".")}
	case slices.Contains(within, t):
		return nil
	}
	within = append(within, t)
	switch t.Kind() {
	case reflect.Pointer:
		return secretPaths(t.Elem(), path, within)
	case reflect.Slice, reflect.Array, reflect.Map:
		return secretPaths(t.Elem(), path+".*", within)
	case reflect.Struct:
		for i := range t.NumField() {
			if field := t.Field(i); field.IsExported() || field.Anonymous {
				all = append(all, secretPaths(field.Type, path+memberName(field), within)...)
			}
		}
	}
	return all
}

// memberName is a field's name in JSON, after a dot. The fields of an embedded struct belong to the struct around it.
func memberName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	switch {
	case name != "":
		return "." + name
	case f.Anonymous:
		return ""
	}
	return "." + f.Name
}
