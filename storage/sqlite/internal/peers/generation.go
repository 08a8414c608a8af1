package peers

import "math/rand/v2"

// The generation of a claim shows whose it is: firstNumbered, above all other generations, plus the store's number and
// random bits below.
const (
	numbers       = 1 << 21 // numbers of stores are below
	perNumber     = 1 << 41 // generations of one number
	firstNumbered = numbers * perNumber
)

// Generation returns a generation for a claim of this store.
func (p *Peers) Generation() int64 {
	p.Announce()
	number := p.presence.number.Load()
	if number == 0 {
		return AnonymousGeneration()
	}
	first, _ := generations(number)
	return first + rand.Int64N(perNumber/2) // an extension adds to it
}

// NextGeneration returns the generation that follows gen when this store extends a claim.
func (p *Peers) NextGeneration(gen int64) int64 {
	if number := p.presence.number.Load(); number != 0 {
		if first, last := generations(number); gen >= first && gen < last {
			return gen + 1 // it still shows whose the claim is
		}
	}
	return p.Generation()
}

// AnonymousGeneration returns a generation that belongs to no store. It is never 0.
func AnonymousGeneration() int64 { return firstNumbered/2 + rand.Int64N(firstNumbered/2) }

// generations returns the first and the last generation of a number.
func generations(number int64) (first, last int64) {
	first = firstNumbered + number*perNumber
	return first, first + perNumber - 1
}
