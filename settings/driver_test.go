package settings

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/millrace-go/millrace/internal/agree"
)

// A says is what the row of a node says in a roll-out.
type says int

const (
	nothing says = iota // it has not answered
	no
	yes     // it isn't in the stage, or doesn't run the candidate yet
	runs    // it runs the candidate, and is well
	ill     // it runs the candidate, and is ill
	died    // it said yes, and is dead
	lostOne // it said nothing, and is dead
)

// row is a row that says something, seen at a time.
func (x says) row(id string, version int64, after time.Time) agree.Present[nodeRow] {
	n := Node{ID: id, Name: id, Poll: 30_000}
	if x != nothing && x != lostOne {
		n.Verdict = &Verdict{Version: version, Yes: x != no, Why: "no"}
	}
	switch x {
	case runs:
		n.Version, n.Health = version, &Health{Version: version}
	case ill:
		n.Version, n.Health = version, &Health{Version: version, Ill: "boo"}
	}
	return agree.Present[nodeRow]{Row: nodeRow{n, id}, Alive: x != died && x != lostOne, After: after}
}

// A scene is all that a driver decides by.
type scene struct {
	said   [3]says
	upto   uint32
	stage  int
	baked  time.Duration
	driver string
	seen   time.Duration // before now: when the driver's clock saw the document
	spent  time.Duration // before now: up to when its time has been counted
}

const (
	scenePoll = 30 * time.Second
	sceneBake = 2 * time.Minute
)

// scenes are all scenes of three nodes.
func scenes(yield func(scene) bool) {
	all := []says{nothing, no, yes, runs, ill, died, lostOne}
	for _, upto := range []uint32{rank("a", 7), rank("b", 7), math.MaxUint32} {
		for i := range len(all) * len(all) * len(all) {
			said := [3]says{all[i%len(all)], all[i/len(all)%len(all)], all[i/len(all)/len(all)]}
			for _, baked := range []time.Duration{0, sceneBake - time.Second, sceneBake} {
				for _, driver := range []string{"", "a", "b", "gone"} {
					for _, seen := range []time.Duration{time.Second, 3 * scenePoll} {
						for stage := range 2 {
							if !yield(scene{said, upto, stage, baked, driver, seen, min(seen, 20*time.Second)}) {
								return
							}
						}
					}
				}
			}
		}
	}
}

// play lets the driver decide, and returns the document before.
func (x scene) play(now time.Time) (document, move) {
	d := document{Epoch: 9, Last: 7, Stable: 3, Values: json.RawMessage(`{}`), Candidate: &candidate{
		Version: 7, Values: json.RawMessage(`{"a":1}`), Stages: InStages(sceneBake, 10, 100),
		Roll: &roll{Stage: x.stage, Upto: x.upto, Baked: x.baked, Driver: x.driver},
	}}
	var all rows
	for i, said := range x.said {
		all = append(all, said.row(string(rune('a'+i)), 7, now.Add(-5*time.Second)))
	}
	v := driver{id: "a", poll: scenePoll, clock: clock{9, now.Add(-x.seen), now.Add(-x.spent)}}
	return d, v.move(d, all, now)
}

// facts tells what the laws ask of a scene.
func (x scene) facts(d document) (sick, late bool, canaries int) {
	for i, said := range x.said {
		in := d.Candidate.includes(string(rune('a' + i)))
		switch said {
		case no:
			sick = true
		case nothing:
			late = true
		case ill, died:
			sick = sick || in
		case yes:
			late = late || in
		}
		if in && (said == yes || said == runs) {
			canaries++
		}
	}
	return sick, late, canaries
}

// In each scene of three nodes the driver keeps the laws of roll-outs.
func TestLawsOfTheDriverInAllScenes(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	count := map[string]int{}
	for x := range scenes {
		d, m := x.play(now)
		if wrong := x.wrong(d, m, now, count); wrong != "" {
			t.Fatalf("%+v: %s: got %+v", x, wrong, m)
		}
	}
	for _, want := range []string{"rolled back", "left to another", "new canaries", "next stage", "in force", "baked", "held up", "waits"} {
		if count[want] == 0 {
			t.Errorf("no scene is %s: %v", want, count)
		}
	}
}

// wrong tells which law a move breaks, and counts what it is.
func (x scene) wrong(d document, m move, now time.Time, count map[string]int) string {
	sick, late, canaries := x.facts(d)
	c := m.next.Candidate
	if d.Candidate.Roll.Stage != x.stage || d.Candidate.Roll.Upto != x.upto || d.Candidate.Roll.Baked != x.baked || len(d.Ended) > 0 {
		return "the document that it was given has changed"
	}
	if !m.write {
		switch {
		case sick:
			return "no roll-back waits for anybody"
		case x.driver == "b" && x.seen < silence*scenePoll:
			count["left to another"]++
			return ""
		case x.early(late, canaries) == "":
			return "nobody ends the stage"
		}
		count["waits"]++
		return ""
	}
	ended := func(result Result) bool {
		return c == nil && slices.ContainsFunc(m.next.Ended, func(e Ending) bool { return e.Version == 7 && e.Result == result })
	}
	grown := func() time.Duration { return c.Roll.Baked - x.baked }
	switch {
	case sick != ended(RolledBack):
		return "a roll-out is taken back when, and only when, somebody is ill or says no"
	case sick:
		count["rolled back"]++
		return map[bool]string{false: "what was in force stays"}[m.next.Stable == 3]
	case x.driver == "b" && x.seen < silence*scenePoll:
		return "another driver is at work"
	case ended(InForce):
		count["in force"]++
		return map[bool]string{false: "only the last stage ends so"}[x.stage == 1 && m.next.Stable == 7] + x.early(late, canaries)
	case c == nil:
		return "it has ended somehow"
	case c.Roll.Driver != "a" || c.Roll.Stage < x.stage || c.Roll.Upto < x.upto:
		return "a roll-out only grows, and has its driver's name"
	case c.Roll.Stage > x.stage:
		count["next stage"]++
		return map[bool]string{false: "a stage begins from 0"}[c.Roll.Baked == 0] + x.early(late, canaries)
	case canaries == 0 && c.Roll.Upto > x.upto:
		count["new canaries"]++
		return map[bool]string{false: "they bake for the whole time"}[c.Roll.Baked == 0]
	case c.Roll.Upto != x.upto:
		return "nobody else begins while a canary runs"
	case late || canaries == 0:
		count["held up"]++
		return map[bool]string{false: "held up, it says why, and counts nothing"}[c.Roll.Why != "" && grown() <= 0]
	}
	count["baked"]++
	most := x.spent - 5*time.Second // up to the last beat of the canaries
	return map[bool]string{false: "no time is counted twice, nor after the last beat of a canary"}[grown() >= 0 && grown() <= max(0, most) && !m.counted.After(now)]
}

// early tells why a stage may not end.
func (x scene) early(late bool, canaries int) string {
	if late || canaries == 0 || x.baked+max(0, x.spent-5*time.Second) < sceneBake {
		return fmt.Sprintf("a stage ends without the bake or the yes of all: late %v, %d canaries", late, canaries)
	}
	return ""
}
