package views_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/views"
)

// A view's user lists its documents: all of them, those of a prefix, and page by page. Each one is there once.
func TestAViewIsListedByItsUser(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	keys := []string{"a", "a/1", "a/2", "b", "é"}
	for i := range 20 {
		keys = append(keys, fmt.Sprintf("key-%02d", i))
	}
	slices.Sort(keys)
	for i, key := range keys {
		w.mustFold("totals", added(fmt.Sprint(i), key, 1))
	}
	// A page as a web shows it: so many keys from the one after the last.
	page := func(prefix, after string, n int) (page []string) {
		for key, err := range w.Totals.Keys(t.Context(), prefix, after) {
			if err != nil {
				t.Fatal(err)
			}
			if page = append(page, key); len(page) == n {
				break
			}
		}
		return page
	}
	for _, prefix := range []string{"", "a/", "key-", "none"} {
		var want []string
		for _, key := range keys {
			if strings.HasPrefix(key, prefix) {
				want = append(want, key)
			}
		}
		for _, n := range []int{1, 7, 100} {
			var got []string
			for after := ""; ; after = got[len(got)-1] {
				next := page(prefix, after, n)
				if got = append(got, next...); len(next) < n {
					break
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("prefix %q in pages of %d: got %q, want %q", prefix, n, got, want)
			}
		}
	}
	if err := w.Totals.Delete(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	var got []string
	for key, err := range w.Totals.Keys(t.Context(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, key)
	}
	if want := slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return key == "b" }); !slices.Equal(got, want) {
		t.Errorf("after a deletion: got %q, want %q", got, want)
	}
}

// A list that can't be read says so, last and once. A view that nobody has written yet has no keys.
func TestAListOfAViewThatCannotBeRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for key, err := range w.Totals.Keys(t.Context(), "", "") {
		t.Errorf("a new view: got key %q, error %v", key, err)
	}
	w.calls.failWith(storage.ErrUnavailable)
	failed := 0
	for key, err := range w.Totals.Keys(t.Context(), "a", "") {
		if failed++; key != "" || !errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("got key %q, error %v; want none, and that the store is away", key, err)
		}
	}
	if failed != 1 {
		t.Errorf("got %d errors, want one", failed)
	}
	w.calls.failWith(nil)
	for _, err := range views.New(w.Channels, "Bad Name", views.Config[Total]{}).Keys(t.Context(), "", "") {
		if !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("a name that can't be used: got error %v", err)
		}
	}
}
