package handlers_test

import (
	"errors"
	"testing"

	"github.com/millrace-go/millrace/handlers"
	"github.com/millrace-go/millrace/internal/handling"
)

// A package keeps one thing with a registry, and another one with another registry.
func TestKept(t *testing.T) {
	t.Parallel()
	type shelf struct{ books int }
	made := 0
	create := func() *shelf { made++; return &shelf{} }
	one, other := newWorld(t, handlers.Config{}), newWorld(t, handlers.Config{})
	handling.Kept(one.Registry.Inside(), create).books = 7
	if got := handling.Kept(one.Registry.Inside(), create).books; got != 7 {
		t.Errorf("the second call: got %d books, want the 7 of the first", got)
	}
	if got := handling.Kept(other.Registry.Inside(), create).books; got != 0 || made != 2 {
		t.Errorf("another registry: got %d books and %d shelves, want 0 and 2", got, made)
	}
}

// A package adds faults of its own to a registry.
func TestRefuse(t *testing.T) {
	t.Parallel()
	w := newWorld(t, handlers.Config{})
	fault := errors.New("a shelf without books")
	w.Registry.Inside().Faults.Add(fault)
	if err := w.Registry.Err(); !errors.Is(err, fault) {
		t.Errorf("got error %v, want %v", err, fault)
	}
}
