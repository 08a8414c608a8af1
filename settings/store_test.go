package settings_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/settings"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// Law: losing the store changes nothing and stops nothing. The node says how old its knowledge is.
func TestLosingTheStoreChangesNothing(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		l := storagetest.NewLink(s)
		a, far := node(t, s, settings.Config{Name: "a"}), node(t, l.Store, settings.Config{Name: "far"})
		propose(t, a, 60)
		time.Sleep(poll)
		l.Cut()
		time.Sleep(4 * poll)
		wantSeats(t, 60, far)
		if age := far.State().Age; age < 3*poll || far.State().Fault != "" {
			t.Errorf("got %+v", far.State())
		}
		propose(t, a, 80) // a node that is cut off is passed over as dead
		wantSeats(t, 60, far)
		l.Restore()
		time.Sleep(poll + time.Second)
		wantSeats(t, 80, a, far)
		if age := far.State().Age; age > poll {
			t.Errorf("after the return its knowledge is %v old", age)
		}
	})
}

// A document that is empty, damaged or lost is never a value. Going back to a version replaces it.
func TestAnUnreadableDocumentIsNeverAValue(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		a, blobs, l := node(t, s, settings.Config{Name: "a"}), s.Blobs("settings"), ledger(t, s)
		propose(t, a, 60)
		want, wantNumber := 60, int64(1)
		for _, body := range []string{"", "{}", "null", "junk", `{"epoch":99,"last":0,"stable":0,"values":[]}`, `{"Epoch":99,"Last":1,"Stable":1,"Values":{}}`, "deleted"} {
			if body == "deleted" {
				must(t, blobs.Delete(t.Context(), "shop/current", storage.Condition{}))
			} else {
				_, err := blobs.Put(t.Context(), "shop/current", []byte(body), storage.Condition{})
				must(t, err)
			}
			time.Sleep(2 * poll)
			wantSeats(t, want, a)
			if a.State().Fault == "" {
				t.Errorf("%q: no fault", body)
			}
			_, err := settings.Open(t.Context(), s, name, defaults(), settings.Config{})
			wantErr(t, err, storage.ErrInvalid, "-to VERSION")
			_, err = settings.Open(t.Context(), s, name, defaults(), settings.Config{Offline: true})
			wantErr(t, err, storage.ErrInvalid)
			_, err = a.Propose(t.Context(), ada, seats(70))
			wantErr(t, err, storage.ErrInvalid)
			_, err = l.Back(t.Context(), -1, ada)
			wantErr(t, err, storage.ErrInvalid)
			e, err := l.Back(t.Context(), wantNumber, ada)
			must(t, err)
			time.Sleep(2 * poll)
			wantSeats(t, want, a)
			if st := a.State(); st.Fault != "" || st.Version != e.Version {
				t.Errorf("after %q and the repair: %+v, want version %d", body, st, e.Version)
			}
			want += 2
			wantNumber = propose(t, a, want)
		}
	})
}

// A cache that can't be written is written at a later look, so that a start without the store has what was in force.
func TestACacheThatCanNotBeWrittenIsTriedAgain(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "later")
	virtual(t, func(t *testing.T, s *storage.Store) {
		l := storagetest.NewLink(s)
		_, err := settings.Open(t.Context(), s, name, defaults(), settings.Config{Cache: filepath.Join(folder, "shop.settings")})
		wantErr(t, err, storage.ErrInvalid, "the folder of Cache", "is not there: make it")
		must(t, os.Mkdir(folder, 0o700))
		a := node(t, l.Store, settings.Config{Name: "a", Cache: filepath.Join(folder, "shop.settings")})
		must(t, os.RemoveAll(folder))
		propose(t, a, 60)
		must(t, os.Mkdir(folder, 0o700))
		time.Sleep(2 * poll)
		must(t, a.Close(t.Context()))
		l.Cut()
		wantSeats(t, 60, node(t, l.Store, settings.Config{Name: "again", Cache: filepath.Join(folder, "shop.settings")}))
	})
}

// A node starts without the store from its cache, which holds what it has applied and nothing that was refused.
func TestANodeStartsFromItsCache(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "shop.settings")
	virtual(t, func(t *testing.T, s *storage.Store) {
		l := storagetest.NewLink(s)
		a := node(t, l.Store, settings.Config{Name: "a", Cache: path})
		propose(t, a, 60)
		a.Changing(func(context.Context, shop, shop) error { return errors.New("no") })
		_, err := a.Propose(t.Context(), ada, seats(80))
		wantErr(t, err, settings.ErrRefused)
		must(t, a.Close(t.Context()))
		l.Cut()
		began := time.Now()
		again := node(t, l.Store, settings.Config{Name: "again", Cache: path})
		wantSeats(t, 60, again)
		if st := again.State(); st.Source != settings.FromCache || st.Version != 1 || st.Fault == "" || time.Since(began) > 11*time.Second {
			t.Errorf("after %v: %+v", time.Since(began), st)
		}
		_, err = settings.Open(t.Context(), l.Store, name, defaults(), settings.Config{})
		wantErr(t, err, storage.ErrUnavailable, "there is no cache; start the program while the store answers")
		off := node(t, l.Store, settings.Config{Offline: true})
		wantSeats(t, 40, off)
		l.Restore()
		time.Sleep(2 * poll)
		wantSeats(t, 60, again, off)
		if st := again.State(); st.Source != settings.FromStore || st.Fault != "" {
			t.Errorf("got %+v", st)
		}
	})
}

// A node also keeps that nobody has ever set anything, and starts with the defaults then. A change that is made
// meanwhile comes when the store is back.
func TestANodeStartsFromACacheOfDefaults(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "shop.settings")
	virtual(t, func(t *testing.T, s *storage.Store) {
		l := storagetest.NewLink(s)
		for range 2 { // the store's word comes before the cache's
			a := node(t, l.Store, settings.Config{Name: "a", Cache: path})
			if st := a.State(); st.Source != settings.FromDefaults || st.Fault != "" {
				t.Errorf("got %+v", st)
			}
			must(t, a.Close(t.Context()))
		}
		l.Cut()
		again := node(t, l.Store, settings.Config{Name: "again", Cache: path})
		wantSeats(t, 40, again)
		if st := again.State(); st.Source != settings.FromCache {
			t.Errorf("got %+v", st)
		}
		other := node(t, s, settings.Config{Name: "other"})
		_, err := other.Propose(t.Context(), ada, seats(60))
		must(t, err)
		l.Restore()
		time.Sleep(2 * poll)
		wantSeats(t, 60, again)
		if st := again.State(); st.Source != settings.FromStore || st.Fault != "" {
			t.Errorf("got %+v", st)
		}
	})
}

// A store without the settings that a node has applied was replaced: the node keeps its own, and says so.
func TestAnEmptyStoreIsNoDefault(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "shop.settings")
	virtual(t, func(t *testing.T, s *storage.Store) {
		a := node(t, s, settings.Config{Name: "a", Cache: path})
		propose(t, a, 60)
		must(t, a.Close(t.Context()))
		for info, err := range s.Blobs("settings").List(t.Context(), "") {
			must(t, err)
			must(t, s.Blobs("settings").Delete(t.Context(), info.Key, storage.Condition{}))
		}
		again := node(t, s, settings.Config{Name: "again", Cache: path})
		time.Sleep(poll)
		wantSeats(t, 60, again)
		if st := again.State(); st.Source != settings.FromCache || !strings.Contains(st.Fault, "delete the node's cache") {
			t.Errorf("got %+v", st)
		}
	})
}

// A field that a program doesn't have is a no, never ignored: at a change, and at a start.
func TestAFieldThatAProgramDoesNotHaveIsRefused(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		type newer struct {
			shop
			Music string `json:"music"`
		}
		b, err := settings.Open(t.Context(), s, name, newer{shop: defaults()}, settings.Config{Name: "b"})
		must(t, err)
		defer func() { must(t, b.Close(t.Context())) }()
		a := node(t, s, settings.Config{Name: "a"})
		play := func(s *newer) { s.Music = "jazz" }
		_, err = b.Propose(t.Context(), ada, play)
		wantErr(t, err, settings.ErrRefused, `a: this program: `, `unknown member "music"; want one of half, key, mail, seats, tags, workers; this program is older or newer than the change, or the name is misspelt`)
		_, err = b.Propose(t.Context(), ada, func(s *newer) { s.Seats, s.Half = 60, 30 }) // the old program need not know of music
		must(t, err)
		time.Sleep(time.Second)
		wantSeats(t, 60, a)
		must(t, a.Close(t.Context()))
		_, err = b.Propose(t.Context(), ada, play)
		must(t, err)
		_, err = settings.Open(t.Context(), s, name, defaults(), settings.Config{})
		wantErr(t, err, storage.ErrInvalid, "version 3 is in force, and this program can't run it", `"music"`)
		_, err = ledger(t, s).Set(t.Context(), ada, settings.Patch{Unset: []string{"music"}})
		must(t, err)
		wantSeats(t, 60, node(t, s, settings.Config{Name: "again"}))
	})
}

// A member of a map that is deleted is deleted, although the defaults have it.
func TestWhatIsDeletedStaysDeleted(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, s *storage.Store) {
		d := defaults()
		d.Tags = map[string]int{"window": 4, "door": 2}
		n, err := settings.Open(t.Context(), s, name, d, settings.Config{})
		must(t, err)
		defer func() { must(t, n.Close(t.Context())) }()
		_, err = n.Propose(t.Context(), ada, func(s *shop) { delete(s.Tags, "door"); s.Tags["bar"] = 7; s.Mail.Rate = 0 })
		must(t, err)
		if now := n.Now(); len(now.Tags) != 2 || now.Tags["window"] != 4 || now.Tags["bar"] != 7 || now.Mail.Rate != 0 {
			t.Errorf("got %+v", now)
		}
		_, err = ledger(t, s).Set(t.Context(), ada, settings.Patch{Unset: []string{"tags.door", "mail", "tags.nothing", "no.thing"}})
		must(t, err)
		time.Sleep(time.Second)
		if now := n.Now(); now.Tags["door"] != 2 || now.Mail.Rate != 10 {
			t.Errorf("got %+v", now)
		}
	})
}
