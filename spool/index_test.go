package spool

import (
	"errors"
	"io"
	"testing"
	"time"

	"github.com/millrace-go/millrace/internal/worldtest"
)

// lined returns an order of some entries, which have these lanes and sizes in their order.
func lined(entries ...entry) (o order, all []*entry) {
	o = order{}
	for i := range entries {
		entries[i].seq = uint64(i)
		all = append(all, &entries[i])
		o.add(&entries[i])
	}
	return o, all
}

// The oldest entry of a lane goes first, and a lane that has failed waits for those that haven't.
func TestLaw3TheOrderOfLanes(t *testing.T) {
	t.Parallel()
	o, all := lined(entry{lane: "a"}, entry{lane: "b"}, entry{lane: "a"})
	for name, c := range map[string]struct {
		but     map[string]bool
		numbers map[string]int
		want    *entry
	}{
		"the oldest":          {want: all[0]},
		"the failed one last": {numbers: map[string]int{"a": 1}, want: all[1]},
		"who failed earlier":  {numbers: map[string]int{"a": 1, "b": 2}, want: all[0]},
		"but one":             {but: map[string]bool{"a": true}, want: all[1]},
		"but all":             {but: map[string]bool{"a": true, "b": true}},
	} {
		if got := o.head(c.but, c.numbers); got != c.want {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
	if got := o.behind(all[0]); got != all[2] {
		t.Errorf("behind the first: got %+v, want the other one of its lane", got)
	}
	for _, e := range []*entry{all[1], all[2]} {
		if got := o.behind(e); got != nil {
			t.Errorf("behind %+v, which is alone or not the first: got %+v, want none", e, got)
		}
	}
	for i, e := range []*entry{all[2], all[0], all[1]} {
		if !o.take(e) || o.take(e) || len(o.batch(nil, nil)) == 0 != (i == 2) {
			t.Errorf("taking %+v: want that it is there once", e)
		}
	}
}

// A batch has at most 32 entries, and at most 4 MiB unless the first one is larger.
func TestBatchesAreBounded(t *testing.T) {
	t.Parallel()
	many := make([]entry, batchEntries+1)
	for name, c := range map[string]struct {
		entries []entry
		want    int
	}{
		"many":             {many, batchEntries},
		"just enough":      {[]entry{{size: batchBytes / 2}, {size: batchBytes / 2}, {size: 1}}, 2},
		"one that is more": {[]entry{{size: 2 * batchBytes}, {size: 1}}, 1},
		"another lane":     {[]entry{{lane: "a"}, {lane: "b"}, {lane: "a"}}, 2},
	} {
		o, _ := lined(c.entries...)
		worldtest.Want(t, name, len(o.batch(nil, nil)), c.want)
	}
}

// An entry that was set aside counts once, with its newest reason, and is tried again each ten minutes.
func TestAsides(t *testing.T) {
	t.Parallel()
	var s asides
	e, now := &entry{}, time.Now()
	if !s.add(e, io.EOF, now) || s.add(e, io.ErrUnexpectedEOF, now) || len(s) != 1 || s[0].why != io.ErrUnexpectedEOF {
		t.Errorf("got %+v, want the entry once, with its newest reason", s)
	}
	for at, want := range []int{0, 0, 1, 0, 1} {
		if got := s.due(now.Add(time.Duration(at) * asideFor / 2)); len(got) != want {
			t.Errorf("after %d times five minutes: %d are due, want %d", at, len(got), want)
		}
	}
	if !s.drop(e) || s.drop(e) {
		t.Error("want that the entry is there once")
	}
}

// The room of an entry ends at the bytes, and comes back once.
func TestLaw5Room(t *testing.T) {
	t.Parallel()
	x := &index{maxBytes: 10, maxAge: time.Hour, order: order{}}
	now := time.Now()
	first, second := &entry{size: 10, at: now}, &entry{size: 1, at: now}
	if err := x.reserve(first); err != nil || x.room() != nil {
		t.Errorf("got %v, %v; want room for the first", err, x.room())
	}
	if err := x.reserve(second); !errors.Is(err, errFull) || x.room() == nil {
		t.Errorf("got %v, %v; want that the spool is full", err, x.room())
	}
	if !x.release(first) || x.release(first) || x.room() != nil {
		t.Error("want the room of the first back, once")
	}
	if err := x.reserve(second); err != nil || second.seq != 1 || x.count().Bytes != 1 {
		t.Errorf("got %v and %+v; want the next sequence and its byte", err, x.count())
	}
	x.lineUp(second)
	if err := x.reserve(&entry{size: 1, at: now.Add(time.Hour + 1)}); !errors.Is(err, errOld) {
		t.Errorf("got %v, want that the oldest waits too long", err)
	}
}
