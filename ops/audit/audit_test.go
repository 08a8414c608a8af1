package audit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/ops/audit"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

func virtual(t *testing.T, test func(t *testing.T, s *storage.Store)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { test(t, worldtest.OpenStore(t, worldtest.Virtual)) })
}

func entry(on string) audit.Entry {
	return audit.Entry{ID: audit.NewID(), Who: "ada", From: "10.0.0.7", Act: "poison retry", On: on, Why: "the server is back"}
}

func begin(t *testing.T, l *audit.Log, e audit.Entry) audit.Entry {
	t.Helper()
	known, err := l.Begin(t.Context(), e)
	worldtest.WantErr(t, err, nil)
	return known
}

func list(t *testing.T, l *audit.Log, from, to time.Time) (all []audit.Entry, faults int) {
	t.Helper()
	for e, err := range l.List(t.Context(), from, to) {
		if err != nil {
			faults++
			continue
		}
		all = append(all, e)
	}
	return all, faults
}

// An act that is cut off between its beginning and its end is known, and what it was.
func TestLawAnActIsKnownBeforeItsEffect(t *testing.T) {
	virtual(t, func(t *testing.T, s *storage.Store) {
		l, e := audit.Of(s), entry("queue mails")
		began := begin(t, l, e)
		got, err := audit.Of(s).Get(t.Context(), e.ID)
		worldtest.WantErr(t, err, nil)
		worldtest.Want(t, "what was meant", got, began)
		if got.Done() || !got.Time.Equal(time.Now()) || got.Who != "ada" || got.On != "queue mails" {
			t.Errorf("got %+v; want what ada means, without a result", got)
		}
		time.Sleep(time.Minute)
		worldtest.WantErr(t, l.End(t.Context(), e, "sent back: 12", nil), nil)
		got, err = l.Get(t.Context(), e.ID)
		worldtest.WantErr(t, err, nil)
		if !got.Done() || got.Result != "sent back: 12" || got.Failed || got.Ended.Sub(got.Time) != time.Minute {
			t.Errorf("got %+v; want the result after a minute", got)
		}
	})
}

// Whatever fails in the store, an act whose beginning was reported has its row.
func TestLawNoRowNoAct(t *testing.T) {
	virtual(t, func(t *testing.T, s *storage.Store) {
		for _, after := range []bool{false, true} {
			broken := storagetest.Intercept(s, func(_ context.Context, op storagetest.Op, do func() error) error {
				if op.Name != "put row" {
					return do()
				}
				if after {
					_ = do()
				}
				return op.Fail(storage.ErrUnavailable)
			})
			e := entry("queue mails")
			_, err := audit.Of(broken).Begin(t.Context(), e)
			worldtest.WantErr(t, err, storage.ErrUnavailable)
			_, err = audit.Of(s).Get(t.Context(), e.ID)
			if there := err == nil; there != after {
				t.Errorf("the row is there: %v, want %v", there, after)
			}
			begin(t, audit.Of(s), e) // the caller tries again under the same ID
			all, _ := list(t, audit.Of(s), time.Now().Add(-time.Hour), time.Now())
			if n := len(slices.DeleteFunc(all, func(x audit.Entry) bool { return x.ID != e.ID })); n != 1 {
				t.Errorf("the act is listed %d times, want once", n)
			}
		}
	})
}

// No call replaces or deletes a row.
func TestLawRowsAreOnlyAdded(t *testing.T) {
	virtual(t, func(t *testing.T, s *storage.Store) {
		var calls storagetest.Calls
		l := audit.Of(storagetest.Intercept(s, calls.Hook))
		e := entry("queue mails")
		for range 3 {
			begin(t, l, e)
			worldtest.WantErr(t, l.End(t.Context(), e, "done", nil), nil)
		}
		worldtest.WantErr(t, l.End(t.Context(), e, "", errors.New("late")), nil)
		got, err := l.Get(t.Context(), e.ID)
		worldtest.WantErr(t, err, nil)
		if got.Result != "done" || got.Failed {
			t.Errorf("got %+v; want the first end", got)
		}
		for _, op := range calls.Ops() {
			if op.Name != "put row" && op.Name != "query" {
				t.Errorf("the log calls %s of %s", op.Name, op.Resource)
			}
		}
	})
}

// A form that is sent twice has one effect, also when both arrive at once, and another act can't take its ID.
func TestLawOneIDOneAct(t *testing.T) {
	virtual(t, func(t *testing.T, s *storage.Store) {
		e := entry("queue mails")
		e.Digest = "of a body"
		var mu sync.Mutex
		var all []audit.Entry
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				known, err := audit.Of(s).Begin(t.Context(), e)
				mu.Lock()
				defer mu.Unlock()
				worldtest.WantErr(t, err, nil)
				all = append(all, known)
			})
		}
		wg.Wait()
		first := 0
		for _, known := range all {
			if !known.Again {
				first++
			}
			known.Again = all[0].Again
			worldtest.Want(t, "what was meant", known, all[0])
		}
		worldtest.Want(t, "who has begun it first", first, 1)
		worldtest.WantErr(t, audit.Of(s).End(t.Context(), e, "done", nil), nil)
		if again := begin(t, audit.Of(s), e); !again.Done() || again.Result != "done" {
			t.Errorf("got %+v; want the result", again)
		}
		for _, change := range []func(*audit.Entry){
			func(x *audit.Entry) { x.Act = "poison discard" },
			func(x *audit.Entry) { x.On = "queue ledger" },
			func(x *audit.Entry) { x.Who = "eve" },
			func(x *audit.Entry) { x.Digest = "of another body" },
		} {
			other := e
			change(&other)
			_, err := audit.Of(s).Begin(t.Context(), other)
			worldtest.WantErr(t, err, audit.ErrOtherAct)
		}
	})
}

func TestLawTextsAreBoundedAndPlain(t *testing.T) {
	virtual(t, func(t *testing.T, s *storage.Store) {
		l, e := audit.Of(s), entry("queue \x1b[31mmails\xff")
		e.Why = strings.Repeat("é", 5000)
		e.Result, e.Ended = "made up", time.Now()
		begin(t, l, e)
		worldtest.WantErr(t, l.End(t.Context(), e, "", errors.New("first line\nsecond line")), nil)
		got, err := l.Get(t.Context(), e.ID)
		worldtest.WantErr(t, err, nil)
		if got.On != "queue  [31mmails " || len(got.Why) > 1000 || !strings.HasSuffix(got.Why, "é…") || !got.Failed || got.Result != "first line second line" {
			t.Errorf("got %+v", got)
		}
	})
}

func TestBadEntries(t *testing.T) {
	virtual(t, func(t *testing.T, s *storage.Store) {
		l := audit.Of(s)
		old := entry("queue mails")
		time.Sleep(25 * time.Hour)
		for name, c := range map[string]struct {
			change func(*audit.Entry)
			want   error
		}{
			"no ID":       {func(e *audit.Entry) { e.ID = "" }, storage.ErrInvalid},
			"a random ID": {func(e *audit.Entry) { e.ID = "6ba7b810-9dad-41d1-80b4-00c04fd430c8" }, storage.ErrInvalid},
			"in capitals": {func(e *audit.Entry) { e.ID = strings.ToUpper(e.ID) }, storage.ErrInvalid},
			"nobody":      {func(e *audit.Entry) { e.Who = "" }, storage.ErrInvalid},
			"no act":      {func(e *audit.Entry) { e.Act = "" }, storage.ErrInvalid},
			"an old form": {func(e *audit.Entry) { e.ID = old.ID }, audit.ErrOld},
			"a far clock": {func(e *audit.Entry) { e.ID = "ffffffff-ffff-7fff-8fff-ffffffffffff" }, storage.ErrInvalid},
		} {
			e := entry("queue mails")
			c.change(&e)
			if _, err := l.Begin(t.Context(), e); !errors.Is(err, c.want) {
				t.Errorf("%s: got %v, want %v", name, err, c.want)
			}
		}
		_, err := l.Get(t.Context(), audit.NewID())
		worldtest.WantErr(t, err, storage.ErrNotFound)
	})
}

// A listing has the acts of the time that is asked for, the newest first, over days without any, and goes on over a row
// that can't be read.
func TestList(t *testing.T) {
	virtual(t, func(t *testing.T, s *storage.Store) {
		l := audit.Of(s)
		start := time.Now()
		var want []string
		for i := range 9 {
			e := entry(fmt.Sprint("number ", i))
			time.Sleep(30 * time.Minute) // the form is open
			begin(t, l, e)
			if i%2 == 0 {
				worldtest.WantErr(t, l.End(t.Context(), e, fmt.Sprint("result ", i), nil), nil)
			}
			want = append(want, e.ID)
			time.Sleep(17 * time.Hour)
		}
		slices.Reverse(want)
		all, _ := list(t, l, start, time.Now())
		var got []string
		for _, e := range all {
			got = append(got, e.ID)
			if n := strings.TrimPrefix(e.On, "number "); e.Done() != (n[0]%2 == '0'%2) || e.Done() && e.Result != "result "+n {
				t.Errorf("got %+v", e)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		some, _ := list(t, l, start.Add(17*time.Hour), start.Add(53*time.Hour))
		worldtest.Want(t, "acts of 36 hours", len(some), 3)
		_, err := s.Table("audit").Put(t.Context(), all[4].Time.Format("2006-01-02"), "0", []byte("{"), storage.Condition{})
		worldtest.WantErr(t, err, nil)
		rest, faults := list(t, l, start, time.Now())
		if len(rest) != len(want) || faults != 1 {
			t.Errorf("got %d acts and %d faults; want %d and 1", len(rest), faults, len(want))
		}
	})
}
