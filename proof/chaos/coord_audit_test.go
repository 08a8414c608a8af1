package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// madeUp is a small history in which nothing is wrong.
func madeUp() *history {
	return &history{
		lives: map[string][]line{
			"a-1": {
				{At: 10, What: numbered, N: 1}, {At: 11, What: stored, N: 1}, {At: 12, What: numbered, N: 3},
				{At: 20, What: begun, Name: logName, N: 1}, {At: 21, What: alive, Name: logName, N: 1},
				{At: 22, What: appended, Name: logName, N: 1, Count: 1}, {At: 90, What: refused, Name: logName, N: 1},
				{At: 30, What: begun, Name: leaderName, N: 4}, {At: 35, What: alive, Name: leaderName, N: 4}, {At: 36, What: over, Name: leaderName, N: 4},
				{At: 40, What: adding}, {At: 41, What: added}, {At: 42, What: adding}, // killed before the answer
				{At: 50, What: sent, Name: "one.a-1.1", N: 1}, {At: 51, What: sent, Name: "all.a-1.1", N: 2}, {At: 52, What: sent, Name: "one.a-1.2"},
				{At: 55, What: heard, Name: "all.a-1.1", N: 1},
				{At: 56, What: trouble, Text: "unavailable"},
			},
			"b-2": {
				{At: 13, What: numbered, N: 2}, {At: 14, What: stored, N: 2},
				{At: 60, What: begun, Name: logName, N: 2}, {At: 61, What: alive, Name: logName, N: 2}, {At: 62, What: appended, Name: logName, N: 2, Count: 2},
				{At: 70, What: begun, Name: leaderName, N: 6}, {At: 71, What: alive, Name: leaderName, N: 6},
				{At: 72, What: begun, Name: quorumName, N: 9},
				{At: 40, What: adding}, {At: 41, What: added},
				{At: 54, What: heard, Name: "one.a-1.1", N: 1}, {At: 55, What: heard, Name: "all.a-1.1", N: 1},
				{At: 81, What: passed, N: 1}, {At: 83, What: passed, N: 2},
			},
		},
		final: []string{"b-2"}, opened: map[int64]int64{1: 80, 2: 82}, rounds: 2, next: 4,
		rows:    map[int64]string{1: "a-1", 2: "b-2", 3: "a-1"}, // the answer for 3 was lost
		entries: map[string][]entry{logName: {{Fence: 1, By: "a-1", Count: 1}, {Fence: 2, By: "b-2", Count: 2}}},
		sums:    map[string]int64{"a-1": 2, "b-2": 1},
	}
}

func TestCoordAuditorIsContent(t *testing.T) {
	t.Parallel()
	for _, f := range madeUp().audit() {
		t.Error(f)
	}
}

// add adds lines to a life.
func (h *history) add(life string, lines ...line) { h.lives[life] = append(h.lives[life], lines...) }

// The auditor finds each kind of fault, under its name.
func TestCoordAuditorFinds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tamper func(h *history)
		want   string // the check
	}{
		"a number given twice":              {func(h *history) { h.add("b-2", line{What: numbered, N: 3}) }, numbersOnce},
		"a number given twice to one":       {func(h *history) { h.add("b-2", line{What: numbered, N: 2}) }, numbersOnce},
		"a number the counter doesn't know": {func(h *history) { h.next = 3 }, numbersOnce},
		"a row in the way":                  {func(h *history) { h.add("b-2", line{What: collided, N: 3, Text: "a-1"}) }, numbersOnce},
		"numbers fall": {func(h *history) {
			h.lives["a-1"][0], h.lives["a-1"][2] = h.lives["a-1"][2], h.lives["a-1"][0]
		}, numbersGrow},
		"a row is lost":       {func(h *history) { delete(h.rows, 1) }, rowsAreTrue},
		"a row of another":    {func(h *history) { h.rows[1] = "b-2" }, rowsAreTrue},
		"a row of no number":  {func(h *history) { h.rows[7] = "b-2" }, rowsAreTrue},
		"two with one fence":  {func(h *history) { h.add("b-2", line{At: 95, What: begun, Name: quorumName, N: 9}) }, oneHolds},
		"two alive at a time": {func(h *history) { h.add("a-1", line{At: 60, What: alive, Name: logName, N: 1}) }, oneHolds},
		"two alive, not neighbours": {func(h *history) {
			h.add("a-1", line{At: 45, What: begun, Name: leaderName, N: 5}, line{At: 99, What: alive, Name: leaderName, N: 4})
		}, oneHolds},
		"an older fence begins later": {func(h *history) {
			h.add("a-1", line{At: 90, What: begun, Name: quorumName, N: 8}, line{At: 91, What: alive, Name: quorumName, N: 8})
		}, oneHolds},
		"a write by another": {func(h *history) { h.entries[logName][1].By = "a-1" }, oneHolds},
		"a fence falls": {func(h *history) {
			h.entries[logName] = append(h.entries[logName], entry{Fence: 1, By: "a-1", Count: 3})
		}, fencesHold},
		"a write is lost": {func(h *history) { h.entries[logName] = h.entries[logName][:1] }, writesBuild},
		"a write is replaced": {func(h *history) {
			h.entries[logName] = []entry{{Fence: 2, By: "b-2", Count: 1}, {Fence: 2, By: "b-2", Count: 2}}
		}, writesBuild},
		"a write skips another": {func(h *history) { h.entries[logName][1].Count = 3 }, writesBuild},
		"an addition is lost":   {func(h *history) { h.sums["a-1"] = 0 }, sumsAddUp},
		"an addition is double": {func(h *history) { h.sums["b-2"] = 2 }, sumsAddUp},
		"an addition by nobody": {func(h *history) { h.sums["c-3"] = 1 }, sumsAddUp},
		"before the gate opens": {func(h *history) { h.opened[2] = 84 }, nobodyBefore},
		"a gate nobody opened":  {func(h *history) { h.add("a-1", line{At: 99, What: passed, N: 3}) }, nobodyBefore},
		"one is left behind":    {func(h *history) { h.final = []string{"a-1", "b-2"} }, everybodyGoes},
		"two took a signal to one": {func(h *history) {
			h.add("a-1", line{What: heard, Name: "one.a-1.1", N: 1})
		}, takenOnce},
		"one took a signal to all twice": {func(h *history) {
			h.add("b-2", line{What: heard, Name: "all.a-1.1", N: 1})
		}, takenOnce},
		"a signal that nobody took": {func(h *history) {
			h.add("b-2", line{What: heard, Name: "one.a-1.2", N: 1})
		}, takenOnce},
		"another error": {func(h *history) { h.add("b-2", line{What: failed, Text: "it is corrupt"}) }, nothingFails},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := madeUp()
			c.tamper(h)
			if found := h.audit(); !strings.Contains(fmt.Sprint(found), c.want+": ") {
				t.Errorf("got %v, want something about %q", found, c.want)
			}
		})
	}
}

// A listener that has begun again may hear a signal to all that the one before it has heard.
func TestListenersOfOneLife(t *testing.T) {
	t.Parallel()
	h := madeUp()
	h.add("b-2", line{What: heard, Name: "all.a-1.1", N: 2})
	for _, f := range h.audit() {
		t.Error(f)
	}
}

func TestMissing(t *testing.T) {
	t.Parallel()
	h := madeUp()
	h.add("b-2", line{At: 81, What: alive, Name: quorumName, N: 9}, line{At: 82, What: added}, line{At: 83, What: heard}, line{At: 84, What: stored},
		line{At: 85, What: alive, Name: logName}, line{At: 86, What: alive, Name: leaderName}, line{At: 87, What: alive, Name: turnName})
	if got := h.missing(80); len(got) > 0 {
		t.Errorf("got %q, want nothing", got)
	}
	h.rounds = 3
	if got, want := h.missing(84), []string{"nobody holds many", "b-2 has no stored", "b-2 has no added", "b-2 has no heard", "b-2 waits at round-3"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A broken last line, which a kill leaves, is no error, and any other is one.
func TestJournalOfKilledLife(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for text, want := range map[string]int{"{\"at\":1}\n{\"at\":2}\n{\"at": 2, "{\"at": 0, "": 0, "{\"at\n{\"at\":2}\n": -1} {
		writeFile(t, dir+"/a-1"+journalEnds, text)
		lives, err := readJournals(dir)
		if want < 0 && err == nil || want >= 0 && (err != nil || len(lives["a-1"]) != want) {
			t.Errorf("%q: got %v, %v; want %d lines", text, slices.Collect(maps.Values(lives)), err, want)
		}
	}
}
