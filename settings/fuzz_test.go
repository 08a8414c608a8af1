package settings

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"testing"
)

// Foreign bytes are refused, or are a document that is the same after it was written and read again.
func FuzzDocuments(f *testing.F) {
	for _, s := range []string{
		`{"epoch":3,"last":2,"stable":1,"values":{"a":1},"candidate":{"version":2,"values":{},"by":"ada","since":"2026-01-02T03:04:05Z"},"ended":[{"version":1,"result":"in force","epoch":2,"at":"2026-01-02T03:04:05Z"}]}`,
		`{"number":1,"base":0,"by":"ada","at":"2026-01-02T03:04:05Z","epoch":1,"values":{"a":{"b":null}},"changes":[{"path":"a.b","to":null}]}`,
		`{"id":"x","name":"a","poll":30000,"beats":1,"at":"2026-01-02T03:04:05Z","epoch":1,"version":1,"since":"2026-01-02T03:04:05Z","source":"store","verdict":{"version":1,"yes":true}}`,
		`{"epoch":3,"last":2,"stable":1,"values":{},"candidate":{"version":2,"values":{},"by":"ada","since":"2026-01-02T03:04:05Z","stages":[{"percent":10,"bake":1000000000},{"percent":100,"bake":1000000000,"calls":9}],"roll":{"stage":1,"upto":4294967295,"baked":7,"driver":"x","at":"2026-01-02T03:04:05Z","why":"slow"}}}`,
		`{"id":"x","name":"a","poll":30000,"beats":1,"at":"2026-01-02T03:04:05Z","epoch":1,"version":1,"since":"2026-01-02T03:04:05Z","source":"store","stages":[{"percent":100,"bake":1000000000}],"health":{"version":1,"ill":"x","before":{"done":1,"failed":2},"since":{"done":3,"failed":4}}}`,
		`{"name":"shop","epoch":1,"version":1,"values":{},"digest":"x"}`, `{}`, ``, `null`, `{"epoch":1,"values":{"a":1e999}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if d, err := parseDocument(data); err == nil {
			again, err := parseDocument(written(t, d))
			if err != nil || d.Epoch < 1 || d.Stable > d.Last || again.Epoch != d.Epoch || again.Stable != d.Stable || len(again.Ended) != len(d.Ended) {
				t.Errorf("%s: %v", data, err)
			}
			if r := d.rollout(); r != nil && (r.Stages[r.Stage].Percent < 1 || len(written(t, d.next(nil, "x", r.At))) == 0 || !reflect.DeepEqual(r, again.rollout())) {
				t.Errorf("%s: got %+v", data, r)
			}
		}
		if v, err := parseVersion(data, 1); err == nil {
			if again, err := parseVersion(written(t, v), 1); err != nil || again.Number != 1 || again.Why != v.Why {
				t.Errorf("%s: %v", data, err)
			}
		}
		if n, err := parseNode("x", data); err == nil {
			if again, err := parseNode("x", written(t, n)); err != nil || again.Name != n.Name {
				t.Errorf("%s: %v", data, err)
			}
		}
		if c, err := parseCache(data, "shop"); err == nil && c.Digest != c.digest() {
			t.Errorf("%s: accepted with a wrong digest", data)
		}
	})
}

func written(t *testing.T, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatalf("%+v: %v", v, err)
	}
	return data
}

// Patches of JSON objects obey their laws: a difference makes the second of the first, two patches one after the other
// do what their composition does, and the list of changes is empty for equal objects only.
func FuzzPatches(f *testing.F) {
	f.Add([]byte(`{"a":1,"b":{"c":2}}`), []byte(`{"b":{"d":null},"e":[1]}`), []byte(`{"b":{"c":3}}`))
	f.Add([]byte(`{}`), []byte(`{"guards":{"api.example.com":{"rate":80},"a\"b":1}}`), []byte(`{}`))
	f.Add([]byte(`{}`), []byte(`{"a":{}}`), []byte(`{"a":null}`))
	f.Fuzz(func(t *testing.T, x, y, z []byte) {
		a, errA := parseTree(x)
		b, errB := parseTree(y)
		c, errC := parseTree(z)
		if errA != nil || errB != nil || errC != nil {
			return
		}
		a, b, c = withoutNulls(a), withoutNulls(b), withoutNulls(c)
		if got := overlay(a, difference(a, b)); !reflect.DeepEqual(got, any(b)) {
			t.Errorf("from %s to %s by %v: got %v", x, y, difference(a, b), got)
		}
		stored := difference(a, b)
		if got := overlay(a, compose(stored, difference(b, c))); shapes(a, b, c) && !reflect.DeepEqual(got, any(c)) {
			t.Errorf("from %s by %s to %s: got %v", x, y, z, got)
		}
		if got := changes(a, b); (len(got) == 0) != reflect.DeepEqual(a, b) {
			t.Errorf("%s and %s: got changes %v", x, y, got)
		}
		before := written(t, a)
		for _, c := range changes(a, b) { // a path leads to the value that it was made of
			names, err := NamesOf(c.Path)
			if slices.Contains(names, "") || err != nil {
				continue // a name may be empty
			}
			x := tree{}
			if err := assign(x, c.Path, "x"); err != nil {
				t.Errorf("%s: %v", c.Path, err)
			}
			if got := changes(tree{}, x); len(got) != 1 || got[0].Path != c.Path {
				t.Errorf("from the path %s: got %+v", c.Path, got)
			}
			if err := unset(x, c.Path); err != nil || len(x) > 0 {
				t.Errorf("%s is still set, %v: %v", c.Path, err, x)
			}
		}
		if err := unset(a, "a.b"); err != nil || find(a, "a.b") != nil {
			t.Errorf("%s: a.b is still set", before)
		}
		if err := assign(a, "a.b", "x"); err != nil || find(a, "a.b") != "x" {
			t.Errorf("%s: %v, a.b is %v", before, err, find(a, "a.b"))
		}
		if !bytes.Equal(written(t, b), written(t, overlay(b, tree{}))) {
			t.Errorf("%s: an empty patch changes it", y)
		}
	})
}

// withoutNulls is a program's value: a null in it would mean that the member isn't there.
func withoutNulls(t tree) tree {
	result := tree{}
	for name, v := range t {
		if below, ok := v.(tree); ok {
			v = withoutNulls(below)
		}
		if v != nil {
			result[name] = v
		}
	}
	return result
}

// shapes reports that no member is an object in one of the trees and something else, or nothing, in another: the types
// of a program have fixed members.
func shapes(all ...tree) bool {
	objects, others := map[string]int{}, map[string]bool{}
	for _, t := range all {
		for name, v := range t {
			if _, ok := v.(tree); ok {
				objects[name]++
			} else {
				others[name] = true
			}
		}
	}
	for name, n := range objects {
		var below []tree
		for _, t := range all {
			if b, ok := t[name].(tree); ok {
				below = append(below, b)
			}
		}
		if n != len(all) || others[name] || !shapes(below...) {
			return false
		}
	}
	return true
}

// find returns the value at a path, nil if there is none.
func find(t tree, path string) any {
	for _, v := range each(t, "", path) {
		return v
	}
	return nil
}
