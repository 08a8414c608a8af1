package lru_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/millrace-go/millrace/internal/lru"
)

// The cache holds the same entries as a plain list, bounded by number and by bytes.
func TestCache(t *testing.T) {
	t.Parallel()
	type item struct {
		key         string
		what, bytes int
	}
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 3))
		entries, most := 1+r.IntN(6), 1+r.IntN(40)
		c := lru.New[int](entries, most)
		var list []item // the most recently used is last
		find := func(key string) int { return slices.IndexFunc(list, func(x item) bool { return x.key == key }) }
		for n := range 2000 {
			key := fmt.Sprint(r.IntN(10))
			at := find(key)
			switch r.IntN(8) {
			case 0, 1, 2, 3:
				x := item{key, n, r.IntN(12)}
				c.Add(key, x.what, x.bytes)
				if at >= 0 {
					list = slices.Delete(list, at, at+1)
				}
				if x.bytes <= most {
					list = append(list, x)
				}
				for sum := 0; ; sum = 0 {
					for _, x := range list {
						sum += x.bytes
					}
					if sum <= most && len(list) <= entries {
						break
					}
					list = list[1:]
				}
				continue
			case 4:
				if r.IntN(50) == 0 {
					c.Clear()
					list = nil
				}
				continue
			case 5:
				what, ok := c.Take(key)
				if ok != (at >= 0) || ok && what != list[at].what {
					t.Fatalf("seed %d: take %s: got %d, %v; want one of %v", seed, key, what, ok, list)
				}
				if ok {
					list = slices.Delete(list, at, at+1)
				}
			default:
				what, ok := c.Get(key)
				if ok != (at >= 0) || ok && what != list[at].what {
					t.Fatalf("seed %d: get %s: got %d, %v; want one of %v", seed, key, what, ok, list)
				}
				if ok {
					x := list[at]
					list = append(slices.Delete(list, at, at+1), x)
				}
			}
		}
	}
}

// A new entry pushes out the least recently used one only where the caller says so.
func TestAddIfRoom(t *testing.T) {
	t.Parallel()
	c := lru.New[int](2, 0)
	keep := func(key string, what int, mayGo, want bool) {
		t.Helper()
		got := c.AddIfRoom(key, what, func(oldest int) bool {
			if oldest != 1 {
				t.Errorf("asked about %d, want the oldest one", oldest)
			}
			return mayGo
		})
		if _, there := c.Get(key); got != want || there != want {
			t.Errorf("%s: kept %v, there %v; want %v", key, got, there, want)
		}
	}
	keep("a", 1, false, true)
	keep("b", 2, false, true)
	c.Get("b")
	keep("c", 3, false, false)
	keep("b", 4, false, true)
	keep("c", 3, true, true)
	if _, there := c.Get("a"); there {
		t.Error("the oldest one is still there")
	}
}
