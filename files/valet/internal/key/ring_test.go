package key

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/sqlite"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// inTime runs a test of a store in virtual time.
func inTime(t *testing.T, test func(t *testing.T, s *storage.Store)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "test.db")+"?wake=off&sync=normal")
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		test(t, s)
	})
}

func sign(t *testing.T, r *Ring) string {
	t.Helper()
	text, err := r.Sign(t.Context(), some())
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// wantRead fails unless a ring takes a text, or refuses it.
func wantRead(t *testing.T, r *Ring, text string, good bool) {
	t.Helper()
	got, err := r.Read(t.Context(), text)
	if good && (err != nil || got != some()) || !good && !errors.Is(err, ErrForged) {
		t.Errorf("got %+v, %v; want it to be taken: %v", got, err, good)
	}
}

// Processes that make the first secret at once agree on one, and read each other's keys.
func TestTheFirstSecretIsMadeOnce(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, s *storage.Store) {
		const n = 8
		var all sync.WaitGroup
		rings, texts := make([]*Ring, n), make([]string, n)
		start := make(chan struct{})
		for i := range n {
			rings[i] = NewRing(storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
				err := do()
				if op.Name == "get blob" {
					<-start // all have seen that there is none
				}
				return err
			}))
			all.Go(func() { texts[i] = sign(t, rings[i]) })
		}
		synctest.Wait()
		close(start)
		all.Wait()
		for _, r := range rings {
			for _, text := range texts {
				wantRead(t, r, text, true)
			}
		}
		if one, ok := strings.CutPrefix(texts[0], "v1."); !ok || !strings.HasPrefix(texts[n-1], "v1."+one[:9]) {
			t.Errorf("there are several first secrets: %.12s and %.12s", texts[0], texts[n-1])
		}
	})
}

// A secret signs for a month, and its keys count for as long as a key may live, here for a year.
func TestSecretsTakeTurns(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, s *storage.Store) {
		r, other := NewRing(s), NewRing(s)
		var texts []string
		ids := map[string]bool{}
		for range 13 {
			before := sign(t, r)
			wantRead(t, other, before, true) // another process may have looked just now
			time.Sleep(settled)
			texts = append(texts, sign(t, r))
			wantRead(t, other, texts[len(texts)-1], true)
			ids[strings.Split(texts[len(texts)-1], ".")[1]] = true
			time.Sleep(newEvery + time.Second)
		}
		if len(ids) != 13 {
			t.Errorf("got %d secrets in 13 months", len(ids))
		}
		for _, text := range texts {
			wantRead(t, r, text, true)
			wantRead(t, other, text, true)
		}
		for range 2 * mostKept {
			time.Sleep(newEvery + time.Second)
			sign(t, r)
		}
		time.Sleep(readAgain + time.Second)
		wantRead(t, r, texts[0], false) // its secret has left
		wantRead(t, other, texts[0], false)
	})
}

// All keys end within a minute after somebody has deleted the document, and new ones are signed with a new secret.
func TestARingThatWasDeleted(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, s *storage.Store) {
		r, other := NewRing(s), NewRing(s)
		old := sign(t, r)
		wantRead(t, other, old, true)
		if err := s.Blobs(ringContainer).Delete(t.Context(), ringKey, storage.Condition{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(readAgain)
		wantRead(t, r, old, false)
		wantRead(t, other, old, false)
		wantRead(t, other, sign(t, r), false) // it has looked less than a second ago
		time.Sleep(askAgain)
		wantRead(t, other, sign(t, r), true)
		wantRead(t, r, old, false)
	})
}

// A document that can't be read is an error that says what to do. It is never an empty ring, and none of its secrets
// is weak.
func TestARingThatIsCorrupt(t *testing.T) {
	t.Parallel()
	for what, body := range map[string]string{
		"no JSON": "x", "cut off": `{"Secrets":[{"id":"aa`, "another type": `{"Secrets":"x"}`, "a list": `[]`, "nothing": "",
		"an empty secret": `{"Secrets":[{"id":"aaaaaaaa","secret":"","made":"2026-01-02T03:04:05Z"}]}`,
		"a short secret":  `{"Secrets":[{"id":"aaaaaaaa","secret":"YWFh","made":"2026-01-02T03:04:05Z"}]}`,
		"no ID":           `{"Secrets":[{"secret":"YWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWE=","made":"2026-01-02T03:04:05Z"}]}`,
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			inTime(t, func(t *testing.T, s *storage.Store) {
				old := sign(t, NewRing(s))
				if _, err := s.Blobs(ringContainer).Put(t.Context(), ringKey, []byte(body), storage.Condition{}); err != nil {
					t.Fatal(err)
				}
				r := NewRing(s)
				_, err := r.Sign(t.Context(), some())
				_, err2 := r.Read(t.Context(), old)
				for _, err := range []error{err, err2} {
					if err == nil || errors.Is(err, ErrForged) || !strings.Contains(err.Error(), "blob file-keys/ring, can't be read; delete it") || strings.Contains(err.Error(), "YWFh") {
						t.Errorf("got %v", err)
					}
				}
			})
		})
	}
}

// A key is neither good nor forged while the store is away. A secret that was read before stays good for a minute.
func TestARingWithoutItsStore(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, s *storage.Store) {
		link := storagetest.NewLink(s)
		r := NewRing(link.Store)
		text := sign(t, r)
		link.Cut()
		wantRead(t, r, text, true)
		time.Sleep(readAgain)
		if _, err := r.Read(t.Context(), text); !errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("got %v", err)
		}
		if _, err := r.Sign(t.Context(), some()); !errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("got %v", err)
		}
		link.Restore()
		wantRead(t, r, text, true)
	})
}
