package guard

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

// Law 4: what others have told counts until a call of this process is done, and of what is perhaps old only as much as
// begins a doubt.
func TestLaw4WhatOthersToldCountsOnce(t *testing.T) {
	for name, c := range map[string]struct {
		known   bool // when the record changed
		relieve bool // a call is done after the first look
		want    [2]int
	}{
		"just told":                  {known: true, want: [2]int{15, 19}},
		"before a call was done":     {known: true, relieve: true, want: [2]int{15, 4}},
		"perhaps old":                {want: [2]int{firstRow, firstRow + 4}},
		"perhaps old, then relieved": {relieve: true, want: [2]int{firstRow, 4}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				cfg, err := Config{}.withDefaults("smtp")
				if err != nil {
					t.Fatal(err)
				}
				b := newBreaker(&cfg, func(event) {})
				f := newFleet("smtp", b, slog.Default)
				tell := func(row int) int {
					f.doc = record{Epoch: 1, Doubt: map[string]failures{"x": {row, []uint32{1, 2, 3, 4, 5}}}}
					f.told.listen(f)
					return b.doubt.others.Row
				}
				if c.known {
					f.changed = time.Now()
				}
				first := tell(15)
				if c.relieve {
					b.mu.Lock()
					b.doubt.relieve(b, time.Now())
					b.unlock()
					if n := tell(15); n != 0 {
						t.Errorf("%d count after a call was done", n)
					}
				}
				f.changed = time.Now()
				if got := [2]int{first, tell(19)}; got != c.want {
					t.Errorf("%v count, want %v", got, c.want)
				}
				b.mu.Lock()
				b.doubt.end()
				b.mu.Unlock()
			})
		})
	}
}
