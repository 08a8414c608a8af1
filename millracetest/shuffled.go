package millracetest

import (
	"math/rand/v2"
	"testing"
)

// Shuffled fails the test if a gathering function depends on the order of its results, which process.Each and
// process.Split leave open. It gathers the results into the state in many orders, as stored JSON gives all of them
// back, and compares. It also fails if the function has changed the state that it was given.
//
//	millracetest.Shuffled(t, Order.Packed, Order{}, "tea", "pot", "cup")
func Shuffled[S, R any](t testing.TB, gather func(S, R) S, state S, results ...R) {
	t.Helper()
	if len(results) < 2 {
		t.Fatalf("millracetest: Shuffled: %d results have no order; want at least 2", len(results))
	}
	forms := make([][]byte, len(results))
	for i, r := range results {
		forms[i] = stored(t, "a result", r)
	}
	first := stored(t, "the state", state)
	want, inOrder := "", make([]int, len(results))
	for i := range inOrder {
		inOrder[i] = i
	}
	r := rand.New(rand.NewPCG(1, 4))
	for range 100 {
		form := first
		for _, i := range inOrder {
			s, item := read[S](t, form), read[R](t, forms[i])
			next := gather(s, item)
			if was := canonical(encoded(t, "the state", s)); was != canonical(form) {
				t.Fatalf("the gathering function has changed the state that it was given (- before, + after)\n%s", diffJSON(form, encoded(t, "the state", s)))
			}
			form = encoded(t, "the state", next)
		}
		if got := canonical(form); want == "" {
			want = got
		} else if got != want {
			t.Fatalf("the gathering function depends on the order of the results (- in the order given, + in the order %v)\n%s",
				inOrder, diffJSON([]byte(want), []byte(got)))
		}
		r.Shuffle(len(inOrder), func(i, j int) { inOrder[i], inOrder[j] = inOrder[j], inOrder[i] })
	}
}
