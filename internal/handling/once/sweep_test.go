package once_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/handling/once"
	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/values"
)

// Old notes go once in a hundred effects, at a random one. Young notes stay.
func TestOnceForgetsOldNotes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var calls storagetest.Calls
		s := storagetest.Intercept(worldtest.OpenStore(t, worldtest.Virtual), calls.Hook)
		var effect counted
		guarded := guard(s, "mails", effect.do)
		run := func(id string) {
			t.Helper()
			if err := guarded(wire.WithHandling(t.Context(), envelope(id, "test.added.v1", "{}"), "mails", nil)); err != nil {
				t.Fatal(err)
			}
		}
		const old, sweep = 100, 100 // the first sweep also finds out that there are no keyed notes
		for i := range old {
			run(worldtest.IDAt(time.Now(), i))
		}
		time.Sleep(29 * 24 * time.Hour)
		young := worldtest.IDAt(time.Now(), 0)
		run(young)
		time.Sleep(2*24*time.Hour + time.Second)
		before := calls.Count("query")
		for i := range sweep {
			run(worldtest.IDAt(time.Now(), i))
		}
		if got := calls.Count("query") - before; got != 1 {
			t.Errorf("looked for old notes %d times in %d effects, want once", got, sweep)
		}
		got := notes(t, s, "mails")
		if want := 1 + sweep; len(got) != want {
			t.Errorf("after the sweep: got %d notes, want %d", len(got), want)
		}
		done := effect.n.Load()
		run(young)
		effect.want(t, done)
	})
}

// A clock that is ahead deletes no note that others rely on, not even one of a run that goes on: notes are judged by
// the times of messages, too.
func TestOnceForgetsNothingByAClockThatIsAhead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := worldtest.OpenStore(t, worldtest.Virtual)
		var effect counted
		guarded := guard(s, "mails", effect.do)
		run := func(id string) {
			t.Helper()
			if err := guarded(wire.WithHandling(t.Context(), envelope(id, "test.added.v1", "{}"), "mails", nil)); err != nil {
				t.Fatal(err)
			}
		}
		noted := worldtest.IDAt(time.Now(), 0)
		run(noted)
		time.Sleep(5 * 24 * time.Hour)
		sent := time.Now() // and by then this process's clock is four weeks ahead, as it seems
		time.Sleep(28 * 24 * time.Hour)
		for i := range 200 {
			run(worldtest.IDAt(sent, i))
		}
		if got, want := len(notes(t, s, "mails")), 201; got != want {
			t.Errorf("got %d notes, want all %d", got, want)
		}
	})
}

// Processes that end long before their hundredth effect sweep old notes, too.
func TestOnceForgetsInShortLives(t *testing.T) {
	t.Parallel()
	var calls storagetest.Calls
	s := storagetest.Intercept(worldtest.OpenStore(t, worldtest.Virtual), calls.Hook)
	var effect counted
	for range 2000 { // the chance that none of them sweeps is e^-20
		if err := runOnce(t.Context(), s, "mails", channel.NewID(), effect.do); err != nil {
			t.Fatal(err)
		}
	}
	if n := calls.Count("query"); n == 0 || n > 150 {
		t.Errorf("looked for old notes %d times in 2000 lives of one effect, want about 60 times", n)
	}
}

// A sweep that fails is no fault of the message whose effect is done.
func TestOnceSweepFails(t *testing.T) {
	t.Parallel()
	s := storagetest.Intercept(worldtest.OpenStore(t, worldtest.Virtual), func(_ context.Context, op storagetest.Op, do func() error) error {
		if op.Name == "query" {
			return op.Fail(storage.ErrUnavailable)
		}
		return do()
	})
	var effect counted
	guarded := guard(s, "mails", effect.do)
	for range 100 {
		if err := guarded(wire.WithHandling(t.Context(), envelope(channel.NewID(), "test.added.v1", "{}"), "mails", nil)); err != nil {
			t.Fatal(err)
		}
	}
	effect.want(t, 100)
}

// sentAt is a message with a key that was sent at a time.
func sentAt(id string, at time.Time) *channel.Envelope {
	e := envelope(id, "test.added.v1", "{}")
	e.Since = at
	return e
}

// keyedWorld has a group whose reaction counts its effects, and a function that delivers a message to it.
func keyedWorld(t *testing.T, s *storage.Store) (effect *counted, deliver func(*channel.Envelope) error) {
	effect = new(counted)
	guarded := guard(s, "mails", effect.do)
	return effect, func(e *channel.Envelope) error {
		return guarded(wire.WithHandling(t.Context(), e, "mails", nil))
	}
}

// Two sends of one key have one effect if their times are within 30 days, however late they are handled. A copy that is
// older is refused. A key that is sent anew after its note is gone has its effect again.
func TestOnceOfAKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const day, month = 24 * time.Hour, 30 * 24 * time.Hour
		effect, deliver := keyedWorld(t, worldtest.OpenStore(t, worldtest.Virtual))
		first := time.Now()
		again := first.Add(month)
		want := func(e *channel.Envelope, err error, n int64) {
			t.Helper()
			worldtest.WantErr(t, deliver(e), err)
			effect.want(t, n)
		}
		sweeps := func() {
			for range 100 {
				worldtest.WantErr(t, deliver(envelope(channel.IDAt(time.Now()), "test.added.v1", "{}")), nil)
			}
			effect.n.Add(-100)
		}
		want(sentAt("order-17", first), nil, 1)
		want(sentAt("order-17", first), nil, 1)
		want(sentAt("order-17", again), nil, 1)
		other := sentAt("order-17", again)
		other.Data = []byte(`{"amount":1}`)
		want(other, values.ErrContentDiffers, 1)
		time.Sleep(month + time.Minute)
		want(sentAt("order-17", first), values.ErrTooOld, 1)
		want(sentAt("never seen", first), values.ErrTooOld, 1)
		time.Sleep(month - day)
		sweeps()
		want(sentAt("order-17", again), nil, 1)
		time.Sleep(2 * day)
		sweeps()
		want(sentAt("order-17", time.Now()), nil, 2)
		want(sentAt("order-17", time.Now().Add(time.Hour)), nil, 2)
	})
}

// A UUIDv7 that was sent twice with a delay has one effect. A message from elsewhere without a time is always new.
func TestOnceCountsFromTheTimeBesideTheID(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const day = 24 * time.Hour
		effect, deliver := keyedWorld(t, worldtest.OpenStore(t, worldtest.Virtual))
		id := channel.IDAt(time.Now())
		old := envelope("old", "test.added.v1", "{}")
		old.Time = time.Now()
		time.Sleep(31 * day)
		worldtest.WantErr(t, deliver(sentAt(id, time.Now())), nil)
		worldtest.WantErr(t, deliver(sentAt(id, time.Now().Add(day))), nil)
		worldtest.WantErr(t, deliver(envelope(id, "test.added.v1", "{}")), values.ErrTooOld)
		worldtest.WantErr(t, deliver(old), values.ErrTooOld)
		effect.want(t, 1)
		worldtest.WantErr(t, deliver(envelope("no time", "test.added.v1", "{}")), nil)
		time.Sleep(31 * day)
		worldtest.WantErr(t, deliver(envelope("no time", "test.added.v1", "{}")), nil)
		effect.want(t, 2)
	})
}

// A group that takes keys for a year has notes of those that it must know, and not many more. When no more keys come,
// the last note goes, even one of a run that died.
func TestNotesOfKeysEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const day, n, every = 24 * time.Hour, 10_000, 365 * 24 * time.Hour / 10_000
		s := worldtest.OpenStore(t, worldtest.Virtual)
		_, deliver := keyedWorld(t, s)
		lost := []byte(`{"done":false,"holder":"x","content":"y","since":` + fmt.Sprint(time.Now().UnixMilli()) + `}`)
		if _, err := s.Table("once").Put(t.Context(), "mails", "u-00000000-lost", lost, storage.Condition{}); err != nil {
			t.Fatal(err)
		}
		most := 0
		for i := range n {
			if i%10 == 0 {
				time.Sleep(10 * every)
			}
			if err := deliver(sentAt(fmt.Sprintf("order-%d", i), time.Now())); err != nil {
				t.Fatal(err)
			}
			if i%500 == 0 {
				most = max(most, len(notes(t, s, "mails")))
			}
		}
		needed := int(61 * day / every)
		if most < needed || most > 5*needed/2 {
			t.Errorf("there were up to %d notes, want %d and not many more", most, needed)
		}
		time.Sleep(62 * day)
		for i := range 200 * most / 100 {
			if err := deliver(envelope(channel.IDAt(time.Now()), "test.added.v1", "{}")); err != nil {
				t.Fatal(err)
			}
			if i%100 == 0 {
				time.Sleep(10 * day)
			}
		}
		for _, key := range notes(t, s, "mails") {
			if key[0] == 'u' {
				t.Fatalf("%s is still there", key)
			}
		}
	})
}

// Notes of keys that exist have no time. They stay, and are known.
func TestNotesOfOlderKeysStay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := worldtest.OpenStore(t, worldtest.Virtual)
		effect, deliver := keyedWorld(t, s)
		worldtest.WantErr(t, deliver(envelope("order-17", "test.added.v1", "{}")), nil)
		row, err := s.Table("once").Get(t.Context(), "mails", notes(t, s, "mails")[0])
		if err != nil {
			t.Fatal(err)
		}
		for name, data := range map[string]string{"u-1": `{"done":true,"content":"x"}`, "u-2": "{", row.Key: `{"done":true,"content":"` + content(t, row.Data) + `"}`} {
			if _, err := s.Table("once").Put(t.Context(), "mails", name, []byte(data), storage.Condition{}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(100 * 24 * time.Hour)
		for range 100 {
			worldtest.WantErr(t, deliver(envelope(channel.IDAt(time.Now()), "test.added.v1", "{}")), nil)
		}
		worldtest.WantErr(t, deliver(envelope("order-17", "test.added.v1", "{}")), nil)
		effect.want(t, 101)
		worldtest.Want(t, "notes", len(notes(t, s, "mails")), 103)
	})
}

func content(t *testing.T, note []byte) string {
	t.Helper()
	var mark struct{ Content string }
	if err := json.Unmarshal(note, &mark); err != nil {
		t.Fatal(err)
	}
	return mark.Content
}

// A tool that knows no types can ask for a note.
func TestNoted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := worldtest.OpenStore(t, worldtest.Virtual)
		first := time.Now()
		for _, e := range []*channel.Envelope{envelope(channel.IDAt(first), "test.added.v1", "{}"), sentAt("order-17", first)} {
			want := func(wantBegun, wantDone bool, wantErr error) {
				t.Helper()
				begun, done, err := once.Noted(t.Context(), s, "mails", e)
				worldtest.Want(t, "begun", begun, wantBegun)
				worldtest.Want(t, "done", done, wantDone)
				worldtest.WantErr(t, err, wantErr)
			}
			want(false, false, nil)
			guarded := guard(s, "mails", func(context.Context) error {
				want(true, false, nil)
				return nil
			})
			worldtest.WantErr(t, guarded(wire.WithHandling(t.Context(), e, "mails", nil)), nil)
			want(true, true, nil)
			for _, key := range notes(t, s, "mails") {
				worldtest.WantErr(t, s.Table("once").Delete(t.Context(), "mails", key, storage.Condition{}), nil)
			}
			want(false, false, nil)
		}
		time.Sleep(31 * 24 * time.Hour)
		_, _, err := once.Noted(t.Context(), s, "mails", sentAt("order-17", first))
		worldtest.WantErr(t, err, values.ErrTooOld)
	})
}
