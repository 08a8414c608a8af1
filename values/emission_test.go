package values_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/internal/worldtest"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
	"github.com/millrace-go/millrace/values"
)

// pay is a command that decisions of these tests emit.
type pay struct {
	N   int    `json:"n"`
	Key string `json:"key,omitempty"`
}

func (pay) Kind() channel.Kind  { return "test.pay.v1" }
func (x pay) MessageID() string { return x.Key }
func (x pay) Check() error {
	if x.N < 0 {
		return errors.New("n is negative")
	}
	return nil
}

// newEmitter is newProcess with a queue of pays, and one group of Added.
func newEmitter(t testing.TB, s *storage.Store, cfg values.Config[Account]) *process {
	t.Helper()
	return &process{t: t, World: worldtest.New(t, s, worldtest.Config{
		Groups: []string{worldtest.Totals}, Routes: []channel.Route{channel.Command[pay]("pays")}, Accounts: cfg,
	})}
}

// emits is a message that adds 1 and emits these messages.
func emits(e *channel.Envelope, ms ...channel.Message) values.Change[Account] {
	return values.Change[Account]{Envelope: e, Fold: func(v Account) (Account, []channel.Message, error) {
		v.Balance++
		return v, ms, nil
	}}
}

// delayed returns the due times of the messages that comes collects, by ID.
type delayed map[string]time.Time

// comes takes all that comes to the queues of an emitter within a time. It checks that no message comes before it is
// due, that all copies of one are due at the same time, and that large bodies are whole.
func comes(t *testing.T, s *storage.Store, within time.Duration, all delayed) {
	t.Helper()
	p := newEmitter(t, s, values.Config[Account]{})
	for end := time.Now().Add(within); ; time.Sleep(5 * time.Minute) {
		for _, queue := range []string{"totals", "pays"} {
			for _, e := range worldtest.Take(t, s, queue) {
				if time.Now().Before(e.Due) {
					t.Errorf("%s %s came %v before it is due", e.Kind, e.ID, time.Until(e.Due))
				}
				if due, known := all[e.ID]; known && !due.Equal(e.Due) {
					t.Errorf("%s %s is due at %v and at %v", e.Kind, e.ID, due, e.Due)
				}
				all[e.ID] = e.Due
				if err := p.Channels.Outbox().FetchBody(t.Context(), &e); err != nil || !json.Valid(e.Data) {
					t.Errorf("%s %s: body %.20q…, error %v", e.Kind, e.ID, e.Data, err)
				}
			}
		}
		if !time.Now().Before(end) {
			return
		}
	}
}

// Whatever call a worker dies in, each emission comes, whatever it is: an event or a command, at once or later, small
// or large. All its copies have one ID and are due at one time, and none comes before that.
func TestEmissionsAreNeverLostOrEarly(t *testing.T) {
	t.Parallel()
	for _, moment := range []storagetest.Moment{storagetest.BeforeEffect, storagetest.AfterEffect} {
		for _, by := range []string{"the replay", "the next writer"} {
			t.Run(moment.String()+"/"+by, func(t *testing.T) {
				t.Parallel()
				worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
					for n := int64(1); ; n += worldtest.Stride {
						if !emitAndDie(t, s, fmt.Sprintf("k-%d", n), n, moment, by) {
							if n < 3 {
								t.Errorf("no crash at call %d", n)
							}
							return
						}
					}
				})
			})
		}
	}
}

// emitAndDie lets a worker die in its nth call while it decides. The replay or the next writer finishes its work. It
// reports whether the worker came so far.
func emitAndDie(t *testing.T, s *storage.Store, key string, n int64, moment storagetest.Moment, by string) bool {
	e := worldtest.Envelope(newID(), Add{Amount: 1})
	decision := func() values.Change[Account] {
		return emits(&e, Added{Amount: 1}, pay{N: 1}, channel.After(time.Hour, pay{N: 1}), channel.After(30*time.Minute, Added{Note: largeNote().Note}))
	}
	dying, fuse := storagetest.Crash(s, n, moment)
	began := time.Now()
	newEmitter(t, dying, values.Config[Account]{}).apply(key, decision())
	decided := began
	time.Sleep(10 * time.Minute)

	p := newEmitter(t, s, values.Config[Account]{})
	d, err := p.Accounts.Get(t.Context(), key, "")
	if err != nil {
		t.Fatal(err)
	}
	if d.Version == 0 {
		decided = time.Now()
	}
	all := delayed{}
	if by == "the next writer" && d.Version > 0 {
		p.applied(key, emits(ptr(worldtest.Envelope(newID(), Add{}))))
	} else {
		p.applied(key, decision())
	}
	comes(t, s, 2*time.Hour, all)
	p.applied(key, decision()) // a late copy
	p.applied(key, emits(ptr(worldtest.Envelope(newID(), Add{}))))
	comes(t, s, 0, all)

	worldtest.Want(t, fmt.Sprintf("call %d: emissions", n), len(all), 4)
	for i, after := range []time.Duration{0, 0, time.Hour, 30 * time.Minute} {
		due, at := time.Time{}, e.ID
		if after > 0 {
			due = decided.Add(after)
		}
		got, found := all[emissionID(at, due, key, i)]
		if !found || !got.Equal(due) {
			t.Errorf("call %d: emission %d is due at %v (found: %v), want %v; all: %v", n, i, got, found, due, all)
		}
	}
	return fuse.Fired()
}

func ptr[T any](x T) *T { return &x }

// emissionID is the ID of the nth emission of a message. It has the time when it is due, or else its message's.
func emissionID(id string, due time.Time, key string, n int) string {
	derived := channel.DerivedID(id, "event", "/accounts/"+key, fmt.Sprint(n))
	if due.IsZero() {
		return derived
	}
	return worldtest.IDAt(due, 0)[:13] + derived[13:]
}

// When nobody knows whether a decision was written, the replay finds out. If it was, the emission stays due when the
// first decision said. If it was not, nothing was sent either, and the next decision is the first one.
func TestDueIsFixedByTheFirstDecision(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		for _, written := range []bool{true, false} {
			hooked := storagetest.Intercept(s, once(writing(s), func(op storagetest.Op, do func() error) error {
				if written {
					_ = do()
				}
				return op.Fail(storage.ErrUnavailable)
			}))
			key, e := fmt.Sprintf("written-%v", written), worldtest.Envelope(newID(), Add{})
			first := time.Now()
			p := newEmitter(t, hooked, values.Config[Account]{})
			worldtest.WantErr(t, p.apply(key, emits(&e, channel.After(time.Hour, pay{N: 1})))[0], storage.ErrUnavailable)
			time.Sleep(7 * time.Minute)
			want := map[bool]time.Time{true: first, false: time.Now()}[written].Add(time.Hour)
			p.applied(key, emits(&e, channel.After(time.Hour, pay{N: 1})))
			all := delayed{}
			comes(t, s, 2*time.Hour, all)
			if len(all) != 1 || !all[emissionID(e.ID, want, key, 0)].Equal(want) {
				t.Errorf("written: %v: got %v, want one that is due at %v", written, all, want)
			}
		}
	})
}

// A pending emission that is due by the time that somebody sends it comes at once.
func TestPendingPastItsDueIsSentAtOnce(t *testing.T) {
	onPlain(t, func(t *testing.T, s *storage.Store) {
		hooked := storagetest.Intercept(s, once("send", func(op storagetest.Op, _ func() error) error { return op.Fail(storage.ErrUnavailable) }))
		e := worldtest.Envelope(newID(), Add{})
		due := time.Now().Add(time.Hour)
		worldtest.WantErr(t, newEmitter(t, hooked, values.Config[Account]{}).apply("k", emits(&e, channel.At(due, pay{N: 1})))[0], storage.ErrUnavailable)
		time.Sleep(2 * time.Hour)
		newEmitter(t, s, values.Config[Account]{}).applied("k", emits(&e, channel.At(due, pay{N: 1})))
		all := delayed{}
		comes(t, s, 0, all)
		if !all[emissionID(e.ID, due, "k", 0)].Equal(due) {
			t.Errorf("got %v, want the one that was due at %v", all, due)
		}
	})
}

// Two groups may bring the same event to the same document. Each has it applied once, also when the record's entries
// have become rows, and what the two emit is not the same.
func TestEachGroupHasARecordOfItsOwn(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		p := newEmitter(t, s, values.Config[Account]{Window: 2})
		e := worldtest.Envelope(newID(), Added{Amount: 1})
		event := func(group string) values.Change[Account] {
			c := emits(&e, pay{N: len(group)})
			c.Group = group
			return c
		}
		all := []values.Change[Account]{event(""), event("a"), event("long")}
		for range 3 {
			p.applied("k", all...)
			p.applied("k", all[2], all[1])
			worldtest.Want(t, "balance", p.Balance("k"), 3)
			for range 10 { // until they are rows
				time.Sleep(time.Millisecond)
				p.applied("k", values.Change[Account]{Envelope: ptr(worldtest.Envelope(newID(), Add{})), Fold: func(v Account) (Account, []channel.Message, error) { return v, nil, nil }})
			}
		}
		if got := idsOf(worldtest.Take(t, s, "pays")); len(got) != 3 || got[emissionID(e.ID, time.Time{}, "k", 0)] == 0 {
			t.Errorf("got emissions %v, want one of each group", got)
		}
	})
}

// When a change fails, none of what it emits is sent, and the others' emissions are as if it had not been there.
func TestFailedChangeEmitsNothing(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		p := newEmitter(t, s, values.Config[Account]{})
		of := func(ms ...channel.Message) values.Change[Account] {
			return emits(ptr(worldtest.Envelope(newID(), Add{})), ms...)
		}
		errs := p.apply("k",
			of(pay{N: 1}),
			of(pay{N: 2}, pay{N: -1}),
			of(pay{N: 2}, nil),
			of(pay{N: 2}, (*pay)(nil)),
			of(pay{N: 2}, channel.After(time.Hour, nil)),
			of(pay{N: 2}, channel.After(channel.MaxDelay+time.Hour, pay{N: 2})),
			of(pay{N: 2}, pay{Key: strings.Repeat("x", 200)}),
			of(channel.After(time.Minute, pay{N: 1})),
		)
		for i, want := range []error{nil, channel.ErrRefused, channel.ErrBody, channel.ErrBody, channel.ErrBody, storage.ErrInvalid, channel.ErrAttribute, nil} {
			worldtest.WantErr(t, errs[i], want)
		}
		worldtest.Want(t, "balance", p.Balance("k"), 2)
		time.Sleep(time.Minute)
		got := map[string]bool{}
		for _, e := range worldtest.Take(t, s, "pays") {
			got[fmt.Sprintf("%d %s", e.Sequence, e.Data)] = true
		}
		if len(got) != 2 || !got[`1 {"n":1}`] || !got[`2 {"n":1}`] {
			t.Errorf("got %v, want the first and the last one's emission, without a gap", got)
		}
	})
}

// An emission may choose its ID. It then counts as any message with that ID does, wherever it goes to.
func TestEmissionChoosesItsID(t *testing.T) {
	t.Parallel()
	worldtest.OnEachStore(t, func(t *testing.T, s *storage.Store) {
		p := newEmitter(t, s, values.Config[Account]{})
		parent := worldtest.Envelope("order-7", Add{})
		p.applied("k", emits(&parent, pay{N: 1, Key: "pay-7"}, pay{N: 1, Key: "pay-7"}, pay{N: 2, Key: "pay-7"}, pay{N: 3, Key: "order-7"}))
		got := worldtest.Take(t, s, "pays")
		if len(got) != 4 {
			t.Fatalf("got %d messages, want 4", len(got))
		}
		changes := make([]values.Change[Account], len(got))
		last := 0
		for i := range got {
			if changes[i] = emits(&got[i]); got[i].ID == parent.ID {
				last = i
			}
		}
		worldtest.WantErr(t, errors.Join(p.apply("other", changes...)...), values.ErrContentDiffers)
		worldtest.Want(t, "balance of another document: one message of each ID", p.Balance("other"), 2)
		worldtest.WantErr(t, p.apply("k", changes[last])[0], values.ErrContentDiffers) // here the parent has that ID
		worldtest.Want(t, "balance of the parent's document", p.Balance("k"), 1)
	})
}
