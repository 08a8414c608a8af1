package bucket

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

const ttl = 20 * time.Second

// keeper is the test, in the place of what keeps a bucket.
type keeper struct{ joined int }

func (k *keeper) config() Config {
	return Config{TTL: ttl, Join: func(*Bucket) (wake func()) {
		k.joined++
		return func() {}
	}}
}

// takes takes what there is now.
func takes(b *Bucket) (n int) {
	for _, ok := b.Take(); ok; _, ok = b.Take() {
		n++
	}
	return n
}

// grant puts a share in force, as a renewal.
func grant(b *Bucket, use int64) {
	now := time.Now()
	b.Grant(now, Grant{Use: use, Until: now.Add(ttl * 5 / 6), Wants: use, Fresh: true})
}

// The first call starts the keeper. Permits come by the share in force, from its beginning to its end, and the end
// takes with it those that are left. The safe share is in force after that, until the next grant.
func TestAShareOfARateFromItsBeginningToItsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var k keeper
		b := NewRate(Units(100), k.config())
		if n, _, _ := b.Room(0); n != 1 || k.joined != 0 {
			t.Errorf("room for %d calls, and %d keepers, before the first call", n, k.joined)
		}
		for range 2 {
			if n := takes(b); n != 0 || k.joined != 1 {
				t.Errorf("%d permits without a share, and %d keepers", n, k.joined)
			}
		}
		_, _, changed := b.Room(0)
		grant(b, Units(50))
		select {
		case <-changed:
		default:
			t.Error("a grant wakes nobody")
		}
		if n := takes(b); n != 0 {
			t.Errorf("%d permits of a new share", n)
		}
		time.Sleep(100 * time.Millisecond)
		if n := takes(b); n != 5 {
			t.Errorf("%d permits after 0.1 s, want 5", n)
		}
		time.Sleep(10 * time.Second)
		if n := takes(b); n != 10 {
			t.Errorf("%d permits were kept, want those of 0.2 s", n)
		}
		early := time.Now()
		b.GoOn(early, Units(100), 4) // the share has not ended
		time.Sleep(ttl)
		if n := takes(b); n != 0 || b.Share() != 0 {
			t.Errorf("%d permits, and a share of %d, after the end", n, b.Share())
		}
		b.GoOn(time.Now(), Units(80), 4)
		time.Sleep(time.Second)
		if n := takes(b); n != 4 || b.Share() != Units(20) {
			t.Errorf("%d permits of the safe share of %d, want those of 0.2 s", n, b.Share())
		}
		b.Stop()
		if b.Share() != 0 {
			t.Errorf("a share of %d", b.Share())
		}
	})
}

// Those that watch a share are told of its end once, when the keeper looks.
func TestTheEndOfAShareIsToldOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		told, cfg := 0, (&keeper{}).config()
		cfg.Changed = func() { told++ }
		b := NewSlots(8, cfg)
		b.Until(time.Now())
		takes(b)
		grant(b, 4)
		if until := b.Until(time.Now()); told != 1 || time.Until(until) != ttl*5/6 {
			t.Errorf("told %d times, and the share ends in %v", told, time.Until(until))
		}
		time.Sleep(ttl)
		for range 3 {
			b.Until(time.Now())
		}
		if told != 2 {
			t.Errorf("told %d times, want once more", told)
		}
	})
}

// Law 6: a share of slots that is lowered goes as its calls end. The keeper is told of an end that others wait for.
func TestLaw6SlotsInUseOutliveTheirShare(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := NewSlots(8, (&keeper{}).config())
		takes(b)
		grant(b, 4)
		if n := takes(b); n != 4 {
			t.Fatalf("%d slots, want 4", n)
		}
		if busy := b.Lower(time.Now(), 2); busy != 4 || b.Share() != 2 {
			t.Errorf("%d calls under way, and a share of %d", busy, b.Share())
		}
		b.Lower(time.Now(), 3) // raises nothing
		for busy := int64(4); busy > 1; busy-- {
			if n := takes(b); n != 0 {
				t.Errorf("%d calls began beyond the share", n)
			}
			b.Heed()
			b.Give()
			if got := b.Lower(time.Now(), 2); got != busy-1 || b.Hurried() != (busy > 2) {
				t.Errorf("%d calls under way of %d, and the keeper is told: %v", got, busy, b.Hurried())
			}
		}
		if n := takes(b); n != 1 {
			t.Errorf("%d slots are free, want 1", n)
		}
	})
}

// A share beyond what was written, or beyond its time, ends when the keeper weighs. A lower limit lowers it at once.
func TestLaw1WhatWasWrittenBoundsTheShare(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := NewSlots(8, (&keeper{}).config())
		takes(b)
		for what, c := range map[string]struct {
			do   func()
			want Needs
		}{
			"a row":             {func() { b.Weigh(time.Now(), Known{Share: 6}) }, Needs{8, 6, 8}},
			"a row that shrank": {func() { b.Weigh(time.Now(), Known{Share: 3}) }, Needs{8, 3, 8}},
			"no row":            {func() { b.Weigh(time.Now(), Known{}) }, Needs{8, 0, 8}},
			"no time":           {func() { time.Sleep(ttl) }, Needs{8, 0, 8}},
		} {
			grant(b, 6)
			b.Room(0)
			takes(b)
			c.do()
			if got := b.Weigh(time.Now(), Known{Share: 8, Fresh: true}); got != c.want {
				t.Errorf("%s: got %+v, want %+v", what, got, c.want)
			}
			for b.Lower(time.Now(), 8) > 0 {
				b.Give()
			}
		}
		grant(b, 6)
		b.SetLimit(5)
		if got := b.Weigh(time.Now(), Known{Share: 6, Fresh: true}); got.Limit != 5 || got.Use != 5 {
			t.Errorf("got %+v of a limit of 5", got)
		}
	})
}

// A bucket retires when no call has come for a TTL, none is under way, or it is left. A call meanwhile keeps its
// keeper.
func TestABucketRetires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var k keeper
		b := NewSlots(2, k.config())
		takes(b)
		grant(b, 2)
		retires := func(want bool) {
			t.Helper()
			if got := b.Retire(time.Now()); got != want {
				t.Fatalf("retires: %v, want %v", got, want)
			}
		}
		_, _ = b.Take()
		time.Sleep(2 * ttl)
		retires(false) // a call is under way
		b.Give()
		grant(b, 2)
		_, _ = b.Take()
		b.Give()
		time.Sleep(ttl - time.Nanosecond)
		retires(false)
		time.Sleep(time.Nanosecond)
		retires(true)
		began := time.Now()
		time.Sleep(time.Nanosecond)
		if _, ok := b.Take(); ok || b.Retired(began) {
			t.Error("a call got what is given back, or has no keeper")
		}
		grant(b, 2)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := b.Leave(ctx); !errors.Is(err, context.DeadlineExceeded) || !b.Hurried() {
			t.Errorf("got %v before the share was given back", err)
		}
		retires(true)
		left := make(chan error)
		go func() { left <- b.Leave(t.Context()) }()
		synctest.Wait()
		if !b.Retired(time.Now()) || <-left != nil {
			t.Error("it stays")
		}
		if err := b.Leave(t.Context()); err != nil || k.joined != 1 {
			t.Errorf("got %v, and %d keepers", err, k.joined)
		}
		takes(b)
		if k.joined != 2 {
			t.Errorf("%d keepers after a new call", k.joined)
		}
	})
}
