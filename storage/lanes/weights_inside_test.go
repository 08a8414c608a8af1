package lanes

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Low is never starved, whatever the weights are and whenever they change: others get no more between two of its
// messages than their parts for the time of the first one, and a message each. Over time each class gets its part.
func TestLawLowIsNeverStarvedWhateverTheWeights(t *testing.T) {
	t.Parallel()
	const longest = 0.02 // seconds of a message
	random := rand.New(rand.NewPCG(5, 6))
	pick := func() int {
		if random.IntN(3) == 0 {
			return []int{0, 1, MostWeight}[random.IntN(3)]
		}
		return 1 + random.IntN(MostWeight)
	}
	for range 200 {
		var all turns
		var from []*lane
		for i, p := range []Priority{High, Normal, Low} {
			c := &class{priority: p, weight: Weights{}.of(p)}
			c.lanes = []*lane{{number: i, turns: c}}
			all.classes, from = append(all.classes, c), append(from, c.lanes...)
		}
		last := 0.0 // what the last message of Low has taken
		for range 4 {
			w := Weights{pick(), pick(), pick()}
			if err := w.Check(); err != nil {
				t.Fatal(err)
			}
			all.weigh(w)
			others, sum := w.of(High)+w.of(Normal), w.of(High)+w.of(Normal)+w.of(Low)
			var spent [3]float64
			total, gap := 0.0, 0.0
			for n := 0; n < 500 || total < 3*longest*sum/w.of(Low); n++ {
				for _, a := range all.divide(1, from, limitOf(t.Context())) {
					if a.n == 0 {
						continue
					}
					took := (0.1 + 0.9*random.Float64()) * longest
					a.lane.hand++
					a.lane.turns.hand++
					a.lane.end(took, 1)
					a.lane.turns.end(took, a.lane.turns.weight)
					spent[a.lane.number] += took
					total += took
					if a.lane.turns.priority == Low {
						last, gap = took, 0
					} else if gap += took; gap > last*others/w.of(Low)+2*longest+1e-9 {
						t.Fatalf("%+v: Low has waited for %.3f s, after a message of %.3f s", w, gap, last)
					}
				}
			}
			for i, p := range []Priority{High, Normal, Low} {
				if want := total * w.of(p) / sum; math.Abs(spent[i]-want) > 0.1*want+3*longest*max(1, w.of(p)/w.of(Low)) {
					t.Errorf("%+v: priority %d has had %.2f s of %.2f s; want %.2f s", w, p, spent[i], total, want)
				}
			}
		}
	}
}
