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
	killStore  kind = "server killed"         // Azurite or Redis: and started again after a while
	stopServer kind = "server stopped"        // Redis: SIGSTOP, and SIGCONT

	killChild    kind = "child killed"    // SIGKILL, and soon started again
	killLeader   kind = "leader killed"   // likewise
	restartChild kind = "child restarted" // SIGTERM, wait, start
	stopChild    kind = "child stopped"   // SIGSTOP for longer than its leases last, and SIGCONT
	stopLeader   kind = "leader stopped"  // likewise, until another leader has written
	stopHolder   kind = "holder stopped"  // likewise, of the log's lease
	breakLease   kind = "lease broken"    // by an operator
	stopLock     kind = "lock stopped"    // the holder of the quorum's lock, until others have followed
	stopTurn     kind = "turn stopped"    // the holder of a turn, likewise

	restartWorker kind = "worker restarted"     // SIGTERM, wait, start
	stopAgent     kind = "agent stopped"        // SIGSTOP between the charge and its answer, past the step's deadline, and SIGCONT
	killStopped   kind = "stopped agent killed" // likewise, SIGKILL instead of SIGCONT
	killService   kind = "service killed"       // the bank or the carrier: SIGKILL, and started again after a while
	stopService   kind = "service stopped"      // likewise: SIGSTOP, and SIGCONT, so that it answers late
)

// A rate says how often each kind takes place in a run, on average, and for how long.
type rate struct {
	kind        kind
	every       time.Duration
	least, most time.Duration // 0: it takes no time
	busy        bool          // it begins during a burst of work
	remote      bool          // of a store that is a server, such as Azurite
	redis       bool          // of Redis alone
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
		{kind: killStore, every: 50 * time.Second, least: time.Second, most: 8 * time.Second, remote: true},
		{kind: stopServer, every: 30 * time.Second, least: 500 * time.Millisecond, most: 6 * time.Second, redis: true},
	}
}

// coordRates are the rates of the run of coordination.
func coordRates() []rate {
	return withServer([]rate{
		{kind: killChild, every: 3 * time.Second},
		{kind: killLeader, every: 12 * time.Second},
		{kind: restartChild, every: 8 * time.Second},
		{kind: stopChild, every: 25 * time.Second, least: 4 * time.Second, most: 6 * time.Second},
		{kind: stopLeader, every: 15 * time.Second, least: 4 * time.Second, most: 5 * time.Second},
		{kind: stopHolder, every: 25 * time.Second, least: 4 * time.Second, most: 5 * time.Second},
		{kind: stopLock, every: 25 * time.Second, least: 4 * time.Second, most: 5 * time.Second},
		{kind: stopTurn, every: 25 * time.Second, least: 4 * time.Second, most: 5 * time.Second},
		{kind: breakLease, every: 10 * time.Second},
	})
}

// shopRates are the rates of the run of processes.
func shopRates() []rate {
	return withServer([]rate{
		{kind: killWorker, every: 2 * time.Second},
		{kind: restartWorker, every: 15 * time.Second},
		{kind: stopAgent, every: 30 * time.Second, least: 2 * time.Second, most: 4 * time.Second},
		{kind: killStopped, every: 40 * time.Second, least: time.Second, most: 2 * time.Second},
		{kind: killService, every: 10 * time.Second, least: 500 * time.Millisecond, most: 4 * time.Second},
		{kind: stopService, every: 10 * time.Second, least: 500 * time.Millisecond, most: 5 * time.Second},
	})
}

// withServer adds the disturbances of a store that is a server, and between the processes and the server.
func withServer(own []rate) []rate {
	for _, r := range rates() {
		switch r.kind {
		case cut, reset, delay, oneWay, torn, killStore, stopServer:
			r.remote = true
			own = append(own, r)
		}
	}
	return own
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
	for _, r := range slices.Concat(rates(), coordRates(), shopRates()) {
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
	all := rates()
	switch s.part {
	case coordination:
		all = coordRates()
	case processes:
		all = shopRates()
	}
	return slices.DeleteFunc(all, func(r rate) bool {
		return r.remote && s.store == sqliteStore || r.redis && s.store != redisStore || len(s.only) > 0 && !slices.Contains(s.only, r.kind)
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
