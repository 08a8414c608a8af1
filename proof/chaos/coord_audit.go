package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// The checks of coordination.
const (
	numbersOnce   = "a number is given out once"
	numbersGrow   = "a life's numbers grow"
	rowsAreTrue   = "rows are true"       // each number that was put has its row, and each row its number
	oneHolds      = "one holds at a time" // each fence has one holder, and a context ends before the next one begins
	fencesHold    = "fences hold"         // the fences of a document never fall
	writesBuild   = "each write builds on the one before"
	sumsAddUp     = "sums add up"
	nobodyBefore  = "nobody passes a closed gate"
	everybodyGoes = "everybody passes an open gate"
	takenOnce     = "a signal is taken once"
	workGoesOn    = "work goes on" // after the disturbances
)

// audit makes all checks except those of the parent's journal.
func (h *history) audit() (found []finding) {
	const most = 1000 // nobody reads more
	fault := func(check, format string, args ...any) {
		if len(found) < most {
			found = append(found, finding{check, fmt.Sprintf(format, args...)})
		}
	}
	h.auditNumbers(fault)
	for _, name := range []string{logName, leaderName, quorumName, turnName} {
		h.auditHolders(name, fault)
	}
	for _, name := range []string{logName, leaderName} {
		h.auditEntries(name, fault)
	}
	h.auditSums(fault)
	h.auditGates(fault)
	h.auditSignals(fault)
	h.each(failed, func(life string, l line) { fault(nothingFails, "%s: %s", life, l.Text) })
	return found
}

type fault func(check, format string, args ...any)

func (h *history) auditNumbers(fault fault) {
	takers := map[int64]string{}
	for life, lines := range h.lives {
		var last int64
		for _, l := range lines {
			switch l.What {
			case numbered:
				if other, ok := takers[l.N]; ok {
					fault(numbersOnce, "%s and %s got %d", other, life, l.N)
				}
				takers[l.N] = life
				if l.N <= last {
					fault(numbersGrow, "%s got %d after %d", life, l.N, last)
				}
				last = l.N
				if l.N >= h.next {
					fault(numbersOnce, "%s got %d, and the counter is at %d", life, l.N, h.next)
				}
			case collided:
				fault(numbersOnce, "%s got %d, which has the row of %s", life, l.N, l.Text)
			case stored:
				if got := h.rows[l.N]; got != life {
					fault(rowsAreTrue, "the row of %d is of %q; %s has put it", l.N, got, life)
				}
			}
		}
	}
	for n, life := range h.rows {
		if takers[n] != life {
			fault(rowsAreTrue, "the row of %d is of %s; %q got the number", n, life, takers[n])
		}
	}
}

// A tenure is the time of one holder.
type tenure struct {
	fence int64
	life  string
	begun int64
	alive int64 // when its context was last seen alive; 0 if it never was
	over  int64 // when its function returned, or 0
}

// tenures returns those of a name by their fences.
func (h *history) tenures(name string) []tenure {
	var all []tenure
	for life, lines := range h.lives {
		at := map[int64]int{}
		for _, l := range lines {
			if l.Name != name {
				continue
			}
			switch i, ok := at[l.N]; {
			case l.What == begun:
				at[l.N] = len(all)
				all = append(all, tenure{fence: l.N, life: life, begun: l.At})
			case ok && l.What == alive:
				all[i].alive = max(all[i].alive, l.At)
			case ok && l.What == over:
				all[i].over = l.At
			}
		}
	}
	slices.SortFunc(all, func(a, b tenure) int { return cmp.Or(cmp.Compare(a.fence, b.fence), cmp.Compare(a.begun, b.begun)) })
	return all
}

func (h *history) auditHolders(name string, fault fault) {
	var last tenure // the one that was alive last
	var fence int64
	for _, t := range h.tenures(name) {
		if t.fence == fence {
			fault(oneHolds, "%s: %s holds under fence %d, which another holder has", name, t.life, t.fence)
		}
		fence = t.fence
		if last.alive >= t.begun {
			fault(oneHolds, "%s: %s with fence %d was alive %v after %s began with fence %d", name, last.life, last.fence, time.Duration(last.alive-t.begun), t.life, t.fence)
		}
		if t.alive > last.alive {
			last = t
		}
	}
}

func (h *history) auditEntries(name string, fault fault) {
	holders := map[int64]string{}
	for _, t := range h.tenures(name) {
		holders[t.fence] = t.life
	}
	entries := h.entries[name]
	var last entry
	for i, e := range entries {
		if e.Count != int64(i)+1 {
			fault(writesBuild, "%s: entry %d has count %d", name, i+1, e.Count)
		}
		if e.Fence < last.Fence {
			fault(fencesHold, "%s: entry %d has fence %d after %d", name, i+1, e.Fence, last.Fence)
		}
		if holders[e.Fence] != e.By {
			fault(oneHolds, "%s: entry %d with fence %d is of %s; the holder was %q", name, i+1, e.Fence, e.By, holders[e.Fence])
		}
		last = e
	}
	h.each(appended, func(life string, l line) {
		if l.Name == name && (l.Count < 1 || l.Count > int64(len(entries)) || entries[l.Count-1].By != life || entries[l.Count-1].Fence != l.N) {
			fault(writesBuild, "%s: entry %d of %s with fence %d is lost", name, l.Count, life, l.N)
		}
	})
}

func (h *history) auditSums(fault fault) {
	for life, lines := range h.lives {
		var least, most int64
		for _, l := range lines {
			switch l.What {
			case adding:
				most++
			case added:
				least++
			}
		}
		if got := h.sums[life]; got < least || got > most {
			fault(sumsAddUp, "%s added %d to %d times, and its sum is %d", life, least, most, got)
		}
	}
	for life := range h.sums {
		if _, ok := h.lives[life]; !ok {
			fault(sumsAddUp, "there is a sum of %q, which never was", life)
		}
	}
}

func (h *history) auditGates(fault fault) {
	h.each(passed, func(life string, l line) {
		if opened, ok := h.opened[l.N]; !ok || l.At < opened {
			fault(nobodyBefore, "%s passed %s %v before it was opened", life, gateName(l.N), time.Duration(opened-l.At))
		}
	})
	for _, life := range h.final {
		var rounds []int64
		for _, l := range h.lives[life] {
			if l.What == passed {
				rounds = append(rounds, l.N)
			}
		}
		for round := int64(1); round <= h.rounds; round++ {
			if !slices.Contains(rounds, round) {
				fault(everybodyGoes, "%s never passed %s", life, gateName(round))
			}
		}
	}
}

func (h *history) auditSignals(fault fault) {
	takers := map[string]int{} // by signal
	h.each(heard, func(life string, l line) {
		taker := l.Name
		if strings.HasPrefix(l.Name, toAll) {
			taker += fmt.Sprintf(" by listener %d of %s", l.N, life)
		}
		takers[taker]++
	})
	for _, taker := range slices.Sorted(maps.Keys(takers)) {
		if n := takers[taker]; n > 1 {
			fault(takenOnce, "%s was taken %d times", taker, n)
		}
	}
	h.each(sent, func(life string, l line) {
		if strings.HasPrefix(l.Name, toOne) && l.N == 0 && l.Text == "" && takers[l.Name] > 0 {
			fault(takenOnce, "%s was told that nobody took %s, and it was taken", life, l.Name)
		}
	})
}
