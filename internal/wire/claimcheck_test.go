package wire_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/internal/wire"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/storagetest"
)

const historyRoom = 4 << 10

func TestClaimCheck(t *testing.T) {
	t.Parallel()
	overhead := len(`{"table":0,"dish":""}`)
	for name, size := range map[string]int{"60 KiB": 60 << 10, "the most": wire.MaxData} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openStore(t)
			o := newOutbox(s)
			dish := strings.Repeat("x", size-overhead)
			must(t, send(t, o, Order{Dish: dish}))
			e := receivedOne(t, s, "orders")
			if e.Data != nil || e.DataRef == "" {
				t.Fatalf("got %d bytes of data, reference %q; want a reference alone", len(e.Data), e.DataRef)
			}
			must(t, o.FetchBody(t.Context(), &e))
			var codec wire.Codec
			must(t, wire.Register[Order](&codec))
			m, err := codec.Decode(&e)
			if got, ok := m.(Order); err != nil || !ok || got.Dish != dish || len(e.Data) != size {
				t.Errorf("the body did not come back whole: %d bytes, error %v", len(e.Data), err)
			}
			must(t, o.DeleteBody(t.Context(), e.DataRef), o.DeleteBody(t.Context(), e.DataRef))
			if keys := claims(t, s); len(keys) != 0 {
				t.Errorf("bodies stay behind: %q", keys)
			}
			e.Data = nil
			if err := o.FetchBody(t.Context(), &e); !errors.Is(err, wire.ErrDataLost) {
				t.Errorf("fetch after release: got error %v, want %v", err, wire.ErrDataLost)
			}
		})
	}
}

// The limit is the driver's, less the room for the history of failed attempts.
func TestClaimCheckBegins(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	o := newOutbox(s)
	most := s.Props().MaxMessage - historyRoom
	bare := wire.Envelope{ID: "1", Source: "/web", Kind: "test.order.v1", Data: []byte(`""`)}
	room := most - len(mustEncode(t, bare))
	for _, test := range []struct {
		extra   int
		claimed bool
	}{{0, false}, {1, true}} {
		e := bare
		e.Data = []byte(`"` + strings.Repeat("x", room+test.extra) + `"`)
		p, err := o.Pack(t.Context(), e)
		if err != nil {
			t.Fatal(err)
		}
		got, err := wire.Decode(p.Sends[0].Message.Body)
		if err != nil {
			t.Fatal(err)
		}
		if claimed := got.DataRef != ""; claimed != test.claimed {
			t.Errorf("%d bytes over the limit: claim-checked %v, want %v", test.extra, claimed, test.claimed)
		}
		// A failed attempt can be written into both.
		got.Attempts, got.LastError = 5, strings.Repeat(`"`, 5000)
		if n := len(mustEncode(t, got)); n > s.Props().MaxMessage {
			t.Errorf("with its history the message has %d bytes, more than %d", n, s.Props().MaxMessage)
		}
	}
}

func TestClaimCheckRefusesOverTheMost(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	o := newOutbox(s)
	err := send(t, o, Order{Dish: strings.Repeat("x", wire.MaxData)})
	if !errors.Is(err, storage.ErrTooLarge) {
		t.Errorf("send: got error %.200v, want %v", err, storage.ErrTooLarge)
	}
	// Another program made a blob larger.
	if _, err := s.Blobs("claims").Put(t.Context(), "orders/"+timedID, make([]byte, wire.MaxData+1), storage.Condition{}); err != nil {
		t.Fatal(err)
	}
	e := wire.Envelope{DataRef: "claims/orders/" + timedID}
	if err := o.FetchBody(t.Context(), &e); !errors.Is(err, storage.ErrTooLarge) || e.Data != nil {
		t.Errorf("fetch: got %d bytes and error %v, want %v", len(e.Data), err, storage.ErrTooLarge)
	}
}

// The copies of an event own their bodies: releasing one body leaves the others.
func TestClaimCheckFanOut(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	o := newOutbox(s)
	must(t, send(t, o, Served{Menu: strings.Repeat("x", 60<<10)}))
	a, b := receivedOne(t, s, "kitchen"), receivedOne(t, s, "floor")
	if a.DataRef == b.DataRef || !strings.HasPrefix(a.DataRef, "claims/kitchen/") || !strings.HasPrefix(b.DataRef, "claims/floor/") {
		t.Fatalf("got references %s and %s, want one for each queue", a.DataRef, b.DataRef)
	}
	must(t, o.DeleteBody(t.Context(), a.DataRef), o.FetchBody(t.Context(), &b))
	if len(b.Data) < 60<<10 {
		t.Errorf("the other copy has %d bytes", len(b.Data))
	}
}

func TestFetchLeavesInlineDataAlone(t *testing.T) {
	t.Parallel()
	o := newOutbox(openStore(t))
	for _, e := range []wire.Envelope{{Data: []byte("1")}, {Data: []byte("1"), DataRef: "nonsense"}, {}} {
		was := string(e.Data)
		if err := o.FetchBody(t.Context(), &e); err != nil || string(e.Data) != was {
			t.Errorf("got %q and error %v, want %q", e.Data, err, was)
		}
	}
}

func TestClaimCheckWhenTheStoreFails(t *testing.T) {
	t.Parallel()
	inner := openStore(t)
	s := storagetest.Intercept(inner, func(_ context.Context, op storagetest.Op, do func() error) error {
		if op.Name != "commit" && strings.HasPrefix(op.Resource, "blob claims/floor") {
			return op.Fail(storage.ErrUnavailable)
		}
		return do()
	})
	o := newOutbox(s)
	err := send(t, o, Served{Menu: strings.Repeat("x", 60<<10)})
	if !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("send: got error %v, want %v", err, storage.ErrUnavailable)
	}
	if keys := claims(t, inner); len(keys) != 0 {
		t.Errorf("the copies that were written stay behind: %q", keys)
	}
	e := wire.Envelope{DataRef: "claims/floor/" + timedID}
	if err := o.FetchBody(t.Context(), &e); !errors.Is(err, storage.ErrUnavailable) || errors.Is(err, wire.ErrDataLost) {
		t.Errorf("fetch: got error %v, want %v: nobody knows that the body is lost", err, storage.ErrUnavailable)
	}
	if err := o.DeleteBody(t.Context(), e.DataRef); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("release: got error %v, want %v", err, storage.ErrUnavailable)
	}
}

// Attributes that leave no room by themselves can't be claim-checked away.
func TestAttributesTooLarge(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	o := newOutbox(s)
	e := wire.Envelope{ID: "1", Source: "/web", Kind: "test.order.v1", Tenant: strings.Repeat("x", 60<<10), Data: []byte("{}")}
	if _, err := o.Pack(t.Context(), e); !errors.Is(err, storage.ErrTooLarge) {
		t.Errorf("pack: got error %.200v, want %v", err, storage.ErrTooLarge)
	}
	if _, err := o.Stow(t.Context(), e); !errors.Is(err, storage.ErrTooLarge) {
		t.Errorf("stow: got error %.200v, want %v", err, storage.ErrTooLarge)
	}
	if keys := claims(t, s); len(keys) != 0 {
		t.Errorf("bodies stay behind: %q", keys)
	}
}

func TestStow(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	o := newOutbox(s)
	for _, size := range []int{10, 60 << 10} {
		e := wire.Envelope{ID: "1", Source: "/tables/4", Kind: "test.served.v1", Data: []byte(`"` + strings.Repeat("x", size) + `"`)}
		raw, err := o.Stow(t.Context(), e)
		if err != nil {
			t.Fatal(err)
		}
		if len(raw) > s.Props().MaxMessage {
			t.Errorf("a body of %d bytes takes %d in the document", size, len(raw))
		}
		// The sent copy owns its body, so dropping the stowed envelope leaves that body.
		got, err := o.Unstow(t.Context(), raw)
		if err != nil || !slices.Equal(got.Data, e.Data) || got.DataRef != "" {
			t.Fatalf("got %d bytes, reference %q, error %v; want all and none", len(got.Data), got.DataRef, err)
		}
		p, err := o.Pack(t.Context(), got)
		if err != nil {
			t.Fatal(err)
		}
		o.DropStowed(t.Context(), raw)
		for _, x := range p.Sends {
			sent, err := wire.Decode(x.Message.Body)
			must(t, err, o.FetchBody(t.Context(), &sent))
		}
		o.Discard(t.Context(), p)
		if keys := claims(t, s); len(keys) != 0 {
			t.Errorf("bodies stay behind: %q", keys)
		}
		if size > 1<<10 {
			if _, err := o.Unstow(t.Context(), raw); !errors.Is(err, wire.ErrDataLost) {
				t.Errorf("unstow after dropping: got error %v, want %v", err, wire.ErrDataLost)
			}
		}
	}
	if _, err := o.Unstow(t.Context(), []byte("{")); !errors.Is(err, wire.ErrMalformed) {
		t.Errorf("unstow nonsense: got error %v, want %v", err, wire.ErrMalformed)
	}
	o.DropStowed(t.Context(), []byte("{"))
}

func TestPackWithoutARoute(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	o := newOutbox(s)
	good := wire.Envelope{ID: "1", Source: "/web", Kind: "test.order.v1", Data: []byte(`"` + strings.Repeat("x", 60<<10) + `"`)}
	bad := wire.Envelope{ID: "2", Source: "/web", Kind: "test.nowhere.v1"}
	if p, err := o.Pack(t.Context(), good, bad); err == nil || len(p.Sends) != 0 {
		t.Errorf("got %d sends and error %v, want an error", len(p.Sends), err)
	}
	if keys := claims(t, s); len(keys) != 0 {
		t.Errorf("bodies stay behind: %q", keys)
	}
}
