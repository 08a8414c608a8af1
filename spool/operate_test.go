package spool

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
)

// listed is what List has of the world's file.
func (w *world) listed() (all []Entry) {
	w.t.Helper()
	for e, err := range List(w.t.Context(), w.path) {
		if err != nil {
			w.t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

// refuse makes a world with a note that has no route, which is set aside, and a command that waits.
func (w *world) refuse() {
	w.t.Helper()
	w.start(Config{}, nil)
	w.mood.Store(away)
	if err := w.spool.Channels().Send(w.t.Context(), note{"a"}); err != nil {
		w.t.Fatal(err)
	}
	if err := w.stop(); err != nil {
		w.t.Fatal(err)
	}
	only, err := channel.NewRoutes(channel.Command[worldtest.Add](worldtest.Accounts))
	if err != nil {
		w.t.Fatal(err)
	}
	w.mood.Store(up)
	w.channels = channelsOver(w.t, w.seen, only)
	w.start(Config{}, nil)
	settle()
	w.mood.Store(away)
	w.keep(1, 2)
}

// Law 6: what was set aside is listed with its reason, until a version with a route has sent it.
func TestLaw6ListTellsWhatWasSetAside(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.refuse()
		all := w.listed()
		if len(all) != 2 {
			t.Fatalf("got %+v, want the note and the command", all)
		}
		if e := all[0]; !strings.Contains(e.Refused, "no route") || len(e.Messages) != 1 || e.Messages[0].Kind != (note{}).Kind() || e.Messages[0].ID == "" || e.Bytes == 0 || e.Kept.IsZero() {
			t.Errorf("got %+v, want the note and why", e)
		}
		if e := all[1]; e.Refused != "" || e.Messages[0].ID != key(1) {
			t.Errorf("got %+v, want the command, which waits", e)
		}
		if st, err := Look(t.Context(), w.path); err != nil || st.Waiting != 1 || st.Refused != 1 || st.Bytes != all[0].Bytes+all[1].Bytes || !st.Oldest.Equal(all[1].Kept) {
			t.Errorf("a look: got %+v %v, want one that waits and one that was refused", st, err)
		}
		if err := w.stop(); err != nil {
			t.Fatal(err)
		}
		w.mood.Store(up)
		w.channels = channelsOver(t, w.seen, routes(t))
		w.start(Config{}, nil)
		settle()
		worldtest.Want(t, "entries afterwards", len(w.listed()), 0)
		for b, err := range w.spool.file.local.Blobs(refusals).List(t.Context(), "") {
			t.Errorf("a note is left: %v %v", b.Key, err)
		}
	})
}

// Law 6: an operator may discard an entry. It is never sent, the others are, and a log tells who and why: that of the
// program that runs, or of the next one.
func TestLaw6Discard(t *testing.T) {
	for name, running := range map[string]bool{"while the program runs": true, "while it doesn't": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				w.refuse()
				id := w.listed()[0].ID
				if !running {
					if err := w.stop(); err != nil {
						t.Fatal(err)
					}
				}
				if err := Discard(t.Context(), w.path, id, "ann", "typed by mistake"); err != nil {
					t.Fatal(err)
				}
				if err := Discard(t.Context(), w.path, id, "ann", "again"); !errors.Is(err, storage.ErrNotFound) {
					t.Errorf("again: got %v, want that there is none", err)
				}
				w.mood.Store(up)
				if !running {
					w.channels = channelsOver(t, w.seen, routes(t))
					w.start(Config{}, nil)
				}
				time.Sleep(asideFor + time.Minute)
				settle()
				if st := w.spool.State(); st.Refused != 0 || st.Waiting != 0 || st.Bytes != 0 {
					t.Errorf("got %+v, want an empty spool", st)
				}
				worldtest.Want(t, "log lines", w.log.Count("WARN an operator has discarded messages", "by=ann", "typed by mistake"), 1)
				worldtest.Want(t, "notes sent", len(w.arrived(notes)), 0)
				worldtest.Want(t, "commands sent", len(w.arrived(worldtest.Accounts)), 1)
			})
		})
	}
}

// Law 6: a discard that ended half-way has discarded nothing.
func TestLaw6ADiscardThatEndsHalfWay(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.refuse()
		at, _ := parseKey(w.spool.index.aside[0].entry.key())
		if _, err := w.spool.file.local.Blobs(discards).Put(t.Context(), at.key(), []byte(`{"by":"ann"}`), storage.Condition{}); err != nil {
			t.Fatal(err)
		}
		if err := w.stop(); err != nil {
			t.Fatal(err)
		}
		w.mood.Store(up)
		w.channels = channelsOver(t, w.seen, routes(t))
		w.start(Config{}, nil)
		settle()
		worldtest.Want(t, "log lines", w.log.Count("discarded"), 0)
		worldtest.Want(t, "notes sent", len(w.arrived(notes)), 1)
	})
}

func TestListAndDiscardRefuse(t *testing.T) {
	t.Parallel()
	none := filepath.Join(t.TempDir(), "none")
	for _, err := range List(t.Context(), none) {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("list: got %v, want that there is no file", err)
		}
	}
	if err := Discard(t.Context(), none, "0", "ann", "a"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("discard: got %v, want that there is no file", err)
	}
	if err := Discard(t.Context(), none, "x", "ann", "a"); !errors.Is(err, storage.ErrInvalid) {
		t.Errorf("discard: got %v, want that it is no ID", err)
	}
}
