package throttle

import (
	"hash/maphash"
	"math/rand/v2"
	"testing"
	"time"
)

// A table holds what a map holds, but for words that are idle. It refuses newcomers alone, and seldom while it is
// half idle.
func TestTable(t *testing.T) {
	t.Parallel()
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 4))
		most := leastSlots + r.IntN(200)
		x := table{most: most}
		model := map[uint64]int64{}
		now, names, refused, early := int64(0), uint64(1+r.IntN(3*most)), 0, 0
		for n := range 5000 {
			now += r.Int64N(3)
			key := 1 + r.Uint64N(names)*0x9e3779b97f4a7c15
			word := x.place(key, now, now)
			live := 0
			for k, w := range model {
				if w <= now {
					delete(model, k)
				} else {
					live++
				}
			}
			if word == nil {
				if _, ok := model[key]; ok {
					t.Fatalf("seed %d, step %d: a key lost its place", seed, n)
				}
				if refused++; live < most/2 {
					early++
				}
				continue
			}
			if max(*word, now) != max(model[key], now) {
				t.Fatalf("seed %d, step %d: got %d, want %d at %d", seed, n, *word, model[key], now)
			}
			*word = now + r.Int64N(int64(2*most))
			model[key] = *word
			if x.used > most || len(x.slots) > 16*most {
				t.Fatalf("seed %d: %d keys in %d slots; want %d keys at most", seed, x.used, len(x.slots), most)
			}
			for k, w := range model {
				if p := x.find(k); w > now && (p == nil || *p != w) {
					t.Fatalf("seed %d, step %d: a word is lost", seed, n)
				}
			}
		}
		if early > refused/4+most/4 {
			t.Errorf("seed %d: of %d newcomers without a place %d came while half of it was idle", seed, refused, early)
		}
		if int(names) > 2*most && refused == 0 {
			t.Errorf("seed %d: %d names and no newcomer without a place in a table of %d", seed, names, most)
		}
	}
}

// The oldest of the remembered IDs are forgotten, the newest never, and their number is bounded.
func TestRepeats(t *testing.T) {
	t.Parallel()
	r := repeats{most: 100}
	for id := range uint64(10_000) {
		r.accept(id)
		for back := range min(id, 99) {
			if _, ok := r.young[id-back]; ok {
				continue
			}
			if _, ok := r.old[id-back]; !ok {
				t.Fatalf("ID %d was forgotten after %d others", id-back, back)
			}
		}
		if n := len(r.young) + len(r.old); n > 200 {
			t.Fatalf("%d IDs are remembered", n)
		}
	}
	for n := range 15 {
		known, free := r.repeat(9_999)
		if !known || free != (n < freeRepeats) {
			t.Errorf("repeat %d: known %v, free %v", n, known, free)
		}
		r.accept(9_999) // as a handler does; that begins nothing anew
	}
	if known, free := r.repeat(1); known || free {
		t.Error("an ID of long ago is known")
	}
}

func TestMulDiv(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ a, b, c, want int64 }{
		{0, 5, 3, 0}, {1, 1, 3, 1}, {3, 7, 7, 3}, {10, 10, 3, 34}, {1 << 40, 1 << 40, 1 << 40, 1 << 40}, {1 << 62, 1 << 62, 1, forever}, {1 << 62, 1, 1, forever},
	} {
		if got := mulDiv(c.a, c.b, c.c); got != c.want {
			t.Errorf("%d×%d/%d: got %d, want %d", c.a, c.b, c.c, got, c.want)
		}
	}
}

// A newcomer that shared a word, and gets one of its own, has no more than if it had one from the beginning. Requests
// under way are counted in one place only.
func TestANewcomerThatShared(t *testing.T) {
	t.Parallel()
	for _, q := range []Quota{{Name: "a", Amount: 5, Per: time.Hour}, {Name: "a", Amount: 5, Unit: Concurrent}} {
		q, err := q.withDefaults()
		if err != nil {
			t.Fatal(err)
		}
		s := &shard{}
		s.rates.most, s.holds.most = leastSlots, leastSlots
		p := &plan{rules: []rule{newRule(q, maphash.MakeSeed(), nil)}}
		ask := func(who uint64, now int64) bool {
			violated, _ := s.take(&claim{plan: p, who: party{hash: who}}, now)
			return violated == 0
		}
		for who := range uint64(leastSlots) { // they fill the table, the first one for the shortest time
			if !ask(who+1, 0) {
				t.Fatalf("%s: no place for name %d", p.rules[0].policy, who)
			}
		}
		const newcomer = 1000
		got := 0
		for range 3 {
			if ask(newcomer, 0) {
				got++
			}
		}
		table, _ := s.table(&p.rules[0], 0)
		*table.find(p.rules[0].key(1)) = 0 // a place becomes free
		table.turned = leastSlots          // and the next newcomer looks for it
		for range 20 {
			if ask(newcomer, 1) {
				got++
			}
		}
		if got != 5 {
			t.Errorf("%s: %d were let through; want 5", p.rules[0].policy, got)
		}
		if table.find(p.rules[0].key(newcomer)) == nil {
			t.Errorf("%s: the newcomer has no place of its own", p.rules[0].policy)
		}
	}
}
