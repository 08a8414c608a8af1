package agreetest

import (
	"errors"
	"iter"
	"testing"

	"github.com/millrace-go/millrace/storage"
)

// Refused fails the test unless each error matches storage.ErrInvalid: the errors of calls without a store, by name.
func Refused(t *testing.T, calls map[string]error) {
	t.Helper()
	for call, err := range calls {
		if !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", call, err)
		}
	}
}

// First returns the error that a listing begins with.
func First[T any](seq iter.Seq2[T, error]) error {
	for _, err := range seq {
		return err
	}
	return nil
}
