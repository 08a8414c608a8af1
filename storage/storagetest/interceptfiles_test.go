package storagetest_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/sqlite"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// withFiles opens a store that keeps files.
func withFiles(t *testing.T) *storage.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "test.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// Each call of files passes the hook. URLs and origins, which make no request for a file, don't.
func TestInterceptSeesFiles(t *testing.T) {
	t.Parallel()
	ctx, plain := t.Context(), withFiles(t)
	var calls storagetest.Calls
	s := storagetest.Intercept(plain, calls.Hook)
	f := s.Files("inbox")
	if err := f.PutPart(ctx, "key", 1, 4, strings.NewReader("body")); err != nil {
		t.Fatal(err)
	}
	_, _ = f.Parts(ctx, "key")
	info, _ := f.Commit(ctx, "key", []int64{4})
	_, _ = f.Stat(ctx, "key")
	r, err := f.Open(ctx, "key", info.ETag, 0, 4)
	if err != nil || r.Close() != nil {
		t.Fatal(err)
	}
	_, _ = f.Copy(ctx, "key", info.ETag, s.Files("kept"), "to")
	_ = f.Delete(ctx, "key")
	_, _ = f.Key(ctx, "key", storage.FileKey{For: time.Minute})
	_, _ = f.Origins(ctx, nil)
	var got []string
	for _, op := range calls.Ops() {
		got = append(got, fmt.Sprint(op.Seq, " ", op.Name, " ", op.Resource))
	}
	if want := []string{
		"1 put part file inbox/key", "2 list parts file inbox/key", "3 commit file file inbox/key", "4 stat file file inbox/key",
		"5 open file file inbox/key", "6 copy file file kept/to", "7 delete file file inbox/key",
	}; !slices.Equal(got, want) {
		t.Errorf("got %q; want %q", got, want)
	}
	without := storagetest.Intercept(storage.New(newPlace("").open()), calls.Hook)
	if without.Files("inbox").Kept() {
		t.Error("a store without files has them behind a hook")
	}
}

// A hook fails calls of files before their effect or after it.
func TestHookFailsFiles(t *testing.T) {
	t.Parallel()
	ctx, plain, errMine := t.Context(), withFiles(t), errors.New("mine")
	before := storagetest.Intercept(plain, func(context.Context, storagetest.Op, func() error) error { return errMine })
	after := storagetest.Intercept(plain, func(_ context.Context, _ storagetest.Op, do func() error) error {
		_, _ = do(), do()
		return errMine
	})
	put := func(s *storage.Store) error {
		return s.Files("inbox").PutPart(ctx, "key", 1, 4, strings.NewReader("bodybody"))
	}
	parts := func() int {
		all, err := plain.Files("inbox").Parts(ctx, "key")
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	if err := put(before); !errors.Is(err, errMine) || parts() != 0 {
		t.Errorf("failed before its effect: got %v, %d parts", err, parts())
	}
	if err := put(after); !errors.Is(err, errMine) || parts() != 1 {
		t.Errorf("failed after its effect: got %v, %d parts", err, parts())
	}
	info, err := after.Files("inbox").Commit(ctx, "key", []int64{4})
	if !errors.Is(err, errMine) || info.ETag != "" {
		t.Errorf("a lost commit: got %+v, %v", info, err)
	}
	if info, err = plain.Files("inbox").Stat(ctx, "key"); err != nil {
		t.Fatal(err)
	}
	if r, err := after.Files("inbox").Open(ctx, "key", info.ETag, 0, 4); !errors.Is(err, errMine) || r != nil {
		t.Errorf("a lost answer: got %v, %v", r, err)
	}
}
