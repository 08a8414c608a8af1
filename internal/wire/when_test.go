package wire

import (
	"math"
	"testing"
	"time"
)

// A sum of delays that a Duration can't hold is the longest delay, never one in the past.
func TestDelaysDontOverflow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ first, then, want time.Duration }{
		{math.MaxInt64, math.MaxInt64, math.MaxInt64},
		{math.MaxInt64, 1, math.MaxInt64},
		{1, 2, 3},
		{-5, 2, -3},
		{math.MinInt64, math.MaxInt64, -1},
	} {
		if got := (When{Delay: c.first}).AddTo(c.then).Delay; got != c.want {
			t.Errorf("%v and %v: got %v, want %v", c.first, c.then, got, c.want)
		}
	}
}

// kindless is a message whose kind only a value has.
type kindless struct{ kind Kind }

func (k kindless) Kind() Kind { return k.kind }

// A message has the reply address of its parent, however it is made, unless the sender chooses another one.
func TestReplyAddressTravels(t *testing.T) {
	t.Parallel()
	now := time.Now()
	parent := &Envelope{ID: NewID(), Source: "/test", Kind: "a", Time: now, Data: []byte("{}"), ReplyTo: "/asked/by/it"}
	compose := map[string]func(parent *Envelope, m Message) (Envelope, error){
		"under": func(parent *Envelope, m Message) (Envelope, error) {
			return ComposeUnder(&Handling{Envelope: *parent, Queue: "jobs"}, m, "/test", now)
		},
		"emission": func(parent *Envelope, m Message) (Envelope, error) {
			return ComposeEmission(parent, "", 0, m, "/things/k", "k", now)
		},
		"compensation": func(parent *Envelope, m Message) (Envelope, error) {
			return ComposeCompensation(parent, "jobs", 0, m, now)
		},
	}
	own := Wrapped{Message: kindless{"b"}, When: When{Delay: time.Hour}, ReplyTo: "/asked/by/me"}
	for name, f := range compose {
		for want, m := range map[string]Message{"/asked/by/it": kindless{"b"}, own.ReplyTo: own} {
			e, err := f(parent, m)
			if err != nil || e.ReplyTo != want || e.Due.IsZero() == (m == own) {
				t.Errorf("%s: got reply address %q, due %v, error %v; want %q", name, e.ReplyTo, e.Due, err, want)
			}
		}
		if e, err := f(&Envelope{ID: "1"}, kindless{"b"}); err != nil || e.ReplyTo != "" {
			t.Errorf("%s of a message without an address: got %q, error %v", name, e.ReplyTo, err)
		}
	}
	if e, err := Compose(own, "/test", now); err != nil || e.ReplyTo != own.ReplyTo {
		t.Errorf("the first of a chain: got reply address %q, error %v", e.ReplyTo, err)
	}
}

func TestIsNil(t *testing.T) {
	t.Parallel()
	for m, want := range map[Message]bool{
		nil: true, Wrapped{}: true, (*kindless)(nil): true, Wrapped{Message: (*kindless)(nil)}: true, kindless{}: false, Wrapped{Message: kindless{}}: false,
	} {
		if got := IsNil(m); got != want {
			t.Errorf("%#v: got %v, want %v", m, got, want)
		}
	}
}
