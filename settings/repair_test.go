package settings_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/settings"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// damage puts junk in place of blobs of settings.
func damage(t *testing.T, s *storage.Store, keys ...string) {
	t.Helper()
	for _, key := range keys {
		_, err := s.Blobs("settings").Put(t.Context(), name+"/"+key, []byte("junk"), storage.Condition{})
		must(t, err)
	}
}

func versionKey(n int64) string { return fmt.Sprintf("versions/%010d", n) }

// Law: every change can be undone by its number, also where the newest versions are damaged, and with them the current
// document. The nodes follow, because their epochs grow.
func TestLawAChangeIsUndoneByItsNumberOverDamagedVersions(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		a, l := node(t, s, settings.Config{Name: "a"}), ledger(t, s)
		back := func(to int64, wantSeatsNow int) settings.Ending {
			t.Helper()
			e, err := l.Back(t.Context(), to, ada)
			must(t, err)
			time.Sleep(2 * poll)
			wantSeats(t, wantSeatsNow, a)
			if st := a.State(); st.Fault != "" || st.Version != e.Version {
				t.Errorf("got %+v, want version %d", st, e.Version)
			}
			return e
		}
		propose(t, a, 60)
		propose(t, a, 80)
		damage(t, s, versionKey(2))
		_, err := l.Back(t.Context(), -1, ada)
		wantErr(t, err, storage.ErrInvalid, "version 2", "name a version by --to VERSION")
		back(1, 60)

		newest := propose(t, a, 80)
		damage(t, s, versionKey(newest), versionKey(newest-1), "current")
		_, err = l.Back(t.Context(), newest, ada)
		wantErr(t, err, storage.ErrInvalid, fmt.Sprintf("version %d", newest))
		_, err = l.Back(t.Context(), 99, ada)
		wantErr(t, err, storage.ErrNotFound, "go back in shop: not found: there is no version 99")
		if e := back(1, 60); e.Version <= newest {
			t.Errorf("got %+v, want a version after %d", e, newest)
		}

		newest = propose(t, a, 90)
		must(t, s.Blobs("settings").Delete(t.Context(), name+"/"+versionKey(newest), storage.Condition{}))
		damage(t, s, "current")
		if e := back(1, 60); e.Version <= newest {
			t.Errorf("got %+v, want a version after %d, which node a has run", e, newest)
		}
	})
}

// A program that finds a damaged document, and has no cache, is told how to mend that, and not to wait for the store.
func TestTheErrorOfADamagedDocumentSaysWhatToDo(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		propose(t, node(t, s, settings.Config{Name: "a"}), 60)
		damage(t, s, "current")
		_, err := settings.Open(t.Context(), s, name, defaults(), settings.Config{Cache: filepath.Join(t.TempDir(), "none")})
		wantErr(t, err, storage.ErrInvalid, `go back by "settings back --of shop" with --to VERSION`, "there is no cache")
		if strings.Contains(err.Error(), "while the store answers") {
			t.Errorf("got %v", err)
		}
	})
}

// The error of a cache that is damaged, or another one's, names its file.
func TestTheErrorOfADamagedCacheNamesItsFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "shop.settings")
	virtual(t, func(t *testing.T, s *storage.Store) {
		link := storagetest.NewLink(s)
		a := node(t, link.Store, settings.Config{Name: "a", Cache: path})
		propose(t, a, 60)
		must(t, a.Close(t.Context()))
		link.Cut()
		kept, err := os.ReadFile(path)
		must(t, err)
		for what, body := range map[string]string{"digest": string(kept[:len(kept)-9]) + `AAAAAAA"}`, "cache file": "junk"} {
			must(t, os.WriteFile(path, []byte(body), 0o600))
			_, err := settings.Open(t.Context(), link.Store, name, defaults(), settings.Config{Cache: path})
			wantErr(t, err, storage.ErrInvalid, what, path, "delete the file; start the program while the store answers")
		}
		must(t, os.WriteFile(path, kept, 0o600))
		_, err = settings.Open(t.Context(), link.Store, "tour", defaults(), settings.Config{Cache: path})
		wantErr(t, err, storage.ErrInvalid, path, `it is that of the settings "shop": give each program its own, and where the file lies beside a spool, its own spool`)
		if err != nil && strings.Contains(err.Error(), "delete the file") {
			t.Errorf("got %v, want no advice to delete the file of another program", err)
		}
	})
}

// The write that replaces a damaged document is repeated when the store fails it. The second try reads the damaged
// document again, and goes past all epochs, as the first one did.
func TestARepairIsRepeated(t *testing.T) {
	t.Parallel()
	for what, done := range map[string]bool{"not done": false, "done, and the answer lost": true} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			virtual(t, func(t *testing.T, s *storage.Store) {
				a := node(t, s, settings.Config{Name: "a"})
				first := propose(t, a, 60)
				propose(t, a, 70)
				before := a.State().Epoch
				damage(t, s, "current")
				var failed atomic.Bool
				shaky := storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
					if op.Name != "put blob" || op.Resource != "blob settings/"+name+"/current" || failed.Swap(true) {
						return do()
					}
					if done {
						must(t, do())
					}
					return storage.ErrUnavailable
				})
				e, err := ledger(t, shaky).Back(t.Context(), first, ada)
				if err != nil || e.Result != settings.InForce || e.Epoch <= before {
					t.Fatalf("got %+v, %v", e, err)
				}
				time.Sleep(2 * poll)
				wantSeats(t, 60, a)
				if st := a.State(); st.Fault != "" || st.Version != e.Version {
					t.Errorf("got %+v, want version %d", st, e.Version)
				}
			})
		})
	}
}
