package spool

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
)

func (w *world) reports() []Report {
	w.t.Helper()
	all, err := Reports(w.t.Context(), w.store)
	if err != nil {
		w.t.Fatal(err)
	}
	return all
}

// A program tells in the store what stays in its spool although the store is there, and takes that back.
func TestReports(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.start(Config{}, nil)
		w.bad.Store(notes)
		if err := w.spool.Channels().Send(t.Context(), note{"a"}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.send(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		for n := range 100 {
			if _, err := w.send(t.Context(), n); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		all := w.reports()
		if len(all) != 1 || all[0].Program != "/web" || all[0].File != w.path || all[0].Waiting == 0 || all[0].Oldest.IsZero() || all[0].Host == "" {
			t.Errorf("got %+v, want one that tells of the note", all)
		}
		w.bad.Store("")
		settle()
		worldtest.Want(t, "reports afterwards", len(w.reports()), 0)
	})
}

// A report of refused messages goes when a later start has sent them, even after a crash.
func TestReportOfRefusedMessages(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.start(Config{}, nil)
		w.mood.Store(away)
		if err := w.spool.Channels().Send(t.Context(), note{"a"}); err != nil {
			t.Fatal(err)
		}
		_ = w.stop()
		w.mood.Store(up)
		only, err := channel.NewRoutes(channel.Command[worldtest.Add](worldtest.Accounts))
		if err != nil {
			t.Fatal(err)
		}
		whole := w.channels
		w.channels = channelsOver(t, w.seen, only)
		w.start(Config{}, nil)
		settle()
		if all := w.reports(); len(all) != 1 || all[0].Refused != 1 || !strings.Contains(all[0].Reason, "no route") {
			t.Errorf("got %+v, want one of a refused message", all)
		}
		if err := w.stop(); err != nil {
			t.Fatal(err)
		}
		w.channels = whole
		s, err := Open(t.Context(), w.path, w.channels, Config{Logger: slog.New(w.log)}) // it knows that the file is older than the start
		if err != nil {
			t.Fatal(err)
		}
		w.use(s, s.Close)
		settle()
		worldtest.Want(t, "reports", len(w.reports()), 0)
		worldtest.Want(t, "notes", len(w.arrived(notes)), 1)
	})
}

// Messages that are refused while the store is away are reported when it is back, and not ten minutes later.
func TestReportOfMessagesRefusedInAnOutage(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.start(Config{}, nil)
		w.mood.Store(away)
		if err := w.spool.Channels().Send(t.Context(), note{"a"}); err != nil {
			t.Fatal(err)
		}
		_ = w.stop()
		only, err := channel.NewRoutes(channel.Command[worldtest.Add](worldtest.Accounts))
		if err != nil {
			t.Fatal(err)
		}
		w.channels = channelsOver(t, w.seen, only)
		w.start(Config{}, nil)
		for range 3 { // so that it is away in a pass, and in the report after it
			if _, err := w.send(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Second)
		}
		w.mood.Store(up)
		time.Sleep(2 * time.Minute)
		if all := w.reports(); len(all) != 1 || all[0].Refused != 1 {
			t.Errorf("got %+v, want one of a refused message", all)
		}
	})
}

// Another program's rows are left out.
func TestReportsLeaveOutWhatIsNone(t *testing.T) {
	t.Parallel()
	s := worldtest.OpenStore(t, worldtest.Virtual)
	for key, data := range map[string]string{"a": "junk", "b": `{"program":"/web","waiting":3}`} {
		if _, err := s.Table(reports).Put(t.Context(), reports, key, []byte(data), storage.Condition{}); err != nil {
			t.Fatal(err)
		}
	}
	all, err := Reports(t.Context(), s)
	if err != nil || len(all) != 1 || all[0].Waiting != 3 {
		t.Errorf("got %+v, %v; want one", all, err)
	}
	if got := shorten(strings.Repeat("é", 1000)); len(got) > mostReason+3 {
		t.Errorf("a reason of %d bytes", len(got))
	}
}

// Look tells what is in a file, while a program has it open and afterwards.
func TestLook(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		if _, err := Look(t.Context(), filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("no file: got %v", err)
		}
		w.start(Config{}, nil)
		w.mood.Store(away)
		w.keep(0, 3)
		began := time.Now()
		for range 2 {
			st, err := Look(t.Context(), w.path)
			if err != nil || st.Waiting != 3 || st.Bytes == 0 || st.Oldest.After(began) {
				t.Errorf("got %+v, %v; want 3 messages", st, err)
			}
			if err := w.stop(); err != nil {
				t.Fatal(err)
			}
		}
		other := filepath.Join(t.TempDir(), "other")
		if _, err := worldtest.OpenAt(t, other+worldtest.Virtual).Blobs(container).Put(t.Context(), "x", nil, storage.Condition{}); err != nil {
			t.Fatal(err)
		}
		if _, err := Look(t.Context(), other); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("a store's file: got %v", err)
		}
		empty := filepath.Join(t.TempDir(), "empty")
		if err := os.WriteFile(empty, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		st, err := Look(t.Context(), empty)
		if info, gone := os.Stat(empty); err != nil || st != (State{}) || gone != nil || info.Size() != 0 {
			t.Errorf("an empty file: got %+v, %v; want nothing in it, and the file as it was", st, err)
		}
	})
}
