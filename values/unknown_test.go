package values_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/values"
)

// Two versions of a value, as they run beside each other while a program is updated.
type (
	stock1 struct {
		Left  int               `json:"left"`
		Low   string            `json:"low,omitempty"`
		Shelf *shelf1           `json:"shelf,omitempty"`
		By    map[string]shelf1 `json:"by,omitempty"`
		Rows  []shelf1          `json:"rows,omitempty"`
	}
	shelf1 struct {
		N int `json:"n"`
	}

	stock2 struct {
		Left  int               `json:"left"`
		Low   string            `json:"low,omitempty"`
		Note  string            `json:"note,omitempty"`
		Big   json.RawMessage   `json:"big,omitempty"`
		Shelf *shelf2           `json:"shelf,omitempty"`
		By    map[string]shelf2 `json:"by,omitempty"`
		Rows  []shelf2          `json:"rows,omitempty"`
	}
	shelf2 struct {
		N     int    `json:"n"`
		Color string `json:"color,omitempty"`
	}
)

// second is the form that version 2 has written.
func second(stock2) stock2 {
	return stock2{
		Left: 10, Low: "soon", Note: "fragile", Big: json.RawMessage("12345678901234567890.5"), Shelf: &shelf2{1, "red"},
		By: map[string]shelf2{"a": {1, "blue"}, "b": {2, "green"}}, Rows: []shelf2{{1, "grey"}},
	}
}

func sell(v stock1) stock1 { v.Left--; return v }

// storedValue is a document's value as it is stored.
func storedValue(t testing.TB, s *storage.Store) string {
	t.Helper()
	b, err := s.Blobs("things").Get(t.Context(), "k", "")
	if err != nil {
		t.Fatal(err)
	}
	var d struct{ Value json.RawMessage }
	if err := json.Unmarshal(b.Body, &d); err != nil {
		t.Fatal(err)
	}
	return string(d.Value)
}

// In a rolling update the version that doesn't know a member keeps it as it is, at every depth except in lists.
func TestOlderVersionKeepsWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		newer, older := collectionOf(t, s, values.Config[stock2]{}), collectionOf(t, s, values.Config[stock1]{})
		two := func(folds ...func(stock2) stock2) {
			t.Helper()
			for _, f := range folds {
				if err := newer.Apply(t.Context(), "k", changed(t, set(f)), nil)[0].Err; err != nil {
					t.Fatal(err)
				}
			}
		}
		one := func(folds ...func(stock1) stock1) {
			t.Helper()
			all := []func(stock1) (stock1, error){func(v stock1) (stock1, error) { return v, errors.New("refused") }}
			for _, f := range folds {
				all = append(all, set(f))
			}
			for i, err := range errsOf(older.Apply(t.Context(), "k", changed(t, all...), nil)) {
				if (err != nil) != (i == 0) {
					t.Fatalf("change %d: got error %v", i, err)
				}
			}
		}
		want := func(what, want string) {
			t.Helper()
			if got := storedValue(t, s); got != want {
				t.Errorf("%s: got\n%s, want\n%s", what, got, want)
			}
		}
		one(sell) // each has the document in memory before the other changes it
		two(second)
		one(sell, sell)
		one(sell)
		const kept = `"note":"fragile","big":12345678901234567890.5}`
		want("four sold", `{"left":7,"low":"soon","shelf":{"n":1,"color":"red"},"by":{"a":{"n":1,"color":"blue"},"b":{"n":2,"color":"green"}},"rows":[{"n":1}],`+kept)
		two(func(v stock2) stock2 { v.Left--; return v })
		if v := valueOf[stock2](t, s); v.Left != 6 || v.Note != "fragile" || string(v.Big) != "12345678901234567890.5" || v.Shelf.Color != "red" {
			t.Errorf("got %+v, want what version 2 has set", v)
		}
		one(func(v stock1) stock1 { // a whole new value, without optional members
			return stock1{Left: v.Left, By: map[string]shelf1{"b": {3}, "c": {4}}}
		})
		want("a new value", `{"left":6,"by":{"b":{"n":3,"color":"green"},"c":{"n":4}},`+kept)
		one(func(v stock1) stock1 { v.Shelf, v.By = &shelf1{5}, nil; return v })
		want("an object that is there again", `{"left":6,"shelf":{"n":5},`+kept)
		two(func(v stock2) stock2 { v.Note = ""; return v })
		one(sell)
		want("what version 2 takes out stays out", `{"left":5,"shelf":{"n":5},"big":12345678901234567890.5}`)
		if err := older.Update(t.Context(), "k", func(v stock1) (stock1, bool) { return sell(v), true }); err != nil {
			t.Fatal(err)
		}
		want("updated", `{"left":4,"shelf":{"n":5},"big":12345678901234567890.5}`)
		if err := older.Delete(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		one(sell)
		want("a new document", `{"left":-1}`)
	})
}

// A process that has a document in memory also has its unknown members there, and makes no further request for them.
func TestUnknownMembersFromMemory(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		if err := collectionOf(t, s, values.Config[stock2]{}).Apply(t.Context(), "k", changed(t, set(second)), nil)[0].Err; err != nil {
			t.Fatal(err)
		}
		var calls storagetest.Calls
		older := collectionOf(t, storagetest.Intercept(s, calls.Hook), values.Config[stock1]{})
		for range 3 {
			if err := older.Apply(t.Context(), "k", changed(t, set(sell)), nil)[0].Err; err != nil {
				t.Fatal(err)
			}
		}
		worldtest.Want(t, "reads", calls.Count("get blob"), 1)
		if got := storedValue(t, s); !strings.HasPrefix(got, `{"left":7,`) || !strings.Contains(got, `"note":"fragile"`) {
			t.Errorf("got %s, want 7 left, and the note", got)
		}
	})
}

// Kept members count for the size of the document: a message that would make it too large fails.
func TestUnknownMembersCountForTheSize(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		s = newSmall(s, 4000)
		note := func(v stock2) stock2 { v.Note = strings.Repeat("x", 3000); return v }
		if err := collectionOf(t, s, values.Config[stock2]{}).Apply(t.Context(), "k", changed(t, set(note)), nil)[0].Err; err != nil {
			t.Fatal(err)
		}
		before := storedValue(t, s)
		low := func(v stock1) stock1 { v.Low = strings.Repeat("x", 1500); return v }
		worldtest.WantErr(t, collectionOf(t, s, values.Config[stock1]{}).Apply(t.Context(), "k", changed(t, set(low)), nil)[0].Err, storage.ErrTooLarge)
		if got := storedValue(t, s); got != before {
			t.Errorf("got %.40s…, want it as before", got)
		}
	})
}

// own decodes itself.
type own struct{ N int }

func (x *own) UnmarshalJSON(b []byte) error {
	var all map[string]int
	err := json.Unmarshal(b, &all)
	x.N = all["n"]
	return err
}

func (x own) MarshalJSON() ([]byte, error) { return json.Marshal(map[string]int{"n": x.N}) }

// Maps, interfaces and types that decode themselves know all members.
func TestValuesThatKnowEverything(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		for name, change := range map[string]func() (errs []error, want string){
			"a map": func() ([]error, string) {
				c := collectionOf(t, s, values.Config[map[string]int]{})
				return errsOf(c.Apply(t.Context(), "k", changed(t, set(func(v map[string]int) map[string]int { delete(v, "n"); return v })), nil)), `{"new":2}`
			},
			"anything": func() ([]error, string) {
				c := collectionOf(t, s, values.Config[any]{})
				return errsOf(c.Apply(t.Context(), "k", changed(t, set(func(any) any { return 5 })), nil)), `5`
			},
			"a type with methods of its own": func() ([]error, string) {
				c := collectionOf(t, s, values.Config[own]{})
				return errsOf(c.Apply(t.Context(), "k", changed(t, set(func(v own) own { return own{v.N + 1} })), nil)), `{"n":2}`
			},
		} {
			if _, err := s.Blobs("things").Put(t.Context(), "k", []byte(`{"version":1,"value":{"n":1,"new":2}}`), storage.Condition{}); err != nil {
				t.Fatal(err)
			}
			errs, want := change()
			if got := storedValue(t, s); errs[0] != nil || got != want {
				t.Errorf("%s: got %s, error %v; want %s", name, got, errs[0], want)
			}
		}
	})
}
