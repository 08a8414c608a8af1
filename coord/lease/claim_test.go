package lease_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/coord/lease"
	"github.com/millrace-go/millrace/internal/agreetest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

func TestAClaimShutsAnEarlierHolderOutOfWhatIsRead(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		blobs := s.Blobs("docs")
		link := storagetest.NewLink(s)
		old := acquire(t, link.Store).Blobs(blobs)
		for _, key := range []string{"stock", "gone"} {
			if _, err := old.Put(t.Context(), key, []byte("1"), storage.Condition{}); err != nil {
				t.Fatal(err)
			}
		}
		if err := old.Delete(t.Context(), "gone", storage.Condition{}); err != nil {
			t.Fatal(err)
		}
		link.Cut()
		next := acquire(t, s).Blobs(blobs)
		all := []string{"stock", "gone", "never"}
		for range 2 { // the second time there is nothing to do
			if err := next.Claim(t.Context(), all...); err != nil {
				t.Fatal(err)
			}
		}
		for _, key := range all {
			if _, err := old.Put(t.Context(), key, []byte("late"), storage.Condition{}); !errors.Is(err, lease.ErrFenced) {
				t.Errorf("an earlier holder writes %s: %v, want ErrFenced", key, err)
			}
			doc, err := next.Get(t.Context(), key)
			if key == "stock" && (err != nil || string(doc.Content) != "1" || doc.Fence != 2) {
				t.Errorf("%s is %+v, %v; want the content as it was, with fence 2", key, doc, err)
			}
			if key != "stock" && !errors.Is(err, storage.ErrNotFound) {
				t.Errorf("%s is %+v, %v; want none", key, doc, err)
			}
			if _, err := next.Put(t.Context(), key, []byte("2"), storage.Condition{IfAbsent: key != "stock"}); err != nil {
				t.Errorf("the holder writes %s: %v", key, err)
			}
		}
		if err := old.Claim(t.Context(), "stock"); !errors.Is(err, lease.ErrFenced) || !strings.Contains(err.Error(), "claim") {
			t.Errorf("an earlier holder claims: %v", err)
		}
		if err := next.Claim(t.Context(), "/bad/../key", ""); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("a key that can't be: %v", err)
		}
	})
}

// A claim whose answer is lost is done all the same, and a call of it again does no harm.
func TestAClaimWhoseAnswerIsLost(t *testing.T) {
	t.Parallel()
	eachCallFails(t, 1, func(t *testing.T, failing, s *storage.Store) {
		docs := lease.Fenced(failing.Blobs("docs"), name, 2)
		if err := docs.Claim(t.Context(), key); err != nil {
			t.Error(err)
		}
		if err := put(t, lease.Fenced(s.Blobs("docs"), name, 1), "late"); !errors.Is(err, lease.ErrFenced) {
			t.Errorf("an earlier holder writes: %v, want ErrFenced", err)
		}
	})
}
