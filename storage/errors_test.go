package storage_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/millrace-go/millrace/storage"
)

// An error of the driver gets its operation and resource, once.
func TestErrorsNameOperationAndResource(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, d *script, s *storage.Store) {
		cause := errors.New("the engine's own")
		d.err = fmt.Errorf("%w: %w", storage.ErrUnavailable, cause)
		row, blob, partition := `row place/"p"/"k"`, `blob place/"k"`, `partition place/"p"`
		want := map[string][2]string{
			"send": {"send", "queue place"}, "receive": {"receive", "queue place"}, "extend": {"extend", "queue place"},
			"rewrite": {"rewrite", "queue place"}, "delete": {"delete", "queue place"}, "stats": {"stats", "queue place"}, "find key": {"find", "queue place"}, "peek": {"peek", "queue place"},
			"get blob": {"get", blob}, "put blob": {"put", blob}, "delete blob": {"delete", blob}, "list": {"list", "container place"},
			"get row": {"get", row}, "put row": {"put", row}, "delete row": {"delete", row}, "query": {"query", partition},
			"put batch": {"put batch", partition}, "delete batch": {"delete batch", partition},
			"commit rows": {"put batch", partition}, "commit write": {"put", blob}, "commit send": {"send", "queue place"}, "commit delete": {"delete", "queue place"},
		}
		if s.Atomic() {
			want["commit rows"], want["commit write"] = [2]string{"commit", "work"}, [2]string{"commit", blob}
			want["commit send"], want["commit delete"] = [2]string{"commit", "work"}, [2]string{"commit", "work"}
		}
		for _, c := range callsAt(goodPlace) {
			err := c.do(t.Context(), s)
			var e *storage.Error
			if !errors.As(err, &e) || !errors.Is(err, storage.ErrUnavailable) || !errors.Is(err, cause) {
				t.Errorf("%s: got %v, want a *storage.Error that wraps kind and cause", c.name, err)
				continue
			}
			if got := [2]string{e.Op, e.Resource}; got != want[c.name] {
				t.Errorf("%s: got %q, want %q", c.name, got, want[c.name])
			}
		}
		whole := &storage.Error{Op: "create", Resource: "queue other", Err: storage.ErrThrottled}
		d.err = whole
		for _, c := range callsAt(goodPlace) {
			if err := c.do(t.Context(), s); err != error(whole) {
				t.Errorf("%s: got %v, want what the driver said", c.name, err)
			}
		}
		stale := &storage.StaleError{Queue: "place", Receipts: []storage.Receipt{"r"}}
		d.err = stale
		if err := s.Queue("place").Delete(t.Context(), []storage.Receipt{"r"}); err != error(stale) {
			t.Errorf("got %v, want the StaleError", err)
		}
	})
}

// A unit of work on a store that isn't atomic goes rows, write, sends, deletes, and stops where one fails.
func TestCommitInSteps(t *testing.T) {
	t.Parallel()
	work := storage.Work{
		Rows:   &storage.Rows{Table: "rows", Partition: "p", Puts: []storage.RowPut{{Key: "a"}, {Key: "b"}}},
		Write:  &storage.Write{Container: "docs", Key: "k"},
		Send:   []storage.Send{{Queue: "out"}, {Queue: "out"}},
		Delete: []storage.Claim{{Queue: "inbox", Receipt: "a"}, {Queue: "inbox", Receipt: "b"}},
	}
	steps := []string{"put batch: 2", "put", "send: 2", "delete: 2"}
	for i, failing := range []string{"put batch", "put", "send", "delete", "none"} {
		for _, kind := range []error{storage.ErrThrottled, storage.ErrUnavailable, storage.ErrTooLarge, storage.ErrInvalid} {
			d := &script{errs: map[string]error{failing: kind}}
			_, err := storage.New(d).Commit(t.Context(), work)
			if got, want := d.calls(), steps[:min(i+1, len(steps))]; !slices.Equal(got, want) {
				t.Errorf("%s fails: the driver was asked %q, want %q", failing, got, want)
			}
			want := kind
			if kind == storage.ErrTooLarge || kind == storage.ErrInvalid {
				want = storage.ErrUnavailable // part of the work may be done, so nothing may blame its content
			}
			var e *storage.Error
			if failing == "none" {
				if err != nil {
					t.Errorf("nothing fails: got %v", err)
				}
			} else if !errors.Is(err, want) || !errors.As(err, &e) || errors.Is(err, storage.ErrTooLarge) || errors.Is(err, storage.ErrInvalid) {
				t.Errorf("%s fails: got %v, want a *storage.Error of %q", failing, err, want)
			}
		}
	}

	d := &script{errs: map[string]error{"put": storage.ErrTooLarge}}
	if _, err := storage.New(d).Commit(t.Context(), storage.Work{Write: work.Write}); !errors.Is(err, storage.ErrTooLarge) {
		t.Errorf("a write alone: got %v, want %v", err, storage.ErrTooLarge)
	}
	d = &script{errs: map[string]error{"put": storage.ErrPrecondition}}
	if _, err := storage.New(d).Commit(t.Context(), work); !storage.LostRace(err) || len(d.calls()) != 2 {
		t.Errorf("a lost race: got %v, want it told, and nothing done but the rows", err)
	}
	d = &script{errs: map[string]error{"delete": &storage.StaleError{Queue: "inbox", Receipts: []storage.Receipt{"b"}}}}
	done, err := storage.New(d).Commit(t.Context(), work)
	if err != nil || done.ETag != "etag" || !slices.Equal(done.Stale, work.Delete[1:]) {
		t.Errorf("a stale receipt: got %+v, %v; want it told, and no error", done, err)
	}
}
