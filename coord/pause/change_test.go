package pause_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/coord/pause"
	"github.com/millrace-go/millrace/internal/agreetest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

// A change is repeated until it is known to be done, and has its effect once.
func TestLawAChangeHasItsEffectOnce(t *testing.T) {
	t.Parallel()
	lost := func(op storagetest.Op) error { return op.Fail(storage.ErrUnavailable) }
	for name, c := range map[string]struct {
		disturb func(other func(), op storagetest.Op, do func() error) error
		want    string
		changes string // so many, as the blob has it
		doubt   bool
	}{
		"fails": {want: "mails", changes: "1", disturb: func(_ func(), op storagetest.Op, _ func() error) error { return lost(op) }},
		"the answer is lost": {want: "mails", changes: "1", disturb: func(_ func(), op storagetest.Op, do func() error) error {
			_ = do()
			return lost(op)
		}},
		"somebody writes first": {want: "bills mails", changes: "2", disturb: func(other func(), _ storagetest.Op, do func() error) error {
			other()
			return do()
		}},
		"fails, and somebody else writes": {want: "bills mails", changes: "2", disturb: func(other func(), op storagetest.Op, _ func() error) error {
			other()
			return lost(op)
		}},
		"the answer is lost, and somebody changes the pauses": {want: "bills", changes: "3", doubt: true, disturb: func(other func(), op storagetest.Op, do func() error) error {
			_ = do()
			other()
			return lost(op)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
				other := func() {
					hold(t, at(t, s), 0, "bills")
					resume(t, at(t, s), "mails")
				}
				first := true
				p := at(t, storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
					if op.Name != "put blob" || !first {
						return do()
					}
					first = false
					return c.disturb(other, op, do)
				}))
				err := p.Pause(t.Context(), []string{"mails"}, 0, pause.Note{})
				if c.doubt {
					wantErr(t, err, storage.ErrUnavailable, "whether this change came before that is unknown")
				} else {
					must(t, err)
				}
				if got := listed(t, at(t, s)); got != c.want {
					t.Errorf("%q are paused, want %q", got, c.want)
				}
				blob, err := s.Blobs(pause.Container).Get(t.Context(), pause.Key, "")
				if must(t, err); !strings.Contains(string(blob.Body), `"epoch":`+c.changes+`,`) {
					t.Errorf("got %s, want %s changes", blob.Body, c.changes)
				}
			})
		})
	}
}

// A store that fails for good ends a change with its error, and so does the caller's context.
func TestAChangeThatFails(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		link := storagetest.NewLink(s)
		link.Cut()
		p := at(t, link.Store)
		wantErr(t, p.Pause(t.Context(), []string{"mails"}, 0, pause.Note{}), storage.ErrUnavailable, "pause queues")
		wantErr(t, p.Repair(t.Context(), nil, 0, pause.Note{}), storage.ErrUnavailable, "repair")
		over := errors.New("over")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, over)
		defer cancel()
		wantErr(t, p.Resume(ctx, "mails"), over, "resume queues")
		link.Restore()
		link.Cut("publish")
		hold(t, p, 0, "mails") // nobody could be told, and it is paused
		if got := listed(t, p); got != "mails" {
			t.Errorf("%q are paused", got)
		}
	})
}

// All faults of a call are told at once, before a request is made.
func TestBadCalls(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		var calls storagetest.Calls
		p := at(t, storagetest.Intercept(s, calls.Hook))
		wantErr(t, p.Pause(t.Context(), []string{"good", "a b"}, time.Millisecond, pause.Note{By: "a\x1bb", Why: strings.Repeat("x", 257)}), storage.ErrInvalid, `"a b"`, "1ms", "By", "Why")
		wantErr(t, p.Pause(t.Context(), []string{"good"}, math.MaxInt64, pause.Note{}), storage.ErrInvalid, "ten years")
		wantErr(t, p.Resume(t.Context(), ""), storage.ErrInvalid)
		wantErr(t, p.Repair(t.Context(), []string{"a b"}, -time.Hour, pause.Note{By: "\xff"}), storage.ErrInvalid, `"a b"`, "-1h", "By")
		if n := calls.Count(); n != 0 {
			t.Errorf("%d requests", n)
		}
		resume(t, p, "mails") // nobody has ever paused anything
		hold(t, p, 0)
		if n := calls.Count("put blob"); n != 0 {
			t.Errorf("%d writes that change nothing", n)
		}
		wantErr(t, p.Repair(t.Context(), nil, 0, pause.Note{}), storage.ErrInvalid, "nothing to repair")
	})
	if _, err := pause.New(nil, pause.Config{}); !errors.Is(err, storage.ErrInvalid) || !strings.Contains(err.Error(), "no store") {
		t.Errorf("without a store: %v", err)
	}
}

// There is a bound to what is kept, and a pause beyond it says so.
func TestTooManyPauses(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		var many []string
		for i := range 900 {
			many = append(many, fmt.Sprintf("queue-%d", i))
		}
		p, note := at(t, s), pause.Note{By: "ada", Why: strings.Repeat("x", 256)}
		must(t, p.Pause(t.Context(), many[:450], 0, note))
		wantErr(t, p.Pause(t.Context(), many, 0, note), storage.ErrTooLarge, "900 queues", "resume some")
		resume(t, p, many...)
		if got := listed(t, p); got != "" {
			t.Errorf("%q are paused", got)
		}
	})
}

// A listing has all that is known of a pause.
func TestList(t *testing.T) {
	t.Parallel()
	agreetest.Virtual(t, func(t *testing.T, s *storage.Store) {
		p, began := at(t, s), time.Now()
		hold(t, p, time.Hour, "mails")
		must(t, p.Pause(t.Context(), []string{"bills"}, 0, pause.Note{}))
		all, err := p.List(t.Context())
		must(t, err)
		if m := all["mails"]; m.By != "ada" || m.Why != "no mail server" || !m.Since.Equal(began) || !m.Until.Equal(began.Add(time.Hour)) {
			t.Errorf("got %+v", m)
		}
		if b := all["bills"]; b.By == "" || b.Why != "" || !b.Until.IsZero() {
			t.Errorf("got %+v", b)
		}
	})
}
