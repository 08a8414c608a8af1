package settings

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// Whatever up to three live nodes answer: a candidate comes into force when, and only when, all have said yes. One no
// refuses it, and an answer that is missing is waited for. A forced change passes over everybody, and names them.
func TestTallyOfAllAnswers(t *testing.T) {
	t.Parallel()
	now := time.Now()
	answers := []*Verdict{nil, {Version: 6, Yes: true}, {Version: 7, Yes: true}, {Version: 7, Why: "no"}}
	for many := range 4 {
		for i := range 1 << (2 * many) {
			var live []Node
			var missing, noes int
			for k := range many {
				v := answers[i>>(2*k)&3]
				live = append(live, Node{ID: fmt.Sprint(k), Name: fmt.Sprint(k), Verdict: v})
				switch {
				case v == nil || v.Version != 7:
					missing++
				case !v.Yes:
					noes++
				}
			}
			for _, force := range []bool{false, true} {
				want := InForce
				switch {
				case force:
					want = Forced
				case noes > 0 || many == 0:
					want = Refused
				}
				wantSettled := missing == 0 || !force && noes > 0
				d := document{Epoch: 9, Last: 7, Stable: 3, Candidate: &candidate{Version: 7, Force: force}}
				next, settled := tally(d, live, false, now)
				if settled != wantSettled || settled && next.Ended[0].Result != want || (next.Stable == 7) != (settled && want != Refused) || d.Candidate == nil {
					t.Fatalf("%+v, forced %v: got %+v, %v; want %s, %v", live, force, next, settled, want, wantSettled)
				}
				if !force {
					continue
				}
				if next, settled := tally(d, live, true, now); !settled || next.Stable != 7 || len(next.Ended[0].Reasons) != missing+noes {
					t.Fatalf("%+v, passed over: got %+v, %v", live, next, settled)
				}
			}
		}
	}
}

// With stages, the yes of all begins the first one: nothing is in force by that.
func TestTallyBeginsARollOut(t *testing.T) {
	t.Parallel()
	d := document{Epoch: 9, Last: 7, Stable: 3, Candidate: &candidate{Version: 7, Stages: InStages(time.Minute, 50, 100)}}
	next, settled := tally(d, []Node{{ID: "a", Verdict: &Verdict{Version: 7, Yes: true}}}, false, time.Now())
	if !settled || next.Stable != 3 || next.Candidate.Roll == nil || next.Candidate.Roll.Stage != 0 || !next.Candidate.includes("a") || d.Candidate.Roll != nil {
		t.Errorf("got %+v, %v", next, settled)
	}
}

// A node says no by itself to what has ended before, and to a document of an earlier epoch. It asks the program's own
// code once for each candidate.
func TestAVoterAnswersAllCandidates(t *testing.T) {
	t.Parallel()
	verdicts := []*Verdict{nil, {Version: 6, Yes: true}, {Version: 7, Yes: true}, {Version: 7, Why: "no"}}
	for _, last := range verdicts {
		for _, epoch := range []int64{8, 9, 10} {
			for _, ended := range []int64{0, 6, 7, 8} {
				d := document{Epoch: 9, Last: 7, Candidate: &candidate{Version: 7}}
				v, ask := voter{last: last}.answer(d, epoch, ended, "an older epoch")
				known := last != nil && last.Version == 7
				switch {
				case epoch > 9:
					if ask || v == nil || v.Yes || v.Version != 7 || v.Why != "an older epoch" {
						t.Errorf("epoch %d: got %+v, %v", epoch, v, ask)
					}
				case ended >= 7:
					if ask || v == nil || v.Yes || v.Version != 7 || v.Why == "" {
						t.Errorf("ended %d: got %+v, %v", ended, v, ask)
					}
				case ask == known || known && v != last:
					t.Errorf("last %+v: got %+v, %v", last, v, ask)
				}
			}
		}
	}
	v := voter{last: verdictOf(7, nil)}
	if v.agreed(7) {
		t.Error("it has agreed before its row says so")
	}
	v.written()
	v.last = verdictOf(8, errors.New("no"))
	if v.written(); v.agreed(7) || v.agreed(8) || v.told != 7 {
		t.Errorf("got %+v", v)
	}
}
