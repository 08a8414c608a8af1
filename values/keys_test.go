package values_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/values"
)

const (
	keptFor = 10 * aDay // the retention of these tests
	margin  = aDay
)

func keysConfig() values.Config[Account] {
	return values.Config[Account]{Window: 4, Retention: keptFor}
}

// sentAt is a message with a key that was sent at a time.
func (p *process) sentAt(id string, n int, at time.Time) values.Change[Account] {
	e := worldtest.Envelope(id, Add{Amount: n})
	e.Since = at
	return p.changeOf(&e)
}

// pushOut applies messages until those before have left the window.
func (p *process) pushOut() {
	p.t.Helper()
	for range 10 {
		time.Sleep(time.Millisecond)
		p.applied("k", p.change(newID(), 0))
	}
}

// turn applies messages until the document's writers have looked for old rows.
func (p *process) turn() {
	p.t.Helper()
	for range forgetEvery {
		p.applied("k", p.change(newID(), 0))
	}
}

// keyed returns the rows of keys, and the rows that end them.
func keyed(t testing.TB, s *storage.Store) (rows, ends []string) {
	t.Helper()
	for row, err := range s.Table("accounts-applied").Query(t.Context(), "k", storage.RowRange{}) {
		switch {
		case err != nil:
			t.Fatal(err)
		case strings.HasPrefix(row.Key, "key-"):
			rows = append(rows, row.Key)
		case strings.Contains(row.Key, "-key-"):
			ends = append(ends, row.Key)
		}
	}
	return rows, ends
}

// Two sends of one key count as one message if their times are within the retention, in whichever order and however
// late they are handled, in the window and after it.
func TestTwoSendsOfAKeyAreOne(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		p := newProcess(t, s, keysConfig())
		first := time.Now()
		again := first.Add(keptFor)
		p.applied("k", p.sentAt("order-17", 5, first), p.sentAt("order-18", 7, again))
		p.applied("k", p.sentAt("order-17", 5, first.Add(time.Hour)), p.sentAt("order-18", 7, first)) // in the window
		worldtest.WantErr(t, p.apply("k", p.sentAt("order-17", 6, again))[0], values.ErrContentDiffers)
		p.pushOut()
		repeat := func() {
			t.Helper()
			q := newProcess(t, s, keysConfig())
			q.applied("k", q.sentAt("order-17", 5, again), q.sentAt("order-18", 7, again))
			worldtest.WantErr(t, q.apply("k", q.sentAt("order-17", 6, again))[0], values.ErrContentDiffers)
			worldtest.Want(t, "balance", q.Balance("k"), 12)
		}
		repeat()
		time.Sleep(keptFor)
		p.turn()
		repeat()
		time.Sleep(keptFor - time.Minute) // the second is nearly too old now
		p.turn()
		repeat()
	})
}

// A copy that is older than the retention and not in the window is refused, without a guess.
func TestAKeyTooOldIsRefused(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		p := newProcess(t, s, keysConfig())
		first := time.Now()
		p.applied("k", p.sentAt("order-17", 5, first))
		time.Sleep(keptFor + time.Minute)
		p.applied("k", p.sentAt("order-17", 5, first)) // in the window
		p.applied("k", p.sentAt("order-18", 7, first)) // nothing has left the window
		p.pushOut()
		for _, id := range []string{"order-17", "order-18", "never seen"} {
			worldtest.WantErr(t, p.apply("k", p.sentAt(id, 5, first))[0], values.ErrTooOld)
		}
		worldtest.Want(t, "balance", p.Balance("k"), 12)
	})
}

// A key that is sent anew later than the retention is a repeat as long as the document remembers the first send. After
// that it is another message, which is remembered as long.
func TestAKeySentAnewIsAnotherMessage(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		p := newProcess(t, s, keysConfig())
		p.applied("k", p.sentAt("order-17", 5, time.Now()))
		p.pushOut()
		time.Sleep(keptFor + time.Minute)
		p.applied("k", p.sentAt("order-17", 5, time.Now()))
		worldtest.Want(t, "balance while it is remembered", p.Balance("k"), 5)
		time.Sleep(keptFor + margin)
		p.turn()
		second := time.Now()
		p.applied("k", p.sentAt("order-17", 6, second))
		worldtest.Want(t, "balance after it is forgotten", p.Balance("k"), 11)
		p.pushOut()
		time.Sleep(keptFor - time.Hour)
		p.turn()
		p.applied("k", p.sentAt("order-17", 6, second), p.sentAt("order-17", 6, time.Now()))
		worldtest.Want(t, "balance", p.Balance("k"), 11)
	})
}

// A document that takes keys for a year has rows of those that it must know, and few more. When no more keys come, the
// last row goes.
func TestRowsOfKeysEnd(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		const fold = 20
		n := 10_000
		if !s.Atomic() {
			n = 2_000 // calls for every row take long
		}
		every := 365 * aDay * fold / time.Duration(n)
		p := newProcess(t, s, keysConfig())
		most := int((2*keptFor+margin)/every)*fold + 2*forgetEvery
		for i := 0; i < n; i += fold {
			time.Sleep(every)
			var changes []values.Change[Account]
			for j := range fold {
				changes = append(changes, p.change(fmt.Sprintf("order-%d", i+j), 1))
			}
			p.applied("k", changes...)
			if i%100 != 0 {
				continue
			}
			if rows, ends := keyed(t, s); len(rows) > most || len(ends) != len(rows) {
				t.Fatalf("after %d messages: %d rows and %d that end them, want at most %d of each", i+fold, len(rows), len(ends), most)
			}
		}
		worldtest.Want(t, "balance", p.Balance("k"), n)
		p.pushOut()
		time.Sleep(2*keptFor + margin + time.Minute)
		for range most/forgetEvery + 1 {
			p.turn()
		}
		if rows, ends := keyed(t, s); len(rows)+len(ends) > 0 {
			t.Errorf("at the end there are %d rows of keys and %d that end them", len(rows), len(ends))
		}
	})
}

// Wherever a writer dies while it forgets, no row of a key stays without the row that ends it, and a row that ends a
// key's row does no harm to the same key sent anew.
func TestForgettingKeysCrashes(t *testing.T) {
	t.Parallel()
	for _, m := range []storagetest.Moment{storagetest.BeforeEffect, storagetest.AfterEffect} {
		t.Run(m.String(), func(t *testing.T) {
			t.Parallel()
			worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
				halfWay := 0
				for n := int64(1); ; n++ {
					p := newProcess(t, s, keysConfig())
					p.applied("k", p.sentAt("order-17", 1, time.Now()))
					p.pushOut()
					time.Sleep(2*keptFor + margin + time.Minute)
					p.settled()
					before := p.Balance("k")
					dying, fuse := storagetest.Crash(s, n, m)
					q := newProcess(t, dying, keysConfig())
					_ = q.apply("k", q.change(newID(), 0))
					rows, ends := keyed(t, s)
					if len(rows) > len(ends) {
						t.Fatalf("after a crash in call %d: %d rows, %d that end them", n, len(rows), len(ends))
					}
					if len(rows) == 0 {
						if len(ends) == 1 {
							halfWay++
						}
						anew := time.Now()
						p.applied("k", p.sentAt("order-17", 1, anew))
						p.pushOut()
						p.turn() // what the writer has left behind goes
						p.applied("k", p.sentAt("order-17", 1, anew))
						worldtest.Want(t, fmt.Sprintf("total after a crash in call %d", n), p.Balance("k"), before+1)
					}
					time.Sleep(2*keptFor + margin + time.Minute)
					p.turn()
					if rows, ends := keyed(t, s); len(rows)+len(ends) > 0 {
						t.Fatalf("after a crash in call %d: %d rows and %d that end them are left", n, len(rows), len(ends))
					}
					if !fuse.Fired() {
						break
					}
				}
				if halfWay == 0 {
					t.Error("no crash came between the two deletions")
				}
			})
		})
	}
}

// A sender's clock that is wrong by a year costs an error, never a second application.
func TestKeysOfWrongClocks(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		const year = 365 * aDay
		p := newProcess(t, s, keysConfig())
		p.applied("k", p.sentAt("early", 1, time.Now().Add(-year)), p.sentAt("late", 1, time.Now().Add(year)), p.sentAt("right", 1, time.Now()))
		for range 2 {
			p.applied("k", p.sentAt("early", 1, time.Now()), p.sentAt("late", 1, time.Now()), p.sentAt("right", 1, time.Now().Add(year)))
			p.applied("k", p.sentAt("late", 1, time.Now().Add(year)))
			for i := range 10 { // more of them than the window holds
				time.Sleep(time.Millisecond)
				p.applied("k", p.sentAt(newID(), 0, time.Now().Add(year)), p.sentAt(fmt.Sprint("ahead ", i), 0, time.Now().Add(year)))
			}
		}
		worldtest.WantErr(t, p.apply("k", p.sentAt("early", 1, time.Now().Add(-year)))[0], values.ErrTooOld)
		worldtest.Want(t, "balance", p.Balance("k"), 3)
		p.turn()
		p.applied("k", p.sentAt("late", 1, time.Now().Add(year)), p.sentAt("right", 1, time.Now()))
		worldtest.Want(t, "balance", p.Balance("k"), 3)
	})
}

// A message from elsewhere counts from the time that it has: "since", else the time in its ID, else "time". Without any
// it counts from when it comes.
func TestMessagesFromElsewhereHaveAnAge(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		p := newProcess(t, s, keysConfig())
		old, young := time.Now().Add(-keptFor-time.Hour), time.Now()
		stamp := func(at time.Time) string { return at.UTC().Format(time.RFC3339) }
		timed := worldtest.IDAt(old, 1)
		for range 20 { // so that some have left
			time.Sleep(time.Millisecond)
			p.applied("k", p.change(newID(), 0))
		}
		foreign := func(id, more string) error {
			body := `{"specversion":"1.0","id":"` + id + `","source":"/x","type":"test.add.v1",` + more + `"data":{"to":"","amount":1}}`
			e, err := wire.Decode([]byte(body))
			if err != nil {
				t.Fatal(err)
			}
			return p.apply("k", p.changeOf(&e))[0]
		}
		for i, test := range []struct {
			id, more string
			err      error
		}{
			{"none", "", nil},
			{"time", `"time":"` + stamp(young) + `",`, nil},
			{"old", `"time":"` + stamp(old) + `",`, values.ErrTooOld},
			{"since", `"time":"` + stamp(old) + `","since":"` + stamp(young) + `",`, nil},
			{"old since", `"time":"` + stamp(young) + `","since":"` + stamp(old) + `",`, values.ErrTooOld},
			{"first year", `"time":"0001-01-02T00:00:00Z",`, values.ErrTooOld},
			{"last year", `"time":"9999-01-01T00:00:00Z",`, nil},
			{timed, `"time":"` + stamp(young) + `",`, values.ErrTooOld},
			{timed, `"since":"` + stamp(young) + `",`, nil}, // one that was due later
		} {
			for range 2 {
				if err := foreign(test.id, test.more); err != test.err {
					t.Errorf("message %d, %s %s: got error %v, want %v", i+1, test.id, test.more, err, test.err)
				}
			}
		}
		worldtest.Want(t, "balance", p.Balance("k"), 5)
		p.pushOut()
		time.Sleep(keptFor - time.Hour)
		if err := foreign("none", ""); err != nil {
			t.Error(err)
		}
		worldtest.Want(t, "balance", p.Balance("k"), 5)
	})
}

// A UUIDv7 that was sent twice with a delay is one message, although it was due at two times.
func TestDelayedSendsOfAnIDAreOne(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		p := newProcess(t, s, keysConfig())
		id := newID()
		time.Sleep(30 * aDay)
		p.applied("k", p.sentAt(id, 3, time.Now()))
		p.applied("k", p.sentAt(id, 3, time.Now().Add(aDay)))
		p.pushOut()
		time.Sleep(2 * aDay)
		p.turn()
		p.applied("k", p.sentAt(id, 3, time.Now().Add(-aDay)))
		worldtest.Want(t, "balance", p.Balance("k"), 3)
	})
}

// Documents that exist have keys in their windows, whose times are when they were applied, and rows of keys without a
// time. Both are known, and such rows stay.
func TestKeysOfOlderDocuments(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		p := newProcess(t, s, keysConfig())
		packed := func(id string) (digest, content []byte) {
			e := worldtest.Envelope(id, Add{Amount: 1})
			d, c := sha256.Sum256([]byte(id)), e.Content()
			return d[:12], c[:6]
		}
		digest, content := packed("in the window")
		entry := append(append(digest, content...), 0x80|byte(time.Now().UnixMilli()>>40), 1, 2, 3, 4, 5)
		body := `{"version":7,"value":{"balance":2},"applied":"` + base64.StdEncoding.EncodeToString(entry) + `","left":true}`
		if _, err := s.Blobs("accounts").Put(t.Context(), "k", []byte(body), storage.Condition{}); err != nil {
			t.Fatal(err)
		}
		digest, content = packed("a row")
		row := "key-" + hex.EncodeToString(digest)
		if _, err := s.Table("accounts-applied").Put(t.Context(), "k", row, content, storage.Condition{}); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			p.applied("k", p.change("in the window", 1), p.change("a row", 1))
			worldtest.WantErr(t, p.apply("k", p.change("a row", 2))[0], values.ErrContentDiffers)
			p.pushOut()
		}
		worldtest.Want(t, "balance", p.Balance("k"), 2)
		time.Sleep(100 * aDay)
		p.turn()
		if rows, _ := keyed(t, s); len(rows) != 1 || rows[0] != row {
			t.Errorf("rows of keys: got %q, want %s", rows, row)
		}
	})
}

// A key costs one query more than a UUIDv7 once a message has left the window, and no other request: its two rows go
// with those of others.
func TestWhatAKeyCosts(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		var calls storagetest.Calls
		count := func(id func(i int) string) int {
			p := newProcess(t, storagetest.Intercept(s, calls.Hook), values.Config[Account]{Window: 40})
			key := id(0)
			for i := range 80 {
				p.applied(key, p.change(id(i), 0))
			}
			calls = storagetest.Calls{}
			for i := range 3 * forgetEvery {
				time.Sleep(time.Millisecond)
				p.applied(key, p.change(id(80+i), 0))
			}
			return len(calls.Ops())
		}
		timed := count(func(i int) string { return worldtest.IDAt(time.Now(), i) })
		keyed := count(func(i int) string { return fmt.Sprintf("order-%d", i) })
		worldtest.Want(t, "requests more for keys, one for each but the first", keyed-timed, 3*forgetEvery-1)
	})
}

// A tool that knows no types can ask a document's record.
func TestApplied(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		p := newProcess(t, s, values.Config[Account]{Window: 4})
		first := time.Now()
		timed := newID()
		ask := func(id string, since time.Time) (bool, error) {
			e := worldtest.Envelope(id, Add{Amount: 1})
			e.Since = since
			return values.Applied(t.Context(), s, "accounts", "k", "", &e)
		}
		want := func(id string, since time.Time, want bool, wantErr error) {
			t.Helper()
			got, err := ask(id, since)
			worldtest.Want(t, "applied "+id, got, want)
			worldtest.WantErr(t, err, wantErr)
		}
		want(timed, time.Time{}, false, nil) // there is no document
		p.applied("k", p.change(timed, 1), p.sentAt("order-17", 1, first))
		for range 2 { // in the window, and in rows
			want(timed, time.Time{}, true, nil)
			want("order-17", first.Add(time.Hour), true, nil)
			want("order-18", first, false, nil)
			p.pushOut()
		}
		time.Sleep(31 * aDay)
		want(timed, time.Time{}, true, nil)
		want("order-17", first, true, nil)
		want("order-18", first, false, values.ErrTooOld)
		want(worldtest.IDAt(first, 12345), time.Time{}, false, values.ErrTooOld)
		if _, err := s.Blobs("accounts").Put(t.Context(), "k", []byte("{"), storage.Condition{}); err != nil {
			t.Fatal(err)
		}
		if _, err := ask(timed, time.Time{}); err == nil {
			t.Error("got no error of a damaged document")
		}
	})
}
