package processes_test

import (
	"slices"
	"testing"
	"time"

	"github.com/millrace-go/millrace/internal/processes"
	"github.com/millrace-go/millrace/process"
)

// Acts and a cancel stand in the order of their times.
func TestActsAreInOrder(t *testing.T) {
	t.Parallel()
	at := func(minute int) time.Time { return time.Date(2026, 12, 1, 10, minute, 0, 0, time.UTC) }
	s := &process.Stream{
		Cancel: &process.Note{At: at(2), Do: "cancel", By: "bob"},
		Notes:  []process.Note{{At: at(1), Do: "retry", Path: "02", By: "ada"}, {At: at(3), Do: "unheard", Path: "kit.v1"}},
	}
	got := processes.Acts(s, func(t time.Time) string { return t.Format("15:04") })
	if want := []string{"10:01 ada: retry 02", "10:02 bob: cancel", "10:03: unheard kit.v1"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A step that is stuck has its name and the reason, and so has one whose undo is.
func TestStuckSteps(t *testing.T) {
	t.Parallel()
	s := &process.Stream{Lines: []process.Line{
		{ID: "00", Name: "trip", Verb: "plan", Status: process.Stuck},
		{ID: "01", Name: "book", Status: process.Completed, Undos: []process.UndoRow{{Status: process.Undone}, {Status: process.Stuck, Msg: "refused: closed"}}},
		{ID: "02", Name: "pay", Status: process.Aborted, Undos: []process.UndoRow{{Status: process.Stuck}}},
		{ID: "03", Name: "think", Status: process.Stuck, Msg: "panic: no idea"},
		{ID: "04", Name: "rest", Status: process.InProcess},
	}}
	want := []processes.StuckStep{{ID: "01", Name: "book", Why: "its undo: refused: closed"}, {ID: "02", Name: "pay", Why: "its undo: no answer in time"}, {ID: "03", Name: "think", Why: "panic: no idea"}}
	if got := processes.Stuck(s); !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
