package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// A kind is a kind of disturbance.
type kind string

const (
	killWorker kind = "worker killed"         // SIGKILL, and soon started again
	killWeb    kind = "web killed"            // SIGKILL, and soon started again
	stall      kind = "worker stalled"        // SIGSTOP for longer than the visibility, and SIGCONT
	rolling    kind = "rolling restart"       // all programs in turn: SIGTERM, wait, start
	fullDisk   kind = "disk full"             // the disk where the programs work
	cut        kind = "connections cut"       // closed, and new ones refused for a while
	reset      kind = "connections reset"     // by RST, with the first bytes of a request
	delay      kind = "connections slow"      // each packet late, by a random time
	oneWay     kind = "half-open connections" // requests arrive, answers don't, then the connection is closed
	torn       kind = "answers torn"          // closed in the middle of an answer
	killStore  kind = "Azurite killed"        // and started again after a while
)

// A rate says how often each kind takes place in a run, on average, and for how long.
type rate struct {
	kind        kind
	every       time.Duration
	least, most time.Duration // 0: it takes no time
	busy        bool          // it begins during a burst of work
	azure       bool          // on Azure only
}

// midst is about how long the workers need for a burst of reservations.
const midst = 300 * time.Millisecond

func rates() []rate {
	return []rate{
		{kind: killWorker, busy: true, every: 3 * time.Second},
		{kind: killWeb, busy: true, every: 15 * time.Second},
		{kind: stall, busy: true, every: 30 * time.Second, least: 35 * time.Second, most: 40 * time.Second},
		{kind: rolling, every: 60 * time.Second},
		{kind: fullDisk, every: 45 * time.Second, least: 3 * time.Second, most: 8 * time.Second},
		{kind: cut, every: 20 * time.Second, least: 200 * time.Millisecond, most: 2 * time.Second},
		{kind: reset, every: 20 * time.Second, least: 500 * time.Millisecond, most: 3 * time.Second},
		{kind: delay, every: 20 * time.Second, least: time.Second, most: 4 * time.Second},
		{kind: oneWay, every: 25 * time.Second, least: 500 * time.Millisecond, most: 4 * time.Second},
		{kind: torn, every: 25 * time.Second, least: 500 * time.Millisecond, most: 3 * time.Second},
		{kind: killStore, every: 50 * time.Second, least: time.Second, most: 8 * time.Second, azure: true},
	}
}

// An event is one disturbance of a plan.
type event struct {
	at     time.Duration // after the beginning
	kind   kind
	lasts  time.Duration
	must   bool // wait until it is possible; other events are left out when they aren't
	target int  // chooses one of several; any number
	amount int  // how much, from 0 to 99: of delay, of bytes
}

// parseKinds reads names of kinds, separated by commas.
func parseKinds(list string) (kinds []kind, err error) {
	if list == "" {
		return nil, nil
	}
	var known []string
	for _, r := range rates() {
		known = append(known, string(r.kind))
	}
	for name := range strings.SplitSeq(list, ",") {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("-only %q: the kinds are %s", name, strings.Join(known, ", "))
		}
		kinds = append(kinds, kind(name))
	}
	return kinds, nil
}

// rates are the rates of the kinds that take place in a run.
func (s settings) rates() []rate {
	return slices.DeleteFunc(rates(), func(r rate) bool {
		return r.azure && s.store != azureStore || len(s.only) > 0 && !slices.Contains(s.only, r.kind)
	})
}

// plan returns the disturbances of a run in order. The same settings give the same plan.
func (s settings) plan() []event {
	lasts, random := s.lasts, rand.New(rand.NewPCG(s.seed, 1))
	var plan []event
	for _, r := range s.rates() {
		for i := range max(1, int((lasts+r.every/2)/r.every)) {
			e := event{kind: r.kind, must: i == 0, target: random.IntN(1000), amount: random.IntN(100), lasts: r.least}
			if r.most > r.least {
				e.lasts += time.Duration(random.Int64N(int64(r.most - r.least)))
			}
			// All events begin after the first moments, and most end with the run.
			first := lasts / 50
			last := max(first, lasts*95/100-e.lasts)
			e.at = first + time.Duration(random.Int64N(int64(last-first)+1))
			if r.busy { // during a burst, or no worker would lose anything
				e.at = e.at.Truncate(burst) + midst/10 + time.Duration(random.Int64N(int64(midst)))
			}
			plan = append(plan, e)
		}
	}
	slices.SortFunc(plan, func(a, b event) int { return int(a.at - b.at) })
	return plan
}
